"""Trusted probe: what is true of an index and its files. Reads only; runs in the sandbox, in the workspace.

    python verify_index.py --index index.jsonl --meta index_meta.json      (data below $M3_DATA)

The last line of stdout is one JSON object, whatever happens. `errors` holds what no other field tells; `ok` is true
when it is empty, the lists of faults are too, and train and test have samples. Lists are cut at 20 entries; the
`..._count` beside each is whole. Every file is looked up; contents are read as far as the budgets of time and bytes
go, and `sampled` / `digests_complete` say when they did not reach the end.
"""

import argparse
import json
import math
import os
import random
import stat
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _labels import SHOWN, cut, look_at_labels, unlearnable  # type: ignore[import-not-found]

from shared.trainkit.imagefile import ImageFacts, inspect_image, suffix_of
from shared.trainkit.index import parse_index, sample_digest
from shared.trainkit.indexrules import (
    SEGMENTATIONS,
    SPLITS,
    Row,
    counted_as,
    meta_problems,
    outside,
    row_problems,
)

THREADS = 8
FAULTS = (
    "patients_on_both_sides",
    "duplicates_across_splits",
    "missing_files",
    "unreadable",
    "files_outside",
    "labels_not_in_meta",
    "label_in_attributes",
    "mask_faults",
)
"""Lists that must be empty; copies on one side are told and do no harm."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--index", type=Path, default=Path("index.jsonl"))
    parser.add_argument("--meta", type=Path, default=Path("index_meta.json"))
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for opening files, and again for comparing contents"
    )
    parser.add_argument("--digest-bytes", type=int, default=4 << 30, help="read at most so much to find copies")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        facts = verify(options.index, options.meta, _data_root(), options.seconds, options.digest_bytes)
    except Exception as error:  # the caller reads facts, never a traceback
        facts = {"ok": False, "errors": [f"{type(error).__name__}: {error}"]}
    facts["seconds"] = round(time.monotonic() - began, 2)
    sys.stdout.flush()
    print(json.dumps(facts, ensure_ascii=True), flush=True)


def verify(index: Path, meta_path: Path, root: Path, seconds: float, digest_bytes: int) -> dict[str, Any]:
    rows, errors = parse_index(index.read_text(encoding="utf-8"))
    meta = _read_meta(meta_path, errors)
    errors += meta_problems(meta) if meta else []
    # Rows are held against the label names below, class by class, so that one new class is one sentence.
    errors += row_problems(rows, None)
    sound = [row for row in rows if not row_problems([row], None)]
    facts: dict[str, Any] = {"ok": False, "errors": errors, "rows": len(rows), **_sides(sound)}
    facts |= look_at_labels(sound, meta)
    masks = meta.get("task") in SEGMENTATIONS
    files, sizes = _look_up(rows, root, masks)
    facts |= files
    present = [row for row in sound if all(file in sizes for file in row["files"])]
    facts |= _copies(present, sizes, root, seconds, digest_bytes)
    facts |= _open_files(sizes, root, seconds)
    facts["geometry"]["files_per_sample"] = _spread([len(row["files"]) for row in sound])
    facts["geometry"]["extensions"] = _top(
        Counter(suffix_of(file) or "(none)" for row in sound for file in row["files"])
    )
    facts["mask_faults"] = []
    if masks:
        from _masks import look_at_masks  # type: ignore[import-not-found]

        seen = look_at_masks(sound, sizes, root, meta, seconds)
        facts["geometry"] |= seen.pop("geometry")
        facts |= seen | {"sampled": facts["sampled"] or seen["masks_sampled"]}
        errors += [f"structure {name!r} is in no mask of train" for name in facts["structures_not_trained"]]
    trained = facts["counts"]["train"]
    errors += unlearnable(sound, meta, trained)
    facts["meta"] = meta
    facts["errors_count"] = len(errors)
    facts["errors"] = errors[: 2 * SHOWN]
    facts["ok"] = not errors and bool(trained and facts["counts"]["test"]) and not any(facts[kind] for kind in FAULTS)
    return facts


def _data_root() -> Path:
    folder = os.environ.get("M3_DATA")
    if not folder or not Path(folder).is_dir():
        raise FileNotFoundError(f"M3_DATA is {folder!r}, which is no folder: the dataset is not mounted")
    return Path(folder).resolve()


def _read_meta(path: Path, errors: list[str]) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        errors.append(f"{path.name} cannot be read: {error}")
        return {}
    if not isinstance(meta, dict):
        errors.append(f"{path.name} is not a JSON object")
        return {}
    return {"label_names": [], **meta}


def _sides(rows: Sequence[Row]) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = {side: Counter() for side in SPLITS}
    patients: dict[str, set[str]] = {side: set() for side in SPLITS}
    for row in rows:
        counts[row["split"]].update(counted_as(row["label"]))
        patients[row["split"]].add(row["patient"])
    times = Counter(patient for members in patients.values() for patient in members)
    both = sorted(patient for patient, count in times.items() if count > 1)
    return {
        "counts": {side: dict(sorted(found.items())) for side, found in counts.items()},
        "patients": {side: len(members) for side, members in patients.items()},
        **cut("patients_on_both_sides", both),
    }


def _look_up(rows: Sequence[Row], root: Path, masks: bool) -> tuple[dict[str, Any], dict[str, int]]:
    """Where every listed file is: facts, and the size of those that are there and below the dataset's folder."""
    lists = [row["files"] for row in rows if isinstance(row.get("files"), list)]
    lists += [[row["target"]] for row in rows if masks]
    listed = list(dict.fromkeys(file for files in lists for file in files if isinstance(file, str) and file))
    strays = [file for file in listed if outside(file)]
    inside = sorted(set(listed) - set(strays))
    # Links are followed once a folder, not once a file.
    parents = {folder: os.path.realpath(root / folder) for folder in {file.rpartition("/")[0] for file in inside}}
    base = str(root)

    def look(file: str) -> int | None:
        """Size; None when missing, -1 when outside."""
        try:
            folder, _, name = file.rpartition("/")
            path = f"{parents[folder]}/{name}"
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                path = os.path.realpath(path)
                found = Path(path).stat()
            if os.path.commonpath([base, path]) != base:
                return -1
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        except OSError:
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        found = dict(zip(inside, pool.map(look, inside, chunksize=256), strict=True))
    missing = [file for file, size in found.items() if size is None]
    strays += [file for file, size in found.items() if size == -1]
    sizes = {file: size for file, size in found.items() if size is not None and size >= 0}
    return {**cut("missing_files", missing, "missing_count"), **cut("files_outside", strays)}, sizes


def _copies(rows: Sequence[Row], sizes: dict[str, int], root: Path, seconds: float, budget: int) -> dict[str, Any]:
    """Samples with the same bytes. Only samples whose files have equal sizes can be; the others are not read."""
    alike: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in rows:
        alike[tuple(sizes[file] for file in row["files"])].append(row)
    candidates = sorted((size for size, members in alike.items() if len(members) > 1), key=sum)
    until = time.monotonic() + seconds

    def digest(row: Row) -> str | None:
        if time.monotonic() > until:
            return None
        try:
            return sample_digest(root / file for file in row["files"])
        except OSError:
            return None

    queue: list[Row] = []
    for size in candidates:
        budget -= sum(size) * len(alike[size])
        if budget < 0:
            break
        queue += alike[size]
    with ThreadPoolExecutor(THREADS) as pool:
        digests = list(pool.map(digest, queue))
    same: dict[str, list[Row]] = defaultdict(list)
    for row, found in zip(queue, digests, strict=True):
        if found is not None:
            same[found].append(row)
    pairs = [(members[0], other) for members in same.values() for other in members[1:]]
    # A group of copies is told by pairs with its first: of all, and of those that are on another side.
    across = [(one, other) for one, other in pairs if one["split"] != other["split"]]
    return {
        **cut("duplicate_samples", _names(pairs)),
        **cut("duplicates_across_splits", _names(across)),
        "digests_complete": budget >= 0 and None not in digests,
    }


def _names(pairs: Iterable[tuple[Row, Row]]) -> list[list[str]]:
    return sorted(sorted((one["sample_id"], other["sample_id"])) for one, other in pairs)


def _open_files(sizes: dict[str, int], root: Path, seconds: float) -> dict[str, Any]:
    files = sorted(sizes)
    # Shuffled, so that what the budget allows is a fair sample of the whole.
    random.Random(0).shuffle(files)
    until = time.monotonic() + seconds

    def look(file: str) -> ImageFacts | None:
        return inspect_image(root / file) if time.monotonic() <= until else None

    with ThreadPoolExecutor(THREADS) as pool:
        looks = [(file, seen) for file, seen in zip(files, pool.map(look, files, chunksize=64), strict=True) if seen]
    bad = sorted(({"file": file, "error": seen.error} for file, seen in looks if seen.error), key=str)
    lows = [seen.low for _, seen in looks if seen.low is not None]
    highs = [seen.high for _, seen in looks if seen.high is not None]
    return {
        **cut("unreadable", bad, "unreadable_count"),
        "checked_files": len(looks),
        "sampled": len(looks) < len(files),
        "geometry": {
            "image_sizes": _top(Counter(seen.size for _, seen in looks if seen.size)),
            "intensity": {"min": min(lows), "max": max(highs)} if lows and highs else {},
        },
    }


def _top(counter: Counter[str]) -> dict[str, int]:
    return dict(counter.most_common(SHOWN))


def _spread(values: Sequence[int]) -> dict[str, int]:
    return {"min": min(values), "median": math.floor(median(values)), "max": max(values)} if values else {}


if __name__ == "__main__":
    main()
