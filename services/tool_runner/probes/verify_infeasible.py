"""Trusted probe: is it true that these data cannot support the request? Looks at the dataset itself, below $M3_DATA.

    python verify_infeasible.py --claim one_class --task diagnosis --accounts accounts.json

The last line of stdout is one JSON object, whatever happens: `holds` is true when the claim was confirmed, `errors`
says why it was not. Accounts are held against the files: every image must be in a row, or be unreadable.
"""

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from shared.trainkit.folders import ID_NAME, PLAIN_NAME
from shared.trainkit.imagefile import IMAGE_SUFFIXES, is_hidden, readable, suffix_of
from shared.trainkit.index import SEGMENTATIONS, labels_of
from shared.trainkit.listings import records
from shared.trainkit.masks import MASK_SUFFIXES, looks_like_mask
from shared.trainkit.names import words_of
from shared.trainkit.patients import COLUMN as PATIENT
from shared.trainkit.reports.columns import sections_of
from shared.trainkit.reports.tables import read_tables

CLAIMS = ("no_images", "nothing_readable", "no_labels", "one_class", "one_patient")
FEW = range(2, 51)
"""So many distinct names or values can be classes."""
_CHECKED = 300
"""Files that are spot-checked; of fewer all are."""
_LARGEST = 200 << 20
_LABEL = re.compile(r"label|class|diag|group|target|category|finding|grade|status|outcome", re.IGNORECASE)


class Dataset:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.images: list[str] = []
        self.tables: list[str] = []
        self.headers = 0
        """Files of another name that begin like an image."""
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if not is_hidden(name))
            for name in sorted(name for name in names if not is_hidden(name)):
                relative = Path(folder, name).relative_to(root).as_posix()
                if suffix_of(name) in IMAGE_SUFFIXES:
                    self.images.append(relative)
                elif suffix_of(name) in (".csv", ".tsv", ".json", ".jsonl"):
                    self.tables.append(relative)
                elif _begins_like_image(Path(folder, name)):
                    self.headers += 1
        self.until = time.monotonic() + 240

    def opens(self, names: Sequence[str]) -> list[str]:
        """Those of a fair sample of `names` that open. TimeoutError when the sample could not be looked at."""
        picked = names if len(names) <= _CHECKED else random.Random(0).sample(list(names), _CHECKED)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(self._opens, picked))
        return [name for name, good in zip(picked, found, strict=True) if good]

    def _opens(self, name: str) -> bool:
        self._in_time()
        return readable(self.root / name) is None

    def _in_time(self) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError("there was no time to look at enough files; nothing is confirmed")

    def masks(self) -> list[str]:
        """Files that look like masks, by their names or by what a sample of them holds."""
        usable = [name for name in self.images if suffix_of(name) in MASK_SUFFIXES]
        named = [name for name in usable if any(words_of(part) == "mask" for part in PurePosixPath(name).parts)]
        if named:
            return named
        picked = usable if len(usable) <= _CHECKED else random.Random(0).sample(usable, _CHECKED)
        return [name for name in picked if self._is_mask(name)]

    def _is_mask(self, name: str) -> bool:
        self._in_time()
        try:
            return looks_like_mask(self.root / name)
        except Exception:  # what cannot be read is no mask that could be used
            return False


def verify(claim: str, task: str, accounts_path: str | None) -> dict[str, Any]:
    """Facts: `holds`, `errors`, and how much was looked at."""
    folder = os.environ.get("M3_DATA")
    if not folder or not Path(folder).is_dir():
        raise FileNotFoundError("the dataset is not mounted")
    data = Dataset(Path(folder).resolve())
    facts: dict[str, Any] = {"claim": claim, "images": len(data.images), "tables": len(data.tables)}
    if claim == "no_images":
        errors = [f"the dataset holds {len(data.images)} images, such as {data.images[0]}"] if data.images else []
        if data.headers:
            errors.append(f"{data.headers} files are images by their first bytes, whatever their names say")
    elif not data.images:
        errors = ["the dataset holds no images at all: that is the claim no_images"]
    elif claim == "nothing_readable":
        good = data.opens(data.images)
        facts["opened"] = min(len(data.images), _CHECKED)
        errors = [f"{len(good)} images can be opened, such as {good[0]}"] if good else []
    else:
        rows, errors = account_for(data, accounts_path)
        facts["rows"] = len(rows)
        if not errors:
            look = {"no_labels": no_labels, "one_class": one_class, "one_patient": one_patient}[claim]
            errors = look(data, rows, task)
    return {**facts, "holds": not errors, "errors": errors[:20]}


def account_for(data: Dataset, path: str | None) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Rows of the accounts, and what is wrong with them as accounts of every image."""
    if path is None:
        return [], ["this claim needs accounts: a JSON file that accounts for every image"]
    source = Path(path)
    if not source.resolve().is_relative_to(Path.cwd().resolve()) or not source.is_file():
        return [], [f"{path} is no file of the workspace"]
    if source.stat().st_size > _LARGEST:
        return [], [f"{path} is larger than {_LARGEST} bytes"]
    try:
        said = json.loads(source.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        return [], [f"{path} is not JSON: {error}"]
    rows = said.get("rows") if isinstance(said, dict) else None
    excluded = said.get("excluded", {}) if isinstance(said, dict) else None
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows) or not isinstance(excluded, dict):
        return [], [
            f"{path} must hold rows with files, patient, label and target, and what was excluded for which reason"
        ]
    left_out = [str(name) for names in excluded.values() if isinstance(names, list) for name in names]
    covered = {name for row in rows for name in [*row["files"], row.get("target")] if name} | set(left_out)
    errors = []
    missing = sorted(set(data.images) - covered)
    if missing:
        errors.append(f"{len(missing)} images are not accounted for, such as {missing[0]}")
    invented = sorted({name for row in rows for name in row["files"]} - set(data.images))
    if invented:
        errors.append(f"{len(invented)} files of the rows are no images of the dataset, such as {invented[0]}")
    # Whatever reason was written: an image may only be left out when it cannot be read.
    good = data.opens(sorted(set(left_out) & set(data.images)))
    if good:
        errors.append(f"{len(good)} images that were left out can be opened, such as {good[0]}")
    return rows, errors


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("files"), list)
        and all(isinstance(name, str) for name in row["files"])
        and isinstance(row.get("patient"), str)
        and all(row.get(key) is None or isinstance(row[key], str) for key in ("label", "target"))
    )


def no_labels(data: Dataset, rows: Sequence[Mapping[str, Any]], task: str) -> list[str]:
    errors = []
    if labelled := [row for row in rows if row.get("label") or row.get("target")]:
        errors.append(f"{len(labelled)} rows of the accounts have a label or mask, such as {labelled[0]['files'][:1]}")
    if task in SEGMENTATIONS:
        if masks := data.masks():
            errors.append(f"{len(masks)} files look like masks, such as {masks[0]}")
        return errors
    if task == "report_generation":
        tables = read_tables(data.root)
        told = [f"column {column!r} of {name}" for name, held in sections_of(tables, "").items()
                for column in held.values()]  # fmt: skip
        return errors + [f"{text} holds texts that could be reports" for text in told]
    if folders := class_folders(row["files"][0] for row in rows if row["files"]):
        errors.append(f"the folders {', '.join(folders[:5])} stand at one level and could be classes")
    for table, column, count in columns(data):
        if count in FEW:
            errors.append(f"column {column!r} of {table} has {count} distinct values and could hold the labels")
    return errors


def one_class(data: Dataset, rows: Sequence[Mapping[str, Any]], task: str) -> list[str]:
    labels = Counter(label for row in rows for label in labels_of(row))
    if task in SEGMENTATIONS:
        return ["a segmentation needs no classes; the claim one_class is for a diagnosis"]
    if len(labels) != 1:
        return [f"the rows of the accounts have {len(labels)} classes, such as {list(labels)[:3]}"]
    errors = []
    if folders := class_folders(row["files"][0] for row in rows if row["files"]):
        errors.append(f"the folders {', '.join(folders[:5])} stand at one level and could be classes")
    for table, column, count in columns(data):
        if count in FEW and _LABEL.search(column):
            errors.append(f"column {column!r} of {table} has {count} distinct values and could hold the labels")
    return errors


def one_patient(data: Dataset, rows: Sequence[Mapping[str, Any]], task: str) -> list[str]:
    answered = [row for row in rows if row.get("label") or row.get("target")] or rows
    patients = {row["patient"] for row in answered}
    if len(patients) != 1:
        return [f"the rows of the accounts have {len(patients)} patients, such as {sorted(patients)[:3]}"]
    patient = patients.pop()
    errors = []
    named = re.compile(rf"(?<![A-Za-z0-9]){re.escape(patient)}(?![A-Za-z0-9])", re.IGNORECASE)
    strangers = [row["files"][0] for row in answered if row["files"] and not named.search(_context(row["files"][0]))]
    stated = [count for _, column, count in columns(data) if PATIENT.search(column)]
    if len(answered) > 1 and strangers and 1 not in stated:
        errors.append(
            f"nothing in the dataset says that {strangers[0]} is of patient {patient}: its path does not, nor a table"
        )
    for table, column, count in columns(data):
        if count > 1 and PATIENT.search(column):
            errors.append(f"column {column!r} of {table} has {count} distinct values")
    if task in SEGMENTATIONS:
        targets = {row.get("target") for row in answered}
        others = [name for name in data.masks() if name not in targets]
        cases = {PurePosixPath(name).name for name in data.opens(others)}
        if len(cases) > 1 and len(targets) == 1:
            errors.append(f"{len(cases)} other readable files look like masks, such as {sorted(cases)[0]}")
    return errors


def _context(file: str) -> str:
    """A path without a suffix, and without a name that is only a number: 1.png is in many folders."""
    path = PurePosixPath(file)
    stem = path.name.split(".")[0]
    return str(path.parent) if stem.isdecimal() else str(path.with_name(stem))


def class_folders(files: Iterable[str]) -> list[str]:
    """Names of folders side by side that could be classes: 2 to 50, not numbered, each with images below it."""
    below: dict[PurePosixPath, set[str]] = defaultdict(set)
    for file in files:
        parts = PurePosixPath(file).parts[:-1]
        for depth, name in enumerate(parts):
            below[PurePosixPath(*parts[:depth])].add(name)
    for names in below.values():
        if len(names) in FEW and not all(ID_NAME.fullmatch(name) or PLAIN_NAME.fullmatch(name) for name in names):
            return sorted(names)
    return []


def columns(data: Dataset) -> list[tuple[str, str, int]]:
    """(table, column, distinct values) of the tables that name images of the dataset."""
    names = {PurePosixPath(name).name.split(".")[0].lower() for name in data.images}
    stems = names | {folder.lower() for name in data.images for folder in PurePosixPath(name).parts[:-1]}
    found = []
    for table in data.tables[:50]:
        cells: dict[str, set[str]] = defaultdict(set)
        for _, record in records(data.root / table):
            for column, value in record.items():
                if text := str("" if value is None else value).strip():
                    cells[column].add(text)
        tails = {column: {PurePosixPath(v.replace("\\", "/").lower()).name.split(".")[0] for v in values}
                 for column, values in cells.items()}  # fmt: skip
        if any(values & stems for values in tails.values()):
            # A column that only names the files is no label.
            naming = {column for column, values in tails.items() if len(values & names) > 0.5 * len(values)}
            found += [(table, column, len(values)) for column, values in cells.items() if column not in naming]
    return found


def _begins_like_image(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            start = stream.read(352)
    except OSError:
        return False
    magic = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"\x93NUMPY")
    return start.startswith(magic) or start[128:132] == b"DICM" or start[344:347] in (b"n+1", b"ni1")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--claim", choices=CLAIMS, required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--accounts")
    options = parser.parse_args(arguments)
    try:
        facts = verify(options.claim, options.task, options.accounts)
    except Exception as error:  # the caller reads facts, never a traceback
        facts = {"claim": options.claim, "holds": False, "errors": [f"{type(error).__name__}: {error}"]}
    sys.stdout.flush()
    print(json.dumps(facts, ensure_ascii=True), flush=True)


if __name__ == "__main__":
    main()
