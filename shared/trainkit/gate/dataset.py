"""A dataset as the gate sees it: its names, what it read so far, and which files are one sample."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from shared.trainkit.folders import PLAIN_NAME
from shared.trainkit.gate.findings import Findings
from shared.trainkit.gate.heads import Fault, Head, Reader
from shared.trainkit.gate.tree import Tree, sample
from shared.trainkit.imagefile import PICTURE_SUFFIXES, suffix_of
from shared.trainkit.pairs import Pair

MOST_HEADS = 3_000
_SLICES = PICTURE_SUFFIXES | {".dcm", ".dicom", ".ima"}
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "tr", "imagestr", "images_train"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "imagesva", "images_val"), "val"),
    **dict.fromkeys(("test", "testing", "ts", "imagests", "images_test", "evaluation"), "test"),
}


@dataclass
class Dataset:
    tree: Tree
    findings: Findings
    reader: Reader
    bad: set[str]
    """Files that cannot be read, found out so far."""
    heads: dict[str, Head] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    masks: set[str] = field(default_factory=set)
    """All files that are masks, in a pair or not."""
    aside: set[str] = field(default_factory=set)
    """Pictures beside volumes: views of them, no samples."""
    samples: dict[str, list[str]] = field(default_factory=dict)
    """Sample (a file, or a folder of slices) -> its files; masks are none."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What there is, for the table's head."""

    def look(self, names: Iterable[str]) -> None:
        """Read headers that were not read yet; what cannot be read is found."""
        new = [name for name in dict.fromkeys(names) if name not in self.heads and name not in self.bad]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda name: self.reader.head(self.tree.root / name), new))
        for name, head in zip(new, found, strict=True):
            if isinstance(head, Fault):
                self.fault(name, head)
            else:
                self.heads[name] = head

    def pairs_names(self) -> list[str]:
        """The images of the pairs."""
        return [pair.image for pair in self.pairs]

    def fault(self, name: str, fault: Fault) -> None:
        self.bad.add(name)
        self.findings.add(fault.kind, name, fault.detail)

    def taken(self, names: Sequence[str], most: int, what: str) -> list[str]:
        """A bounded sample; what is left out of it is said."""
        if len(names) > most:
            self.tree.skipped.append(f"{what}: {most:,} of {len(names):,}")
        return sample(names, most)


def group_samples(data: Dataset) -> None:
    """Folders of numbered slices are one sample each; any other image is a sample of its own."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name in data.tree.images:
        if name not in data.masks and name not in data.aside:
            by_folder[name.rpartition("/")[0]].append(name)
    stacks = {folder for folder, names in by_folder.items() if folder and is_stack(folder, names)}
    if len(stacks) < 2:
        stacks = {folder for folder in stacks if suffix_of(by_folder[folder][0]) not in PICTURE_SUFFIXES}
    for folder, names in by_folder.items():
        if folder in stacks:
            data.samples[folder] = names
            _slices(data, folder, names)
        else:
            data.samples.update((name, [name]) for name in names)
    data.facts["samples"] = len(data.samples)
    data.facts["scans_of_slices"] = len(stacks)


def is_stack(folder: str, names: Sequence[str]) -> bool:
    """Whether a folder's images are the slices of one scan: many, numbered, in a folder that is numbered itself."""
    last = PurePosixPath(folder).name
    if not 5 <= len(names) <= 5000 or any(suffix_of(name) not in _SLICES for name in names):
        return False
    if suffix_of(names[0]) not in PICTURE_SUFFIXES:
        return True
    numbers = numbers_of(names)
    dense = len(numbers) == len(names) and max(numbers) - min(numbers) < 1.5 * len(numbers) + 2
    return dense and bool(re.search(r"\d", last)) and not PLAIN_NAME.fullmatch(last)


def numbers_of(names: Iterable[str]) -> list[int]:
    """The last number in each name that has one, each once."""
    found = (re.search(r"(\d+)\D*$", PurePosixPath(name).name.split(".")[0]) for name in names)
    return sorted({int(number[1]) for number in found if number})


def _slices(data: Dataset, folder: str, names: Sequence[str]) -> None:
    numbers = numbers_of(names)
    missing = numbers[-1] - numbers[0] + 1 - len(numbers) if len(numbers) == len(names) else 0
    # Every second number, or every tenth, is a way to count, not a gap.
    steps = Counter(after - before for before, after in pairwise(numbers))
    if missing and steps and steps.most_common(1)[0][0] == 1:
        data.findings.add("slice_gap", folder, f"{missing} missing between {numbers[0]} and {numbers[-1]}")


def split_part(name: str) -> str | None:
    """`train`, `val` or `test` where a folder of the path says so."""
    parts = PurePosixPath(name).parts[:-1]
    return next((SPLIT_NAMES[part.lower()] for part in parts if part.lower() in SPLIT_NAMES), None)
