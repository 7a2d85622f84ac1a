"""The index in the shapes that the paper's own tools read: train.json, test.json and label_dict.json."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def export(rows: Rows, meta: Mapping[str, Any]) -> object:
    """Diagnosis: path -> [labels]. Segmentation and reports: a list of objects, one a sample."""
    paths = _image_paths(rows)
    if meta["task"] == "diagnosis":
        return {path: _labels(row) for path, row in zip(paths, rows, strict=True)}
    pairs = zip(paths, rows, strict=True)
    if meta["task"] == "report_generation":
        return [{"image_path": path, "findings": row["target"], "impression": ""} for path, row in pairs]
    names = list(meta["label_names"])
    return [{"image_path": path, "label_path": row["target"], "labels": names} for path, row in pairs]


def _labels(row: Mapping[str, Any]) -> list[str]:
    label = row["label"]
    return [label] if isinstance(label, str) else list(label or ())


def _image_paths(rows: Rows) -> list[str]:
    """A single file, or the folder that holds the slices; its first slice where samples share a folder."""
    folders = [_folder(row["files"]) for row in rows]
    shared = {folder for folder, count in Counter(folders).items() if count > 1}
    return [
        row["files"][0] if folder is None or folder in shared else folder
        for row, folder in zip(rows, folders, strict=True)
    ]


def _folder(files: Sequence[str]) -> str | None:
    if len(files) == 1:
        return None
    return os.path.commonpath([str(PurePosixPath(file).parent) for file in files]) or None
