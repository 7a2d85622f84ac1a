"""From files to an index: what every index script needs, whatever the task. Runs in the sandbox.

A script makes rows with one `Collection`, which keeps account of what is left out. It ends in `write` (an index), or in
`cannot` (no index: a sentence, and an account of every image for the probe that confirms a claim).
"""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from shared.trainkit.imagefile import ImageFacts, inspect_image
from shared.trainkit.index import IMAGE_SUFFIXES, Row, is_hidden, natural_key, sample_digest, suffix_of, write_index
from shared.trainkit.indexrules import counted_as
from shared.trainkit.split import split_by_patient, split_shares

TRUNCATED = "truncated file: copy it again from the source"
UNREADABLE = "unreadable file: copy it again from the source, or convert it to a common format"
HALF_READ = "too many unreadable files in a sample: copy the scan again from the source"
COPY = "copy of another sample: nothing to do, one of them is used"
CONTRADICTION = "copies with different labels: correct the labels, or remove the copies"
VOLUME_4D = "4D volume: export one 3D volume a case"
_SPLITS = {
    **dict.fromkeys(("train", "training", "tr"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "ts"), "test"),
}


def images(data: Path, below: str = "") -> dict[Path, list[Path]]:
    """Folder -> its image files, both relative to `data`, in natural order; hidden files are left out."""
    found: dict[Path, list[Path]] = {}
    for root, folders, files in os.walk(data / below):
        folders[:] = sorted((name for name in folders if not is_hidden(name)), key=natural_key)
        here = [name for name in files if not is_hidden(name) and suffix_of(name) in IMAGE_SUFFIXES]
        if here:
            relative = Path(root).relative_to(data)
            found[relative] = [relative / name for name in sorted(here, key=natural_key)]
    return found


def stem_of(name: str) -> str:
    """File name without its suffix; `.nii.gz` is one suffix."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return last[: len(last) - len(suffix_of(last))]


def existing_split(rows: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """The dataset's own split by the rows' `place`, if it names a test part that has labels."""
    keep = {}
    for row in rows:
        place = str(row.get("place") or "").lower()
        if place in _SPLITS:
            keep[row["sample_id"]] = _SPLITS[place]
    return keep if len(keep) == len(rows) and {"train", "test"} <= set(keep.values()) else None


class Collection:
    def __init__(self, seconds: float = 450.0) -> None:
        self.data = Path(os.environ["M3_DATA"])
        self.excluded: dict[str, list[str]] = defaultdict(list)
        """Reason with its remedy -> files or samples."""
        self.warnings: list[str] = []
        self.oddities: list[str] = []
        self.tree = images(self.data)
        self.files = [path.as_posix() for paths in self.tree.values() for path in paths]
        self.unreadable: dict[str, str] = {}
        """File -> reason, of those that were opened so far."""
        self.opened: dict[str, ImageFacts] = {}
        self._until = time.monotonic() + seconds

    def in_time(self) -> bool:
        """False when the script's time for opening files is used up; what was not opened is told as a warning."""
        return time.monotonic() < self._until

    def open_all(self, files: Iterable[str]) -> None:
        """Find out which files open."""
        new = [file for file in dict.fromkeys(files) if file not in self.opened]

        def look(file: str) -> ImageFacts | None:
            return inspect_image(self.data / file) if self.in_time() else None

        with ThreadPoolExecutor(4) as pool:
            looked = dict(zip(new, pool.map(look, new), strict=True))
        self.opened |= {file: seen for file, seen in looked.items() if seen}
        self.unreadable |= {file: reason_of(seen.error) for file, seen in looked.items() if seen and seen.error}
        if late := [file for file, seen in looked.items() if seen is None]:
            self.warnings.append(f"{len(late)} files were not opened for want of time, such as {late[0]}")

    def drop_unreadable(self, rows: Iterable[Row]) -> list[Row]:
        """A damaged slice is left out of its scan; a scan that lost more than a fifth is left out whole."""
        rows = list(rows)
        self.open_all(name for row in rows for name in row["files"])
        kept = []
        for row in rows:
            good = [name for name in row["files"] if name not in self.unreadable]
            for name in set(row["files"]) - set(good):
                self.excluded[self.unreadable[name]].append(name)
            if any(self.is_4d(name) for name in good):
                self.excluded[VOLUME_4D].append(row["sample_id"])
            elif len(good) >= 0.8 * len(row["files"]):
                kept.append(row | {"files": good})
            elif len(row["files"]) > 1:
                self.excluded[HALF_READ].append(row["sample_id"])
        return kept

    def is_4d(self, name: str) -> bool:
        """Whether a volume that was opened has several time points or channels."""
        size = self.opened[name].size if name in self.opened else None
        axes = (size or "").split("x")[3:] if suffix_of(name) in (".nii", ".nii.gz") else []
        return any(axis != "1" for axis in axes)

    def drop_copies(self, rows: Sequence[Row]) -> list[Row]:
        """Of samples with the same content one is kept; where copies disagree on the label or mask all are dropped."""
        with ThreadPoolExecutor(4) as pool:
            digests = list(pool.map(lambda row: sample_digest([self.data / name for name in row["files"]]), rows))
        same: dict[str, list[Row]] = defaultdict(list)
        for row, digest in zip(rows, digests, strict=True):
            same[digest].append(row)
        kept = []
        for copies in same.values():
            if len(copies) > 1 and len({self._answer(row) for row in copies}) > 1:
                self.excluded[CONTRADICTION] += [row["sample_id"] for row in copies]
                continue
            self.excluded[COPY] += [row["sample_id"] for row in copies[1:]]
            kept.append(copies[0])
        return kept

    def _answer(self, row: Row) -> str:
        target = row.get("target")
        return sample_digest([self.data / target]) if target else str(row.get("label"))

    def split(self, rows: Sequence[Row], *, seed: int, **caps: Any) -> tuple[list[Row], str]:
        """Rows with their split, and where it is from. The dataset's own split is kept where it divides no patient."""
        keep = existing_split(rows)
        plain = [{key: value for key, value in row.items() if key != "place"} for row in rows]
        options: dict[str, Any] = {**split_shares(len({row["patient"] for row in rows})), **caps, "seed": seed}
        tested = {row["patient"] for row in rows if keep and keep[row["sample_id"]] == "test"}
        if keep is not None and len(tested) < 2:
            self.warnings.append(f"the dataset's own split was not kept: {len(tested)} patient in its test part")
        elif keep is not None:
            try:
                return split_by_patient(plain, keep=keep, **options), "dataset"
            except ValueError as error:
                if "patient" not in str(error):
                    raise
                self.warnings.append(f"the dataset's own split was not kept: {error}")
        return split_by_patient(plain, **options), "made"

    def write(self, rows: Sequence[Row], meta: Mapping[str, Any], layout: str, found: int) -> None:
        """Write the index, and print and keep what the Data Engineer tells about it. Raises IndexInvalid."""
        excluded = {reason: names for reason, names in self.excluded.items() if names}
        counts = {reason: len(names) for reason, names in excluded.items()}
        shown = {reason: sorted(names, key=natural_key)[:20] for reason, names in excluded.items()}
        write_index(Path(), rows, {**meta, "excluded": shown, "excluded_counts": counts})
        report(rows, found, counts, layout, self.warnings, self.oddities)

    def cannot(self, problem: str, claim: str | None = None, rows: Iterable[Row] = ()) -> NoReturn:
        """End without an index. With a claim, `rows` and the unreadable files account for every image."""
        said: dict[str, Any] = {"problem": problem.rstrip(".") + (f".{left}" if (left := self.left_out()) else "")}
        if claim is not None:
            said |= {"claim": claim, "accounts": "accounts.json"}
            Path("accounts.json").write_text(json.dumps(self.accounts(rows)), encoding="utf-8")
        print(json.dumps(said))
        raise SystemExit(1)

    def accounts(self, rows: Iterable[Row]) -> dict[str, Any]:
        """Every image of the dataset: in a row, unreadable, or in a row of its own without a label."""
        rows = list(rows)
        told: list[Row] = [{key: row.get(key) for key in ("files", "patient", "label", "target")} for row in rows]
        covered = {name for row in rows for name in [*row["files"], row.get("target")]}
        rest = [name for name in self.files if name not in covered]
        self.open_all(rest)
        told += [
            {"files": [name], "patient": stem_of(name), "label": None, "target": None}
            for name in rest
            if name not in self.unreadable
        ]
        damaged: dict[str, list[str]] = defaultdict(list)
        for name, reason in self.unreadable.items():
            damaged[reason].append(name)
        good = [row | {"files": [name for name in row["files"] if name not in self.unreadable]} for row in told]
        return {"rows": [row for row in good if row["files"]], "excluded": damaged}

    def left_out(self) -> str:
        """What was left out, for a sentence that says why nothing is left."""
        said = [f"{len(names)} x {reason} ({names[0]})" for reason, names in sorted(self.excluded.items()) if names]
        return f" Left out: {'; '.join(said[:8])}." if said else ""

    def end_without_rows(self, problem: str) -> NoReturn:
        """No row is left: because there are no images, because none opens, or for `problem`."""
        if not self.files:
            self.cannot("the dataset's folder holds no images at all", "no_images")
        self.open_all(self.files)
        if set(self.files) <= set(self.unreadable):
            self.cannot(f"none of the {len(self.files)} image files can be opened", "nothing_readable")
        self.cannot(problem)


def reason_of(error: str) -> str:
    """The reason, with its remedy, for what the reader said about a file."""
    cut = ("truncated", "end-of-stream", "EOFError", "is empty")
    return TRUNCATED if any(word in error for word in cut) else UNREADABLE


def report(
    rows: Sequence[Row],
    found: int,
    excluded: Mapping[str, int],
    layout: str,
    warnings: Sequence[str] = (),
    oddities: Sequence[str] = (),
) -> None:
    """Print the last line that a core reads, and keep it in report.json for when the work is handed back."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["split"]].update(counted_as(row["label"] or None))
    said = {
        "found": found,
        "rows": len(rows),
        "counts": counts,
        "excluded": dict(excluded),
        "layout": layout,
        "warnings": list(warnings),
        "oddities": list(oddities),
    }
    Path("report.json").write_text(json.dumps(said), encoding="utf-8")
    print(json.dumps(said))
