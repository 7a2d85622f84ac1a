"""Canonical files: bytes follow from values and place alone, and nothing else of the original is in them."""

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as Pillow

from shared.imaging.image import Image
from shared.imaging.units import looks_like_hu, rescaled
from shared.imaging.volume import BadImage, channels_first, read
from shared.imaging.write import smallest, write_image, write_mask
from tests.imaging.make import series

RNG = np.random.default_rng(1)
VOLUME = RNG.integers(0, 4000, (9, 7, 5)).astype(np.uint16)
AFFINE = np.array([[-0.75, 0, 0, 31], [0, 0.5, 0, -8], [0, 0, 3, 100], [0, 0, 0, 1]])


def test_what_a_nifti_says_of_its_origin_does_not_survive(tmp_path: Path) -> None:
    first = nibabel.Nifti1Image(VOLUME.astype(np.int16), AFFINE)
    header = nibabel.Nifti2Header()
    header["descrip"], header["intent_name"], header["aux_file"] = b"SECRET site A", b"SECRET", b"SECRET"
    header["cal_max"], header["toffset"], header["slice_code"] = 7, 3, 2
    header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"SECRET"))
    axes = np.ascontiguousarray(VOLUME[::-1].transpose(2, 0, 1)).astype(np.float64)
    place = AFFINE @ np.array([[0, -1, 0, 8], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1.0]])
    second = nibabel.Nifti2Image(axes, place, header)
    second.set_qform(place, 1)
    second.set_sform(place, 3)
    nibabel.save(first, tmp_path / "a.nii.gz")
    nibabel.save(second, tmp_path / "b.nii")
    written = [write_image(read([tmp_path / name]), tmp_path / f"{name}-out") for name in ("a.nii.gz", "b.nii")]
    assert written[0].read_bytes() == written[1].read_bytes()
    raw = written[0].read_bytes()
    assert raw[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00" + raw[8:10]  # no name, no time
    assert b"SECRET" not in gzip.decompress(raw)
    head = nibabel.load(written[0]).header
    assert not head.extensions and head.get_data_dtype() == np.uint16
    assert nibabel.aff2axcodes(nibabel.load(written[0]).affine) == ("R", "A", "S")


def test_patients_do_not_survive(tmp_path: Path) -> None:
    image = read(series(tmp_path / "s", VOLUME, PatientName="SECRET^NAME", PatientID="SECRET7"))
    assert b"SECRET" not in gzip.decompress(write_image(image, tmp_path / "x").read_bytes())
    exif = Pillow.Exif()
    exif[0x010E] = "SECRET"
    Pillow.fromarray(VOLUME[..., 0].astype(np.uint8)).save(tmp_path / "p.jpg", exif=exif, comment=b"SECRET")
    assert b"SECRET" in (tmp_path / "p.jpg").read_bytes()
    assert b"SECRET" not in write_image(read([tmp_path / "p.jpg"]), tmp_path / "p").read_bytes()
    tifffile.imwrite(tmp_path / "t.tif", VOLUME[..., 0] - np.float32(0.5), description="SECRET", software="SECRET")
    assert b"SECRET" not in write_image(read([tmp_path / "t.tif"]), tmp_path / "t").read_bytes()


@pytest.mark.parametrize(
    ("array", "colour", "suffix"),
    [
        (VOLUME[..., :1] % 256, False, ".png"),
        (VOLUME[..., :1], False, ".png"),
        (VOLUME[..., :1].astype(np.int32) - 1024, False, ".tif"),
        (VOLUME[..., :1] / np.float32(7), False, ".tif"),
        (VOLUME[..., :3] % 256, True, ".png"),
        (VOLUME[..., :3], True, ".tif"),
        (VOLUME[..., :3] % 256, False, ".tif"),
        (VOLUME[..., :2], False, ".tif"),
        (VOLUME[..., :5].astype(np.float32) / 3, False, ".tif"),
        (VOLUME[..., :4] % 256, False, ".tif"),
    ],
)
def test_pictures_are_written_without_loss(tmp_path: Path, array: np.ndarray, colour: bool, suffix: str) -> None:
    image = Image(array, None, colour=colour)
    path = write_image(image, tmp_path / "case.7")
    assert path.name == f"case.7{suffix}"
    back = read([path])
    assert back.colour == colour and back.affine is None
    np.testing.assert_array_equal(back.array, array)
    again = write_image(back, tmp_path / "again")
    assert again.read_bytes() == path.read_bytes()


@given(
    st.sampled_from(["u1", "i1", "u2", "i2", "i4", "f4"]).flatmap(
        lambda kind: arrays.arrays(
            kind,
            (3, 2, 2),
            elements=None if kind != "f4" else st.floats(-1e6, 1e6, width=32) | st.integers(-300, 70000).map(float),
        )
    )
)
def test_the_smallest_type_holds_the_values_exactly(array: np.ndarray) -> None:
    small = smallest(array)
    np.testing.assert_array_equal(small, array)
    assert small.itemsize <= array.itemsize or small.dtype == np.float32
    # Of one type for the same values, whatever held them.
    assert smallest(array.astype(np.float64)).dtype == small.dtype


def test_masks(tmp_path: Path) -> None:
    image = Image(VOLUME[..., None], AFFINE)
    with pytest.raises(BadImage, match="has shape"):
        write_mask(VOLUME[:4], image, tmp_path / "m")
    with pytest.raises(BadImage, match="not whole numbers"):
        write_mask(VOLUME / 2.5, image, tmp_path / "m")
    picture = Image(VOLUME[..., :1], None)
    assert write_mask(VOLUME[..., 0], picture, tmp_path / "p").suffix == ".png"
    with pytest.raises(BadImage, match="0 to 65535"):
        write_mask(VOLUME[..., 0] - 70000.0, picture, tmp_path / "p")


def test_a_sheared_affine_is_kept(tmp_path: Path) -> None:
    """A gantry tilt: the slices lie askew."""
    tilted = AFFINE.copy()
    tilted[1, 2] = 0.8
    back = read([write_image(Image(VOLUME[..., None], tilted), tmp_path / "x")])
    np.testing.assert_array_equal(channels_first(back), channels_first(Image(VOLUME[..., None], tilted)))
    np.testing.assert_allclose(back.grid.spacing, np.linalg.norm(tilted[:3, :3], axis=0), rtol=1e-6)


def ct(shape: tuple[int, ...] = (40, 40, 20)) -> np.ndarray:
    """Air around a body with lungs."""
    x, y, _ = np.meshgrid(*[np.linspace(-1, 1, edge) for edge in shape], indexing="ij")
    values = np.where(np.hypot(x, y) < 0.8, 40, -1000)
    values[np.hypot(x - 0.3, y) < 0.25] = -850
    return values + RNG.normal(0, 15, shape)


def test_hounsfield_units() -> None:
    assert looks_like_hu(ct()) and looks_like_hu(ct().astype(np.int16))
    assert not looks_like_hu(ct() + 1024)
    assert not looks_like_hu(np.abs(ct()))
    assert not looks_like_hu(RNG.normal(0, 1, 1000))
    assert not looks_like_hu(np.clip(ct(), -160, 240))
    assert not looks_like_hu(RNG.integers(0, 256, 1000))
    padded = ct()
    padded[:2] = -3024
    assert looks_like_hu(padded)
    one = np.abs(ct())
    one[0, 0, 0] = -4000  # one voxel decides nothing
    assert not looks_like_hu(one)


def test_a_table_rescales_where_it_has_not_been_done() -> None:
    stored, done = np.rint(ct() + 1024).astype(np.int32), np.rint(ct()).astype(np.int32)
    np.testing.assert_array_equal(rescaled(stored, 1, -1024, doubtful=True), stored - 1024)
    np.testing.assert_array_equal(rescaled(done, 1, -1024, doubtful=True), done)
    np.testing.assert_array_equal(rescaled(done, 1, -1024, doubtful=False), done - 1024)
    assert rescaled(stored, None, None, doubtful=False) is stored
