"""The look of a case and a digest of its pixels, from decoded images: copies under other formats or names are equal."""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow

from shared.imaging.image import Image, canonical
from shared.looks import FLAT, LENGTH, NOTHING, PICTURE, RECORD, SOLID, VOLUME, content_of

Floats: TypeAlias = npt.NDArray[np.float32]


def record_of(views: Sequence[Image]) -> bytes:
    """One `shared.looks.RECORD` of a case; its look is that of the first view."""
    record = np.zeros(1, RECORD)
    seen = [_flat(view) if view.affine is None else _solid(view) for view in views]
    record["content"] = np.frombuffer(content_of([digest for digest, _ in seen]), np.uint8)
    record["kind"], record["look"] = _levels(seen[0][1])
    return record.tobytes()


def _levels(grid: Floats) -> tuple[int, npt.NDArray[np.uint8]]:
    low, high = np.percentile(grid, (1, 99))
    if not np.isfinite(grid).all() or high <= low:
        return NOTHING, np.zeros(LENGTH, np.uint8)
    levels = np.clip((grid - low) * (255 / (high - low)), 0, 255).round().astype(np.uint8).reshape(-1)
    return (FLAT if grid.ndim == 2 else SOLID), levels


def _flat(picture: Image) -> tuple[bytes, Floats]:
    """Digest and (64, 64) of a picture (H, W, C)."""
    array = _one_channel(picture.array)
    # Grey stored in colours is the same picture.
    grey = array[..., 0] if array.shape[-1] != 3 else np.asarray(array, np.float32) @ _LUMA
    plain = Pillow.fromarray(np.ascontiguousarray(grey, np.float32))
    small = np.asarray(plain.resize((PICTURE,) * 2, Pillow.Resampling.BILINEAR), np.float32)
    return _digest(array.shape, iter((array,))), small


_LUMA = np.array((0.299, 0.587, 0.114), np.float32)


def _one_channel(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    same = array.shape[-1] == 3 and (array == array[..., :1]).all()
    return array[..., :1] if same else array


def _solid(volume: Image) -> tuple[bytes, Floats]:
    """Digest and (16, 16, 16), slices first, of a volume (X, Y, Z, C) turned to the patient's axes; a slice at a time.

    Slices that fall into one of 16 parts are averaged; where there are fewer than 16, the nearest counts.
    """
    array = canonical(volume).array
    width, height, count, _ = array.shape
    across, down = _weights(width), _weights(height)
    total, times = np.zeros((VOLUME,) * 3, np.float32), np.zeros(VOLUME, np.float32)
    middles = ((np.arange(VOLUME) + 0.5) * count / VOLUME).astype(int)

    def planes() -> Iterator[npt.NDArray[Any]]:
        for number in range(count):
            plane = np.asarray(array[:, :, number], np.float32)
            grey = plane[..., 0] if plane.shape[-1] == 1 else plane.mean(axis=-1)
            parts = [number * VOLUME // count] if count > VOLUME else np.flatnonzero(middles == number)
            total[parts] += down @ grey.T @ across.T
            times[parts] += 1
            yield plane.T

    digest = _digest(array.shape, planes())
    return digest, np.asarray(total / np.maximum(times, 1)[:, None, None], np.float32)


def _digest(shape: tuple[int, ...], pieces: Iterator[npt.NDArray[Any]]) -> bytes:
    """SHA-256 of values as 32-bit floats, in which every whole number of 24 bits is itself, whatever held it."""
    found = hashlib.sha256(repr(tuple(shape)).encode())
    for piece in pieces:
        # Minus zero becomes zero.
        found.update((np.ascontiguousarray(piece, np.float32) + np.float32(0)).data)
    return found.digest()


@functools.lru_cache(64)
def _weights(length: int) -> Floats:
    """(16, length): what each of 16 points takes of a line, as Pillow's bilinear filter smooths what it shrinks."""
    scale = length / VOLUME
    middles = (np.arange(VOLUME)[:, None] + 0.5) * scale
    near = np.maximum(1 - np.abs(np.arange(length)[None] + 0.5 - middles) / max(scale, 1.0), 0)
    return np.asarray(near / near.sum(axis=1, keepdims=True), np.float32)
