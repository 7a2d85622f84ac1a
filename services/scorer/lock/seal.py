"""Taking the test set away: sides and names of all cases from a secret seed, and what later roles may see of them.

Pure: a case table and a seed in, a `Lock` out. Ids, order and sides follow from the seed alone, which nobody else has.
"""

import hashlib
import hmac
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from services.scorer.lock.copies import Copies, Pair, equal, joined, numbered
from services.scorer.lock.facts import classes_of, facts_of, labels_of
from services.scorer.lock.gates import complete
from services.scorer.lock.leaks import leaks_of
from services.scorer.lock.left_out import BOUND, left_out
from services.scorer.lock.near import Ints
from services.scorer.lock.persons import one_side, same_person
from services.scorer.lock.split import VAL, divide, split_shares
from services.scorer.rows import counted_as
from shared.contracts.base import Ref
from shared.contracts.cases import CaseRecord, CaseTable
from shared.contracts.data import IndexRow, LeakageReport, SealedSplit, StoredCase, ViewManifest
from shared.contracts.rules import Split

SPLITS: tuple[Split, ...] = ("train", "val", "test")
SUFFIXES = {"image/png": ".png", "image/tiff": ".tif", "application/x-nifti": ".nii.gz"}
"""Of canonical files, by media type."""
MOST, FEW = 0.5, 10
"""Share of the cases that looks may join to one group, and of the patients that near-duplicates may join to others
where fewer than FEW are left (as neighbours by number may never leave): slices of a scan form many small groups, bodies
that look alike a few large ones."""
FEWEST = 4
"""Patients that a split needs."""
LARGE = 0.2
"""Share of the cases of one patient that is told."""


class CannotLock(ValueError):
    """What keeps a table from being locked, in the Data Engineer's words: gate -> evidence."""

    def __init__(self, problems: Mapping[str, str], leakage: LeakageReport | None = None) -> None:
        super().__init__("; ".join(problems.values()))
        self.evidence: dict[str, JsonValue] = {"gates": dict(problems)}
        if leakage:
            self.evidence["leakage"] = leakage.model_dump(mode="json")


@dataclass(frozen=True)
class Lock:
    """A table parted in two: `sealed` stays with the scorer, everything else is for later roles."""

    sealed: SealedSplit
    view: ViewManifest
    leakage: LeakageReport
    """Names training and validation cases alone."""
    counts: dict[str, dict[str, int]]
    """split -> class -> cases; beside several labels that may hold `all` is how many cases there are."""
    patients: dict[str, int]
    """split -> patients."""


def seal(table: CaseTable, copies: Copies, seed: str, last: SealedSplit | None = None, bound: float = BOUND) -> Lock:
    """Divide, name and part the cases; those of the `last` lock stay on their side. Raises CannotLock."""
    kept, contradictions = _agreeing(table.cases, copies)
    cases, copies = [_in_order(table.cases[place]) for place in kept], copies.only(kept)
    if not cases:
        most = sorted(table.left_out.items(), key=lambda one: -len(one[1]))[:3]
        why = "".join(f"; {len(keys)} x {reason}" for reason, keys in most)
        raise CannotLock({"cases_given": f"the rules found no case that can be read{why}"})
    given = _given(cases)
    groups, merged = _groups(cases, copies, same_person(cases, table.persons), given)
    before = dict(zip(last.keys, (row.split for row in last.rows), strict=True)) if last else {}
    sides = _sides(cases, groups, table.coverage.label_values, seed, given, before)
    facts = facts_of(table, cases, sides, "dataset" if given else "made", contradictions, (*merged, *_largest(groups)))
    leakage, leaks = leaks_of(cases, sides, copies, given is None)
    gates = (*complete(cases, sides, groups.tolist(), facts), *leaks, one_side(cases, sides, table.persons))
    failed = [gate for gate in gates if not gate.passed]
    if failed:
        raise CannotLock({gate.name: gate.evidence for gate in failed}, leakage)

    ids = [f"case_{_secret(seed, 'case', case.key)}" for case in cases]
    people = _people(cases, groups, seed)
    order = sorted(range(len(cases)), key=lambda place: ids[place])
    rows = tuple(_row(cases[place], ids[place], people[place], sides[place]) for place in order)
    stored = tuple(
        StoredCase(sample_id=ids[place], images=cases[place].images, mask=cases[place].mask) for place in order
    )
    shown = [place for place, row in enumerate(rows) if row.split != "test"]
    called = {
        case.key: one if side != "test" else "[sealed]" for case, one, side in zip(cases, ids, sides, strict=True)
    }
    pairs = tuple((check, called[one], called[other]) for check, one, other in leakage.pairs)
    merged += _example(cases, copies, called)
    notes = (*leakage.notes, *merged, *_largest(groups), f"{left_out(table, rows, bound).evidence}.")
    return Lock(
        sealed=SealedSplit(
            rows=rows, stored=stored, keys=tuple(cases[place].key for place in order), facts=facts, seed=seed
        ),
        view=ViewManifest(
            rows=tuple(rows[place] for place in shown), stored=tuple(stored[place] for place in shown), facts=facts
        ),
        leakage=leakage.model_copy(update={"pairs": pairs, "notes": notes}),
        counts={
            side: dict(Counter(name for row in rows if row.split == side for name in counted_as(row)))
            for side in SPLITS
        },
        patients={side: len({row.patient for row in rows if row.split == side}) for side in SPLITS},
    )


def manifest_sha256(rows: Iterable[IndexRow]) -> str:
    """By which a split is known again."""
    lines = sorted(f"{row.sample_id} {row.patient} {row.split}" for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _agreeing(cases: Sequence[CaseRecord], copies: Copies) -> tuple[list[int], int]:
    """Places of the cases that are to be used, and how many are not: exact copies with different labels."""
    said: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for case, content in zip(cases, copies.content.tolist(), strict=True):
        said[content].add(tuple(sorted(labels_of(case))))
    kept = [place for place, content in enumerate(copies.content.tolist()) if len(said[content]) == 1]
    return kept, len(cases) - len(kept)


def _in_order(case: CaseRecord) -> CaseRecord:
    """The order of several labels says nothing."""
    several = isinstance(case.label, tuple)
    return case.model_copy(update={"label": tuple(sorted(set(case.label or ())))}) if several else case


def _given(cases: Sequence[CaseRecord]) -> list[Split] | None:
    """The split that the dataset brings, if it has one for all cases; without a test side val is tested on."""
    sides = [case.split for case in cases if case.split]
    there = set(sides)
    if len(sides) < len(cases) or len(there) < 2:
        return None
    if "train" not in there:
        raise CannotLock({"split_given": "the split of the dataset has no training cases: drop `split` from the rules"})
    return sides if "test" in there else ["test" if side == "val" else side for side in sides]


def _groups(
    cases: Sequence[CaseRecord], copies: Copies, persons: Sequence[Pair], given: Sequence[Split] | None
) -> tuple[Ints, tuple[str, ...]]:
    """(cases,) number of what must stay together, and what was joined, in words. `persons` are pairs of one person."""
    patients = numbered([case.patient for case in cases])
    count = int(patients.max()) + 1

    def grouped(pairs: Sequence[Pair]) -> tuple[Ints, int]:
        # What a given split parts is judged, not moved.
        stay = [(one, other) for one, other in pairs if not given or given[one] == given[other]]
        groups = joined(count, [(int(patients[one]), int(patients[other])) for one, other in stay])
        return groups[patients], int(groups.max()) + 1

    _, people = grouped(persons)
    said = []
    if people < count:
        said.append(f"{count - people} patients of the rules count as one with another, as a header or a column says.")
    exact = equal(copies.content.tolist())
    sure = [*persons, *exact]
    if copies.series:
        groups, left = grouped([*sure, *copies.series])
        why = "Nothing names patients, and pictures under neighbouring numbers are more alike than others are: "
        if np.bincount(groups).max() <= MOST * len(cases) and left >= FEW:
            sure, people = [*sure, *copies.series], left
            said.append(f"{why}they count as one patient, {left} in all.")
        else:
            said.append(f"{why}joined, hardly any patients would be left, so each counts as one.")
    groups, left = grouped([*sure, *copies.near])
    alike = np.bincount(groups).max() > MOST * len(cases) or (left < FEW and people - left > MOST * people)
    if copies.near and alike:
        said.append(f"Near-duplicates would join more than {MOST:.0%} of the cases or patients: they were not joined.")
        return grouped(sure)[0], tuple(said)
    pairs = f"{len(exact)} exact copies and {len(copies.near)} pairs of near-duplicates"
    if left < people:
        said.append(f"{people - left} patients count as one with another, whose images are the same ({pairs}).")
    return groups, tuple(said)


def _example(cases: Sequence[CaseRecord], copies: Copies, called: Mapping[str, str]) -> tuple[str, ...]:
    """A pair that a person can look at: without it nobody knows whether patients were joined rightly."""
    pairs = [(called[cases[one].key], called[cases[other].key]) for one, other in copies.near]
    shown = next((pair for pair in pairs if "[sealed]" not in pair), None)
    return (f"Near-duplicates are, for example, {shown[0]} and {shown[1]}.",) if shown else ()


def _largest(groups: Ints) -> tuple[str, ...]:
    """A patient too large to be tested on takes its cases out of every test set: a reader has to know."""
    share = np.bincount(groups).max() / len(groups)
    return (f"One patient has {share:.0%} of the cases: it is hardly ever tested on.",) if share > LARGE else ()


def _sides(
    cases: Sequence[CaseRecord],
    groups: Ints,
    values: Mapping[str, int],
    seed: str,
    given: Sequence[Split] | None,
    before: Mapping[str, Split],
) -> list[Split]:
    classes = [classes_of(case, values) for case in cases]
    # What was seen in training once is not tested on later.
    known: dict[int, Split] = {}
    for case, group in zip(cases, groups.tolist(), strict=True):
        if case.key in before:
            known[group] = min(known.get(group, "test"), before[case.key], key=SPLITS.index)
    if given is None:
        count = int(groups.max()) + 1
        if count < FEWEST:
            raise CannotLock(
                {"test_patients": f"{count} patients: at least {FEWEST} are needed, of which 2 are tested on"}
            )
        sides = divide(groups, classes, split_shares(count), seed, known)
        return [sides[group] for group in groups.tolist()]
    if "val" in given:
        return list(given)
    train = [place for place, side in enumerate(given) if side == "train"]
    count = len(set(groups[train].tolist()))
    if count < 2:
        raise CannotLock({"split_given": "training cases of the given split are of one patient: drop `split`"})
    shares: dict[Split, float] = {"train": 1 - max(VAL, 1 / count), "val": max(VAL, 1 / count)}
    fixed = {group: side for group, side in known.items() if side in shares and group in groups[train]}
    carved = divide(groups[train], [classes[place] for place in train], shares, seed, fixed)
    return [carved[group] if side == "train" else side for group, side in zip(groups.tolist(), given, strict=True)]


def _people(cases: Sequence[CaseRecord], groups: Ints, seed: str) -> list[str]:
    """Names of patients: of those that count as one, the same."""
    names: dict[int, str] = {}
    for case, group in zip(cases, groups.tolist(), strict=True):
        names[group] = min(names.get(group, case.patient), case.patient)
    return [f"p_{_secret(seed, 'patient', names[group])}" for group in groups.tolist()]


def _row(case: CaseRecord, name: str, patient: str, side: Split) -> IndexRow:
    files = [f"{name}/image{f'_{view}' if view else ''}{_suffix(image)}" for view, image in enumerate(case.images)]
    return IndexRow(
        sample_id=name,
        patient=patient,
        label=case.label,
        target=f"{name}/mask{_suffix(case.mask)}" if case.mask else case.text,
        files=tuple(files),
        split=side,
    )


def _suffix(ref: Ref) -> str:
    if ref.media_type not in SUFFIXES:
        raise ValueError(f"a case has a file of the type {ref.media_type}, which is not canonical")
    return SUFFIXES[ref.media_type]


def _secret(seed: str, kind: str, name: str) -> str:
    """16 hexadecimal digits that only who has the seed can tell from chance."""
    return hmac.new(bytes.fromhex(seed), f"{kind} {name}".encode(), hashlib.sha256).hexdigest()[:16]
