"""Who is on an image that has a report: by a table, else by names and folders. Runs in the sandbox."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from statistics import median
from typing import Any

from shared.trainkit.names import without_words
from shared.trainkit.reports.naming import bare, tokens_of

_VISIT = re.compile(r"[-_](?:MR|CT|ses|session|visit|scan|tp|timepoint|day)[-_]?\d+$", re.IGNORECASE)
_SUBJECT = re.compile(r"(?:^|[/_])(sub-[A-Za-z0-9]+)")
_LARGEST = 16
"""Samples of one patient up to which a part of a name may be a patient's."""

Grouping = tuple[list[str], str, str]
"""A patient for each sample; `stated`, `derived` or `inferred`; the sentence that says how."""


def people(units: Sequence[Any], stated_by: str) -> Grouping:
    """`units` have `files`, `key` (what a table calls them), `study` and `patient` (what a table states, or empty)."""
    own = [_own_name(unit, stems) for stems in [Counter(bare(unit.files[0]) for unit in units)] for unit in units]
    stated = [unit.patient for unit in units]
    if sum(map(bool, stated)) >= 0.8 * len(units):
        return [name or other for name, other in zip(stated, own, strict=True)], "stated", stated_by
    heads = [_head(name) for name in own]
    if _plausible(heads, [unit.study or unit.files[0] for unit in units]):
        return heads, "derived", "what names and folders have in common, up to their first number"
    studies = [unit.study or name for unit, name in zip(units, own, strict=True)]
    return studies, "inferred", "each study counts as a patient of its own; nothing tells them apart"


def _own_name(unit: Any, stems: Counter[str]) -> str:
    """The name of a case: of the outermost folder whose name is the head of all below it, or of the file itself."""
    path = PurePosixPath(unit.files[0])
    if found := _SUBJECT.search(unit.files[0]):
        return found[1]
    stem = bare(path.name)
    if stems[stem] > 1 or not re.search(r"\d{2}", stem):
        # T1.nii.gz is in many folders: the table has a name for each, else the folder's path is one.
        stem = bare(unit.key) if re.search(r"\d", unit.key) else path.parent.as_posix()
    for folder in path.parents:
        head, tokens = tokens_of(folder.name), tokens_of(stem)
        if not head or not re.search(r"\d", folder.name) or tokens[: len(head)] != head:
            break
        stem = folder.name
    return stem


def _head(name: str) -> str:
    """Less words of sequences and the number of a visit, up to its first number where further ones follow."""
    plain = _VISIT.sub("", without_words(name)[0] or name)
    return found[0] if (found := re.match(r"\D*\d+(?=[-_]\D*\d)", plain)) else plain


def _plausible(heads: Sequence[str], studies: Sequence[str]) -> bool:
    """Whether heads join some studies, in small groups: one group for all would mean that they are no patients'."""
    sizes = Counter(heads)
    joined = 1 < len(sizes) < len(set(studies))
    return joined and median(sizes.values()) <= _LARGEST and max(sizes.values()) <= max(_LARGEST, 0.3 * len(heads))
