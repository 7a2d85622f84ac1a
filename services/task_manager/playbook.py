"""The Task Manager's expert: take a dataset (`choice.py`) or ask for one, and write the planning document."""

import re
from collections.abc import Container, Generator

from pydantic import JsonValue

from services.task_manager.check import given
from services.task_manager.choice import choose, offer, states, tasks_of
from services.task_manager.facets import TASKS, join, read_facets
from shared.agent.asking import ask
from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.questions import DATASET
from shared.contracts.runs import AcceptableRange, Candidate, DataCard, TaskPlan
from shared.contracts.tools import ReadFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

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
        named = given(brief)
        chosen, refused, why_not = choose(brief.requested.requirement, brief.cards, barred, named)
        if chosen is None:
            if DATASET in brief.answers:
                why = next((one.reason for one in refused if one.dataset_id == named), "it is not registered")
                raise UserError(f"the dataset {named!r}, which a person has chosen, cannot be planned: {why}")
            options = [(one.dataset_id, one.reason) for one in refused]
            text = f"{why_not or 'No registered dataset fits.'} Wanted is {need(brief)}"
            observation = yield (ask(DATASET, text, options, wants="dataset"),)
        elif len(tasks := tasks_of(brief, chosen)) != 1:
            told = f"Neither the request nor {chosen.name} settles what the model is to do."
            observation = yield (ask("task", told, [(task, TASKS[task]) for task in tasks or TASKS]),)
        else:
            observation = yield (submit("submit_plan", make_plan(brief, chosen, refused)),)
            barred[chosen.dataset_id] = "; ".join(observation.notes) or "the plan was not accepted"


def make_plan(brief: Brief, card: DataCard, refused: tuple[Candidate, ...]) -> TaskPlan:
    """The planning document P from the request and the chosen card."""
    requirement = brief.requested.requirement
    wanted, offered = read_facets(requirement), offer(card)
    task = tasks_of(brief, card)[0]
    dimensions = sorted(wanted.dimensions & offered.dimensions or offered.dimensions or wanted.dimensions or {2})[-1]
    max_train, max_test = caps(card.description)
    metric = named_metric(requirement, task) or METRIC[task]
    return TaskPlan(
        task=task,
        dataset_id=card.dataset_id,
        reason=f"a person has chosen {card.name}" if given(brief) else states(wanted, offered),
        refused=refused,
        dimensions=3 if dimensions == 3 else 2,
        modality=" / ".join(sorted(offered.of("modality") or wanted.of("modality"))) or "unstated",
        anatomy=join(offered.of("anatomy") or wanted.of("anatomy")).replace(" or ", " / "),
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


def need(brief: Brief) -> str:
    wanted = read_facets(brief.requested.requirement)
    parts = [
        *(join(one) for one in (wanted.dimensions, wanted.of("modality"), wanted.of("anatomy"))),
        f"images for {join(wanted.tasks) or 'a task that the request does not say'}",
    ]
    wish = " ".join(part for part in parts if part)
    return f"a dataset of {wish} ({brief.requested.requirement.strip()})"[:3500]


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
    "quadratic_kappa": (r"\bkappa\b|\bqwk\b", ("diagnosis",)),
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
