"""Make the index of this dataset: one row a sample, split by patient. Run it in the workspace; it only reads the data.

The decisions stand in DECISIONS; everything below them is general.
"""

import csv
import json
import os
import re
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shared.trainkit.index import IMAGE_SUFFIXES, is_hidden, natural_key, readable, sample_digest, write_index
from shared.trainkit.split import split_by_patient

DECISIONS: dict[str, Any] = {}

DATA = Path(os.environ["M3_DATA"])
excluded: dict[str, list[str]] = defaultdict(list)


def suffix(path: Path) -> str:
    name = path.name.lower()
    return ".nii.gz" if name.endswith(".nii.gz") else path.suffix.lower()


def images(folder: Path) -> dict[Path, list[Path]]:
    """Folder -> its image files, both relative to the dataset, in natural order; hidden files are left out."""
    found: dict[Path, list[Path]] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = sorted((name for name in folders if not is_hidden(name)), key=natural_key)
        here = [Path(root, name) for name in files if not is_hidden(name)]
        here = [path for path in here if suffix(path) in IMAGE_SUFFIXES]
        if here:
            relative = [path.relative_to(DATA) for path in here]
            found[Path(root).relative_to(DATA)] = sorted(relative, key=lambda path: natural_key(path.name))
    return found


def level(path: Path, number: int | None) -> str | None:
    """Name of the folder at a depth below the dataset; depth 0 is the first."""
    return path.parts[number] if number is not None and number < len(path.parts) else None


def from_folders() -> list[dict[str, Any]]:
    """The class is the name of a folder; a sample is a file, or a folder of slices."""
    base = len(Path(DECISIONS["root"]).parts)
    class_at, patient_at, split_at = DECISIONS["class_level"], DECISIONS["patient_level"], DECISIONS["split_level"]
    rows = []
    for folder, files in images(DATA / DECISIONS["root"]).items():
        label = level(folder, base + class_at)
        if label is None or (DECISIONS["labels"] and label not in DECISIONS["labels"]):
            excluded["outside of the class folders" if label is None else "label not wanted"].append(str(folder))
            continue
        place = None if split_at is None else level(folder, base + split_at)
        below = folder.parts[base + class_at + 1 :]
        samples = [files] if DECISIONS["sample"] == "folder" else [[path] for path in files]
        for members in samples:
            single = DECISIONS["sample"] == "file"
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
    return rows


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as handle:
        head = handle.read(65536)
        handle.seek(0)
        try:
            dialect = csv.Sniffer().sniff(head, delimiters=",;\t|")
        except csv.Error:
            dialect = csv.excel
        return list(csv.DictReader(handle, dialect=dialect))


def from_table() -> list[dict[str, Any]]:
    """The class is a column; a row names its file or folder by path, name or stem."""
    by_name: dict[str, list[list[Path]]] = defaultdict(list)
    for folder, files in images(DATA).items():
        if len(files) > 1 and DECISIONS["sample"] == "folder":
            for key in {folder.as_posix(), folder.name}:
                by_name[key.lower()].append(files)
        else:
            for path in files:
                stem = path.name[: -len(suffix(path))] if suffix(path) else path.name
                for key in {path.as_posix(), path.name, stem}:
                    by_name[key.lower()].append([path])
    rows = []
    for record in read_table(DATA / DECISIONS["table"]):
        label = (record.get(DECISIONS["label_column"]) or "").strip()
        wanted = (record.get(DECISIONS["file_column"]) or "").strip()
        if not label or not wanted:
            excluded["row without label or file name"].append(wanted or "?")
            continue
        if DECISIONS["labels"] and label not in DECISIONS["labels"]:
            excluded["label not wanted"].append(wanted)
            continue
        name = wanted.replace("\\", "/").lower().rstrip("/")
        tail = name.rsplit("/", 1)[-1]
        found = by_name.get(name) or by_name.get(tail) or by_name.get(re.sub(r"(\.nii)?\.\w+$", "", tail))
        if not found:
            excluded["row whose file does not exist"].append(wanted)
            continue
        if len(found) > 1:
            excluded["row that fits several files"].append(wanted)
            continue
        patient = (record.get(DECISIONS["patient_column"] or "") or "").strip()
        place = (record.get(DECISIONS["split_column"] or "") or "").strip().lower()
        files = found[0]
        rows.append(
            {
                "sample_id": files[0].as_posix() if len(files) == 1 else files[0].parent.as_posix(),
                "patient": patient or tail,
                "study": None,
                "label": label,
                "files": [path.as_posix() for path in files],
                "place": place or None,
            }
        )
    return rows


def drop_unreadable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A damaged slice is left out of its scan; a scan that lost more than a fifth is left out whole."""
    files = [name for row in rows for name in row["files"]]
    with ThreadPoolExecutor(4) as pool:
        errors = dict(zip(files, pool.map(lambda name: readable(DATA / name), files), strict=True))
    kept = []
    for row in rows:
        good = [name for name in row["files"] if errors[name] is None]
        excluded["unreadable file"] += [name for name in row["files"] if errors[name]]
        if len(good) < 0.8 * len(row["files"]):
            excluded["too many unreadable files in a sample"].append(row["sample_id"])
        else:
            kept.append(row | {"files": good})
    return kept


def drop_copies(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of samples with the same content one is kept; where copies disagree on the label all are dropped."""
    with ThreadPoolExecutor(4) as pool:
        digests = list(pool.map(lambda row: sample_digest([DATA / name for name in row["files"]]), rows))
    same: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row, digest in zip(rows, digests, strict=True):
        same[digest].append(row)
    kept = []
    for copies in same.values():
        if len({row["label"] for row in copies}) > 1:
            excluded["copies with different labels"] += [row["sample_id"] for row in copies]
            continue
        excluded["copy of another sample"] += [row["sample_id"] for row in copies[1:]]
        kept.append(copies[0])
    return kept


def existing_split(rows: list[dict[str, Any]]) -> dict[str, str] | None:
    """The dataset's own split, if it names a test part that has labels."""
    names = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val"}
    names |= {"test": "test", "testing": "test"}
    keep = {row["sample_id"]: names[row["place"].lower()] for row in rows if (row["place"] or "").lower() in names}
    return keep if len(keep) == len(rows) and {"train", "test"} <= set(keep.values()) else None


def main() -> None:
    rows = from_table() if DECISIONS["layout"] == "table" else from_folders()
    found = len(rows)
    rows = drop_copies(drop_unreadable(rows))
    keep = existing_split(rows)
    plain = [{key: value for key, value in row.items() if key != "place"} for row in rows]
    rows = split_by_patient(
        plain,
        seed=DECISIONS["seed"],
        max_train=DECISIONS["max_train"],
        max_test=DECISIONS["max_test"],
        balance=DECISIONS["balance"],
        keep=keep,
    )
    meta = {
        "task": "diagnosis",
        "dimensions": DECISIONS["dimensions"],
        "label_names": sorted({row["label"] for row in rows}, key=natural_key),
        "grouping": DECISIONS["grouping"],
        "grouping_from": DECISIONS["grouping_from"],
        "split_from": "dataset" if keep else "made",
        "seed": DECISIONS["seed"],
        "excluded": {reason: names[:20] for reason, names in excluded.items() if names},
        "excluded_counts": {reason: len(names) for reason, names in excluded.items() if names},
    }
    write_index(Path(), rows, meta)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["split"]][row["label"]] += 1
    print(json.dumps({"found": found, "rows": len(rows), "counts": counts, "excluded": meta["excluded_counts"]}))


if __name__ == "__main__":
    main()
