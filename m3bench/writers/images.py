"""Writing slices as the files that exporters leave behind: PNG, JPEG, BMP, names in several styles."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NameStyle:
    """How one scan's slices are called: `pattern` is formatted with the number, counted from `first`."""

    name: str
    pattern: str
    first: int = 0

    def file_names(self, count: int) -> list[str]:
        return [self.pattern.format(number) for number in range(self.first, self.first + count)]


PADDED = NameStyle("padded", "{:04d}.png")
UNPADDED = NameStyle("unpadded", "{}.png")
EXPORTED_JPG = NameStyle("exported_jpg", "IMG-0001-{:05d}.jpg", first=1)
BMP = NameStyle("bmp", "{:04d}.bmp")
UPPER_PNG = NameStyle("upper_case", "{:04d}.PNG")


def write_slices(folder: Path, volume: NDArray[np.uint8], style: NameStyle) -> list[str]:
    """Write one 8-bit grey picture a slice (first axis) into the new `folder`; returns the names in slice order."""
    from PIL import Image

    folder.mkdir(parents=True)
    names = style.file_names(len(volume))
    for name, pixels in zip(names, volume, strict=True):
        image = Image.fromarray(pixels)
        if name.endswith(".jpg"):
            image.save(folder / name, format="JPEG", quality=92)
        else:
            image.save(folder / name, compress_level=1)
    return names
