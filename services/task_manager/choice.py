"""Which registered dataset serves a request: by what its card says, and where the files say something, that. Pure."""

import re
from dataclasses import replace

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
from shared.agent.brief import Brief
from shared.contracts.base import TaskKind
from shared.contracts.profile import MODALITIES, Profile
from shared.contracts.runs import Candidate, DataCard
from shared.vocabulary.reading import found, plain

MARGIN = 0.08
"""How much better than the second a card has to fit (`fit`) to be taken without a question."""
UNSAID = 0.35
"""The same where the request does not say what the model is to do: a card that is clearly nearest says it, too."""
SHARE = 0.2
"""Least share of a dataset's images that hold targets of a task for the dataset to serve it."""


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
        near = [
            one for one in ranked if one not in alike and one[0] - best[0] < UNSAID and about(wanted, offered[one[1]])
        ]
        alike += [] if wanted.tasks else near
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
    # What folders or a column call the classes, such as `NCP`.
    classes = read_facets(". ".join(value for one in profile.labels[:1] for value in one.values))
    modalities = frozenset(MODALITIES[one] for one in profile.modalities.keys() & MODALITIES)
    usual = frozenset(int(key) for key, many in seen.items() if 5 * many >= sum(seen.values()))
    return replace(
        said,
        tasks=(said.tasks & supported) or supported or said.tasks,
        dimensions=usual or said.dimensions,
        said={
            **said.said,
            **{kind: said.of(kind) | classes.of(kind) for kind in SUBJECT},
            "modality": modalities or said.of("modality"),
        },
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
