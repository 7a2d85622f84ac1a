"""Copies and the split of report rows, and what a later role should know of them. Runs in the sandbox."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shared.trainkit.collect import Collection
from shared.trainkit.index import Row
from shared.trainkit.reports.texts import DEIDENTIFIED

TORN = "image of a patient who is in the dataset's own test part, too: left out of training, so that nobody is in both"
_MOST_TORN = 0.1
"""Part of the samples that may be left out to keep the dataset's own split."""
_FURTHEST = ("test", "val", "train")


def drop_copies(found: Collection, rows: Sequence[Row]) -> list[Row]:
    """Of samples with the same images one is kept; where their reports differ all are dropped."""
    targets = {row["sample_id"]: row["target"] for row in rows}
    kept = found.drop_copies([{**row, "label": row["target"], "target": None} for row in rows])
    return [{**row, "label": None, "target": targets[row["sample_id"]]} for row in kept]


def split_rows(found: Collection, rows: Sequence[Row], **options: Any) -> tuple[list[Row], str]:
    """Rows with their split, and where it is from.

    A dataset that has a training and a validation part only holds the latter out: it is the test part here, and
    validation is taken from training. Of a patient whom the dataset's own split divides, the part furthest from
    training stays. Raises ValueError.
    """
    places = {row["place"] for row in rows}
    if places == {"train", "val"}:
        rows = [{**row, "place": {"val": "test"}.get(row["place"], row["place"])} for row in rows]
        found.oddities.append("the dataset has training and validation parts only: the latter is the test set here")
    if {"train", "test"} <= places | {row["place"] for row in rows} and all(row["place"] for row in rows):
        rows = _whole_patients(found, rows)
    return found.split(rows, **options)


def _whole_patients(found: Collection, rows: Sequence[Row]) -> list[Row]:
    place = {
        row["patient"]: side
        for side in reversed(_FURTHEST)
        for row in rows
        if row["place"] == side
    }  # fmt: skip
    torn = [row["sample_id"] for row in rows if row["place"] != place[row["patient"]]]
    if not torn or len(torn) > _MOST_TORN * len(rows):
        return list(rows)
    found.excluded[TORN] += torn
    return [row for row in rows if row["place"] == place[row["patient"]]]


def oddities(rows: Sequence[Row]) -> list[str]:
    """What a later role should know of texts and views."""
    said = []
    if marked := [row["sample_id"] for row in rows if DEIDENTIFIED.search(row["target"])]:
        said.append(f"{len(marked)} reports have marks of de-identification such as XXXX, kept as they were written")
    parts = Counter(
        " and ".join(part for part in ("findings", "impression") if f"{part.capitalize()}: " in row["target"])
        for row in rows
    )
    if len(parts) > 1:
        known = ", ".join(f"{part or 'neither'}: {count}" for part, count in sorted(parts.items()))
        said.append(f"parts of the reports: {known}")
    views = Counter(len(row["files"]) for row in rows)
    if len(views) > 1:
        said.append("images a report: " + ", ".join(f"{many} in {count}" for many, count in sorted(views.items())))
    texts = Counter(row["target"] for row in rows)
    if len(texts) < len(rows):
        most = texts.most_common(1)[0][1]
        said.append(f"{len(texts)} different reports for {len(rows)} samples, the most frequent {most} times")
    words = sorted(len(row["target"].split()) for row in rows)
    said.append(f"words a report: {words[0]} to {words[-1]}, median {words[len(words) // 2]}")
    if scaled := sum(bool(row["attributes"]) for row in rows):
        said.append(f"a table has slope and intercept of the stored values of {scaled} samples; they are attributes")
    return said
