"""Masks of packages are read in the sandbox: exact where they are honest, bounded and refused where they are not.

What is written anew there is all that the scorer reads.
"""

import gzip
import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from _mask_files import BadFile, Numbers, read_mask, read_scores
from mask_files import OBLIQUE, canonical, nifti, npy, png
from PIL import Image

from services.scorer.masks.files import BadMask, File
from services.scorer.masks.reader import classes
from shared.imaging.image import Image as Case
from shared.imaging.write import write_mask

VALUES = (6, 28)
STORED = np.random.default_rng(0).choice([0, 6, 28], (5, 7, 3)).astype(np.uint8)


def read(data: bytes) -> Numbers:
    return read_mask(io.BytesIO(data))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("packed", [True, False])
def test_values_stay_what_they_are_in_any_number_type(dtype: type, packed: bool) -> None:
    found = read(nifti(STORED.astype(dtype), packed=packed))
    assert np.allclose(found.affine, OBLIQUE, atol=1e-5)
    assert found.array.dtype == np.uint8 and (found.array == STORED).all()
    assert (found.fractions, found.outside) == (0, 0)


def test_big_endian_a_scale_and_trailing_axes_are_understood() -> None:
    assert (read(nifti(STORED.astype(">i2"))).array == STORED).all()
    assert (read(nifti((STORED // 2).astype(np.int16), slope=2.0)).array == STORED).all()
    found = read(nifti(STORED[..., None, None]))
    assert found.array.shape == (5, 7, 3) and (found.array == STORED).all()


def test_other_values_and_fractions_are_counted() -> None:
    odd = STORED.astype(np.float32)
    odd[0, 0, :3] = [np.nan, np.inf, 6.5]
    odd[1, 1, :3] = [-6, 29, 1e30]
    odd[2, 2, :2] = [6.0001, 300]
    found = read(nifti(odd))
    assert (found.outside, found.fractions, found.array.dtype) == (2, 3, np.uint16)
    assert found.array[2, 2, :2].tolist() == [6, 300] and found.array[1, 1, 1] == 29
    assert not found.array[0, 0, :3].any() and found.array[1, 1, [0, 2]].tolist() == [0, 0]
    large = read(nifti(np.full((2, 2, 2), 65536, np.int32)))
    assert large.outside == 8 and not large.array.any()


def test_pictures_have_no_affine_and_are_read_row_by_row() -> None:
    found = read(png(STORED[..., 0]))
    assert found.affine is None and (found.array == STORED[..., 0]).all()
    grey = np.repeat(STORED[..., :1], 3, axis=2)
    assert (read(png(grey)).array == STORED[..., 0]).all()
    grey[0, 0] = (6, 28, 0)
    with pytest.raises(BadFile):
        read(png(grey))
    deep = STORED[..., 0].astype(np.uint16) + 300
    assert (read(png(deep)).array == deep).all()


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
    with pytest.raises(BadFile, match=said):
        read(data)


def test_a_gzip_bomb_costs_what_its_header_promises() -> None:
    packer = io.BytesIO()
    with gzip.GzipFile(fileobj=packer, mode="wb", compresslevel=1) as file:
        file.write(header_of((64, 64, 64)))
        for _ in range(400):
            file.write(b"\0" * (1 << 20))
    found, peak = measured(lambda: read(packer.getvalue()))
    assert found.array.shape == (64, 64, 64)
    assert peak < 32 << 20


def measured(work):
    """What it gives, and the most memory that it took."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def huge_png(side: int, packed: bytes) -> bytes:
    """A picture of `side` x `side` whose data are whatever is given."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", packed), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("side", [8, 1 << 16, 1 << 31])
def test_a_png_with_huge_data_costs_what_its_header_promises(side: int) -> None:
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(200)) + packer.flush()

    def attempt() -> None:
        try:
            assert read(huge_png(side, packed)).array.shape == (8, 8)
        except BadFile:
            assert side > 8

    assert measured(attempt)[1] < 32 << 20


def test_no_object_is_made_of_an_array_of_objects() -> None:
    mask = read(nifti(STORED))
    data = npy(np.full(STORED.shape, None))
    assert b"|O" in data
    for given in (data, npy(np.full(STORED.shape, "x")), npy(STORED)):
        with pytest.raises(BadFile, match="no real numbers"):
            read_scores(io.BytesIO(given), mask)
    with pytest.raises(BadFile):
        read(data)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "BMP"])
def test_no_decoder_but_that_of_png_meets_a_strangers_picture(kind: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(STORED[..., 0]).save(buffer, kind)
    with pytest.raises(BadFile):
        read_mask(buffer)


CANONICAL = canonical(STORED)
FLAT = canonical(STORED[..., 0], None)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("affine", [OBLIQUE, None])
def test_the_scorer_reads_what_our_programs_write(dtype: type, affine: np.ndarray | None) -> None:
    array = (STORED if affine is not None else STORED[..., 0]).astype(dtype)
    file = File(io.BytesIO(canonical(array, affine)))
    assert file.grid.shape == array.shape and (file.grid.affine is None) == (affine is None)
    assert affine is None or np.allclose(file.grid.affine, affine, atol=1e-5)
    stored = file.numbers()
    assert (stored == array).all()
    numbers, unknown = classes(stored, (28, 6))
    assert unknown == 0 and (numbers == np.select([array == 28, array == 6], [1, 2], 0)).all()
    numbers, unknown = classes(stored, (6,))
    assert unknown == (array == 28).sum() and (numbers == (array == 6)).all()
    assert classes(stored, range(1000, 1300))[1] == np.count_nonzero(array)


def test_the_scorer_reads_the_masks_of_intake(tmp_path: Path) -> None:
    turned = write_mask(STORED, Case(STORED[..., None], np.diag([-1.0, -1.0, 2.0, 1.0])), tmp_path / "volume")
    file = File(io.BytesIO(turned.read_bytes()))
    assert np.diag(file.grid.affine).tolist() == [1, 1, 2, 1] and (file.numbers() == STORED[::-1, ::-1]).all()
    flat = write_mask(STORED[..., 0].astype(np.int32) * 9, Case(STORED[..., :1], None), tmp_path / "picture")
    assert (File(io.BytesIO(flat.read_bytes())).numbers() == STORED[..., 0] * 9).all()


def test_others_open_it_as_they_open_any_file() -> None:
    assert (np.asarray(Image.open(io.BytesIO(FLAT))) == STORED[..., 0]).all()
    assert (read(CANONICAL).array == STORED).all()
    deep = STORED[..., 0].astype(np.uint16) * 300
    assert (np.asarray(Image.open(io.BytesIO(canonical(deep, None)))) == deep).all()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<script>",
        nifti(STORED, packed=False),
        nifti(STORED, slope=2.0),
        nifti(STORED.astype(np.float32)),
        png(np.tile(np.arange(64, dtype=np.uint8), (64, 1))),
        CANONICAL[:-9],
        CANONICAL[:100],
        CANONICAL[:-8] + b"\0" * 8,
        FLAT[:20],
        FLAT[:-40],
        gzip.compress(gzip.decompress(CANONICAL) + b"\0"),
        gzip.compress(gzip.decompress(CANONICAL)[:-1]),
        gzip.compress(header_of((10000, 10000, 10000))),
        huge_png(1 << 31, b"x"),
        huge_png(1000, zlib.compress(b"\0" * 1000)),
        huge_png(7, zlib.compress(b"\1" * 56)),
    ],
)
def test_the_scorer_reads_nothing_else(data: bytes) -> None:
    with pytest.raises(BadMask):
        File(io.BytesIO(data)).numbers()


def test_a_bomb_in_the_place_of_a_canonical_file_costs_the_scorer_nothing() -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    head = gzip.decompress(canonical(np.zeros((2, 2, 2), np.uint8)))
    bomb = packer.compress(head) + b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(200)) + packer.flush()

    def attempt() -> None:
        with pytest.raises(BadMask, match="more than its voxels"):
            File(io.BytesIO(bomb)).numbers()

    assert measured(attempt)[1] < 8 << 20
