"""What a sentence or a datacard is about: task, modality, dimension, anatomy, and the words that are left.

Vocabulary of radiology, not of datasets. Pure functions.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.contracts.base import TaskKind

_EXPLICIT: dict[TaskKind, str] = {
    "report_generation": r"report generation|generat\w* (?:\w+ ){0,4}reports?|radiology reports?",
    "organ_segmentation": r"organ segmentation|anatom\w+ segmentation",
    "anomaly_detection": r"(?:anomaly|abnormality) detection|lesion (?:segmentation|detection)|tumou?r segmentation",
    "diagnosis": r"disease diagnosis|diagnosis|classification",
}
_LESION = (
    r"lesion|tumou?r|h[ae]+morrhage|bleed|nodule|anomal|abnormal|infection|metasta|polyp|fracture|stroke|plaque"
    r"|opacit|effusion|patholog"
)
_ORGAN = (
    r"organ|liver|kidney|spleen|pancrea|vertebra|aorta|stomach|brain structure|lobe|bladder|prostate|heart|ventric"
    r"|muscle|bone|lung|structure|anatom"
)
_DIAGNOSE = r"diagnos|classif|distinguish|differentiat|grade|grading|staging|screen|tell apart|recogni|whether|predict"

MODALITIES: dict[str, str] = {
    "CT": r"\bct\b|\bcts\b|ct[- ]scan|computed tomograph|\bhrct\b|\bcbct\b|\bncct\b|\bcta\b|hounsfield",
    "MRI": r"\bmri\b|\bmris\b|\bmr\b|magnetic resonance|\bflair\b|\bt1\b|\bt2\b|\bdwi\b|t1-?weighted|t2-?weighted",
    "X-ray": r"x-?rays?\b|\bx rays?\b|radiograph|\bcxr\b",
    "mammography": r"mammogra",
    "ultrasound": r"ultraso|sonogra|echocardi",
    "PET": r"\bpet\b|positron",
    "dermatoscopy": r"dermato|dermosc|skin photo",
    "fundus": r"fundus|retina|ophthalm",
    "OCT": r"\boct\b|optical coherence",
    "histology": r"histolog|histopath|whole[- ]slide|cytolog|microscop",
    "endoscopy": r"endoscop|colonoscop",
    "photograph": r"photograph",
}

ANATOMY: dict[str, str] = {
    "chest": r"chest|lung|pulmon|thora|pneumon|covid|\bcxr\b|cardiomegal|pleura|respirat|airway",
    "head": r"brain|head|cereb|crani|neuro|alzheimer|dementia|hippocamp|glioma|stroke|skull|mild cognitive",
    "abdomen": r"abdom|pelvi|liver|hepat|kidney|renal|spleen|pancrea|stomach|gallbladder|bowel|colon|adrenal",
    "kidney": r"kidney|renal|nephro",
    "pancreas": r"pancrea",
    "liver": r"liver|hepat",
    "spine": r"spine|spinal|vertebra|lumbar|cervical",
    "knee": r"knee|cruciate|menisc|\bacl\b",
    "limb": r"limb|knee|\bhip\b|shoulder|wrist|ankle|elbow|\bacl\b|cruciate|femur|tibia",
    "heart": r"heart|cardiac|coronary|myocard|ventricle",
    "breast": r"breast|mammogra",
    "prostate": r"prostat",
    "skin": r"skin|dermato|dermosc|melanom|nevus",
    "eye": r"\beye|retina|fundus|glaucoma|macula",
    "thyroid": r"thyroid",
}
_PARTS_OF: dict[str, str] = {"kidney": "abdomen", "pancreas": "abdomen", "liver": "abdomen", "knee": "limb"}

_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at be build by can each for from get give have hospital i images image in is it
        like me model models need of on or our please scan scans should so system that the their them this
        to train trained use used using want we which with would you dataset data contains sub folder
        folders file files format task
        """,
    )
)


@dataclass(frozen=True)
class Facets:
    tasks: frozenset[TaskKind]
    modalities: frozenset[str]
    dimensions: frozenset[int]
    anatomy: frozenset[str]
    words: Counter[str]


def read_facets(text: str) -> Facets:
    """Facets of a request or of a card's free text; an empty set means that the text does not say."""
    low = text.lower()
    anatomy = _matches(ANATOMY, low)
    return Facets(
        tasks=_tasks(low),
        modalities=_matches(MODALITIES, low),
        dimensions=_dimensions(low),
        anatomy=anatomy | {_PARTS_OF[part] for part in anatomy if part in _PARTS_OF},
        words=Counter(word for word in re.findall(r"[a-z][a-z0-9]{2,}", low) if word not in _STOP),
    )


def _matches(table: dict[str, str], low: str) -> frozenset[str]:
    return frozenset(name for name, pattern in table.items() if re.search(pattern, low))


def _dimensions(low: str) -> frozenset[int]:
    found = set()
    if re.search(r"\b3-?d\b|three[- ]dimension|volum", low):
        found.add(3)
    if re.search(r"\b2-?d\b|two[- ]dimension|radiograph|x-?ray|photograph|single slices?", low):
        found.add(2)
    # A stated dimension outweighs one that is only implied by the modality.
    stated = {int(number) for number in re.findall(r"\b([23])-?d\b", low)}
    return frozenset(stated or found)


def _tasks(low: str) -> frozenset[TaskKind]:
    """Named tasks win; else the verbs and what they act on decide."""
    named = {task: match.start() for task, pattern in _EXPLICIT.items() if (match := re.search(pattern, low))}
    if named:
        # "lesion segmentation ... for diagnosis": what is named first is the task, the rest its purpose.
        return frozenset({min(named, key=lambda task: named[task])})
    if re.search(r"\breports?\b|impression|caption|describe", low):
        return frozenset({"report_generation"})
    if re.search(r"segment|delineat|contour|outline|\bmasks?\b", low):
        if re.search(_LESION, low):
            return frozenset({"anomaly_detection"})
        return (
            frozenset({"organ_segmentation"})
            if re.search(_ORGAN, low)
            else frozenset({"organ_segmentation", "anomaly_detection"})
        )
    if re.search(_DIAGNOSE, low):
        return frozenset({"diagnosis"})
    if re.search(r"detect|localis|localiz|find|locate", low):
        return (
            frozenset({"anomaly_detection"})
            if re.search(_LESION, low)
            else frozenset({"diagnosis", "anomaly_detection"})
        )
    return frozenset()


def conflict(request: Facets, card: Facets) -> str | None:
    """Why the card cannot serve the request, or None. Only what both texts state can conflict."""
    pairs: list[tuple[str, Iterable[object], Iterable[object]]] = [
        ("task", request.tasks, card.tasks),
        ("modality", request.modalities, card.modalities),
        ("dimension", request.dimensions, card.dimensions),
        ("anatomy", request.anatomy, card.anatomy),
    ]
    for name, wanted, offered in pairs:
        wanted, offered = set(wanted), set(offered)
        if wanted and offered and not wanted & offered:
            return f"{name} is {_join(offered)}, wanted is {_join(wanted)}"
    return None


def _join(values: Iterable[object]) -> str:
    return " or ".join(
        sorted(f"{value}D" if isinstance(value, int) else str(value).replace("_", " ") for value in values)
    )


def affinity(request: Facets, card: Facets, rarity: dict[str, float]) -> float:
    """How well a card without conflict fits: shared facets first, then shared words weighted by their rarity."""
    agreed = 4.0 * bool(request.tasks & card.tasks)
    agreed += 2 * bool(request.modalities & card.modalities) + 2 * bool(request.dimensions & card.dimensions)
    agreed += sum(1.5 for part in request.anatomy & card.anatomy)
    shared = sum(rarity.get(word, 0.0) for word in request.words if word in card.words)
    return agreed + shared / (1.0 + shared) * 3.0


def rarity(cards: Iterable[Facets]) -> dict[str, float]:
    """Inverse document frequency of each word over the cards."""
    documents = list(cards)
    seen = Counter(word for facets in documents for word in facets.words)
    return {word: math.log((1 + len(documents)) / (1 + count)) + 0.1 for word, count in seen.items()}
