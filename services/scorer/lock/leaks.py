"""What stands on two sides of a split and must not. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

from services.scorer.lock.copies import Copies, Pair
from services.scorer.lock.gates import SHOWN
from services.scorer.texts.tokens import words
from shared.contracts.cases import CaseRecord
from shared.contracts.data import LeakageReport
from shared.contracts.rules import Split
from shared.contracts.scoring import Gate

SIDES: tuple[tuple[Split, Split], ...] = (("train", "test"), ("val", "test"), ("train", "val"))
_PAIRS = 50
"""Of each check in the report."""
_WHAT = {
    "same_patient": "pairs of cases of one patient stand on two sides of the split",
    "same_content": "pairs of cases on two sides of the split are exact copies",
}


def leaks_of(
    cases: Sequence[CaseRecord], sides: Sequence[Split], copies: Copies, made: bool
) -> tuple[LeakageReport, tuple[Gate, ...]]:
    """The report, by keys, and a gate for each check that fails a lock: all but near-duplicates, which may be false
    alarms."""
    near = "near_duplicate" if made else "near_duplicate_in_given_split"
    found = {
        "same_patient": _across([case.patient for case in cases], sides),
        "same_content": _across(copies.content.tolist(), sides),
    }
    crossing = [pair for pair in copies.near if sides[pair[0]] != sides[pair[1]]]
    pairs = {name: shown for name, (_, shown) in found.items()} | {near: crossing[:_PAIRS]}
    report = LeakageReport(
        checks={name: count for name, (count, _) in found.items()}
        | {near: len(crossing), "look_not_compared": copies.no_look},
        pairs=tuple((name, cases[one].key, cases[other].key) for name, shown in pairs.items() for one, other in shown),
        notes=(*_notes(cases, copies, crossing, made), *_repeated(cases, sides)),
    )
    gates = []
    for name, (count, shown) in found.items():
        examples = "; ".join(f"{cases[one].key} and {cases[other].key}" for one, other in shown[:SHOWN])
        evidence = f"{count} {_WHAT[name]}: {examples}" if count else f"0 {_WHAT[name]}"
        if count and not made:
            evidence += ". The split is that of the dataset: drop `split` from the rules, or exclude these cases"
        gates.append(Gate(name=f"no_{name}", passed=not count, evidence=evidence))
    return report, tuple(gates)


def _notes(cases: Sequence[CaseRecord], copies: Copies, crossing: Sequence[Pair], made: bool) -> Iterator[str]:
    yield "Compared across train, val and test: patients, and the contents of all cases for exact copies, by digest."
    seen = len(cases) - copies.no_look
    yield (
        f"Looks of {seen} cases were compared for near-duplicates between different patients (saved again, resized, "
        "slightly cropped or brightened; mirrored or turned images do not count, cropped volumes are mostly not found)."
    )
    if copies.no_look:
        yield f"{copies.no_look} cases have no look (flat, or none made): near-duplicates of them would not be found."
    if crossing and not made:
        yield f"{len(crossing)} near-duplicates cross the split that came with the dataset; it was left as it is."


def _repeated(cases: Sequence[CaseRecord], sides: Sequence[Split]) -> Iterator[str]:
    """Equal reports of different patients are the custom of the trade, not a leak; a reader has to know how many."""
    texts = [words(case.text or "") for case in cases]
    if not any(texts):
        return
    train = {text for text, side in zip(texts, sides, strict=True) if side == "train"}
    test = [text for text, side in zip(texts, sides, strict=True) if side == "test"]
    yield (
        f"{len(texts) - len(set(texts))} of {len(texts)} reports repeat another one word for word; "
        f"{sum(text in train for text in test)} of {len(test)} test reports stand in training too. Equal reports are "
        "no leak by themselves."
    )


def _across(keys: Sequence[Hashable], sides: Sequence[Split]) -> tuple[int, list[Pair]]:
    """How many pairs of cases share a key across sides, and the first of them."""
    holders: defaultdict[Hashable, dict[Split, int]] = defaultdict(dict)
    counts = Counter(zip(keys, sides, strict=True))
    for place, (key, side) in enumerate(zip(keys, sides, strict=True)):
        holders[key].setdefault(side, place)
    count, shown = 0, []
    for key, first in holders.items():
        for left, right in SIDES:
            if left in first and right in first:
                count += counts[key, left] * counts[key, right]
                shown.append((first[left], first[right]))
    return count, shown[:_PAIRS]
