"""What later roles learn of a dataset: numbers measured by trusted code, and the sorted vocabulary of its targets."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from services.scorer.lock.left_out import reasons_told
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cases import CaseRecord, CaseTable, Coverage, Grouping
from shared.contracts.data import DatasetFacts
from shared.contracts.rules import Split
from shared.imaging.order import natural

GROUPED: Mapping[Grouping, str] = {
    "stated": "a column, a header or an array says so",
    "derived": "read off names, or as a script lists them",
    "inferred": "nothing names them, so each case counts as one, but for those that show one study",
}
"""In words of ours: whoever wrote the rules named the fields and tables that `Coverage.grouping_from` tells of."""
BY_CLASS = 20
"""Classes of which percentiles are told."""
_CHANNEL = re.compile(r"[\w .+-]{1,20}")


def facts_of(
    table: CaseTable,
    cases: Sequence[CaseRecord],
    sides: Sequence[Split],
    split_from: str,
    contradictions: int,
    joined: Sequence[str],
) -> DatasetFacts:
    """`cases` are those of the lock, with their sides; `joined` says in words of ours which patients count as one.
    Nothing that a role wrote is in it but names of classes, structures and channels."""
    coverage, values = table.coverage, _values(table, cases)
    train, val = ([one for one, at in zip(cases, sides, strict=True) if at == side] for side in ("train", "val"))
    # A name may be anything; one that says more than which channel it is becomes a number.
    channels = [name if _CHANNEL.fullmatch(name) else f"channel {n}" for n, name in enumerate(coverage.channels, 1)]
    named = dict(zip(coverage.channels, channels, strict=True))
    stood_in = {
        f"{named[one]} for {named[other]}": coverage.stood_in[f"{one} for {other}"]
        for one, other in permutations(named, 2)
        if f"{one} for {other}" in coverage.stood_in
    }
    return DatasetFacts.model_validate(
        {
            "task": coverage.task,
            "dimensions": coverage.dimensions,
            "label_names": tuple(values) or vocabulary(coverage, cases),
            "ordered": coverage.ordered,
            "label_values": values,
            "channels": tuple(channels[:16]),
            "stood_in": stood_in,
            "grouping": coverage.grouping,
            "grouping_from": ". ".join((GROUPED[coverage.grouping], *(one.rstrip(".") for one in joined))),
            "split_from": split_from,
            "left_out": reasons_told(table, contradictions),
            "by_script": table.by_script,
            "measured": measured(train, values) | greys(train, val),
        }
    )


def labels_of(case: CaseRecord) -> tuple[str, ...]:
    return (case.label,) if isinstance(case.label, str) else case.label or ()


def vocabulary(coverage: Coverage, cases: Sequence[CaseRecord]) -> tuple[str, ...]:
    """The classes that occur: grades from least to most, others sorted as people count."""
    found = natural({name for case in cases for name in labels_of(case)})
    return tuple(sorted(found, key=coverage.label_names.index) if coverage.ordered else found)


def _values(table: CaseTable, cases: Sequence[CaseRecord]) -> dict[str, int]:
    """Structures that occur, sorted, with their values."""
    if table.coverage.task not in SEGMENTATIONS:
        return {}
    there = {value for case in cases for value in case.values}
    values = table.coverage.label_values
    return {name: values[name] for name in natural(values) if values[name] in there}


def classes_of(case: CaseRecord, values: Mapping[str, int]) -> tuple[str, ...]:
    """What the sides of a split should be alike in: classes, or the structures that are marked."""
    return labels_of(case) or tuple(name for name, value in values.items() if value in case.values)


def measured(cases: Sequence[CaseRecord], values: Mapping[str, int]) -> dict[str, JsonValue]:
    """Of the training cases: `cases`; `shape` and `spacing` along the `axes` that a configuration has (lowest, median
    and highest); `channels` and `views` -> cases; `hu`, the share in Hounsfield units; `percentiles` (medians over
    cases of 0.5, 50 and 99.5 %), of `all` and by class, of a structure those of the voxels inside of it; where there
    are several channels, of each. Of masks also what `_sizes` tells."""
    by_class: defaultdict[str, list[JsonValue]] = defaultdict(list)
    for case in cases:
        for name in ("all", *classes_of(case, values)):
            by_class[name].append(_percentiles(case, values.get(name)))
    shown = sorted(by_class, key=lambda name: (name != "all", -len(by_class[name]), name))[: BY_CLASS + 1]
    channels = Counter(str(case.facts["channels"]) for case in cases if "channels" in case.facts)
    shapes = [_turned(case.facts.get("shape")) for case in cases]
    edges = _table(shapes)
    return {
        "cases": len(cases),
        "axes": "" if edges is None else ", ".join("DHW"[-edges.shape[1] :]),
        "shape": _spread(shapes),
        "spacing": _spread([_turned(case.facts.get("spacing")) for case in cases]),
        "channels": dict(sorted(channels.items())),
        "views": dict(sorted(Counter(str(len(case.images)) for case in cases).items())),
        "hu": float(np.mean([case.facts.get("hu") is True for case in cases])) if cases else 0.0,
        "percentiles": {name: _by_channel(_medians(by_class[name])) for name in shown},
        **(_sizes(cases, values) if values else {}),
    }


def _by_channel(percentiles: JsonValue) -> JsonValue:
    """Three of one channel after the other -> name of a channel -> its three; of one channel as they are."""
    if not isinstance(percentiles, list) or len(percentiles) <= 3:
        return percentiles
    return {f"channel {n // 3 + 1}": percentiles[n : n + 3] for n in range(0, len(percentiles), 3)}


def _turned(edges: JsonValue) -> JsonValue:
    """x, y, z (or width and height) as D, H, W."""
    return edges[::-1] if isinstance(edges, list) else edges


def _sizes(cases: Sequence[CaseRecord], values: Mapping[str, int]) -> dict[str, JsonValue]:
    """`without` any structure -> cases; `voxels` of each structure in the cases that have it: least, median, most."""
    found: dict[str, JsonValue] = {}
    for name in list(values)[:BY_CLASS]:
        counts = [case.facts.get("label_voxels") for case in cases]
        there = [one[key] for one in counts if isinstance(one, dict) and (key := str(values[name])) in one]
        if sizes := [float(size) for size in there if isinstance(size, int | float)]:
            found[name] = {"cases": len(sizes), "voxels": _plain(np.percentile(sizes, (0, 50, 100)))}
    return {"without": sum(not classes_of(case, values) for case in cases), "structures": found}


def _percentiles(case: CaseRecord, structure: int | None) -> JsonValue:
    """Of the whole image, or of what lies inside a structure."""
    if structure is None:
        return case.facts.get("percentiles")
    inside = case.facts.get("percentiles_inside")
    return inside.get(str(structure)) if isinstance(inside, dict) else None


def greys(train: Sequence[CaseRecord], val: Sequence[CaseRecord]) -> dict[str, JsonValue]:
    """`greys_alone`: balanced accuracy on the validation cases of the class whose training cases have percentiles most
    like the case's own, and what guessing gives. A network has to do better than that. Of a diagnosis with one class a
    case only; empty where a class is missing on a side."""
    sides = []
    for found in (train, val):
        told = [(case.label, case.facts.get("percentiles")) for case in found if isinstance(case.label, str)]
        table = _table([of for _, of in told])
        if table is None or len(table) != len(found):
            return {}
        sides.append((np.array([name for name, _ in told]), table))
    (names, seen), (asked, shown) = sides
    classes = np.unique(names)
    if len(classes) < 2 or set(asked) != set(classes) or seen.shape[1] != shown.shape[1]:
        return {}
    scale = seen.std(axis=0) + 1e-9
    centres = np.array([seen[names == one].mean(axis=0) for one in classes])
    nearest = classes[np.abs((shown[:, None] - centres) / scale).sum(axis=2).argmin(axis=1)]
    right = float(np.mean([np.mean(nearest[asked == one] == one) for one in classes]))
    return {"greys_alone": {"balanced_accuracy": round(right, 3), "guessing": round(1 / len(classes), 3)}}


def _spread(found: Sequence[JsonValue]) -> JsonValue:
    table = _table(found)
    if table is None:
        return None
    return {name: _plain(of(table, axis=0)) for name, of in (("low", np.min), ("median", np.median), ("high", np.max))}


def _medians(found: Sequence[JsonValue]) -> JsonValue:
    table = _table(found)
    return None if table is None else _plain(np.median(table, axis=0))


def _table(found: Sequence[JsonValue]) -> npt.NDArray[np.float64] | None:
    """Of lists of numbers those of the most frequent length; None where there are none."""
    lists = [one for one in found if isinstance(one, list) and one]
    if not lists:
        return None
    (length, _), *_ = Counter(map(len, lists)).most_common(1)
    return np.array([one for one in lists if len(one) == length], dtype=np.float64)


def _plain(numbers: npt.NDArray[np.float64]) -> list[JsonValue]:
    return [float(f"{number:.6g}") for number in numbers]
