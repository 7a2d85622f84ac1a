"""The Task Manager's expert: choose among datacards by what they say, and write the planning document."""

import re
from collections.abc import Container, Generator

from pydantic import JsonValue

from services.task_manager.facets import Facets, affinity, conflict, rarity, read_facets
from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.runs import AcceptableRange, Candidate, DataCard, DatasetNeed, TaskPlan
from shared.contracts.tools import ReadFiles
from shared.contracts.transcript import Call, Observation

METRIC: dict[TaskKind, str] = {
    "diagnosis": "auc_macro",
    "organ_segmentation": "dice",
    "anomaly_detection": "dice",
    "report_generation": "rouge_l",
}


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """One look at the catalogue, one decision. A remark of the check drops the card it names and chooses again."""
    yield (call(ReadFiles(paths=("datacards.json",))),)
    barred: dict[str, str] = {}
    while True:
        chosen, refused = choose(brief.requested.requirement, brief.cards, barred)
        if chosen is None:
            observation = yield (submit("submit_need", DatasetNeed(need=need(brief), refused=refused)),)
        else:
            observation = yield (submit("submit_plan", make_plan(brief, chosen, refused)),)
            barred[chosen.dataset_id] = "; ".join(observation.notes) or "the plan was not accepted"


def choose(
    requirement: str, cards: tuple[DataCard, ...], barred: dict[str, str]
) -> tuple[DataCard | None, tuple[Candidate, ...]]:
    """The best card whose data are here, and every other one with the reason. Pure."""
    wanted = read_facets(requirement)
    offered = {card.dataset_id: read_facets(f"{card.name}. {card.description}") for card in cards}
    weights = rarity(offered.values())
    reasons: dict[str, str] = {}
    ranked: list[tuple[float, str, DataCard]] = []
    for card in cards:
        facets = offered[card.dataset_id]
        # A dataset that the request names may say less of itself than the request does.
        named = names(requirement, card)
        reason = barred.get(card.dataset_id) or (None if named else conflict(wanted, facets))
        if reason is None and not named and wanted.tasks and not facets.tasks:
            reason = "its card does not say for which task it is"
        if reason is None and not named and not wanted.tasks & facets.tasks and not _shares(wanted, facets):
            reason = "its card shares nothing with the request"
        if reason is None and not card.here:
            reason = "fits, but its data are not on this system: add them with 'm3builder dataset add'"
        if reason is None:
            ranked.append((-affinity(wanted, facets, weights) - 20 * named, card.dataset_id, card))
        else:
            reasons[card.dataset_id] = reason
    ranked.sort(key=lambda item: item[:2])
    for score, dataset_id, _ in ranked[1:]:
        reasons[dataset_id] = f"fits less well ({-score:.1f} against {-ranked[0][0]:.1f})"
    refused = tuple(Candidate(dataset_id=key, reason=reasons[key]) for key in sorted(reasons))
    return (ranked[0][2] if ranked else None), refused


def names(requirement: str, card: DataCard) -> bool:
    """Does the request name this dataset? Letter case, spaces and hyphens do not matter."""
    letters = re.sub(r"[^a-z0-9]+", "[^a-z0-9]?", card.name.lower())
    return bool(re.search(rf"(?<![a-z0-9]){letters}(?![a-z0-9])", requirement.lower()))


def _shares(wanted: Facets, offered: Facets) -> bool:
    return bool(wanted.words.keys() & offered.words.keys())


def make_plan(brief: Brief, card: DataCard, refused: tuple[Candidate, ...]) -> TaskPlan:
    """The planning document P from the request and the chosen card."""
    requirement = brief.requested.requirement
    wanted, offered = read_facets(requirement), read_facets(f"{card.name}. {card.description}")
    task = sorted(wanted.tasks & offered.tasks or wanted.tasks or offered.tasks)[0]
    dimensions = sorted(wanted.dimensions & offered.dimensions or offered.dimensions or wanted.dimensions or {2})[-1]
    max_train, max_test = caps(card.description)
    metric = named_metric(requirement, task) or METRIC[task]
    return TaskPlan(
        task=task,
        dataset_id=card.dataset_id,
        reason=reason(card, wanted, offered),
        refused=refused,
        dimensions=3 if dimensions == 3 else 2,
        modality=" / ".join(sorted(offered.modalities or wanted.modalities)) or "unstated",
        anatomy=" / ".join(sorted(offered.anatomy or wanted.anatomy)),
        metric=metric,
        acceptable=acceptable(requirement, card, metric),
        max_train=max_train,
        max_test=max_test,
        balance_classes=bool(re.search(r"balanc", card.description, re.IGNORECASE)),
        labels=wanted_labels(card.description),
        instructions={
            "data_engineer": card.description[:2000],
            "module_architect": f"Assemble a {dimensions}D {task.replace('_', ' ')} module.",
            "model_trainer": f"Train it and select on the validation part by {metric}.",
        },
    )


def reason(card: DataCard, wanted: Facets, offered: Facets) -> str:
    shared = [
        *(task.replace("_", " ") for task in sorted(wanted.tasks & offered.tasks)),
        *(f"{number}D" for number in sorted(wanted.dimensions & offered.dimensions)),
        *sorted(wanted.modalities & offered.modalities),
        *sorted(wanted.anatomy & offered.anatomy),
        *sorted(word for word in wanted.words if word in offered.words),
    ]
    said = ", ".join(dict.fromkeys(shared)) or "nothing that the request excludes"
    return f"the card of {card.name} states what the request asks for: {said}"


def need(brief: Brief) -> str:
    wanted = read_facets(brief.requested.requirement)
    parts = [
        " or ".join(f"{number}D" for number in sorted(wanted.dimensions)),
        " or ".join(sorted(wanted.modalities)),
        " or ".join(sorted(wanted.anatomy)),
        "images for " + (" or ".join(task.replace("_", " ") for task in sorted(wanted.tasks)) or "the stated task"),
    ]
    return "a dataset of " + " ".join(part for part in parts if part) + f" ({brief.requested.requirement.strip()})"


def caps(text: str) -> tuple[int | None, int | None]:
    """Most training and test samples, where the text caps them."""
    low = text.lower()
    train = re.search(r"(?:at most|no more than|up to|<=|≤)\s*([\d,]+)\s*(?:\w+\s+){0,2}?(?:for\s+)?train", low)
    test = re.search(
        r"(?:and|,|/|;)\s*(?:at most|no more than|up to|<=|≤)?\s*([\d,]+)\s*(?:\w+\s+){0,2}?(?:for\s+)?test", low
    )

    def number(match: re.Match[str] | None) -> int | None:
        return int(match[1].replace(",", "")) or None if match else None

    return number(train), number(test)


def wanted_labels(text: str) -> tuple[str, ...]:
    """Labels to which the text restricts the samples, as in: only ... these labels ...: ['A', 'B']."""
    match = re.search(
        r"\bonly\b[^.]{0,80}?\b(?:labels?|class(?:es)?|groups?)\b[^.\[]{0,60}\[([^\]]+)\]", text, re.IGNORECASE
    )
    return tuple(item.strip(" '\"’‘“”") for item in match[1].split(",") if item.strip()) if match else ()


_METRICS: dict[str, tuple[str, Container[TaskKind]]] = {
    "balanced_accuracy": (r"balanced accuracy", ("diagnosis",)),
    "auc_macro": (r"\bau-?c\b|auroc|area under", ("diagnosis",)),
    "f1_macro": (r"\bf1\b", ("diagnosis",)),
    "accuracy": (r"accuracy", ("diagnosis",)),
    "dice": (r"\bdice\b", SEGMENTATIONS),
    **{f"bleu_{n}": (rf"\bbleu[-_ ]?{n}\b", ("report_generation",)) for n in (4, 3, 2, 1)},
    "rouge_l": (r"\brouge(?:[-_ ]?l)?\b", ("report_generation",)),
    "meteor": (r"\bmeteor\b", ("report_generation",)),
    "cider_d": (r"\bcider(?:[-_ ]?d)?\b", ("report_generation",)),
}
"""Figure -> the words for it, and the tasks that it is a figure of."""


def named_metric(text: str, task: TaskKind | None = None) -> str | None:
    """The figure that a text names; with `task` only one that is a figure of it."""
    return next(
        (
            name
            for name, (pattern, tasks) in _METRICS.items()
            if (task is None or task in tasks) and re.search(pattern, text, re.IGNORECASE)
        ),
        None,
    )


def acceptable(requirement: str, card: DataCard, metric: str) -> AcceptableRange | None:
    """A floor that the request states ("AUC of at least 0.9"), or a range that the card carries."""
    if metric in _METRICS:
        pattern, _ = _METRICS[metric]
        stated = re.search(
            rf"(?:{pattern})\D{{0,20}}(?:at least|above|over|>=?|≥|minimum of)\s*(\d+(?:\.\d+)?)\s*(%?)",
            requirement,
            re.IGNORECASE,
        )
        if stated:
            # CIDEr-D reaches 10; every other figure ends at 1, so that more is a percentage.
            percent = stated[2] or (float(stated[1]) > 1 and metric != "cider_d")
            value = float(stated[1]) / (100 if percent else 1)
            return AcceptableRange(metric=metric, floor=value, source="request")
    given = card.extra.get("acceptable_range")
    if isinstance(given, dict) and given.get("metric") == metric:
        return AcceptableRange(
            metric=metric, floor=_number(given.get("floor")), alarm=_number(given.get("alarm")), source="card"
        )
    return None


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
