"""Pictures and volumes of one made-up organ, alike as those of different patients are, and ways to save one again."""

import io

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, zoom


def body(seed: int, shape: tuple[int, ...] = (160, 160), apart: float = 1.0) -> np.ndarray:
    """0..255: the outline and large organs that all share, and structures of every size that only this one has."""
    rng = np.random.default_rng(seed)
    grid = np.indices(shape) / np.array(shape).reshape(-1, *[1] * len(shape)) - 0.5
    inside = sum((axis / 0.42) ** 2 for axis in grid) < 1
    organ = sum(((axis - 0.1) / 0.15) ** 2 for axis in grid) < 1
    own = np.zeros(shape)
    for size, weight in ((shape[-1] / 16, 8), (shape[-1] / 50, 4), (1, 1)):
        noise = gaussian_filter(rng.normal(size=shape), size)
        own += weight * noise / noise.std()
    return np.clip(inside * (90 + 60 * organ + apart * own), 0, 255).astype(np.uint8)


def jpeg(array: np.ndarray, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def cropped(array: np.ndarray, share: float) -> np.ndarray:
    """Loses `share` of each edge, a third of it at the start."""
    parts = [(int(size * share / 3), size - int(size * share * 2 / 3)) for size in array.shape]
    return array[tuple(slice(*part) for part in parts)]


def resized(array: np.ndarray, factor: float) -> np.ndarray:
    return zoom(array, factor, order=1)
