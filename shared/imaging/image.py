"""One image in memory: its values, its place in space, and the forms in which training and canonical files take it."""

from dataclasses import dataclass, field, replace

import numpy as np

from .errors import BadImage, shown
from .grid import Grid, closest_ras

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True)
class Image:
    """A volume or a picture, of finite values.

    A volume's array is (X, Y, Z, C) in the axes of its file, a picture's (H, W, C) as it is shown. Values are as in the
    file after its own rescaling: integers where they are whole, else float32.
    """

    array: np.ndarray = field(repr=False)
    affine: np.ndarray | None = field(default=None, repr=False)
    """(4, 4) from voxel indices to mm in RAS+, each number one of float32; None for a picture."""
    channels: tuple[str, ...] = ()
    """Names of the last axis; empty where they have none."""
    colour: bool = False
    """Whether the three channels are red, green and blue."""
    hu_known: bool = False
    """Whether a header says that values are Hounsfield units; `units.looks_like_hu` judges the others."""
    order: tuple[int, ...] = ()
    """Of a volume from several files: number of the file that each slice along Z is."""

    def __post_init__(self) -> None:
        if self.array.ndim != (3 if self.affine is None else 4):
            raise ValueError(
                f"an image of shape {self.array.shape} {'without' if self.affine is None else 'with'} affine"
            )
        if self.affine is not None:
            # What canonical files keep; taken from the start, so that nothing depends on whether one was written.
            # Minus zero, which turning makes, becomes zero.
            object.__setattr__(self, "affine", np.asarray(self.affine, np.float32).astype(np.float64) + 0.0)

    @property
    def dimensions(self) -> int:
        return 2 if self.affine is None else 3

    @property
    def grid(self) -> Grid:
        """Without channels."""
        return Grid(tuple(self.array.shape[:-1]), self.affine)


def canonical(image: Image) -> Image:
    """A volume turned to the nearest right, anterior, superior order of axes; a picture as it is. Views, no copies."""
    if image.affine is None:
        return image
    turn = closest_ras(image.affine)
    affine = turn.moved(image.affine, image.array.shape)
    order = image.order if turn.order[2] == 2 else ()
    return replace(image, array=turn(image.array), affine=affine, order=order[::-1] if turn.flips[2] else order)


def to_dhw(array: np.ndarray, image: Image) -> np.ndarray:
    """(X, Y, Z) on the axes of a volume -> (D, H, W): D from inferior to superior, H posterior to anterior, W left to
    right, by the nearest axes; (H, W) of a picture -> (1, H, W). A view."""
    return array[None] if image.affine is None else closest_ras(image.affine)(array).transpose(2, 1, 0)


def from_dhw(array: np.ndarray, image: Image) -> np.ndarray:
    """The opposite of `to_dhw`: (D, H, W) -> the axes of `image`. A view."""
    return array[0] if image.affine is None else closest_ras(image.affine).back(array.transpose(2, 1, 0))


def channels_first(image: Image) -> np.ndarray:
    """Float32 (C, D, H, W) of a volume, axes as in `to_dhw`, or (C, H, W) of a picture. The same of a file and of its
    canonical copy, to the last bit."""
    turned = canonical(image).array
    return np.ascontiguousarray(
        turned.transpose(range(turned.ndim)[::-1] if turned.ndim == 4 else (2, 0, 1)), np.float32
    )


def size_dhw(image: Image) -> tuple[int, int, int]:
    """Voxels along D, H, W; of a picture D is 1."""
    depth, height, width = to_dhw(image.array[..., 0], image).shape
    return depth, height, width


def spacing_dhw(image: Image) -> tuple[float, float, float]:
    """mm along D, H, W; of a picture 1."""
    if image.affine is None:
        return (1.0, 1.0, 1.0)
    x, y, z = canonical(image).grid.spacing
    return (z, y, x)


def as_picture(image: Image) -> Image:
    """A volume of one slice as the picture that a viewer shows: rows from anterior (or superior) down, the patient's
    right (or front) on the left. A picture as it is. Raises BadImage for several slices."""
    if image.affine is None:
        return image
    turned = canonical(image).array
    thin = [axis for axis in (2, 1, 0) if turned.shape[axis] == 1]
    if not thin:
        raise BadImage(f"is a volume of {shown(turned.shape[:3])} voxels where a picture is expected")
    plane = turned.take(0, thin[0])
    return replace(image, array=plane[::-1, ::-1].swapaxes(0, 1), affine=None, order=())


def coloured(image: Image) -> Image:
    """One channel three times, as colour; colour as it is. Raises BadImage for other channels."""
    if image.colour:
        return image
    if image.array.shape[-1] != 1:
        raise BadImage(f"has {image.array.shape[-1]} channels, which are no colours")
    return replace(image, array=np.repeat(image.array, 3, -1), colour=True, channels=())


def grey(image: Image) -> Image:
    """Colour as float32 luminance; anything else as it is."""
    if not image.colour:
        return image
    return replace(image, array=(image.array.astype(np.float32) @ LUMINANCE)[..., None], colour=False, channels=())


def fitted(image: Image, channels: int) -> Image:
    """An image with as many channels as a model takes: colour becomes luminance for one, and a grey picture is taken
    for colour by three. Raises BadImage for other numbers."""
    if channels == 1:
        image = grey(image)
    elif channels == 3 and image.affine is None and image.array.shape[-1] == 1:
        image = coloured(image)
    if image.array.shape[-1] != channels:
        raise BadImage(f"has {image.array.shape[-1]} channel(s) where the model takes {channels}")
    return image
