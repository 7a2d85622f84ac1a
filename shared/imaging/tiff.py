"""TIFF by tifffile: pictures of any depth, and volumes whose slices are pages."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LARGEST, BadImage, bounded, shown
from .header import Header
from .image import Image
from .nifti import Axis4
from .pictures import ORIENTATION, TURNED, is_grey, on_black, upright


class Complaints(logging.Handler):
    """What tifffile logs of pages that are missing: it does not raise, and the rest would pass for the whole."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.thread, self.heard = threading.get_ident(), ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.thread == self.thread and ("page offset" in text or "reshape" in text):
            self.heard = text


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A tifffile.TiffFile. Raises BadImage where pages are missing."""
    import tifffile

    complaints, log = Complaints(), tifffile.logger()
    log.addHandler(complaints)
    try:
        with tifffile.TiffFile(path) as file:
            len(file.series)
            if complaints.heard:
                raise BadImage("is cut off: some of its pages are missing; copy it again from where it came from")
            yield file
    finally:
        log.removeHandler(complaints)


class Layout:
    """What the axes of a TIFF's first series hold; pages of other sizes, such as thumbnails, are no part of it."""

    def __init__(self, file: Any) -> None:
        if not file.series:
            raise BadImage("holds no picture")
        series = file.series[0]
        self.series, self.page = series, series.keyframe
        self.shape, self.axes, self.dtype = tuple(series.shape), str(series.axes), series.dtype
        if self.dtype is None or self.dtype.kind not in "biuf":
            raise BadImage(f"holds values of type {self.dtype}, not numbers")
        self.colour = int(self.page.photometric) in (2, 3, 5, 6, 8)
        """RGB, palette, CMYK, YCbCr, CIELab."""
        self.inverted = int(self.page.photometric) == 0
        self.palette = self.page.colormap if int(self.page.photometric) == 3 else None
        self.way = int(getattr(self.page.tags.get(ORIENTATION), "value", 1) or 1)
        others = [axis for axis, size in zip(self.axes, self.shape, strict=True) if axis not in "YXSCT" and size > 1]
        if len(others) > 1:
            raise BadImage(f"holds {shown(self.shape)} values on axes {self.axes}; write one volume a file")
        times = self.length("T")
        # Programs mix up times and slices; what stands alone are slices.
        self.slice_axis = others[0] if others else "T" if times > 1 else ""
        self.slices = self.length(self.slice_axis) if self.slice_axis else 1
        self.times = times if self.slice_axis != "T" else 1
        self.channels = self.length("C") * self.length("S")

    def length(self, axis: str) -> int:
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    def arrange(self, array: np.ndarray) -> np.ndarray:
        """-> (times, slices, H, W, channels)."""
        wanted = ("T" if self.slice_axis != "T" else "", self.slice_axis, "Y", "X", "C", "S")
        order = [self.axes.index(axis) for axis in wanted if axis and axis in self.axes]
        rest = [place for place in range(array.ndim) if place not in order]
        turned = array.transpose(*rest, *order)
        height, width = self.length("Y"), self.length("X")
        found: np.ndarray = turned.reshape(self.times, self.slices, height, width, self.channels)
        return found


def header(path: Path) -> Header:
    """See `headers.peek`."""
    with opened(path) as file:
        found = Layout(file)
    size = (found.length("X"), found.length("Y"))
    size = size[::-1] if found.way in TURNED else size
    return Header(
        "picture",
        3 if found.slices > 1 else 2,
        (*size, found.slices) if found.slices > 1 else size,
        channels=3 if found.colour else found.channels,
        dtype=found.dtype.name,
        colour=found.colour,
        frames=found.times,
    )


def read(path: Path, axis4: Axis4 = "refuse", most: int = LARGEST, stored: bool = False) -> Image:
    """A picture, or a volume without a place of its own of several pages. Raises BadImage.

    `stored` gives the numbers of a palette or of an inverted picture as they are: for label maps.
    """
    with opened(path) as file:
        found = Layout(file)
        if found.times > 1 and axis4 == "refuse":
            raise BadImage(
                f"has {found.times} times; say with `axis4` that the first is taken, or that they are channels"
            )
        bounded(found.shape, found.dtype.itemsize * (6 if found.palette is not None else 1), most)
        try:
            array = found.arrange(found.series.asarray())
        except ValueError as error:
            if "imagecodecs" not in str(error):
                raise
            raise BadImage(
                "is compressed in a way that is not read; save it with LZW or without compression"
            ) from error
        if not stored:
            array = shown_values(array, found)
        extra = len(found.page.extrasamples or ()) if found.colour or found.channels in (2, 4) else 0
        alpha = extra == 1 and int(found.page.extrasamples[0]) in (1, 2)
    array = array[:1] if axis4 == "first" else array
    if alpha and array.dtype.kind in "iu":
        array = on_black(array)
    if len(array) > 1:
        array = array.transpose(1, 2, 3, 0, 4).reshape(1, *array.shape[1:4], -1)
    volume = array[0]
    colour = found.colour and volume.shape[-1] == 3
    if colour and is_grey(volume):
        volume, colour = volume[..., :1], False
    if len(volume) == 1:
        picture = upright(volume[0], found.way)
        return Image(np.ascontiguousarray(picture), None, colour=colour)
    turned = np.moveaxis(upright(np.moveaxis(volume, 0, 2), found.way), 2, 0)
    return Image(turned.transpose(2, 1, 0, 3), np.eye(4), colour=colour)


def shown_values(array: np.ndarray, found: Layout) -> np.ndarray:
    """Colours of a palette (16 bits in the file, eight here), and pictures of which 0 is white the right way round."""
    if found.palette is not None:
        table = np.asarray(found.palette)
        table = table >> 8 if table.max() > 255 else table
        colours: np.ndarray = table.astype(np.uint8).T[array[..., 0]]
        return colours
    if found.inverted and array.dtype.kind in "bu":
        high = 2 ** int(found.page.bitspersample) - 1
        return np.asarray(high - array.astype(np.int64)).astype(np.uint8 if array.dtype.kind == "b" else array.dtype)
    return array
