"""What is true of a case's files and not of what they show (`Wrapping`): numbers, and digests of texts."""

import math
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from shared.contracts.cases import CaseSpec
from shared.contracts.rules import Rules
from shared.contracts.wrapping import Wrapping
from shared.dataset.intake.groups import digest, of_headers, plain
from shared.imaging.formats import kind_of, suffix_of
from shared.imaging.header import Header
from shared.imaging.headers import BadImage, peek
from shared.imaging.image import Image, canonical
from shared.imaging.order import natural_key

HEADERS = {
    "scanner": ("Manufacturer", "ManufacturerModelName", "SoftwareVersions", "StationName"),
    "site": ("InstitutionName",),
    "protocol": ("ProtocolName", "SeriesDescription", "StudyDescription", "ConvolutionKernel"),
    "study date": ("StudyDate", "AcquisitionDate", "SeriesDate", "ContentDate"),
}
"""What features of a DICOM file are read from; of the dates the first that there is."""
_FOLDERS = 3
"""Levels of folders that are looked at."""
_NAMED = 0.9
"""Share of the cases whose path has their class, from which on classes are written down in paths."""


def wrapping(spec: CaseSpec, root: Path, images: Sequence[Image], written: int) -> Wrapping:
    """`images` are the views as they were read, `written` the bytes of their canonical files."""
    parts = [part for channels in spec.images for part in channels]
    files = [file for part in parts for file in part.files]
    try:
        header: Header | None = peek(root / files[0], turned=False)
    except BadImage:  # several arrays in one file have no header of their own
        header = None
    grid = canonical(images[0]).grid
    numbers: dict[str, tuple[float, ...]] = {"dimensions": tuple(map(float, grid.shape))}
    if spacing := grid.spacing if grid.affine is not None else header.spacing if header else ():
        numbers["spacing"] = tuple(round(float(edge), 4) for edge in spacing)
    if all(part.array is None and part.index is None for part in parts):  # else the file is of several cases
        stored = sum((root / file).stat().st_size for file in files)
        numbers["file size"] = (_step(stored / sum(view.array.size for view in images)), _step(stored / written))
    kinds: dict[str, tuple[str, ...]] = {"format": (digest(suffix_of(files[0]) or kind_of(root / files[0]) or ""),)}
    if header:
        kinds["bit depth"] = (digest(header.dtype), digest(str(header.colour)))
    said = header.dicom if header else {}
    for name, keywords in HEADERS.items():
        if name == "study date":
            days = [day for one in keywords if (day := _day(said.get(one, "")))]
            numbers |= {name: (float(days[0]),)} if days else {}
        elif any(said.get(one) for one in keywords):
            kinds[name] = tuple(digest(said.get(one, "")) for one in keywords)
    return Wrapping(numbers=numbers, kinds=kinds, groups=of_headers(said))


def places(rules: Rules, cases: Sequence[CaseSpec]) -> list[int]:
    """Place of each case among all, by path; none where paths name the classes, as files are numbered in each."""
    order, paths = [0] * len(cases), [case.images[0][0].files[0] for case in cases]
    if places_count(rules) and sum(map(_named, cases, paths)) < _NAMED * len(cases):
        for place, number in enumerate(sorted(range(len(cases)), key=lambda number: natural_key(paths[number]))):
            order[number] = place
    return order


def _named(case: CaseSpec, path: str) -> bool:
    """Whether a class of the case is a word of a path, not only a number."""
    return any(
        re.search(rf"(?<![^\W_]){re.escape(label)}(?![^\W_])", path, re.IGNORECASE)
        for label in _labels(case)
        if not label.isdecimal()
    )


def _labels(case: CaseSpec) -> tuple[str, ...]:
    return (case.label,) if isinstance(case.label, str) else case.label or ()


def placed(rules: Rules, spec: CaseSpec, wrapped: Wrapping, order: int) -> Wrapping:
    """With the place of the case among all, its folders and the groups that tables tell; without what says the target
    by the rules themselves: of places see `places_count`, of folders also one that is called as the class.
    """
    numbers, kinds = dict(wrapped.numbers), dict(wrapped.kinds)
    if places_count(rules):
        numbers["file order"] = (float(order),)
        labels = set(map(plain, _labels(spec)))
        folders = [name for name in spec.images[0][0].files[0].split("/")[:-1] if plain(name) not in labels]
        if folders:
            kinds["source folder"] = tuple(map(digest, (*folders, *[""] * _FOLDERS)[:_FOLDERS]))
    for name, keywords in HEADERS.items():
        if any(source.header in keywords for source in rules.label_sources()):
            kinds.pop(name, None)
            numbers.pop(name, None)
    return Wrapping(numbers=numbers, kinds=kinds, groups=spec.groups.over(wrapped.groups))


def places_count(rules: Rules) -> bool:
    """Whether folders and order count. Not where a part of the path is the class, or whether there is anything to mark:
    they are how the target was written down."""
    by_path = any(source.field or source.value for source in rules.label_sources())
    return rules.task == "diagnosis" and not by_path and rules.listed is None


def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text[:8]).toordinal()
    except ValueError:
        return None


def _step(ratio: float) -> float:
    """Half steps of a binary logarithm: what a class of sizes is."""
    return round(2 * math.log2(max(ratio, 1e-9))) / 2
