"""The Task Manager's expert: choose among datacards by what they say, and write the planning document."""

import re
from collections.abc import Container, Generator
from dataclasses import replace

from pydantic import JsonValue

from services.task_manager.check import given
from services.task_manager.facets import (
    KINDS,
    SUBJECT,
    TASKS,
    Facets,
    about,
    beyond,
    conflict,
    covers,
    fit,
    join,
    rarity,
    read_facets,
    strange,
)
from shared.agent.asking import ask
from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.profile import MODALITIES, Profile
from shared.contracts.questions import DATASET
from shared.contracts.runs import AcceptableRange, Candidate, DataCard, TaskPlan
from shared.contracts.tools import ReadFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError
from shared.vocabulary.reading import found, plain

METRIC: dict[TaskKind, str] = {
    "diagnosis": "auc_macro",
    "organ_segmentation": "dice",
    "anomaly_detection": "dice",
    "report_generation": "rouge_l",
}


MARGIN = 0.08
"""How much better than the second a card has to fit (`fit`) to be taken without a question."""
SHARE = 0.2
"""Least share of a dataset's images that hold targets of a task for the dataset to serve it."""


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


def tasks_of(brief: Brief, card: DataCard) -> list[TaskKind]:
    """What the model may be meant to do; empty where nothing says so."""
    wanted = read_facets(brief.requested.requirement).tasks
    offered = offer(card).tasks
    answered = brief.answers.get("task")
    return [
        task for task in TASKS if (task == answered if answered else task in (wanted & offered or wanted or offered))
    ]


def choose(
    requirement: str, cards: tuple[DataCard, ...], barred: dict[str, str], given: str | None = None
) -> tuple[DataCard | None, tuple[Candidate, ...], str]:
    """The card to take, every other one with the reason, and why none is taken where one would fit. Pure.

    `given` is the one that a person has chosen. Two that fit about equally, and one of which no word is shared with the
    request, are for a person to decide.
    """
    wanted = read_facets(requirement)
    offered = {card.dataset_id: offer(card) for card in cards}
    weights = rarity(offered.values())
    named = {
        one.dataset_id for one in cards if one.dataset_id == given or (names(requirement, one) and not wanted.beyond)
    }
    reasons = dict(barred)
    ranked: list[tuple[float, str, DataCard]] = []
    for card in cards:
        key, facets = card.dataset_id, offered[card.dataset_id]
        # A dataset that a person names may say less of itself than the request does.
        reason = barred.get(key) or (None if key in named else lacks(wanted, card.profile) or unfit(wanted, facets))
        if given and key != given:
            reason = f"a person has chosen {given}"
        if reason is None and not card.here:
            reason = "fits, but its data are not on this system: add them with 'm3builder dataset add'"
        if reason is None:
            ranked.append((-fit(wanted, facets, weights) - 20 * (key in named), key, card))
        else:
            reasons[key] = reason
    ranked.sort(key=lambda item: item[:2])
    best = ranked[0] if ranked else None
    doubt = f"Nothing is to be trained here: {beyond(wanted)}." if wanted.beyond and not given else ""
    alike = [one for one in ranked if best and one[0] - best[0] < MARGIN]
    if best and best[1] not in named:
        alike += [] if wanted.tasks else [one for one in ranked if one not in alike and about(wanted, offered[one[1]])]
        doubt = silent(wanted, offered[best[1]], best[2])
    if len(alike) > 1:
        doubt = f"{' and '.join(card.name for _, _, card in alike[:3])} fit about equally."
    others = ranked[0 if doubt else 1 :]
    last = {key: f"{'may fit' if doubt else 'fits less well'}: {states(wanted, offered[key])}" for _, key, _ in others}
    refused = tuple(
        Candidate(dataset_id=key, reason=why) for key, why in (last | dict(sorted(reasons.items()))).items()
    )
    return (best[2] if best and not doubt else None), refused, doubt


def unfit(wanted: Facets, offered: Facets) -> str | None:
    """Why a card that no person named cannot be taken for the request."""
    if reason := conflict(wanted, offered):
        return reason
    same = any(wanted.of(kind) & offered.of(kind) for kind in KINDS) or wanted.words & offered.words
    return None if same or wanted.tasks & offered.tasks else "its card shares nothing with the request"


def silent(wanted: Facets, offered: Facets, card: DataCard) -> str:
    """What the nearest card does not say and would have to, to be taken; empty where it says enough."""
    if not about(wanted, offered) or strange(wanted, offered):
        return f"{card.name} is the nearest, but it does not say that it is about what is asked for."
    if wanted.tasks and not offered.tasks:
        return f"{card.name} is the nearest, but it does not say for which task it is."
    return ""


def offer(card: DataCard) -> Facets:
    """What a card offers: its words, but where the files say something, that."""
    profile = card.profile
    said = read_facets(f"{card.name}. {card.description}", offers=True)
    if profile is None:
        return said
    seen, supported = profile.dimensions, tasks_in(profile)
    modalities = frozenset(MODALITIES[one] for one in profile.modalities.keys() & MODALITIES)
    usual = frozenset(int(key) for key, many in seen.items() if 5 * many >= sum(seen.values()))
    return replace(
        said,
        tasks=(said.tasks & supported) or supported or said.tasks,
        dimensions=usual or said.dimensions,
        said={**said.said, "modality": modalities or said.of("modality")},
    )


def tasks_in(profile: Profile) -> frozenset[TaskKind]:
    """Tasks for which the files hold targets."""
    return frozenset(task for task in TASKS if profile.tasks.get(task, 0) >= SHARE)


def lacks(wanted: Facets, profile: Profile | None) -> str | None:
    """Why the files themselves cannot serve the request, whatever their card says."""
    supported = tasks_in(profile) if profile else frozenset()
    if not profile or not supported or not wanted.tasks or wanted.tasks & supported:
        return None
    return f"its files hold targets for {join(supported)}, none for {join(wanted.tasks)}"


def names(requirement: str, card: DataCard) -> bool:
    """Does the request name this dataset? Letter case, spaces and hyphens do not matter, unless the name has words of
    the field alone, as `Chest CT`."""
    if all(any(found(kind, word) for kind in KINDS) for word in plain(card.name).split()):
        return bool(re.search(rf"(?<!\w){re.escape(card.name)}(?!\w)", requirement))
    letters = re.sub(r"[^a-z0-9]+", "[^a-z0-9]?", card.name.lower())
    return bool(re.search(rf"(?<![a-z0-9]){letters}(?![a-z0-9])", requirement.lower()))


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


def states(wanted: Facets, offered: Facets) -> str:
    """What a card says of what is asked for, what it does not, and what else it is about."""
    sure = {one: some for kind in KINDS for one, some in covers(wanted, offered, kind).items()}
    both = (wanted.tasks & offered.tasks, wanted.dimensions & offered.dimensions, {one for one in sure if sure[one]})
    said = [*(join([one]) for some in both for one in sorted(some)), *sorted(wanted.words & offered.words)]
    lacking = join(one for one in sure if not sure[one])
    others = sorted({join([one]) for kind in SUBJECT for one in offered.of(kind) - wanted.of(kind)} - {*said})
    return (
        f"its card states {', '.join(said) or 'nothing of what is asked for'}"
        + (f", not {lacking}" if lacking else "")
        + (f"; it is also about {', '.join(others[:4])}" if others else "")
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
