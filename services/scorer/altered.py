"""Control cases: test images made blank or hardly changed, which a package predicts among the others without knowing.

Half of the test cases at most come blank and as many hardly changed, so that a prediction takes twice the time at most.
On blank images a package that reads images scores what no image scores; one that reads their size, spacing or header
does better. On images that are moved by a pixel (no masks are) or changed by less than a grey level it keeps its score;
a table of known images does not.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from services.scorer.answers import Answers, parse
from services.scorer.findings import Asked, Findings, Measure, patient_numbers
from services.scorer.patients import Ints
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.data import Altered, CaseList, SealedSplit, StoredCase
from shared.contracts.scoring import Gate, Metric

BLANK, CHANGED = "blank_images_tell_nothing", "small_changes_keep_the_score"
MOST = 100
"""Cases of each kind."""
ALPHA = 0.01
BY_CHANCE, DRAWS = 0.05, 100
"""Share of draws of patients without a loss, from which on a loss is one of these patients by chance."""
TOLERANCE = 0.05
"""Share of the score that hardly changed images may always cost; more where its interval is wider, but never more than
half of what lies above a score without any image."""


@dataclass(frozen=True)
class _Control:
    case: str
    """The test case that it is made of."""
    how: Altered

    @property
    def name(self) -> str:
        return f"{self.how} {self.case}"


def with_controls(sealed: SealedSplit, cases: Sequence[StoredCase]) -> CaseList:
    """The test cases as a package gets them, and the control cases made of some of them."""
    of = {case.sample_id: case for case in cases}
    chosen = _chosen(sealed)
    more = [of[one.case].model_copy(update={"sample_id": one.name}) for one in chosen]
    return CaseList(samples=(*cases, *more), altered={one.name: one.how for one in chosen})


def judge(asked: Asked, measure: Measure, found: Findings, headline: Metric) -> tuple[Gate, Gate]:
    """The two gates of a package whose answers to the test cases are `found`; those to control cases are judged here.

    Blocks.
    """
    given = parse(asked.answers) if isinstance(asked.answers, bytes) else Answers({}, {})
    answers = given.rest.get("controls")
    rest = {key: value for key, value in given.rest.items() if key != "controls"}

    def measured(chosen: Sequence[_Control]) -> Findings:
        cases = {one.case: answers.get(one.name) for one in chosen} if isinstance(answers, dict) else {}
        only = _only(asked.sealed, {one.case for one in chosen})
        return measure(replace(asked, sealed=only, answers=json.dumps({**rest, "cases": cases}).encode()))

    chosen = _chosen(asked.sealed)
    blank, changed = ([one for one in chosen if (one.how == "blanked") is kind] for kind in (True, False))
    if not chosen:
        few = "there are too few test cases to make control cases of"
        return Gate(name=BLANK, passed=True, evidence=few), Gate(name=CHANGED, passed=True, evidence=few)
    return _blank(measured(blank), headline.name), _kept(asked, found, headline, changed, measured(changed))


def _kept(asked: Asked, found: Findings, headline: Metric, changed: Sequence[_Control], answered: Findings) -> Gate:
    """Whether `answered`, on the changed images, is as good as the package was on them before."""
    strongest = max((one.value for one in found.controls), default=0.0)
    if headline.low <= strongest:
        text = f"{headline.name} {headline.value:.3f} does not stand above the controls, so there is nothing to keep"
        return Gate(name=CHANGED, passed=True, evidence=text)
    there = {one.case for one in changed}
    places = np.array([place for place, name in enumerate(asked.names) if name in there], dtype=np.int64)
    before = found.part(places) if found.part else None
    if before is None:
        return Gate(name=CHANGED, passed=True, evidence="the score has no value on the cases that were changed")
    after = _figure(answered, headline.name)
    bar = _without_image(found)
    allowed = min(max(before.value - before.low, TOLERANCE * before.value), max(before.value - bar, 0.0) / 2)
    now = after.value if after else 0.0
    done = "moved by a pixel or " if any(one.how == "moved" for one in changed) else ""
    text = (
        f"{before.name} {now:.3f} on {before.n} images {done}changed by less than a grey level, "
        f"{before.value:.3f} before; {before.value - allowed:.3f} is enough"
    )
    if now >= before.value - allowed:
        return Gate(name=CHANGED, passed=True, evidence=text)
    none = _without_loss(found, answered, places, patient_numbers([asked.test[place] for place in places]))
    text += f"; {none:.0%} of {DRAWS} draws of the patients lose nothing, from {BY_CHANCE:.0%} on it is chance"
    return Gate(name=CHANGED, passed=none >= BY_CHANCE, evidence=text)


def _without_loss(found: Findings, answered: Findings, places: Ints, patients: Ints) -> float:
    """Share of draws of the changed cases' patients, with replacement, in which the score is no worse than before."""
    if found.part is None or answered.part is None:
        return 0.0
    rng = np.random.default_rng(0)
    whose = [np.flatnonzero(patients == one) for one in range(int(patients.max()) + 1)]
    kept = 0
    for _ in range(DRAWS):
        drawn = np.concatenate([whose[one] for one in rng.integers(len(whose), size=len(whose))])
        before, after = found.part(places[drawn]), answered.part(drawn)
        kept += before is not None and after is not None and after.value >= before.value
    return kept / DRAWS


def _blank(found: Findings, name: str) -> Gate:
    figure, p = _figure(found, name), found.permutation_p
    if figure is None:
        return Gate(name=BLANK, passed=True, evidence=f"{name} has no value on blank images: too few answers or cases")
    bar = _without_image(found)
    said = f"{name} {figure.value:.3f} on {figure.n} blank images, {bar:.3f} without any image"
    text = said + ("" if p is None else f", p = {p:.4f}")
    if figure.value > bar + 1e-9 and p is not None and p <= ALPHA:
        return Gate(name=BLANK, passed=False, evidence=f"{text}: the package tells cases apart by something else")
    return Gate(name=BLANK, passed=True, evidence=text)


def _without_image(found: Findings) -> float:
    return max((one.value for one in found.controls if one.name != "permutation"), default=0.0)


def _figure(found: Findings, name: str) -> Metric | None:
    return next((one for one in found.figures if one.name == name), None)


def _chosen(sealed: SealedSplit) -> list[_Control]:
    """Of each class alike, and the same whenever it is asked."""
    rng = np.random.default_rng(int(sealed.seed, 16))
    test = [row for row in sealed.rows if row.split == "test"]
    turns: Counter[str] = Counter()
    in_turn = []
    for place in rng.permutation(len(test)):
        label = str(test[place].label)
        turns[label] += 1
        in_turn.append((turns[label], test[place].sample_id))
    names = [name for _, name in sorted(in_turn, key=lambda one: one[0])][: min(len(test) // 2, MOST)]
    # A mask would have to move with its image.
    hows: tuple[Altered, ...] = ("noise",) if sealed.facts.task in SEGMENTATIONS else ("moved", "noise")
    # Every other pair, so that classes which take turns get both.
    changed = [_Control(name, hows[number // 2 % len(hows)]) for number, name in enumerate(names)]
    return [_Control(name, "blanked") for name in names] + changed


def _only(sealed: SealedSplit, names: Collection[str]) -> SealedSplit:
    """With no other test cases than these."""
    kept = [place for place, row in enumerate(sealed.rows) if row.split != "test" or row.sample_id in names]
    rows, stored, keys = ([of[place] for place in kept] for of in (sealed.rows, sealed.stored, sealed.keys))
    return sealed.model_copy(update={"rows": tuple(rows), "stored": tuple(stored), "keys": tuple(keys)})
