"""The search for rules: drafts from what the survey saw, tried by carrying them out, best first."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.cases import Coverage, Proposal
from shared.contracts.rules import Rules
from shared.dataset.files.listing import Listing
from shared.dataset.propose.draft import Draft, sentence
from shared.dataset.propose.drawn import drawn_drafts
from shared.dataset.propose.images import image_drafts, in_words
from shared.dataset.propose.inner import array_drafts
from shared.dataset.propose.labels import with_label
from shared.dataset.propose.legend import Legend, legends
from shared.dataset.propose.masks import mask_drafts
from shared.dataset.propose.patients import with_patient
from shared.dataset.propose.questions import with_questions
from shared.dataset.propose.refused import with_refused
from shared.dataset.propose.sample import sampled
from shared.dataset.propose.score import MOST_EARNED, score_of, share_of
from shared.dataset.propose.splits import with_split
from shared.dataset.propose.tables import with_rescaling
from shared.dataset.propose.texts import text_drafts
from shared.dataset.rules.resolve import RulesError, resolve
from shared.dataset.survey.mask_looks import all_off_grid, channel_of_masks
from shared.dataset.survey.survey import Survey, survey
from shared.dataset.tables.words import meant

TRIED = 14
"""Drafts that are carried out on the sample; `limit` of them on everything."""
FEWEST = 3
"""Proposals that are worth having beside the best."""
MARGIN = 0.1
"""Distance in score from which on a proposal is no rival."""
HUGE = 50_000
"""Files from which on only the best and its rivals are carried out on everything."""
SECONDS = 30.0
"""For tries, after which those that were made must do."""


@dataclass(frozen=True)
class Tried:
    draft: Draft
    rules: Rules
    coverage: Coverage
    score: float


@dataclass(frozen=True)
class Asked:
    """What the search was asked for."""

    task: TaskKind
    dimensions: int | None = None
    only: tuple[str, ...] = ()
    target: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)


def propose(
    root: Path | str,
    task: TaskKind,
    *,
    dimensions: int | None = None,
    only: Sequence[str] = (),
    target: str = "",
    hints: Mapping[str, str] = {},
    answers: Mapping[str, str] = {},
    limit: int = 5,
    seen: Survey | None = None,
) -> list[Proposal]:
    """Rules for `root`, best first, `limit` at most; each was carried out, so its coverage is what it gives.

    `dimensions` is a wish: files win. `only` are classes or structures that were asked for. `target` ranks between
    what files support equally. `hints` are names for values of labels. `answers` fixes decisions: key of a question ->
    choice.
    `seen` is a survey of `root` that was made before. Nothing where nothing fits: `explain` says why.
    """
    seen = seen or survey(root)
    asked = Asked(task, dimensions, tuple(only), target, dict(hints), dict(answers))
    tried = search(seen, asked, limit)
    return [_proposal(one, key, choice) for one, key, choice in with_questions(tried, asked.answers, target)][:limit]


def search(seen: Survey, asked: Asked, limit: int) -> list[Tried]:
    """Tried drafts that make a model possible, best first. On a large dataset all are tried on a part of it, and the
    best few on everything."""
    end = time.monotonic() + SECONDS
    drafts = sorted(_targets(seen, asked), key=lambda draft: -draft.prior)
    drafts = _answered(drafts, asked.answers)
    part = sampled(seen.listing)
    tried: list[Tried] = []
    for draft in drafts[:TRIED]:
        best = max((one.score for one in tried), default=-1.0)
        late = time.monotonic() > end and tried
        if late or (len(tried) >= min(limit, FEWEST) and draft.prior + MOST_EARNED < best - MARGIN):
            break  # nothing that is left can come near
        for whole in _completed(_with_masks(draft, seen, part), seen, asked):
            one = attempt(whole, seen, part)
            if one is not None and (less := _limited(one, asked.only)) is not None:
                one = attempt(less, seen, part) or one
            if one is not None and one.score >= 0:
                tried.append(one)
    tried = _distinct(tried)
    if part is seen.listing:
        return tried
    sure = FEWEST if len(seen.listing.files) <= HUGE else 1
    near = [one for place, one in enumerate(tried) if place < sure or one.score > tried[0].score - MARGIN]
    again = [attempt(one.draft, seen, seen.listing) for one in near[: min(limit, 2 * FEWEST)]]
    return _distinct([one for one in again if one is not None and one.score >= 0])


def _targets(seen: Survey, asked: Asked) -> Iterator[Draft]:
    """Drafts with images and target."""
    found: list[Legend] = legends(seen.listing)
    for images in image_drafts(seen, asked.task, asked.dimensions, found, asked.target):
        for draft in array_drafts(images, seen):
            if asked.task == "diagnosis":
                for made, _ in with_label(draft, seen, asked.only, asked.target, asked.hints, found):
                    yield made
            elif asked.task in SEGMENTATIONS:
                yield from mask_drafts(draft, seen, asked.only, asked.target, asked.hints, found)
                yield from drawn_drafts(draft, seen, asked.only, asked.target, asked.hints, found)
            else:
                yield from text_drafts(draft, seen, asked.target)


def _answered(drafts: list[Draft], answers: Mapping[str, str]) -> list[Draft]:
    """Drafts that decide as a person did; an answer that none of them knows changes nothing."""
    for key, choice in answers.items():
        kept = [draft for draft in drafts if draft.decisions.get(key) in (choice, None)]
        if any(draft.decisions.get(key) == choice for draft in kept):
            drafts = kept
    return drafts


def _with_masks(draft: Draft, seen: Survey, listing: Listing) -> Draft:
    """Of channels the one first on which the masks lie. Without patterns of images that have no mask, where patterns
    differ in their fields: what tells patients apart in one need not stand in the other."""
    channel, pieces = draft.channels[0], draft.pieces
    several = len(draft.channels) > 1
    rules = draft.rules() if several or len({frozenset(piece.fields) for piece in pieces}) > 1 else None
    of_files = bool(draft.masks) and all(mask.kind == "file" for mask in draft.masks)
    if rules is None or not of_files or channel.inside or not (several or draft.case == "file"):
        return draft
    try:
        cases = resolve(rules, seen.root, listing).cases
    except RulesError:
        return draft
    if several:
        place = channel_of_masks(cases, seen.looker)
        first = draft.channels[place]
        return draft.change(channels=(first, *(one for one in draft.channels if one is not first)))
    used = {file for case in cases for view in case.images for part in view for file in part.files}
    kept = tuple(piece for piece in pieces if not used.isdisjoint(piece.files))
    if not kept or len(kept) == len(pieces):
        return draft
    said = draft.says.get("case", "").replace(in_words(pieces), in_words(kept))
    return draft.change(channels=(replace(channel, pieces=kept),)).said("case", said)


def _completed(draft: Draft, seen: Survey, asked: Asked) -> list[Draft]:
    """With patient and split, and without what is not to be used."""
    draft = with_rescaling(with_split(draft, seen), seen)
    taken = {"entry"} if draft.case == "entry" else set()
    taken |= {"label"} if draft.label and draft.label.source and draft.label.source.field else set()
    if draft.split and draft.split.source.field:
        taken.add(draft.split.source.field)
    made = with_patient(draft, seen, taken, asked.answers.get("patient"))
    return [with_refused(one, seen, asked.target) for one in made]


def attempt(draft: Draft, seen: Survey, listing: Listing) -> Tried | None:
    """The draft carried out; its split only where it has two sides there and keeps patients whole."""
    rules = draft.rules()
    if rules is None:
        return None
    try:
        found = resolve(rules, seen.root, listing)
    except RulesError:
        return None
    masked = [case for case in found.cases if case.masks and case.masks[0].kind == "file"]
    pairs = [(case.images[0][0].files, case.masks[0].files) for case in masked]
    if all_off_grid([(image[0], mask[0]) for image, mask in pairs if len(image) == len(mask) == 1], seen.looker):
        return None
    coverage = found.coverage
    if rules.split is not None:
        given = {"train": rules.split.train, "val": rules.split.val, "test": rules.split.test}
        sides = {side for side, values in given.items() if values}
        torn = any("several sides" in conflict for conflict in coverage.conflicts)
        if set(coverage.splits) != sides or len(sides) < 2 or torn:
            why = "its split is not used, since it puts patients on several sides" if torn else ""
            return attempt(_without_split(draft).said("split", why), seen, listing)
    return Tried(draft, rules, coverage, score_of(draft, rules, coverage))


def _limited(one: Tried, only: Sequence[str]) -> Draft | None:
    """The draft with those structures alone that were asked for, where files name more of them than is seen before the
    masks are opened; None where there is nothing to limit."""
    names = one.coverage.label_names
    held = meant(only, names)[0] if only and len(one.draft.masks) == 1 else ()
    if not 0 < len(held) < len(names):
        return None
    return one.draft.change(masks=(one.draft.masks[0].model_copy(update={"only": held}),))


def _without_split(draft: Draft) -> Draft:
    name = draft.split.source.table if draft.split else None
    used = {source.table for source in (draft.patient, draft.label and draft.label.source) if source}
    used |= {draft.label.table} if draft.label else set()
    used |= {source.table for source in (draft.slope, draft.intercept) if source}
    used |= {one.source.table for one in draft.exclude if one.source}
    used |= {mask.table for mask in draft.masks} | {one.table for one in (draft.text.sources if draft.text else ())}
    used |= {mask.marked.table for mask in draft.masks if mask.marked}
    chained = {table.names.partition(".")[0] for table in draft.tables.values()}
    tables = {key: one for key, one in draft.tables.items() if key != name or key in used | chained}
    return draft.change(split=None, tables=tables)


def _distinct(tried: Sequence[Tried]) -> list[Tried]:
    """Best first, each set of rules once."""
    kept: list[Tried] = []
    for one in sorted(tried, key=lambda one: -one.score):
        if all(one.rules != other.rules for other in kept):
            kept.append(one)
    return kept


def _proposal(one: Tried, key: str, choice: str) -> Proposal:
    return Proposal(
        rules=one.rules.model_dump(mode="json", exclude_defaults=True),
        coverage=one.coverage,
        share=round(share_of(one.coverage), 4),
        score=one.score,
        says=sentence(one.draft.says, ("case", "axis", "array", "target", "patient", "split", "exclude", "missing")),
        key=key,
        choice=choice,
    )
