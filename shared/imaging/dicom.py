"""DICOM: a series of slices, an enhanced or multi-frame object, or a single picture."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .dicom_headers import frames_of, is_cine, numbers, opened, plane_spacing, positive, shared_group, text_of
from .dicom_pixels import Decoded, values_of
from .errors import LARGEST, BadImage, bounded, guarded, shown
from .image import Image
from .nifti import Axis4

UNEVEN = 0.25
"""Parts of the slice distance by which a slice may lie off its place: more, and a grid of even slices is not true."""
SAME_PLACE = 0.01
"""mm: slices that are nearer show the same place at another time."""


@dataclass(frozen=True)
class Plane:
    """One slice: a file, or a frame of one."""

    file: int
    frame: int
    size: tuple[int, int]
    """(columns, rows)"""
    spacing: tuple[float, ...]
    thick: float
    position: np.ndarray | None
    """Of its first pixel, mm in DICOM's LPS."""
    axes: np.ndarray
    """(2, 3) directions along a row and down a column."""
    oriented: bool
    when: tuple[float, ...]
    """Order of slices in the same place."""


def read(
    files: Sequence[Path], axis4: Axis4 = "refuse", uneven: Literal["refuse", "accept"] = "refuse", most: int = LARGEST
) -> Image:
    """Slices of one series, sorted along their normal, values rescaled; one slice is a picture.

    Slices without position are taken by InstanceNumber, as a volume without a place. Several slices in each place, and
    the frames of a cine loop, are the fourth axis. Raises BadImage.
    """
    bounded((sum(path.stat().st_size for path in files if path.is_file()),), 1, most)
    given, datasets = single_copies(files)
    files = [files[number] for number in given]
    names = [path.name for path in files]
    one_series(datasets, names)
    planes = [plane for number, dataset in enumerate(datasets) for plane in planes_of(dataset, number)]
    first = planes[0]
    samples = 3 if any(int(getattr(one, "SamplesPerPixel", 1) or 1) > 1 or is_palette(one) for one in datasets) else 1
    cine = len(files) == 1 and len(planes) > 1 and is_cine(datasets[0])
    if cine or len(planes) == 1:
        stacks, affine = [planes], None
    else:
        same_planes(planes, names)
        stacks, affine = arranged(planes, uneven)
    times = len(stacks[0])
    if times > 1 and axis4 == "refuse":
        raise BadImage(
            f"{names[0]} {'is a cine loop of ' if cine else 'and the others show each place '}{times} "
            f"{'frames' if cine else 'times'}; say with `axis4` that the first is taken, or that they are channels"
        )
    stacks = [stack[:1] if axis4 == "first" else stack for stack in stacks]
    if samples > 1 and len(stacks[0]) > 1:
        raise BadImage(f"{names[0]} has colour and several times; take the first with `axis4`")
    channels = max(samples, len(stacks[0]))
    columns, rows = first.size
    kind = value_type(datasets)
    bounded((columns, rows, len(stacks), channels), kind.itemsize, most)
    array = np.zeros((len(stacks), rows, columns, channels), kind)
    fill(array, stacks, datasets, files, samples)
    colour = samples == 3
    if colour:
        from .pictures import is_grey

        if is_grey(array):
            array, colour = array[..., :1], False
    known = all(says_hu(dataset) for dataset in datasets if dataset is not None)
    if affine is None:
        return Image(array[0], None, colour=colour, hu_known=known)
    order = tuple(given[stack[0].file] for stack in stacks) if len(files) > 1 else ()
    return Image(array.transpose(2, 1, 0, 3), affine, colour=colour, hu_known=known, order=order)


def single_copies(files: Sequence[Path]) -> tuple[list[int], list[Any]]:
    """Numbers of files and what is in them; of files with the same object (SOPInstanceUID) the first."""
    kept: dict[str, tuple[int, Any]] = {}
    for number, path in enumerate(files):
        dataset = guarded(path, partial(image_dataset, path))
        kept.setdefault(str(getattr(dataset, "SOPInstanceUID", "") or number), (number, dataset))
    return [number for number, _ in kept.values()], [dataset for _, dataset in kept.values()]


def image_dataset(path: Path) -> Any:
    found = opened(path, pixels=True)
    if not any(name in found for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        modality = text_of(found, "Modality")
        raise BadImage(f"is a DICOM object without pixels{f' ({modality})' if modality else ''}; leave it out")
    if text_of(found, "Modality") == "SEG":
        raise BadImage("marks structures of another image; it is a mask of the kind `dicom_seg`")
    if not int(getattr(found, "Rows", 0) or 0) or not int(getattr(found, "Columns", 0) or 0):
        raise BadImage("says nothing of its rows and columns; it is damaged")
    return found


def one_series(datasets: Sequence[Any], names: Sequence[str]) -> None:
    series = {str(getattr(found, "SeriesInstanceUID", "")) for found in datasets}
    if len(series) > 1:
        raise BadImage(f"{names[0]} and the others belong to {len(series)} series; give the files of one")


def is_palette(dataset: Any) -> bool:
    return str(getattr(dataset, "PhotometricInterpretation", "")) == "PALETTE COLOR"


def planes_of(dataset: Any, number: int) -> list[Plane]:
    """Slices of one file. A file of several frames says where they are in functional groups, or by offsets."""
    frames = frames_of(dataset)
    columns, rows = int(dataset.Columns), int(dataset.Rows)
    offsets = numbers(getattr(dataset, "GridFrameOffsetVector", None) or (), frames)
    detector = next(iter(getattr(dataset, "DetectorInformationSequence", None) or []), None)
    found = []
    for frame in range(frames):
        where = shared_group(dataset, "PlanePositionSequence", frame) or dataset
        how = shared_group(dataset, "PlaneOrientationSequence", frame) or dataset
        measures = shared_group(dataset, "PixelMeasuresSequence", frame) or dataset
        position = first_numbers((where, dataset, detector), "ImagePositionPatient", 3)
        directions = first_numbers((how, dataset, detector), "ImageOrientationPatient", 6)
        axes = np.array(directions or (1, 0, 0, 0, 1, 0), float).reshape(2, 3)
        between = positive(getattr(measures, "SpacingBetweenSlices", None))
        thick = between or positive(getattr(measures, "SliceThickness", None)) or 1.0
        place = np.array(position) if position else None
        if place is not None and frames > 1 and where is dataset:
            away = offsets[frame] if offsets else frame * thick
            place = place + np.cross(axes[0], axes[1]) * away
        spacing = plane_spacing(dataset)
        if measures is not dataset and (mm := numbers(getattr(measures, "PixelSpacing", None) or (), 2)):
            spacing = (mm[1], mm[0])
        found.append(
            Plane(
                number,
                frame,
                (columns, rows),
                spacing,
                thick,
                place,
                axes,
                directions is not None,
                moment(dataset, frame),
            )
        )
    return found


def first_numbers(holders: Sequence[Any], name: str, count: int) -> tuple[float, ...] | None:
    for holder in holders:
        if holder is not None and (found := numbers(getattr(holder, name, None) or (), count)):
            return found
    return None


def moment(dataset: Any, frame: int) -> tuple[float, ...]:
    """What orders slices of one place."""
    names = ("TemporalPositionIdentifier", "AcquisitionNumber", "EchoTime", "TriggerTime", "InstanceNumber")
    values = [numbers([getattr(dataset, name, None)], 1) for name in names]
    return (*(value[0] if value else 0.0 for value in values), frame)


def same_planes(planes: Sequence[Plane], names: Sequence[str]) -> None:
    """Raises BadImage where slices differ in what those of one volume share."""
    kinds = [(plane.size, *np.round(plane.axes, 1).ravel()) for plane in planes]
    usual = planes[kinds.index(Counter(kinds).most_common(1)[0][0])]
    for plane in planes:
        if plane.size != usual.size:
            sizes = f"{shown(plane.size)} where most have {shown(usual.size)}"
            raise BadImage(f"{names[plane.file]} has another size than the series ({sizes} pixels); leave it out")
        if plane.oriented and usual.oriented and np.abs(plane.axes - usual.axes).max() > 0.01:
            raise BadImage(f"{names[plane.file]} has another orientation than the series, as a localizer; leave it out")


def arranged(planes: Sequence[Plane], uneven: str) -> tuple[list[list[Plane]], np.ndarray]:
    """Slices in order, each with what shows the same place, and the affine in RAS. Raises BadImage."""
    first = planes[0]
    x, y = first.spacing or (1.0, 1.0)
    if any(plane.position is None for plane in planes):
        ordered = sorted(planes, key=lambda plane: (plane.when[-2], plane.file, plane.frame))
        # Nothing says where they are: as with slices that are pictures.
        return [[plane] for plane in ordered], np.diag([x, y, first.thick, 1.0])
    normal = np.cross(first.axes[0], first.axes[1])
    stacks: list[list[Plane]] = []
    last = -np.inf
    for plane in sorted(planes, key=lambda plane: (float(normal @ np.asarray(plane.position)), plane.when)):
        at = float(normal @ np.asarray(plane.position))
        if at - last > SAME_PLACE:
            stacks.append([])
            last = at
        stacks[-1].append(plane)
    stacks = [sorted(stack, key=lambda plane: plane.when) for stack in stacks]
    counts = {len(stack) for stack in stacks}
    if len(counts) > 1:
        twice = sum(len(stack) > min(counts) for stack in stacks)
        raise BadImage(f"has several slices in {twice} of {len(stacks)} places; give the files of one acquisition")
    places = np.array([stack[0].position for stack in stacks])
    step = (places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else normal * first.thick
    even = places[0] + np.arange(len(places))[:, None] * step
    off = float(np.linalg.norm(places - even, axis=1).max())
    if off > UNEVEN * float(np.linalg.norm(step)) and uneven == "refuse":
        raise BadImage(
            f"the {len(places)} slices of the series are not evenly spaced: one is missing or there twice; "
            "give the whole series, or a NIfTI resampled to an even one"
        )
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1], affine[:3, 2], affine[:3, 3] = first.axes[0] * x, first.axes[1] * y, step, places[0]
    # DICOM counts to the patient's left and back, RAS to right and front.
    affine[:2] *= -1
    return stacks, affine


def value_type(datasets: Sequence[Any]) -> np.dtype[Any]:
    """Smallest of uint8, int16, uint16, int32 and float32 that holds what the headers promise."""
    low, high = 0.0, 0.0
    for dataset in datasets:
        scale = Decoded.of(dataset)
        if not scale.whole:
            return np.dtype(np.float32)
        low, high = min(low, scale.low), max(high, scale.high)
    for kind in (np.uint8, np.int16, np.uint16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.dtype(kind)
    return np.dtype(np.float32)


def fill(
    array: np.ndarray, stacks: Sequence[Sequence[Plane]], datasets: list[Any], files: Sequence[Path], samples: int
) -> None:
    """Decode file by file, so that no more than one is in memory twice."""
    wanted: dict[int, list[tuple[int, int, int]]] = {}
    for place, stack in enumerate(stacks):
        for time, plane in enumerate(stack):
            wanted.setdefault(plane.file, []).append((plane.frame, place, time))
    for number, targets in wanted.items():
        dataset = datasets[number]
        frames = guarded(files[number], partial(values_of, dataset))
        for frame, place, time in targets:
            if samples == 3:
                array[place] = frames(frame)
            else:
                array[place, :, :, time] = frames(frame)[..., 0]
        if len(datasets) > 1:
            del dataset.PixelData


def says_hu(dataset: Any) -> bool:
    """CT with a rescaling gives Hounsfield units, unless it names other units."""
    holder = shared_group(dataset, "PixelValueTransformationSequence", 0) or dataset
    kind = str(getattr(holder, "RescaleType", "") or "").strip().upper()
    return text_of(dataset, "Modality") == "CT" and "RescaleIntercept" in holder and kind in ("", "HU")
