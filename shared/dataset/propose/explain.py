"""What a dataset has and lacks for a task, in words: for when no rules are found."""

import re
from pathlib import Path

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.dataset.propose.patients import person_of_all
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.mask_looks import all_off_grid
from shared.dataset.survey.survey import Survey, survey
from shared.dataset.tables.column_words import label_likeness
from shared.imaging.formats import refusal

_MOST_CLASSES = 20
_LIKELY = 0.8
"""Of a header to be one of classes."""
_NEEDS = {
    "diagnosis": "classes: folders or parts of names that repeat, or a table with classes whose rows name images",
    "report_generation": "reports: a table, or a text, XML or JSON file a case, that names images",
}


def explain(root: Path | str, task: TaskKind, seen: Survey | None = None) -> str:
    """In a few sentences: what is there, and what is missing or not supported yet. Claims nothing that was not seen."""
    seen = seen or survey(root)
    said = []
    images = seen.images
    refused: dict[str, int] = {}
    for family in seen.families:
        if family.role == "other" and (why := refusal(family.files[0])):
            refused[why] = refused.get(why, 0) + len(family)
    if not images:
        said.append("No file is read as an image." if not refused else "No file of a supported format is an image.")
    else:
        shown = [f"{one.pattern} ({len(one.units):,} {_kind(one.kind, len(one.units))})" for one in images[:3]]
        said.append(f"Images: {', '.join(shown)}{f' and {len(images) - 3} more families' if len(images) > 3 else ''}.")
    tables = [f"{one.file} ({_joins(one.share)})" for one in seen.tables if not one.unread and not one.pattern]
    if tables:
        said.append(f"Tables: {', '.join(tables[:5])}.")
    said += [
        f"{one.file} could not be read: {one.unread}." for one in seen.tables if one.unread and "COCO" not in one.unread
    ][:3]
    masks = [family for family in seen.families if family.role == "mask"]
    if task in SEGMENTATIONS:
        boxed = [
            (table, column.name) for table in seen.tables for column in table.columns if _boxes(table, column.name)
        ]
        if boxed and not masks:
            table, name = boxed[0]
            said.append(f"{table.file} seems to mark regions by numbers (`{name}`), but in no form that is read: not "
                        "supported yet: convert it to COCO.")  # fmt: skip
        elif masks:
            pairs = [pair for one in seen.masks for pair in one.pairs]
            apart = all_off_grid(pairs, seen.looker)
            why = "their names do not lead to the images"
            if apart:
                why = "not one looked at lies on the grid of its image: resample them with nearest neighbours"
            said.append(f"Masks: {', '.join(one.pattern for one in masks[:3])}; {why}.")
            if not apart and any(not one.unread and len(one.rows) > 1 for one in seen.tables):
                said.append("No two columns of a table lead from the images to them, either: name the masks in one "
                            "column, and what the images are called in another.")  # fmt: skip
        else:
            said.append("Nothing was found that marks structures: no label images, run-length codes, COCO, Label "
                        "Studio, YOLO, VOC, labelme, DICOM SEG or RTSTRUCT that belong to images.")  # fmt: skip
    else:
        known = seen.labels if task == "diagnosis" else seen.texts
        beside = _classes_beside(seen) if task == "diagnosis" else ""
        if known:
            said.append(f"Tried without success: {', '.join(one.where for one in known[:4])}.")
        if beside:
            said.append(f"{beside} seems to have classes, but none of its columns names an image in a way that is "
                        "read: not supported yet: add a column with the files' names.")  # fmt: skip
        if not known and not beside:
            said.append(f"Missing: {_NEEDS[task]}.")
        if seen.masks and masks:
            said.append(f"Masks of images are there, though ({', '.join(one.pattern for one in masks[:3])}): a request "
                        "to outline what they mark could be served.")  # fmt: skip
    if (person := person_of_all(seen)) is not None:
        said.append(f"All images are of one patient ({person}): no patient is left to test a model on.")
    said += [f"{count:,} files are {why}." for why, count in sorted(refused.items(), key=lambda item: -item[1])[:3]]
    return " ".join(said)


def _classes_beside(seen: Survey) -> str:
    """A column that is called like classes, in a table that leads to no image."""
    for table in seen.tables:
        for column in table.columns if table.key is None and not table.pattern else ():
            if 2 <= column.distinct <= _MOST_CLASSES and label_likeness(column.name) > _LIKELY:
                return f"Column {column.name} of {table.said}"
    return ""


def _boxes(table: TableLook, column: str) -> bool:
    """Whether cells are lists of numbers in fours or pairs, and no run-length codes."""
    cells = [row[column] for row in table.rows[:200] if row.get(column)]
    lists = [
        cell for cell in cells if re.fullmatch(r"[\[\](){}\d.,;\s-]+", cell) and len(re.findall(r"\d+", cell)) >= 4
    ]
    return len(lists) >= 2 and len(lists) * 2 > len(cells)


def _kind(kind: str, count: int) -> str:
    words = {"slices": "folder of slices", "volume": "volume", "picture": "picture"}
    word = words.get(kind, "file")
    return word if count == 1 else word.replace("folder", "folders") if kind == "slices" else word + "s"


def _joins(share: float) -> str:
    return f"names {share:.0%} of the images" if share else "names no images"
