"""What stands in files of arrays beside images: many images in one array, and labels, patients and texts of each."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from shared.contracts.values import Source
from shared.dataset.files.held import SUFFIXES, Array, Held, held
from shared.dataset.files.looking import Looker
from shared.dataset.survey.candidates import MOST_CLASSES
from shared.dataset.survey.column_looks import says_people
from shared.dataset.survey.evidence import Evidence
from shared.dataset.survey.family import MASK_WORD, Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.splits import split_of
from shared.dataset.tables.column_words import label_likeness
from shared.imaging.arrays import plain_shape, split_axis4
from shared.imaging.errors import BadImage

_FILES = 60
_FEWEST = 3
"""Values beside an array from which on they are one for each entry of it."""
_TEXT_WORDS = 4

Found = dict[Literal["labels", "patients", "splits", "texts"], list[Evidence]]


def inner_evidence(families: Sequence[Family], root: Path, looker: Looker) -> Found:
    """Evidence of image families whose files hold arrays; also tells a family how many images its files hold."""
    found: Found = {"labels": [], "patients": [], "splits": [], "texts": []}
    total = sum(len(one.units) for one in families)
    for family in families:
        if family.suffix not in SUFFIXES:
            continue
        with looker.timed():
            inner = [held(root / file) for file in evenly(family.files, _FILES) if looker.left > 0]
        if not any(one.values for one in inner):
            continue
        counts = [_entries(one) for one in inner]
        if any(counts):
            _tell(family, inner, counts, found["splits"])
        share = len(family.units) / max(1, total)
        for name, values in _values(inner, counts).items():
            _judge(name, values, share, family, found)
    return found


def _entries(one: Held) -> dict[str, int]:
    """Array of images -> how many it holds, where something beside it has one value for each."""
    lengths = {value.shape[0] for value in one.values.values() if value.ndim and value.size >= _FEWEST}
    images = {name: shaped for name, shaped in one.images.items() if not MASK_WORD.search(name)}
    return {name: shaped.entries for name, shaped in images.items()
            if len(shaped.shape) > 2 and shaped.entries >= _FEWEST and shaped.entries in lengths}  # fmt: skip


def _tell(family: Family, inner: Sequence[Held], counts: Sequence[dict[str, int]], splits: list[Evidence]) -> None:
    first = next(place for place, one in enumerate(counts) if one)
    shaped = inner[first].images[next(iter(counts[first]))]
    try:
        shape, colour = plain_shape(shaped.one, np.dtype(shaped.dtype))
    except BadImage:
        return
    space = shape[:-1] if colour else shape
    space = split_axis4(space)[1] if len(space) == 4 else space
    family.entries = round(sum(sum(one.values()) for one in counts) / len(counts) * len(family))
    family.entry_shape = tuple(space[::-1])
    sides = Counter({name: sum(one.get(name, 0) for one in counts) for name in counts[first]})
    if len({split_of(name) for name in sides} - {None}) > 1:
        where = f"names of the arrays of {family.pattern}"
        splits.append(
            Evidence(Source(array=next(iter(sides))), where, len(sides), 1.0, dict(sides), _nothing, score=1.0)
        )


def _nothing(number: int, file: str) -> None:
    """Entries are no files."""


def _values(inner: Sequence[Held], counts: Sequence[dict[str, int]]) -> dict[str, list[str]]:
    """Name without the side of a split -> its values, of all files: one for each file, or for each entry."""
    found: dict[str, list[str]] = defaultdict(list)
    for one, entries in zip(inner, counts, strict=True):
        for name, value in one.values.items():
            if texts := _texts(value, set(entries.values())):
                found["_".join(word for word in name.split("_") if not split_of(word)) or name] += texts
    least = sum(sum(one.values()) or 1 for one in counts) / 2
    return {name: values for name, values in found.items() if len(values) >= least}


def _texts(value: Array, entries: set[int]) -> list[str]:
    if value.size == 1:
        return [_said(value.reshape(-1)[0])]
    if not value.ndim or value.shape[0] not in entries:
        return []
    if value.size == value.shape[0]:
        return [_said(one) for one in value.reshape(-1)]
    return ["|".join(map(str, np.flatnonzero(row))) for row in value] if value.ndim == 2 else []


def _said(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.removesuffix(".0")


def _judge(name: str, values: list[str], share: float, family: Family, found: Found) -> None:
    counts = Counter(value for value in values if value)
    words = sorted(len(value.split()) for value in values)[len(values) // 2]
    source, where = Source(array=name), f"array {name} of {family.pattern}"

    def of(number: int, file: str) -> str | None:
        if number != family.number or family.entries:
            return None
        inner = held(family.listing.root / file).values.get(name)
        return _said(inner.reshape(-1)[0]) if inner is not None and inner.size == 1 else None

    def add(role: Literal["labels", "patients", "texts"], score: float) -> None:
        few = dict(counts.most_common()) if len(counts) <= 60 else {}
        found[role].append(Evidence(source, where, len(counts), share, few, of, score=round(share * score, 3)))

    if words >= _TEXT_WORDS and len(counts) > 2:
        add("texts", 0.8)
    elif says_people(name):
        add("patients", 1.0)
    elif 2 <= len(counts) <= MOST_CLASSES and len(counts) * 3 <= sum(counts.values()):
        add("labels", 0.9 if label_likeness(name) >= 0.9 or name.lower() == "y" else 0.4)
