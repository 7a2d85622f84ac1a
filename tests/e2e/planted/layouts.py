"""What planted texts stand in: a `Plant` that hands them out, and datasets of pictures, films and scans around them."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image
from pydicom.dataset import FileDataset

from tests.e2e.planted.orders import MARK, STYLES, World, attacks, planted
from tests.families.dicom import blank, pixels, uid

Row = dict[str, object]
CASES = 24
ORDERS = 12
"""Of a dataset."""


@dataclass
class Plant:
    """Hands out planted texts, each with another order in another manner."""

    number: int
    world: World
    given: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        orders = list(attacks(self.world).values())
        start = self.number * 5 % len(orders)
        self._orders = cycle([*orders[start:], *orders[:start]][:ORDERS])
        self._styles = cycle([*STYLES[self.number % len(STYLES) :], *STYLES[: self.number % len(STYLES)]])

    def text(self, most: int = 4000) -> str:
        """Of at most so many characters."""
        while True:
            found = planted(self.number, next(self._orders), next(self._styles))
            if len(found) <= most:
                self.given.append(found)
                return found

    def name(self, most: int = 180, odd: bool = False) -> str:
        """As a file may be called; an `odd` one with breaks of lines and characters that nobody sees."""
        while "/" in (found := self.text(most)) or len(found.encode()) > 200 or not (odd or found.isprintable()):
            self.given.remove(found)
        return found

    def mark(self, rest: str = "") -> str:
        return f"{MARK}{self.number:02}{rest}"


def image(number: int, ill: int, shape: tuple[int, ...] = (24, 24)) -> np.ndarray:
    """Bytes, with a bright spot in the ill."""
    found = np.random.default_rng(number).integers(0, 120, shape, dtype=np.uint8)
    if ill:
        found[tuple(slice(edge // 3, edge // 3 * 2) for edge in shape)] += 100
    return found


def table(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def films(
    folder: Path,
    rows: Callable[[int], Row] = lambda n: {},
    name: Callable[[int], str] = lambda n: f"{n:03}.png",
    save: Callable[[Path, Image.Image], None] = lambda path, picture: picture.save(path),
    classes: tuple[str, str] = ("healthy", "stone"),
    labels: str = "labels.csv",
) -> None:
    """Pictures of two classes, two of a patient, and their table."""
    found: list[Row] = []
    for n in range(CASES):
        path = folder / "images" / name(n)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, Image.fromarray(image(n, n // 2 % 2)))
        about: Row = {"image": path.name, "patient": f"P{n // 2:02}", "diagnosis": classes[n // 2 % 2]}
        found.append(about | rows(n))
    table(folder / labels, found)


def dicoms(folder: Path, change: Callable[[FileDataset, int], None]) -> None:
    rows: list[Row] = []
    for n in range(CASES):
        path = folder / "films" / f"{n:03}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        one = blank("DX", f"P{n // 2:02}", uid(folder, n, "study"), uid(folder, n, "series"), uid(folder, n))
        one.SpecificCharacterSet = "ISO_IR 192"
        pixels(one, image(n, n // 2 % 2).astype(np.uint16) * 16)
        change(one, n)
        one.save_as(path, enforce_file_format=True)
        rows.append({"image": path.name, "diagnosis": ("healthy", "stone")[n // 2 % 2]})
    table(folder / "labels.csv", rows)


def scans(folder: Path, change: Callable[[nibabel.Nifti1Image, int], None] = lambda scan, n: None) -> None:
    """Volumes with a mask of the liver each."""
    for n in range(12):
        values = image(n, 1, (12, 12, 8))
        mask = np.zeros(values.shape, np.uint8)
        mask[4:8, 4:8, 2:4] = 1
        for place, array in (("imagesTr", values.astype(np.int16) - 60), ("labelsTr", mask)):
            path = folder / place / f"scan{n:02}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            scan = nibabel.Nifti1Image(array, np.diag([1.0, 1.0, 2.0, 1.0]))
            change(scan, n)
            nibabel.save(scan, path)
