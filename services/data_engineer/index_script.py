"""Make the index of this dataset: one row a sample, split by patient. Run it in the workspace; it only reads the data.

The decisions stand in DECISIONS; everything below them is general.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from shared.trainkit.collect import Collection, stem_of
from shared.trainkit.index import Row, natural_key
from shared.trainkit.listings import DANGLING, read_table

DECISIONS: dict[str, Any] = {}

NOT_WANTED = "label not wanted: the request or the datacard names others"
OUTSIDE = "image outside of the class folders: move it into the folder of its class"
NO_CELL = "row without label or file name: fill it in"
SEVERAL = "row that fits several files: name the file with its folder"


def level(path: Path, number: int | None) -> str | None:
    """Name of the folder at a depth below the dataset; depth 0 is the first."""
    return path.parts[number] if number is not None and number < len(path.parts) else None


def from_folders(found: Collection) -> list[Row]:
    """The class is the name of a folder; a sample is a file, or a folder of slices."""
    root = Path(DECISIONS["root"])
    base = len(root.parts)
    class_at, patient_at, split_at = DECISIONS["class_level"], DECISIONS["patient_level"], DECISIONS["split_level"]
    rows = []
    for folder, files in found.tree.items():
        if not folder.is_relative_to(root):
            continue
        label = level(folder, base + class_at)
        if label is None or (DECISIONS["labels"] and label not in DECISIONS["labels"]):
            found.excluded[OUTSIDE if label is None else NOT_WANTED].append(str(folder))
            continue
        place = None if split_at is None else level(folder, base + split_at)
        below = folder.parts[base + class_at + 1 :]
        single = DECISIONS["sample"] == "file"
        for members in [[path] for path in files] if single else [files]:
            name = str(members[0] if single else folder)
            patient = below[patient_at] if patient_at is not None and patient_at < len(below) else None
            if patient is None and DECISIONS["patient_pattern"]:
                match = re.search(DECISIONS["patient_pattern"], members[0].name)
                patient = match[0] if match else None
            rows.append(
                {
                    "sample_id": name,
                    "patient": patient or (members[0].stem if single else (below[0] if below else name)),
                    "study": name if not single else None,
                    "label": label,
                    "files": [path.as_posix() for path in members],
                    "place": place,
                }
            )
    if len({row["patient"] for row in rows}) < 0.5 * len(rows) and DECISIONS["grouping"] == "inferred":
        rows = [{**row, "patient": row["sample_id"]} for row in rows]  # numbered from 1 again in each folder
    return rows


def from_table(found: Collection) -> list[Row]:
    """The class is a column; a row names its file or folder by path, name or stem."""
    by_name: dict[str, list[list[Path]]] = defaultdict(list)
    for folder, files in found.tree.items():
        if len(files) > 1 and DECISIONS["sample"] == "folder":
            for key in {folder.as_posix(), folder.name}:
                by_name[key.lower()].append(files)
        else:
            for path in files:
                for key in {path.as_posix(), path.name, stem_of(path.name)}:
                    by_name[key.lower()].append([path])
    rows = []
    for record in read_table(found.data / DECISIONS["table"]):
        label = (record.get(DECISIONS["label_column"]) or "").strip()
        wanted = (record.get(DECISIONS["file_column"]) or "").strip()
        if not label or not wanted:
            found.excluded[NO_CELL].append(wanted or "?")
            continue
        if DECISIONS["labels"] and label not in DECISIONS["labels"]:
            found.excluded[NOT_WANTED].append(wanted)
            continue
        name = wanted.replace("\\", "/").lower().rstrip("/")
        tail = name.rsplit("/", 1)[-1]
        fitting = by_name.get(name) or by_name.get(tail) or by_name.get(re.sub(r"(\.nii)?\.\w+$", "", tail))
        if not fitting or len(fitting) > 1:
            found.excluded[SEVERAL if fitting else DANGLING].append(wanted)
            continue
        patient = (record.get(DECISIONS["patient_column"] or "") or "").strip()
        files = fitting[0]
        rows.append(
            {
                "sample_id": files[0].as_posix() if len(files) == 1 else files[0].parent.as_posix(),
                "patient": patient or tail,
                "study": None,
                "label": label,
                "files": [path.as_posix() for path in files],
                "place": (record.get(DECISIONS["split_column"] or "") or "").strip() or None,
            }
        )
    return rows


def end_if_hopeless(found: Collection, rows: list[Row]) -> None:
    """No classes, one class or one patient: no index can be made, and here is why."""
    if not rows:
        found.end_without_rows("no readable image has a label")
    labels, patients = {row["label"] for row in rows}, {row["patient"] for row in rows}
    if len(labels) == 1:
        found.cannot(f"all {len(rows)} samples have the one class {labels.pop()!r}", "one_class", rows)
    if len(patients) == 1:
        found.cannot(f"all {len(rows)} samples belong to the one patient {patients.pop()!r}", "one_patient", rows)


def main() -> None:
    found = Collection()
    if not found.files:
        found.end_without_rows("")
    if DECISIONS["layout"] == "none":
        found.open_all(found.files)
        if len(found.unreadable) == len(found.files):
            found.end_without_rows("")
        found.cannot("nothing in the dataset gives its images a label: no class folders and no table", "no_labels")
    rows = from_table(found) if DECISIONS["layout"] == "table" else from_folders(found)
    listed = len(rows)
    rows = found.drop_unreadable(rows)
    end_if_hopeless(found, rows)
    rows = found.drop_copies(rows)
    try:
        rows, split_from = found.split(
            rows,
            seed=DECISIONS["seed"],
            max_train=DECISIONS["max_train"],
            max_test=DECISIONS["max_test"],
            balance=DECISIONS["balance"],
        )
    except ValueError as error:
        found.cannot(f"the samples cannot be split: {error}.")
    if DECISIONS["grouping"] == "inferred":
        found.warnings.append(f"patients are inferred: {DECISIONS['grouping_from']}")
    meta = {
        "task": "diagnosis",
        "dimensions": DECISIONS["dimensions"],
        "label_names": sorted({row["label"] for row in rows}, key=natural_key),
        "grouping": DECISIONS["grouping"],
        "grouping_from": DECISIONS["grouping_from"],
        "split_from": split_from,
        "seed": DECISIONS["seed"],
    }
    found.write(rows, meta, DECISIONS["says"], listed)


if __name__ == "__main__":
    main()
