"""Reading a dataset's layout off previews and a card: where the class, the patient and the sample stand. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from shared.trainkit.folders import ID_NAME, PLAIN_NAME
from shared.trainkit.patients import COLUMN

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".nii", ".nii.gz", ".dcm", ".npy", ".mha", ".nrrd", ".pt"}
VOLUMES = {".nii", ".nii.gz", ".npy", ".mha", ".nrrd", ".pt"}
_SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}
_PATIENT = re.compile(rf"{COLUMN.pattern}|case_?id|exam_?id", re.IGNORECASE)
_LABEL = r"label|class|diag|group|target|category|finding|grade|status|outcome"
_FILE = r"path|file|image|volume|scan|slice|\bid\b|name"


@dataclass(frozen=True)
class Layout:
    """What the index script is told (its DECISIONS, less the plan's caps)."""

    layout: Literal["folders", "table"]
    sample: Literal["file", "folder"]
    grouping: Literal["stated", "derived", "inferred"]
    grouping_from: str
    root: str = ""
    """Folder below which the classes stand, relative to the dataset."""
    class_level: int = 0
    """Levels below `root`."""
    patient_level: int | None = None
    """Levels below the class folder."""
    patient_pattern: str | None = None
    split_level: int | None = None
    table: str = ""
    label_column: str = ""
    file_column: str = ""
    patient_column: str = ""
    split_column: str = ""
    named_by_card: bool = False
    """The card names a column of the table."""


def leaf_folders(data: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Parts of the folders in which image files were seen, from the preview's examples."""
    seen = {PurePosixPath(path).parts[:-1] for path in examples(data) if image_suffix(path) in IMAGES}
    return sorted(seen)


def examples(data: Mapping[str, Any]) -> list[str]:
    """Every relative file path that the preview shows."""
    paths = list(data.get("tree", []))
    for level in data.get("levels", []):
        paths += level.get("file_examples", [])
    return list(dict.fromkeys(str(path) for path in paths))


def image_suffix(path: str) -> str:
    low = path.lower()
    return ".nii.gz" if low.endswith(".nii.gz") else PurePosixPath(low).suffix


def folder_layout(data: Mapping[str, Any], dimensions: int, tables: Mapping[str, Any], card: str) -> Layout | None:
    """Class folders: the images stand below two or more folders, at least as deep as the class."""
    leaves = leaf_folders(data)
    if not leaves:
        return None
    root: tuple[str, ...] = ()
    while True:  # wrapper folders that hold everything
        heads = {leaf[len(root)] for leaf in leaves if len(leaf) > len(root)}
        if len(heads) != 1 or any(len(leaf) == len(root) for leaf in leaves):
            break
        root += (heads.pop(),)
    heads = {leaf[len(root)] for leaf in leaves if len(leaf) > len(root)}
    split_level = None
    class_level = 0
    if heads and {head.lower() for head in heads} <= _SPLITS:
        split_level, class_level = 0, 1
    classes = {leaf[len(root) + class_level] for leaf in leaves if len(leaf) > len(root) + class_level}
    if not 2 <= len(classes) <= 50 or all(ID_NAME.fullmatch(name) for name in classes):
        return None  # folders of patients are no classes
    below = sorted(len(leaf) - len(root) - class_level - 1 for leaf in leaves if len(leaf) > len(root) + class_level)
    deepest = below[-1]
    suffixes = {image_suffix(path) for path in examples(data)} & IMAGES
    slices = dimensions == 3 and not suffixes & VOLUMES
    if slices and deepest == 0:
        return None  # single images straight in the class folder are no scans
    grouping: Literal["stated", "derived", "inferred"]
    if slices:
        patient_level = 0
        grouping = "derived"
        says = "the folder level below the class" + (" (scans stand below it)" if deepest >= 2 else "")
        if deepest < 2:
            grouping, says = "inferred", "each scan folder counts as a patient of its own; nothing tells them apart"
    elif deepest >= 1:
        patient_level, grouping, says = 0, "derived", "the folder level below the class"
    else:
        return _by_name(root, class_level, split_level, data)
    stated = patient_column_of(
        tables, {leaf[len(root) + class_level + 1] for leaf in leaves if len(leaf) > len(root) + class_level + 1}
    )
    if stated:
        grouping, says = "stated", f"the folder level below the class, which {stated} names as the patient"
    return Layout(
        layout="folders",
        sample="folder" if slices else "file",
        grouping=grouping,
        grouping_from=says,
        root="/".join(root),
        class_level=class_level,
        patient_level=patient_level,
        split_level=split_level,
    )


def single_class(data: Mapping[str, Any], said: str) -> list[Layout]:
    """The one folder that holds everything, if request or card name it: then the dataset has one class only."""
    leaves = leaf_folders(data)
    for depth in reversed(range(min(map(len, leaves), default=0))):
        names = {leaf[: depth + 1] for leaf in leaves}
        name = leaves[0][depth]
        known = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said, re.IGNORECASE)
        if len(names) == 1 and known and not PLAIN_NAME.fullmatch(name) and not ID_NAME.fullmatch(name):
            says = "the folder level below the class"
            deeper = any(len(leaf) > depth + 1 for leaf in leaves)
            return [
                Layout(
                    layout="folders", sample="file", grouping="derived", grouping_from=says,
                    root="/".join(leaves[0][:depth]), patient_level=0 if deeper else None,
                )
            ]  # fmt: skip
    return []


def _by_name(root: tuple[str, ...], class_level: int, split_level: int | None, data: Mapping[str, Any]) -> Layout:
    """Files straight in the class folders: a shared prefix before a separator and number tells patients apart."""
    stems = [PurePosixPath(path).name.split(".")[0] for path in examples(data) if image_suffix(path) in IMAGES]
    prefix = r"^[A-Za-z]*\d{3,}(?=[_-])"
    matched = sum(bool(re.search(prefix, stem)) for stem in stems)
    if stems and matched >= 0.8 * len(stems):
        return Layout(
            layout="folders", sample="file", grouping="derived", root="/".join(root), class_level=class_level,
            split_level=split_level, patient_pattern=prefix, grouping_from="the number at the head of the file name",
        )  # fmt: skip
    return Layout(
        layout="folders", sample="file", grouping="inferred", root="/".join(root), class_level=class_level,
        split_level=split_level, grouping_from="each file counts as a patient of its own; nothing tells them apart",
    )  # fmt: skip


def columns_of(table: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Column name -> its facts in the preview, with the values of the first rows added as `seen`."""
    rows = [row for row in table.get("first_rows", []) if isinstance(row, Mapping)]
    return {
        str(name): {**facts, "seen": [row[name] for row in rows if row.get(name) not in (None, "")]}
        for name, facts in dict(table.get("columns", {})).items()
    }


def patient_column_of(tables: Mapping[str, Any], names: set[str]) -> str | None:
    """The table and column whose values are the names of patient folders."""
    for path, table in tables.items():
        for name, column in columns_of(table).items():
            if _PATIENT.search(name) and values_of(column) & names:
                return f"column {name!r} of {PurePosixPath(path).name}"
    return None


def values_of(column: Mapping[str, Any]) -> set[str]:
    """The values of a column that the preview shows, as text."""
    shown = [*column.get("values", {}), *column.get("most_common", {}), *column.get("seen", [])]
    return {str(value) for value in shown}


def table_layout(data: Mapping[str, Any], dimensions: int, tables: Mapping[str, Any], card: str) -> Layout | None:
    """A table with a class column and a column that names the files, as the card or the names of columns say."""
    stems = {PurePosixPath(path).name.split(".")[0].lower() for path in examples(data)}
    if dimensions == 3:  # a row may name a scan's folder
        stems |= {leaf[-1].lower() for leaf in leaf_folders(data) if leaf}
    quoted = re.findall(r"[‘’'\"“”]([^‘’'\"“”]{1,60})[‘’'\"“”]", card)
    best: tuple[int, Layout] | None = None
    for path, table in tables.items():
        columns = columns_of(table)
        named = [name for name in quoted if name in columns]
        label = _label_column(columns, named, card)
        file = _file_column(columns, named, stems, label)
        if not label or not file:
            continue
        patient = next((name for name in columns if _PATIENT.search(name) and name != file), "")
        split = next(
            (name for name in columns if re.fullmatch(r"split|set|partition|fold_?type", name, re.IGNORECASE)), ""
        )
        suffixes = {image_suffix(example) for example in examples(data)} & IMAGES
        slices = dimensions == 3 and not suffixes & VOLUMES
        layout = Layout(
            layout="table",
            sample="folder" if slices else "file",
            grouping="stated" if patient else "inferred",
            grouping_from=f"column {patient!r}" if patient else "each row counts as a patient of its own",
            table=path,
            label_column=label,
            file_column=file,
            patient_column=patient,
            split_column=split,
            named_by_card=label in named or file in named,
        )
        score = 2 * (label in named) + 2 * (file in named) + bool(patient)
        if best is None or score > best[0]:
            best = (score, layout)
    return best[1] if best else None


def _label_column(columns: Mapping[str, Any], named: list[str], card: str) -> str | None:
    def few(name: str) -> bool:
        count = columns[name].get("distinct")
        return isinstance(count, int) and 2 <= count <= 50 and not columns[name].get("unique")

    for name in named:  # "... 'Group' (which is the class label ..."
        if re.search(
            # In its quotes: the bare word may stand before "label" by chance, as in "the file labels.csv".
            rf"['\"‘’“”]{re.escape(name)}['\"‘’“”]"
            r"\W{0,3}\s*\(?\s*(?:which )?(?:is|are|holds|gives)?\s*(?:the )?(?:class|label|diagnos)",
            card,
        ):
            return name
    candidates = [name for name in named if few(name)] or [name for name in columns if few(name)]
    candidates = [name for name in candidates if re.search(_LABEL, name, re.IGNORECASE)] or (
        candidates if named else []
    )
    return candidates[0] if candidates else None


def _file_column(columns: Mapping[str, Any], named: list[str], stems: set[str], label: str | None) -> str | None:
    def hits(name: str) -> int:
        values = {
            PurePosixPath(value.replace("\\", "/")).name.split(".")[0].lower() for value in values_of(columns[name])
        }
        return len(values & stems)

    for name in named:
        if name != label and (hits(name) or re.search(_FILE, name, re.IGNORECASE)):
            return name
    ranked = sorted(
        ((hits(name), bool(re.search(_FILE, name, re.IGNORECASE)), name) for name in columns if name != label),
        reverse=True,
    )
    return ranked[0][2] if ranked and ranked[0][0] else None
