"""Folders of single slices that make volumes, told from folders of pictures: by series, numbers, sizes and likeness."""

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import Literal

from shared.dataset.files.looking import Look, Looker, alike
from shared.dataset.files.packed import Names
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.overlap import Places
from shared.imaging.header import Header
from shared.imaging.order import natural

_FEWEST = 4
"""Slices that make a volume."""
_MOST = 3000
_FOLDERS = 4
_CLASSES = 20
_PAIRS = 8
_SCATTERED = 96
"""Files whose series are compared where names tell nothing."""
_SLICED = {"CT", "MR", "PT", "NM"}
"""Modalities of which a file is a slice."""
_FLAT = {"CR", "DX", "DR", "MG", "XA", "RF", "US", "OP", "OPT", "XC", "ES", "SM", "GM", "IO", "PX", "SC"}
"""Modalities of DICOM whose files are pictures."""


def is_stacks(
    files: Names, at: Places, headers: Sequence[Header], looker: Looker
) -> Literal["folders", "series"] | None:
    """Whether files with two dimensions are slices: `folders` where one folder is one volume, `series` where DICOM
    headers tell volumes apart. None: they are pictures."""
    if any(one.frames > 1 for one in headers):
        return None
    if headers[0].kind == "dicom":
        return _series(files, at, headers, looker)
    counts = array("i", (sum(1 for _ in run) for _, run in groupby(files.pick(at), _folder)))
    if len(counts) < 2 or not _FEWEST <= median(counts) <= _MOST:
        return None
    starts = array("i", accumulate(counts, initial=0))
    parts: list[set[str]] = [set(_folder(files[at[start]]).split("/")) for start in starts[:-1][:50]]
    varying = set().union(*parts) - parts[0].intersection(*parts)
    if len(counts) <= _CLASSES and not any(re.search(r"\d", part) for part in varying):
        return None  # a few folders with names in words are classes
    ranked = sorted(range(len(counts)), key=lambda run: -counts[run])[: max(1, len(counts) // 2 + 1)]
    looked = [natural(files[place] for place in at[starts[run] : starts[run + 1]]) for run in evenly(ranked, _FOLDERS)]
    if not all(_numbered(names) for names in looked):
        return None
    return "folders" if _continuous(looked, looker) else None


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def _series(files: Names, at: Places, headers: Sequence[Header], looker: Looker) -> Literal["folders", "series"] | None:
    if sum(one.modality in _FLAT for one in headers) * 2 > len(headers) or len(at) < _FEWEST:
        return None
    pairs = same = mixed = 0
    for place in evenly(range(len(at)), _PAIRS):
        file = files[at[place]]
        beside = [files[at[other]] for other in (place + 1, place - 1) if 0 <= other < len(at)]
        inside = [other for other in beside if _folder(other) == _folder(file)]
        if not inside:
            continue
        uids = [_uid(looker.header(one)) for one in (file, *inside)]
        pairs += 1
        same += any(uids[0] and uids[0] == other for other in uids[1:])
        mixed += len(set(uids)) > 1
    if same * 2 > pairs:
        return "series" if mixed else "folders"
    # Names in no order: slices of one series lie apart in one folder, so that some of many files share one.
    uids = [uid for place in evenly(at, _SCATTERED) if (uid := _uid(looker.header(files[place])))]
    sliced = sum(one.modality in _SLICED for one in headers) * 2 > len(headers)
    return "series" if pairs and len(set(uids)) < (0.97 if sliced else 0.7) * len(uids) else None


def _uid(look: Look | None) -> str:
    return look.header.dicom.get("SeriesInstanceUID", "") if look and look.header else ""


def _numbered(names: Sequence[str]) -> bool:
    """Whether names of one folder count on, each number once, nearly without gaps."""
    numbers = sorted({int(found[-1][:18]) for name in names if (found := re.findall(r"\d+", name.rpartition("/")[2]))})
    if len(numbers) != len(names):
        return False
    steps = sorted(after - before for before, after in pairwise(numbers))
    return not steps or numbers[-1] - numbers[0] <= 1.5 * len(numbers) * max(1, steps[len(steps) // 2]) + 2


def _continuous(folders: Sequence[Sequence[str]], looker: Looker) -> bool:
    """Whether neighbours have one size and are more alike than files that are far apart, as slices of a body are."""
    near, far, sizes = [], [], []
    for names in folders:
        middle = len(names) // 2
        looks = [looker.pixels(names[place]) for place in (middle, middle - 1, len(names) // 8)]
        pixels = [look.pixels for look in looks if look and look.pixels]
        sizes.append(len({look.header.shape for look in looks if look and look.header}))
        if len(pixels) == 3:
            near.append(alike(pixels[0], pixels[1]))
            far.append(alike(pixels[0], pixels[2]))
    if not near or sum(size > 1 for size in sizes) * 2 > len(sizes):
        return False
    # A film is like any other film of its kind; neighbouring slices are nearly the same.
    return median(near) > 0.8 and 1 - median(near) < 0.6 * (1 - median(far))
