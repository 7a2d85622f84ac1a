"""What a request or a datacard is about, whether a card can serve a request, and how well. Pure functions."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.vocabulary.reading import Reading, found, read, special

TASKS: dict[TaskKind, str] = {
    "diagnosis": "tell classes of images apart, such as diseases or grades",
    "organ_segmentation": "outline organs or other structures",
    "anomaly_detection": "outline lesions or other findings",
    "report_generation": "write the text of a report",
}
"""Task -> what a person reads who is asked which one is meant."""
KINDS = {"modality": "modality", "anatomy": "anatomy", "finding": "what it shows", "who": "age", "language": "language"}
"""Kinds of concepts by which cards differ -> their names for a person."""
SUBJECT = ("anatomy", "finding")
FLAT = {"X-ray", "mammography", "photograph", "dermatoscopy", "histology"}
"""Modalities whose images are pictures."""
WORD = 0.3
"""What a shared word counts that is none of the vocabulary, beside a concept."""
SPECIAL = 0.1
"""What a card loses for anatomy, and for findings, that were not asked for: a plain request means a plain card."""
PARTLY = 0.5
"""How much a card for a whole, or for a part, covers what was asked for."""


@dataclass(frozen=True)
class Facets:
    tasks: frozenset[TaskKind]
    """Several where the text does not settle it, or where a card offers several; empty where it says nothing."""
    dimensions: frozenset[int] = frozenset()
    said: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Kind -> concepts of the vocabulary."""
    beyond: str = ""
    """What is asked for that no task of this system is; empty as a rule."""
    words: frozenset[str] = frozenset()

    def of(self, kind: str) -> frozenset[str]:
        return self.said.get(kind, frozenset())


def read_facets(text: str, offers: bool = False) -> Facets:
    """Of a request, or of a card (`offers`), which may have targets for several tasks."""
    seen = read(text)
    said = {kind: seen.concepts(kind) for kind in KINDS}
    verbs = {verb: place for verb, place in seen.said["task"].items() if offers or verb not in seen.denied}
    return Facets(
        tasks=_offered(verbs, said) if offers else _needed(_wanted(verbs, said) | _besides(seen), seen.denied),
        dimensions=_dimensions(seen.text.lower(), said["modality"]),
        said=said,
        beyond=" or ".join(sorted(seen.concepts("beyond"))),
        words=seen.words,
    )


def _wanted(verbs: Mapping[str, int], said: Mapping[str, frozenset[str]]) -> frozenset[TaskKind]:
    """A task that is named wins, the first of several: the rest is its purpose. Else the verbs decide, and what they
    act on."""
    named = sorted((verbs[task], task) for task in TASKS if task in verbs)
    if named:
        return frozenset({task for task in TASKS if task == named[0][1]})
    if {"write", "text"} <= verbs.keys():
        return frozenset({"report_generation"})
    if "mark" in verbs:
        return _marked(verbs, said)
    if "tell" in verbs:
        return frozenset({"diagnosis"})
    if "text" in verbs:
        return frozenset({"report_generation"})
    if "find" in verbs:
        return frozenset({"diagnosis", "anomaly_detection"})
    return frozenset({"report_generation"}) if "write" in verbs else frozenset()


_PURPOSE = re.compile(
    r"\bfor (?:our [^|]*|(?:(?:the|an?|this|my) )?(?:\w+ ){1,3}?"
    r"(?:screen|measur|plann|stud[yi]|surg|program|trial|research)\w*)",
    re.IGNORECASE,
)
"""What masks are for, not what they show: `for stenosis measurements`, `for our osteoporosis screening`."""


def _besides(seen: Reading) -> frozenset[TaskKind]:
    """Organs, too, where they are outlined and findings stand in the purpose alone."""
    verbs = seen.said["task"].keys() - seen.denied
    if "mark" not in verbs or verbs & {*TASKS, "lesion"} or not seen.said["finding"] or not seen.said["anatomy"]:
        return frozenset()
    meant = found("finding", _PURPOSE.sub(lambda part: " " * len(part[0]), seen.text))
    return frozenset() if meant else frozenset({"organ_segmentation"})


_DENIED: Mapping[str, frozenset[TaskKind]] = {
    **{task: frozenset({task}) for task in TASKS},
    "mark": SEGMENTATIONS,
    "text": frozenset({"report_generation"}),
}
"""Concept of a task -> tasks that are not wanted where it is denied."""


def _needed(tasks: frozenset[TaskKind], denied: frozenset[str]) -> frozenset[TaskKind]:
    """Tasks, of all where none is said, but those that the request says nobody needs."""
    against = frozenset[TaskKind]().union(*(_DENIED[one] for one in denied & _DENIED.keys()))
    return ((tasks or frozenset(TASKS)) - against or tasks) if against else tasks


def _marked(verbs: Mapping[str, int], said: Mapping[str, frozenset[str]]) -> frozenset[TaskKind]:
    if "lesion" in verbs or said["finding"]:
        return frozenset({"anomaly_detection"})
    return (
        frozenset({"organ_segmentation"}) if said["anatomy"] else frozenset({"organ_segmentation", "anomaly_detection"})
    )


def _offered(verbs: Mapping[str, int], said: Mapping[str, frozenset[str]]) -> frozenset[TaskKind]:
    if any(task in verbs for task in TASKS):
        return _wanted(verbs, said)
    found: set[TaskKind] = set()
    if "mark" in verbs:
        found |= _marked(verbs, said)
        if any("/" in part for part in said["anatomy"]) or not said["finding"]:
            found.add("organ_segmentation")
    if "tell" in verbs:
        found.add("diagnosis")
    if "text" in verbs:
        found.add("report_generation")
    if not found and len(special(said["finding"])) > 1:
        found.add("diagnosis")  # findings side by side are its classes
    return frozenset(found)


def _dimensions(low: str, modalities: frozenset[str]) -> frozenset[int]:
    """A stated dimension outweighs one that other words imply."""
    stated = {int(number) for number in re.findall(r"\b([23]) ?d\b", low)}
    if not stated and re.search(r"\bvolum|three dimension|\bstack", low):
        stated.add(3)
    if not stated and (re.search(r"(?<!thin )(?<!\d )\bslices?\b|two dimension|\bjpg\b", low) or modalities & FLAT):
        stated.add(2)
    return frozenset(stated)


def conflict(request: Facets, card: Facets) -> str | None:
    """Why the card cannot serve the request, or None. Only what both texts state can conflict."""
    if request.beyond:
        return beyond(request)
    pairs: tuple[tuple[str, frozenset[object], frozenset[object]], ...] = (
        ("task", request.tasks, card.tasks),
        ("modality", request.of("modality"), card.of("modality")),
        ("dimension", request.dimensions, card.dimensions),
    )
    for name, wanted, offered in pairs:
        if wanted and offered and not wanted & offered:
            return f"{name} is {join(offered)}, wanted is {join(wanted)}"
    organs = request.tasks == {"organ_segmentation"}
    for kind, name in KINDS.items():
        if kind == "finding" and organs:
            continue  # healthy anatomy is the same whatever else the images show
        there = covers(request, card, kind)
        if there and card.of(kind) and not any(there.values()):
            return f"{name} is {join(card.of(kind))}, wanted is {join(there)}"
        lacking = [one for one, sure in there.items() if not sure]
        if kind == "anatomy" and organs and lacking and card.of(kind):
            return f"its card does not name {join(lacking)}"
    return None


def beyond(request: Facets) -> str:
    return f"the request asks for {request.beyond}, which is none of this system's tasks"


def cover(wanted: str, offered: Iterable[str]) -> float:
    """How much of a concept a card is about: 1 it is named, PARTLY a part of it is, or the whole and no other part."""
    offered = frozenset(offered)
    if wanted in offered:
        return 1.0
    wholes = {one for one in offered if wanted.startswith(f"{one}/")}
    parts = any(one.startswith(f"{wanted}/") for one in offered)
    others = any(one.startswith(f"{whole}/") for whole in wholes for one in offered - wholes)
    return PARTLY if parts or (wholes and not others) else 0.0


def covers(request: Facets, card: Facets, kind: str) -> dict[str, float]:
    """Concept that is asked for -> how much of it the card covers. What lies in two wholes (the aorta) counts once."""
    found: dict[str, tuple[float, str]] = {}
    for one in request.of(kind):
        name = one.split("/")[-1]
        found[name] = max(found.get(name, (0.0, "")), (cover(one, card.of(kind)), one))
    return {one: sure for sure, one in found.values()}


def about(request: Facets, card: Facets) -> bool:
    """Whether a card that speaks of anatomy or findings covers half of those asked for; where none is, the modality."""
    kinds = [kind for kind in SUBJECT if request.of(kind)] or ["modality"]
    sure = [one for kind in kinds if card.of(kind) for one in covers(request, card, kind).values()]
    return 2 * sum(sure) >= len(sure) > 0


def strange(request: Facets, card: Facets) -> bool:
    """Whether a request that names no anatomy and no finding shares too little with a card: fewer than two words of its
    own, or, where it has none, no task."""
    if any(request.of(kind) for kind in SUBJECT):
        return False
    few = len(request.words & card.words) < min(2, len(request.words))
    return few or not (request.words or request.tasks)


def fit(request: Facets, card: Facets, weights: Mapping[str, float]) -> float:
    """Share of what is asked for that a card without conflict says of itself, 0 to 1, rare things counting more."""
    most = max(weights.values(), default=1.0)
    asked = {one: sure for kind in KINDS for one, sure in covers(request, card, kind).items()}
    words = {one: WORD * weights[one] for one in request.words if one in weights}
    total = sum(weights.get(one, most) for one in asked) + sum(words.values())
    held = sum(weights.get(one, most) * sure for one, sure in asked.items())
    held += sum(weight for one, weight in words.items() if one in card.words)
    roots = {one.split("/")[0] for one in request.of("finding")}
    special = [
        any(one.split("/")[0] not in roots for one in card.of("finding")),
        any(not _in(one, request.of("anatomy")) for one in card.of("anatomy")),
    ]
    # Scans are volumes unless somebody says otherwise.
    flat = not request.dimensions and card.dimensions == {2} and bool(request.of("modality") & {"CT", "MRI"})
    return (held / total if total else 0.0) - SPECIAL * (sum(special) + 2 * flat)


def _in(one: str, asked: Iterable[str]) -> bool:
    return any(f"{other}/".startswith(f"{one}/") for other in asked)


def rarity(cards: Iterable[Facets]) -> dict[str, float]:
    """Weight of each concept and word that stands in a card: the rarer among the cards, the higher; at least 0.5."""
    documents = [facets.words.union(*facets.said.values()) for facets in cards]
    many = {one: sum(one in document for document in documents) for one in frozenset().union(*documents)}
    return {one: 0.5 + math.log((1 + len(documents)) / (1 + count)) for one, count in many.items()}


def join(values: Iterable[object]) -> str:
    return " or ".join(
        sorted(
            f"{value}D" if isinstance(value, int) else str(value).split("/")[-1].replace("_", " ") for value in values
        )
    )
