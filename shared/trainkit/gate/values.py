"""What the files hold: values in masks, voxels of images. Read to their end, from a bounded sample."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from shared.trainkit.gate.dataset import Dataset
from shared.trainkit.gate.heads import Fault, Head, Voxels
from shared.trainkit.gate.tree import sample
from shared.trainkit.imagefile import PICTURE_SUFFIXES, suffix_of
from shared.trainkit.labelnames import name_values, names_in_dataset
from shared.trainkit.masks import MaskInvalid, mask_values, pieces

MOST_FILES = 400
MOST_BYTES = 1 << 30
"""On disk, of images and of masks each."""
_SHARP = 0.9
_FAULTS = {
    "NaN": "mask_not_finite", "whole number": "mask_not_whole", "negative": "mask_negative",
    "different values": "mask_is_image", "no label": "mask_is_image", "colour": "mask_colour",
}  # fmt: skip


def _affordable(data: Dataset, names: Sequence[str], what: str) -> list[str]:
    """A fair sample that is not too much to read."""
    taken: list[str] = []
    total = 0
    for name in sample(names, MOST_FILES):
        total += data.tree.sizes.get(name, 0)
        if taken and total > MOST_BYTES:
            break
        taken.append(name)
    if len(taken) < len(names):
        data.tree.skipped.append(f"{what} read to their end: {len(taken):,} of {len(names):,}")
    return taken


def check_masks(data: Dataset) -> None:
    """Values in the masks of the pairs."""
    if not data.pairs:
        return
    taken = _affordable(data, [pair.mask for pair in data.pairs if pair.mask not in data.bad], "masks")
    data.look(taken)
    taken = [name for name in taken if name not in data.bad]
    with ThreadPoolExecutor(2) as pool:
        looked = list(pool.map(lambda name: _values(data, name), taken))
    values: dict[str, dict[int, int]] = {}
    for name, found in zip(taken, looked, strict=True):
        if isinstance(found, Fault):
            data.fault(name, found)
            continue
        values[name] = found
        if data.heads[name].kind.startswith("float"):
            data.findings.add("mask_float", name, data.heads[name].kind)
        if not set(found) - {0}:
            data.findings.add("empty_mask", name)
    for kind in {*_FAULTS.values(), "mask_float", "empty_mask", "mask_lossy"}:
        data.findings.measure(kind, looked_at=len(taken))
    data.facts["masks_read"] = len(taken)
    if values:
        _over_all(data, values)


def _values(data: Dataset, name: str) -> dict[int, int] | Fault:
    path = data.tree.root / name
    lossy = suffix_of(name) in (".jpg", ".jpeg")
    try:
        found = mask_values(path)
    except MaskInvalid as error:
        if lossy and "different values" in str(error):
            return Fault("mask_lossy", f"JPEG with {len(_picture(path))} different values")
        return Fault(next((kind for word, kind in _FAULTS.items() if word in str(error)), "undecodable"), str(error))
    except Exception as error:  # whatever a reader trips over in a foreign file is the file's fault
        cut = "truncated" if isinstance(error, EOFError) or "truncated" in str(error) else "undecodable"
        return Fault(cut, f"{type(error).__name__}: {error}".replace(str(path), path.name)[:200])
    if suffix_of(name) in PICTURE_SUFFIXES and len(found) > 2 and _smoothed(found):
        return Fault("mask_lossy", f"{len(found)} different values, most of them at 0 and {max(found)}")
    return found


def _picture(path: object) -> set[int]:
    found: set[int] = set()
    for piece in pieces(path):  # type: ignore[arg-type]
        found |= set(piece.tolist())
    return found


def _smoothed(values: Mapping[int, int]) -> bool:
    """Two heaps, at 0 and at a high value, with a little of everything between."""
    top = max(values)
    ends = sum(count for value, count in values.items() if value < 0.15 * top or value > 0.85 * top)
    return top >= 128 and len(values) > 8 and ends > _SHARP * sum(values.values())


def _over_all(data: Dataset, values: Mapping[str, Mapping[int, int]]) -> None:
    """What is true of all masks together: gaps, rare values, names."""
    cases = Counter(value for found in values.values() for value in found if value)
    numbers = sorted(cases)
    data.facts["mask_values"] = {str(value): cases[value] for value in numbers[:60]}
    findings = data.findings
    if not numbers:
        return
    if len(numbers) == 1 and numbers[0] > 1:
        findings.add("mask_two_values", "all masks", f"the values are 0 and {numbers[0]}", len(values))
        findings.measure("mask_two_values", f"take the values 0 and {numbers[0]} as 0 and 1", len(values))
    elif numbers != list(range(1, len(numbers) + 1)):
        missing = sorted(set(range(1, numbers[-1] + 1)) - set(numbers))
        said = f"{', '.join(map(str, missing[:20]))} never occur" + (" and more" if len(missing) > 20 else "")
        findings.add("value_gaps", "all masks", f"{said}; the highest is {numbers[-1]}", len(missing))
        findings.measure("value_gaps", looked_at=len(values), values=numbers[:60])
    few = max(2, math.floor(0.05 * len(values)))
    rare = [value for value in numbers if cases[value] <= few and len(values) >= 5 and len(numbers) > 1]
    for value in rare:
        where = next(name for name, found in values.items() if value in found)
        findings.add("rare_value", f"value {value}", f"in {cases[value]} of {len(values)} masks, such as {where}")
    findings.measure("rare_value", looked_at=len(values), cases={str(value): cases[value] for value in rare[:20]})
    named = name_values(numbers, names_in_dataset(data.tree.root, data.tree.tables))
    data.facts["structures"] = {name: value for name, value in list(named.label_values.items())[:60]}
    data.facts["structures_from"] = named.says
    data.facts["not_in_all"] = {str(value): cases[value] for value in numbers if cases[value] < len(values)}
    for warning in named.warnings:
        findings.add("values_unnamed", named.says, warning)


def check_voxels(data: Dataset) -> None:
    """NaN, constant images, two kinds of intensities. Of a scan of slices the middle one is read."""
    middle = [file for files in data.samples.values() if (file := files[len(files) // 2]) not in data.bad]
    taken = _affordable(data, middle, "images")
    if len(taken) < MOST_FILES and data.facts["scans_of_slices"]:
        among = set(middle)
        rest = [file for files in data.samples.values() for file in files if file not in among and file not in data.bad]
        taken += sample(rest, MOST_FILES - len(taken))
        data.tree.skipped.append(f"slices read to their end: {len(taken):,} of {len(middle) + len(rest):,}")
    edges = set(taken) - set(middle)
    data.look(taken)
    taken = [name for name in taken if name not in data.bad]
    with ThreadPoolExecutor(2) as pool:
        looked = list(pool.map(lambda name: data.reader.voxels(data.tree.root / name), taken))
    seen: dict[str, Voxels] = {}
    for name, found in zip(taken, looked, strict=True):
        if isinstance(found, Fault):
            data.fault(name, found)
        elif found.whole:
            seen[name] = found
            if name not in edges or found.not_finite:  # the first slices of a scan may well be black
                _one_image(data, name, found)
    if unread := sum(isinstance(found, Voxels) and not found.whole for found in looked):
        data.tree.skipped.append(f"voxels of {unread:,} images were not read: too large, or no decoder here")
    for kind in ("not_finite", "constant_image"):
        data.findings.measure(kind, looked_at=len(seen))
    data.facts["images_read"] = len(taken)
    finite = [found for found in seen.values() if found.low <= found.high]
    if finite:
        data.facts["intensities"] = {"min": min(one.low for one in finite), "max": max(one.high for one in finite)}
    _intensities(data, seen)


def _one_image(data: Dataset, name: str, found: Voxels) -> None:
    if found.not_finite:
        size = math.prod(data.heads[name].shape) or found.not_finite
        said = f"{found.not_finite:,} voxels, {found.not_finite / size:.2%}"
        data.findings.add("not_finite", name, said)
    elif found.low == found.high:
        data.findings.add("constant_image", name, f"all {found.low:g}")


def _intensities(data: Dataset, seen: Mapping[str, Voxels]) -> None:
    """Hounsfield units reach far below 0; grey values of pictures that were turned into volumes hold 0 to 255."""

    def volume(head: Head) -> bool:
        return len(head.shape) > 2

    volumes = {name: one for name, one in seen.items() if volume(data.heads[name])}
    wide = [name for name, one in volumes.items() if one.low < -100]
    grey = [name for name, one in volumes.items() if one.low >= 0 and 2 < one.high <= 255]
    if not wide or not grey:
        return
    fewer, other = sorted((wide, grey), key=len)
    for name in fewer:
        one = seen[name]
        data.findings.add("mixed_intensities", name, f"{one.low:g} to {one.high:g}")
    data.findings.measure(
        "mixed_intensities",
        looked_at=len(volumes),
        below_minus_100=len(wide),
        within_0_to_255=len(grey),
        such_as=other[0],
    )
