"""From reports and images to the rows of a report index: studies, their views, their patients. Runs in the sandbox.

Rules: the files that one report is about are the views of one row, one of each projection first (frontal, lateral, the
others). Volumes of one scan that differ in their last number only and share the report are reconstructions: one of
them, the first that opens, stands for the scan. Pictures that do are views. Of several folders of slices the longest
counts.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from shared.trainkit.collect import HALF_READ, VOLUME_4D, Collection
from shared.trainkit.imagefile import PICTURE_SUFFIXES, suffix_of
from shared.trainkit.index import Row, natural_key
from shared.trainkit.names import words_of
from shared.trainkit.reports.columns import split_named, view_named
from shared.trainkit.reports.joining import Image, Joined, Report
from shared.trainkit.reports.naming import bare, tokens_of
from shared.trainkit.reports.people import people
from shared.trainkit.reports.texts import LONGEST, Section, joined, words_in

NO_REPORT = "image without a report: add its report, or take the image out"
NO_IMAGE = "report without its image: add the image, or take the report out"
NOT_ITS_OWN = "image without a report of its own beside images that have one: add its report to use it"
EMPTY = "empty report (no text, nan, or a word for nothing): write the report, or take the case out"
NO_WORDS = "report of one word: write the report out, or take the case out"
TOO_LONG = f"report of more than {LONGEST} characters: shorten it, a report is no file"
SCAN = "further reconstruction of a scan with the same report: nothing to do, one of them is used"
SERIES = "further series of a scan with the same report: nothing to do, the longest is used"
MASK = "mask: nothing to do, reports are written of images"
OTHER_KIND = "image of another kind than the request is for: nothing to do"
_VOLUMES = {".nii", ".nii.gz", ".mha", ".nrrd", ".npy", ".npz", ".pt", ".pck"}
_ORDER = ("frontal", "lateral", "other", "")
_AT = re.compile(r"pa|ap|frontal|lateral|lat", re.IGNORECASE)
_MOST_VIEWS = 8


@dataclass(frozen=True)
class Unit:
    """A row in the making."""

    files: tuple[str, ...]
    text: str
    key: str
    study: str
    patient: str
    place: str


def usable(found: Collection, dimensions: int) -> list[str]:
    """Images of the kind that is asked for, without masks; the others are accounted for."""
    masks = [file for file in found.files if words_of(bare(file)) == "mask"]
    found.excluded[MASK] += masks
    shown = set(found.files) - set(masks)
    files = [file for file in found.files if file in shown]
    flat = [file for file in files if suffix_of(file) in PICTURE_SUFFIXES]
    volumes = [file for file in files if suffix_of(file) in _VOLUMES]
    other = flat if dimensions == 3 and volumes else volumes if dimensions == 2 and flat else []
    found.excluded[OTHER_KIND] += other
    shown -= set(other)
    return [file for file in files if file in shown]


def make_units(
    found: Collection, told: Joined, files: Sequence[str], dimensions: int, wanted: Section | None
) -> list[Unit]:
    """Units with a text that can be learned; what is left out is accounted for in `excluded`."""
    members: dict[Report, list[str]] = defaultdict(list)
    own = {file: report for file, image in told.images.items() if (report := _primary(image))}
    for file in files:
        if file in own:
            members[own[file]].append(file)
        else:
            found.excluded[NO_REPORT].append(file)
    for report in list(members):
        if any(len(own[file].files) < len(report.files) for file in report.files if file in own):
            found.excluded[NOT_ITS_OWN] += members.pop(report)
    found.open_all(file for group in members.values() for file in group)
    units = []
    if wanted and not _has(told, members, (wanted,)):
        found.warnings.append(f"no report of the dataset has a part {wanted}: whole reports are taken")
        wanted = None
    headed = wanted is None and _has(told, members, ("findings", "impression"))
    for report, group in members.items():
        good = _readable(found, group)
        if len(group) > _MOST_VIEWS and len(good) < 0.8 * len(group):
            found.excluded[HALF_READ].append(group[0])
            continue
        if not good:
            continue
        image = told.images[good[0]]
        text = joined({part: source.sections[part] for part, source in image.texts.items()}, wanted, headed)
        if reason := EMPTY if not text else NO_WORDS if words_in(text) < 2 else TOO_LONG if len(text) > LONGEST else "":
            found.excluded[reason].append(good[0])
            continue
        study = report.study or image.study
        place = image.place or _folder_place(good[0])
        units.append(Unit(tuple(good), text, report.key, study, image.patient, place))
    return _scans(found, units, told.images, dimensions)


def _primary(image: Image) -> Report | None:
    """The record that a row is made of: its findings, else its report, else its impression; texts before gaps."""
    parts: tuple[Section, ...] = ("findings", "report", "impression")
    held = [image.texts[part] for part in parts if part in image.texts]
    return next((report for report in held if any(report.sections.values())), held[0] if held else None)


def _has(told: Joined, members: Mapping[Report, Sequence[str]], parts: Sequence[Section]) -> bool:
    """Whether some case has all `parts`."""
    first = [told.images[group[0]].texts for group in members.values()]
    return any(all(part in texts and texts[part].sections[part] for part in parts) for texts in first)


def _readable(found: Collection, files: Iterable[str]) -> list[str]:
    good = []
    for file in files:
        if file in found.unreadable:
            found.excluded[found.unreadable[file]].append(file)
        elif found.is_4d(file):
            found.excluded[VOLUME_4D].append(file)
        else:
            good.append(file)
    return good


def _folder_place(file: str) -> str:
    return next((part for folder in PurePosixPath(file).parts[:-1] if (part := split_named(folder))), "")


def _scans(found: Collection, units: Sequence[Unit], images: Mapping[str, Image], dimensions: int) -> list[Unit]:
    """One unit a study or scan: reconstructions are left out, views of one study come together in their order."""
    patients, _, _ = people(units, "") if units else ([], "", "")
    same: dict[tuple[str, ...], list[Unit]] = defaultdict(list)
    for unit, patient in zip(units, patients, strict=True):
        alone = len(unit.files) == 1
        same[(patient, unit.text, *_but_last(unit.files[0])) if alone else unit.files].append(unit)
    found_units = []
    for alike in same.values():
        files = [file for unit in alike for file in unit.files]
        flat = suffix_of(files[0]) in PICTURE_SUFFIXES
        if dimensions == 3 and len(files) > 1:
            files = _one_scan(found, files, flat or suffix_of(files[0]) not in _VOLUMES)
        elif flat and len(files) <= _MOST_VIEWS:
            files = in_order(files, images)
        elif len(alike) > 1:  # too many pictures with one text to be the views of one study
            found_units += alike
            continue
        found_units.append(replace(alike[0], files=tuple(files)))
    return found_units


def _but_last(file: str) -> tuple[str, ...]:
    """Folder and name without a last part that has a number; the whole name where it has none."""
    path = PurePosixPath(file)
    *head, last = tokens_of(bare(path.name)) or ("",)
    numbered = bool(head) and (last.isdecimal() or bool(_AT.fullmatch(last)))
    return (str(path.parent), *head) if numbered else (file,)


def _one_scan(found: Collection, files: Sequence[str], slices: bool) -> list[str]:
    """Of a scan in slices the longest series; of volumes the first of each that differ in the last number only."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for file in files:
        groups[(str(PurePosixPath(file).parent),) if slices else _but_last(file)].append(file)
    if slices:
        longest = max(groups.values(), key=len)
        found.excluded[SERIES] += [group[0] for group in groups.values() if group is not longest]
        return sorted(longest, key=natural_key)
    found.excluded[SCAN] += [file for group in groups.values() for file in group[1:]]
    return [group[0] for group in groups.values()]


def in_order(files: Iterable[str], images: Mapping[str, Image]) -> list[str]:
    """One of each projection first, frontal before lateral; within a projection by name."""
    by_view: dict[str, list[str]] = defaultdict(list)
    for file in sorted(files, key=natural_key):
        by_view[images[file].view if images[file].view else _view_in_name(file)].append(file)
    turns = max(map(len, by_view.values()), default=0)
    return [by_view[view][turn] for turn in range(turns) for view in _ORDER if turn < len(by_view.get(view, []))]


def _view_in_name(file: str) -> str:
    words = re.split(r"[^A-Za-z]+", bare(file))
    return next((view for word in words if _AT.fullmatch(word) and (view := view_named(word))), "")


def rows_of(units: Sequence[Unit], images: Mapping[str, Image], stated_by: str) -> tuple[list[Row], str, str]:
    """Rows with `place`, and how patients were told apart."""
    patients, grouping, says = people(units, stated_by)
    rows = [
        {
            "sample_id": unit.files[0],
            "patient": patient,
            "study": unit.study or None,
            "label": None,
            "target": unit.text,
            "files": list(unit.files),
            "attributes": _rescaling(images[unit.files[0]]),
            "place": unit.place,
        }
        for unit, patient in zip(units, patients, strict=True)
    ]
    return rows, grouping, says


def _rescaling(image: Image) -> dict[str, float]:
    """What a table says of stored values, as the templates' readers know it."""
    try:
        return {"rescale_slope": float(image.slope or 1), "rescale_intercept": float(image.intercept)}
    except ValueError:
        return {}
