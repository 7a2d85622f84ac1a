"""Masks are read as data: exact where they are honest, bounded and refused where they are not."""

import gzip
import io
import tracemalloc

import numpy as np
import pytest
from mask_files import OBLIQUE, nifti, png
from PIL import Image

from shared.maskfile import BadMask, read_classes, read_header

VALUES = (6, 28)
STORED = np.random.default_rng(0).choice([0, 6, 28], (5, 7, 3)).astype(np.uint8)
NUMBERS = np.select([STORED == 6, STORED == 28], [1, 2], 0)


def read(data: bytes, values=VALUES):
    header = read_header(io.BytesIO(data))
    return header, read_classes(io.BytesIO(data), header, values)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("packed", [True, False])
def test_values_stay_what_they_are_in_any_number_type(dtype: type, packed: bool) -> None:
    header, found = read(nifti(STORED.astype(dtype), packed=packed))
    assert header.shape == (5, 7, 3)
    assert np.allclose(header.affine, OBLIQUE, atol=1e-5)
    assert (found.numbers == NUMBERS).all()
    assert (found.unknown, found.fractions) == (0, 0)


def test_big_endian_a_scale_and_trailing_axes_are_understood() -> None:
    big = nifti(STORED.astype(">i2"))
    assert (read(big)[1].numbers == NUMBERS).all()
    assert (read(nifti((STORED // 2).astype(np.int16), slope=2.0))[1].numbers == NUMBERS).all()
    header, found = read(nifti(STORED[..., None, None]))
    assert header.shape == (5, 7, 3) and (found.numbers == NUMBERS).all()


def test_the_order_of_structures_is_that_of_the_map_and_not_of_the_values() -> None:
    assert (read(nifti(STORED), (28, 6))[1].numbers == np.select([STORED == 28, STORED == 6], [1, 2], 0)).all()


def test_other_values_and_fractions_are_counted() -> None:
    odd = STORED.astype(np.float32)
    odd[0, 0, :3] = [np.nan, np.inf, 6.5]
    odd[1, 1, :2] = [-6, 29]
    odd[2, 2, 0] = 6.0001
    _, found = read(nifti(odd))
    assert (found.unknown, found.fractions) == (2, 3)
    assert found.numbers[2, 2, 0] == 1
    assert (found.numbers[0, 0, :3] == 0).all() and (found.numbers[1, 1, :2] == 0).all()


def test_pictures_have_no_affine_and_are_read_row_by_row() -> None:
    header, found = read(png(STORED[..., 0]))
    assert (header.shape, header.affine) == ((5, 7), None)
    assert (found.numbers == NUMBERS[..., 0]).all()
    grey = np.repeat(STORED[..., :1], 3, axis=2)
    assert (read(png(grey))[1].numbers == NUMBERS[..., 0]).all()
    grey[0, 0] = (6, 28, 0)
    with pytest.raises(BadMask):
        read(png(grey))
    assert read(png(STORED[..., 0].astype(np.uint16) + 300), (300, 306, 328))[1].unknown == 0


def header_of(shape: tuple[int, ...], code: int = 2) -> bytes:
    raw = bytearray(nifti(np.zeros((2, 2, 2), np.uint8), packed=False)[:352])
    raw[40:56] = np.array([len(shape), *shape, *[1] * (7 - len(shape))], dtype="<i2").tobytes()
    raw[70:72] = np.array([code], dtype="<i2").tobytes()
    return bytes(raw)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (header_of((10000, 10000, 10000)), "promises 1000000000000 bytes"),
        (header_of((10000, 10000, 10000, 10000)), "three axes"),
        (header_of((-5, 4, 4)), "shape"),
        (header_of((2, 2, 2), 128), "neither integers"),
        (header_of((2, 2, 2), 1792), "neither integers"),
        (header_of((2, 2, 2), 999), "no readable"),
        (nifti(STORED)[:-20], "no readable|voxels"),
        (nifti(STORED, packed=False)[:-20], "85 of 105 voxels"),
        (header_of((2, 2, 2))[:280] + b"\0\0\xc0\x7f" * 12 + header_of((2, 2, 2))[328:], "not finite"),
        (nifti(STORED)[:-8] + b"\0" * 8, "no readable|voxels"),
        (b"", "no readable"),
        (b"\x80\x04pickle", "no readable"),
        (b"\x1f\x8b" + b"\0" * 100, "no readable"),
        (png(STORED[..., 0])[:40], "no readable|cannot"),
        (nifti(STORED, packed=False).replace(b"n+1", b"ni1", 1), "in one"),
    ],
)
def test_what_is_no_mask_is_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(BadMask, match=said):
        read(data)


def test_a_gzip_bomb_costs_what_its_header_promises() -> None:
    packer = io.BytesIO()
    with gzip.GzipFile(fileobj=packer, mode="wb", compresslevel=1) as file:
        file.write(header_of((64, 64, 64)))
        for _ in range(400):
            file.write(b"\0" * (1 << 20))
    tracemalloc.start()
    _, found = read(packer.getvalue())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.numbers.shape == (64, 64, 64)
    assert peak < 32 << 20


def test_only_the_formats_asked_for_are_decoded() -> None:
    buffer = io.BytesIO()
    Image.fromarray(STORED[..., 0]).save(buffer, "TIFF")
    assert read_header(buffer).shape == (5, 7)
    with pytest.raises(BadMask):
        read_header(buffer, pictures=("PNG",))
