"""Mask rules whose files or tables mark regions or name structures: annotations, run-length codes, DICOM objects."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.contracts.rules import MaskRule
from shared.dataset.files.series import headers
from shared.dataset.rules.by_headers import checked
from shared.dataset.rules.found import RulesError
from shared.dataset.rules.gather import compiled, fields_of, joined
from shared.dataset.rules.marks import Data, Draft, Drafts, by_fields, without
from shared.dataset.shapes.annotations import Annotated, Mark, read_coco, read_labelme, read_runs, read_voc, read_yolo
from shared.dataset.shapes.cvat import read_cvat
from shared.dataset.shapes.label_studio import read_label_studio
from shared.dataset.shapes.via import read_via
from shared.dataset.tables.cells import TableError, nearest
from shared.dataset.tables.dates import Order, orders
from shared.dataset.tables.forms import base
from shared.dataset.tables.keys import match
from shared.imaging.dicom_headers import opened
from shared.imaging.dicom_masks import segment_name
from shared.imaging.errors import BadImage, guarded

WRONG = "case with an annotation that is wrong: correct it"
NOT_LISTED = "picture of an annotation file that is no image of a case: add the image, or nothing to do"
_READERS = {"yolo": read_yolo, "voc": read_voc, "labelme": read_labelme}
_LISTS = {"coco": read_coco, "label_studio": read_label_studio, "cvat": read_cvat, "via": read_via}
_MAY_BE_UNSEEN = ("cvat", "via")
"""Programs that list all pictures of a project, so that one that is not listed was never looked at."""
_NAMES = {"dicom_seg": ("Modality", "SegmentSequence", "ReferencedSeriesSequence"),
          "rtstruct": ("Modality", "StructureSetROISequence", "ReferencedFrameOfReferenceSequence")}  # fmt: skip


def rle_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """Run-length codes in a table, one row or several a case; an empty cell marks nothing."""
    if rule.table is None or rule.column is None:
        raise RulesError("a mask of kind rle needs `table` and `column`")
    column = data.sources.column(rule.table, rule.column)
    classes = data.sources.column(rule.table, rule.class_column) if rule.class_column else None
    made: list[Drafts] = []
    for case, rows in zip(data.found, data.sources.rows(rule.table), strict=True):
        found = Annotated()
        for row in rows:
            try:
                numbers = read_runs(row.get(column, ""))
            except ValueError as error:
                found.faults.append(str(error))
                continue
            name = (row.get(classes, "") if classes else "") or rule.structure or "structure 1"
            if numbers:
                found.marks.append(Mark(name, "runs", numbers))
        made.append(drafts_of(rule, data, case.key, [found] if rows else []))
    return made


def annotation_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """Of kinds yolo, voc and labelme: one file a case."""
    made: list[Drafts] = []
    read = _READERS[rule.kind]
    for case, keyed in zip(data.found, by_fields(rule, data), strict=True):
        several: list[Annotated] = []
        for hit in (hit for hits in keyed for hit in hits):
            try:
                several.append(read(data.root / hit.file))
            except TableError as error:
                several.append(Annotated(faults=[str(error)]))
        made.append(drafts_of(rule, data, case.key, several))
    return made


def listed_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """The pictures of COCO files, Label Studio's and CVAT's exports, matched by name: among the cases that share the
    file's fields, else among those in or below its folder, else among all."""
    several: list[list[Annotated]] = [[] for _ in data.found]
    any_file = False
    at = {case.files[0]: place for place, case in enumerate(data.found)}
    for pattern in compiled(rule.files, f"masks ({rule.kind})"):
        had = {place for place, some in enumerate(several) if some} if rule.take == "first" else set()
        for file in data.listing.files:
            fields = pattern.match(file)
            if fields is None:
                continue
            any_file = True
            try:
                pictures = _LISTS[rule.kind](data.root / file)
            except TableError as error:
                raise RulesError(f"masks ({rule.kind}): {error}") from None
            members = _members(file, fields, data)
            if (held := _by_bytes(pictures, members, data)) is not None:
                for picture, place in held:
                    several[place] += [picture] if place not in had else []
                placed = {id(picture) for picture, _ in held}
                data.account.leave(NOT_LISTED, *[one.name for one in pictures if id(one) not in placed])
                continue
            matching = match([picture.name for picture in pictures], [data.found[i].named for i in members], "path")
            for picture in pictures:
                for place in matching.cases.get(picture.name, ()):
                    several[members[place]] += [picture] if members[place] not in had else []
            if matching.unknown:
                data.account.leave(NOT_LISTED, *matching.unknown)
            unclear = {}
            for name, fits in matching.ambiguous.items():
                if (first := _above(fits)) in at:
                    several[at[first]] += [picture for picture in pictures if picture.name == name]
                else:
                    unclear[name] = fits
            for name, fits in list(unclear.items())[:5]:
                data.account.conflicts.append(f"{name!r} in {file} fits several images: {', '.join(fits)}")
    if not any_file:
        raise RulesError(
            f"masks ({rule.kind}): no file fits {', '.join(rule.files)}"
            f"{nearest(rule.files[0] if rule.files else '', [f for f in data.listing.files if f.endswith('.json')])}"
        )
    # What a file does not list was never looked at, whatever `missing` says of what it lists.
    unlisted = rule.model_copy(update={"missing": "leave_out"}) if rule.kind in _MAY_BE_UNSEEN else rule
    made = []
    for case, some in zip(data.found, several, strict=True):
        told = [one for one in some if one.judged] if rule.missing == "leave_out" else some
        made.append(drafts_of(rule if told else unlisted, data, case.key, told))
    return made


def _by_bytes(pictures: Sequence[Annotated], members: Sequence[int], data: Data) -> list[tuple[Annotated, int]] | None:
    """Each picture with the case that has a file of its name and size; None where no sizes are told, or none fits, as
    after all were saved anew."""
    sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index in members if any(picture.bytes for picture in pictures) else ():
        file = data.found[index].files[0]
        if (at := data.listing.place(file)) is not None:
            sizes[base(file).casefold(), data.listing.sizes[at]].append(index)
    told = ((one, sizes.get((base(one.name).casefold(), one.bytes or 0), [])) for one in pictures)
    return [(one, fits[0]) for one, fits in told if len(fits) == 1] or None


def _above(fits: Sequence[str]) -> str:
    """Of files of one name the one in whose folder the folders of all others lie, as those of copies do."""
    folders = {fit: fit.rpartition("/")[0] + "/" for fit in fits}
    above = [fit for fit in fits if all(folders[other].startswith(folders[fit]) for other in fits)]
    return above[0] if len(above) == 1 else ""


def _members(file: str, fields: dict[str, str], data: Data) -> list[int]:
    there = fields_of(data.found)
    shared = [name for name in fields if name in there]
    everyone = range(len(data.found))
    if shared:
        return [
            index
            for index in everyone
            if all(joined(data.found[index].fields.get(name, "")) == joined(fields[name]) for name in shared)
        ]
    folder = file.rpartition("/")[0]
    below = [index for index in everyone if folder and data.found[index].files[0].startswith(folder + "/")]
    return below or list(everyone)


def drafts_of(rule: MaskRule, data: Data, key: str, several: Sequence[Annotated]) -> Drafts:
    """Of one case; `several` is empty where nothing tells of it."""
    faults = [fault for one in several for fault in one.faults]
    if faults:
        data.account.leave(WRONG, f"{key}: {faults[0]}" + (f" and {len(faults) - 1} more" if len(faults) > 1 else ""))
        return None
    if not several:
        return without(rule, key, data)
    by_number = {number: name for name, number in rule.values.items()}
    made: list[Draft] = []
    for one in several:
        draft = Draft(rule, size=one.size)
        for mark in one.marks:
            name = mark.structure
            if mark.number is not None and by_number:
                if mark.number not in by_number:
                    continue  # a number that the rules do not name counts as background
                name = by_number[mark.number]
            if rule.structure and rule.kind in _LISTS:
                name = rule.structure  # what is marked belongs to one
            name = name or rule.structure or f"structure {mark.number}"
            draft.marks.append(Mark(name, mark.kind, mark.numbers, mark.number))
        if draft.marks:
            made.append(draft)
    return made


def object_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """DICOM SEG and RTSTRUCT: by the series that the object refers to, else by the fields of its path."""
    series = headers(data.root, [case.files[0] for case in data.found], ("SeriesInstanceUID", "FrameOfReferenceUID"))
    cases: dict[str, list[int]] = defaultdict(list)
    frames: dict[str, list[int]] = defaultdict(list)
    for index, case in enumerate(data.found):
        if uid := series[case.files[0]].get("SeriesInstanceUID"):
            cases[uid].append(index)
        if uid := series[case.files[0]].get("FrameOfReferenceUID"):
            frames[uid].append(index)
    held: dict[int, list[Draft]] = {}
    when: dict[str, Order | None] = {}
    taken = compiled(rule.files, f"masks ({rule.kind})")
    objects = [file for file in data.images if any(one.match(file) is not None for one in taken)]
    if not objects:
        raise RulesError(f"masks ({rule.kind}): no file fits {', '.join(rule.files)}{nearest('', data.images)}")
    if rule.latest is not None:
        when = _dates(rule.latest, objects, data)
    for file in objects:
        uids, names = _described(data.root / file, rule.kind)
        members = [index for uid in uids for index in cases.get(uid, ())]
        if not members:  # some structure sets name the frame of reference of their series alone
            framed = [index for uid in uids for index in frames.get(uid, ())]
            members = framed if len(framed) == 1 else []
        if names is None:
            data.account.leave("DICOM object that cannot be read: export it again", file)
        elif not members:
            data.lone.append(file)
        for index in dict.fromkeys(members if names is not None else ()):
            named = {"nonzero": rule.structure} if rule.structure else {name: name for name in names or ()}
            held.setdefault(index, []).append(Draft(rule, (file,), named))
    for index, several in held.items() if rule.latest is not None else ():
        last = max((date for draft in several if (date := when[draft.files[0]]) is not None), default=None)
        held[index] = [draft for draft in several if when[draft.files[0]] == last]
    return [held[index] if index in held else without(rule, case.key, data) for index, case in enumerate(data.found)]


def _dates(keyword: str, objects: Sequence[str], data: Data) -> dict[str, Order | None]:
    """Raises RulesError."""
    read = headers(data.root, objects, (checked(keyword),))
    try:
        order = orders([read[file].get(keyword, "") for file in objects])
    except ValueError as error:
        raise RulesError(f"masks, latest, header {keyword}: {error}") from None
    return dict(zip(objects, order, strict=True))


def _described(path: Path, kind: str) -> tuple[list[str], list[str] | None]:
    """Series that an object refers to, and the names of its structures; None where it cannot be read."""

    def read() -> tuple[list[str], list[str] | None]:
        found = opened(path, _NAMES[kind])
        if kind == "dicom_seg":
            uids = [str(one.SeriesInstanceUID) for one in getattr(found, "ReferencedSeriesSequence", ())]
            return uids, list(dict.fromkeys(segment_name(item) for item in found.SegmentSequence))
        names = {
            int(item.ROINumber): str(getattr(item, "ROIName", "")).strip() for item in found.StructureSetROISequence
        }
        named = [name or f"structure {number}" for number, name in names.items()]
        return list(dict.fromkeys(_series_of(found) or _frames_of(found))), list(dict.fromkeys(named))

    try:
        return guarded(path, read)
    except BadImage:
        return [], None


def _frames_of(found: Any) -> list[str]:
    frames = getattr(found, "ReferencedFrameOfReferenceSequence", ())
    return [str(uid) for frame in frames if (uid := getattr(frame, "FrameOfReferenceUID", ""))]


def _series_of(found: Any) -> list[str]:
    return [
        str(series.SeriesInstanceUID)
        for frame in getattr(found, "ReferencedFrameOfReferenceSequence", ())
        for study in getattr(frame, "RTReferencedStudySequence", ())
        for series in getattr(study, "RTReferencedSeriesSequence", ())
    ]
