"""Shape, spacing and orientation over the images: what most are like, and which are not. Headers only."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from shared.trainkit.gate.dataset import MOST_HEADS, Dataset
from shared.trainkit.gate.heads import Head
from shared.trainkit.imagefile import suffix_of

_FACTOR = 3.0
"""So many times smaller or larger than the median is worth a word, where the others spread less."""
_RARE = 0.1
"""Of more than this share nobody can say that they are outliers: the dataset is a mixture."""
_FEW = 5
_READ_WHOLE = {".pt", ".pth", ".pck", ".pkl", ".pickle", ".npz"}
_MOST_BYTES = 1 << 30
_TILT = 1.0
"""Degrees."""


def check_heads(data: Dataset) -> None:
    """Reads headers of a sample: of a scan of slices its first, middle and last one."""
    names = _light(data, data.taken(list(data.samples), MOST_HEADS, "images whose headers were read"))
    firsts = {}
    for name in names:
        files = data.samples[name]
        picked = [files[len(files) * step // 4] for step in range(1, 4)] if len(files) > 1 else files
        data.look([files[0], *picked])
        firsts[name] = files[0]
        if len(files) > 1:
            _one_scan(data, name, [data.heads[file] for file in [files[0], *picked] if file in data.heads])
    heads = {name: data.heads[file] for name, file in firsts.items() if file in data.heads}
    _overview(data, heads)
    _dimensions(data, heads)
    _spacing(data, heads)
    _orientation(data, heads)
    _sizes(data, heads)
    _pixels(data, heads)


def _light(data: Dataset, names: Sequence[str]) -> list[str]:
    """Without what would be too much to read, where a format has to be read whole to know its shape."""
    taken, total = [], 0
    for name in names:
        file = data.samples[name][0]
        total += data.tree.sizes[file] if suffix_of(file) in _READ_WHOLE else 0
        if total <= _MOST_BYTES or suffix_of(file) not in _READ_WHOLE:
            taken.append(name)
    if len(taken) < len(names):
        data.tree.skipped.append(f"pickles and tensors opened: {len(taken):,} of {len(names):,}")
    return taken


def _one_scan(data: Dataset, name: str, heads: Sequence[Head]) -> None:
    if len(sizes := {head.shape for head in heads}) > 1:
        data.findings.add("mixed_slices", name, " and ".join(map(_by, sorted(sizes))))
    if len({head.series for head in heads}) > 1:
        data.findings.add("several_series", name)


def _overview(data: Dataset, heads: Mapping[str, Head]) -> None:
    facts = data.facts
    facts["headers_read"] = len(heads)
    facts["formats"] = dict(Counter(head.format for head in heads.values()).most_common(8))
    facts["sizes"] = dict(Counter(_by(head.shape) for head in heads.values()).most_common(5))
    facts["sizes_distinct"] = len({head.shape for head in heads.values()})
    facts["pixel_kinds"] = dict(Counter(head.kind for head in heads.values()).most_common(6))
    spaced = [head.patient_spacing for head in heads.values() if len(head.patient_spacing) >= 2]
    if spaced:
        axes = max(set(map(len, spaced)), key=list(map(len, spaced)).count)
        columns = list(zip(*[spacing for spacing in spaced if len(spacing) == axes], strict=True))
        facts["spacing_mm"] = [
            {"min": round(min(column), 3), "median": round(median(column), 3), "max": round(max(column), 3)}
            for column in columns
        ]
    if codes := Counter(head.orientation for head in heads.values() if head.orientation):
        facts["orientations"] = dict(codes.most_common(8))


def _dimensions(data: Dataset, heads: Mapping[str, Head]) -> None:
    axes = {name: 3 if len(data.samples[name]) > 1 else head.axes for name, head in heads.items() if head.shape}
    counts = Counter(axes.values())
    facts = {f"{number}D": count for number, count in sorted(counts.items())}
    data.facts["dimensions"] = facts
    if len(counts) < 2 and 4 not in counts:
        return
    usual = 3 if counts[4] and counts[4] >= counts[3] else counts.most_common(1)[0][0]
    for name, number in axes.items():
        if number >= 4:
            data.findings.add("four_axes", name, _by(heads[name].shape))
        elif number != usual:
            data.findings.add("mixed_dimensions", name, f"{number}D, {_by(heads[name].shape)}; most are {usual}D")
    data.findings.measure("four_axes", looked_at=len(heads), axes=facts)
    data.findings.measure("mixed_dimensions", looked_at=len(heads), axes=facts)


def _spacing(data: Dataset, heads: Mapping[str, Head]) -> None:
    groups: dict[int, dict[str, tuple[float, ...]]] = defaultdict(dict)
    for name, head in heads.items():
        steps = head.patient_spacing
        if any(not math.isfinite(step) or step <= 0 for step in steps):
            data.findings.add("bad_spacing", name, " x ".join(f"{step:g}" for step in steps) + " mm")
        elif steps:
            groups[len(steps)][name] = steps
    data.findings.measure("bad_spacing", looked_at=len(heads))
    ratios: list[float] = []
    for members in groups.values():
        odd: dict[str, list[str]] = defaultdict(list)
        spread = 1.0
        for axis in range(len(next(iter(members.values())))):
            column = {name: steps[axis] for name, steps in members.items()}
            middle, out = outliers(column)
            for name in out:
                times = column[name] / middle
                said = f"{times:.3g} times" if times > 1 else f"1/{1 / times:.3g} of"
                odd[name].append(f"{column[name]:g} mm is {said} the median {middle:g} mm")
                ratios.append(times)
            rest = [value for name, value in column.items() if name not in out]
            spread = max(spread, max(rest) / min(rest))
        for name in members:
            if name in odd:
                data.findings.add("spacing_outlier", name, "; ".join(odd[name]))
        if spread > _FACTOR and len(members) >= _FEW:
            usual = [steps for name, steps in members.items() if name not in odd]
            low, high = ([round(pick(column), 3) for column in zip(*usual, strict=True)] for pick in (min, max))
            data.findings.add("mixed_spacing", "all images", f"from {_times(low)} to {_times(high)} mm", len(usual))
            data.findings.measure("mixed_spacing", largest_ratio=round(spread, 2))
    data.findings.measure(
        "spacing_outlier", looked_at=len(heads), times_the_median=[round(one, 4) for one in ratios[:5]]
    )


def outliers(values: Mapping[str, float]) -> tuple[float, list[str]]:
    """Median, and the names that are far from it on a log scale: beyond 6 MAD and 3 times; none of a mixture."""
    logs = {name: math.log(value) for name, value in values.items() if value > 0}
    if len(logs) < _FEW:
        return (median(values.values()) if values else 0.0), []
    middle = median(logs.values())
    mad = 1.4826 * median(abs(one - middle) for one in logs.values())
    far = max(6 * mad, math.log(_FACTOR))
    found = [name for name, one in logs.items() if abs(one - middle) > far]
    few = len(found) <= max(1, _RARE * len(logs))
    return median(values.values()), found if few else []


def _orientation(data: Dataset, heads: Mapping[str, Head]) -> None:
    usual = Counter(head.orientation for head in heads.values() if head.orientation)
    tilts = []
    for name, head in heads.items():
        if not head.placed:
            data.findings.add("no_orientation", name)
        if head.oblique > _TILT:
            data.findings.add("oblique", name, f"{head.oblique:.1f} degrees")
            tilts.append(head.oblique)
        if len(usual) > 1 and head.orientation and head.orientation != usual.most_common(1)[0][0]:
            data.findings.add("mixed_orientations", name, f"{head.orientation}; most are {usual.most_common(1)[0][0]}")
    data.findings.measure("no_orientation", looked_at=len(heads))
    data.findings.measure("oblique", looked_at=len(heads), largest_degrees=round(max(tilts, default=0.0), 1))
    data.findings.measure("mixed_orientations", looked_at=len(heads), orientations=dict(usual.most_common(8)))


def _sizes(data: Dataset, heads: Mapping[str, Head]) -> None:
    groups: dict[int, dict[str, float]] = defaultdict(dict)
    for name, head in heads.items():
        if head.shape and all(head.shape) and head.axes <= 3:
            groups[head.axes][name] = float(math.prod(head.shape))
    for members in groups.values():
        middle, out = outliers(members)
        for name in out:
            times = members[name] / middle
            said = f"{times:.3g} times" if times > 1 else f"1/{1 / times:.3g}"
            data.findings.add("size_outlier", name, f"{_by(heads[name].shape)}, {said} the pixels of the median")
    data.findings.measure("size_outlier", looked_at=len(heads))


def _pixels(data: Dataset, heads: Mapping[str, Head]) -> None:
    kinds = Counter(head.kind for head in heads.values() if len(head.shape) == 2)
    if len(kinds) > 1:
        usual = kinds.most_common(1)[0][0]
        for name, head in heads.items():
            if len(head.shape) == 2 and head.kind != usual:
                data.findings.add("mixed_pixels", name, f"{head.kind}; most are {usual}")
        data.findings.measure("mixed_pixels", looked_at=len(heads), kinds=dict(kinds.most_common(6)))


def _by(shape: Iterable[Any]) -> str:
    return "x".join(map(str, shape))


def _times(values: Iterable[float]) -> str:
    return " x ".join(f"{value:g}" for value in values)
