"""One image in several formats is one image: values, axes and place."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.imaging.headers import peek
from shared.imaging.image import Image, as_picture, canonical, channels_first, spacing_dhw
from shared.imaging.volume import BadImage, read, stack
from shared.imaging.write import write_image
from tests.imaging.make import AXIAL, oblique, series

RNG = np.random.default_rng(7)
SHAPE = (9, 7, 5)
VALUES = RNG.integers(0, 3000, SHAPE).astype(np.uint16)
SAGITTAL = (0.0, 1.0, 0.0, 0.0, 0.0, -1.0)
CORONAL = (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)


def by_itk(files: list[Path], target: Path) -> Path:
    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(files[0].parent)))
    SimpleITK.WriteImage(reader.Execute(), str(target))
    return target


@pytest.mark.parametrize("directions", [AXIAL, SAGITTAL, CORONAL, oblique(), oblique(40), oblique(-35)])
@pytest.mark.parametrize("rescale", [(1, -1024), (0.37, 3.3)])
def test_a_series_is_the_same_in_every_format(
    tmp_path: Path, directions: tuple[float, ...], rescale: tuple[float, float]
) -> None:
    scale = {"RescaleSlope": rescale[0], "RescaleIntercept": rescale[1]}
    files = series(tmp_path / "series", VALUES, directions, **scale)
    image = read(files[::-1])
    direct = channels_first(image)
    assert direct.dtype == np.float32 and direct.shape[0] == 1
    written = write_image(image, tmp_path / "canonical")
    back = read([written])
    np.testing.assert_array_equal(channels_first(back), direct)
    np.testing.assert_allclose(back.grid.spacing, canonical(image).grid.spacing, rtol=1e-6)
    # Written again from what was read: not a byte changes.
    assert write_image(back, tmp_path / "again").read_bytes() == written.read_bytes()
    for suffix in (".nrrd", ".mha", ".nii.gz", ".nhdr", ".mhd"):
        other = read([by_itk(files, tmp_path / f"itk{suffix}")])
        np.testing.assert_allclose(channels_first(other), direct, atol=0 if rescale[0] == 1 else 1e-3)
        np.testing.assert_allclose(canonical(other).affine, canonical(image).affine, atol=2e-3)
        assert spacing_dhw(other) == pytest.approx(spacing_dhw(image), abs=1e-4)


def test_axes_are_the_patients(tmp_path: Path) -> None:
    """D from inferior to superior, H posterior to anterior, W left to right, as nibabel's canonical order reversed."""
    files = series(tmp_path / "s", VALUES, AXIAL)
    image = read(files)
    assert image.array.shape == (*SHAPE, 1) and image.hu_known
    np.testing.assert_array_equal(image.array[..., 0], VALUES.astype(int) - 1024)
    nifti = nibabel.Nifti1Image(image.array[..., 0], image.affine)
    expected = np.asarray(nibabel.as_closest_canonical(nifti).dataobj).transpose(2, 1, 0)
    np.testing.assert_array_equal(channels_first(image)[0], expected)
    # The scanner's first row is in front, its first column at the patient's right; x of RAS runs from left to right.
    np.testing.assert_array_equal(
        channels_first(image)[0, :, ::-1, ::-1], VALUES.transpose(2, 1, 0).astype(float) - 1024
    )


ROTATIONS = st.tuples(*[st.floats(-180, 180)] * 3) | st.tuples(*[st.sampled_from([-90.0, -45.0, 0.0, 45.0, 90.0])] * 3)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROTATIONS, st.tuples(*[st.floats(0.3, 5)] * 3), st.permutations([0, 1, 2]), st.tuples(*[st.booleans()] * 3))
def test_any_orientation_survives_writing(
    tmp_path: Path, angles: tuple[float, ...], edges: tuple[float, ...], order: list[int], flips: tuple[bool, ...]
) -> None:
    matrix = np.eye(3)
    for axis, angle in enumerate(np.radians(angles)):
        one, two = [place for place in range(3) if place != axis]
        turn = np.eye(3)
        turn[one, one] = turn[two, two] = np.cos(angle)
        turn[one, two], turn[two, one] = -np.sin(angle), np.sin(angle)
        matrix = turn @ matrix
    affine = np.eye(4)
    affine[:3, :3] = (matrix * np.where(flips, -1, 1))[:, order] * edges
    affine[:3, 3] = (-71.3, 12.9, 1004.2)
    image = Image(VALUES.astype(np.int16)[..., None], affine)
    turned = canonical(image)
    # Each voxel stays where it is.
    where = np.array([3, 2, 1, 1])
    spot = np.argwhere(turned.array[..., 0] == VALUES[3, 2, 1])
    places = (np.c_[spot, np.ones(len(spot))] @ turned.affine.T)[:, :3]
    assert np.abs(places - (image.affine @ where)[:3]).max(axis=1).min() < 1e-3
    np.testing.assert_array_equal(canonical(turned).array, turned.array)
    back = read([write_image(image, tmp_path / "x")])
    np.testing.assert_array_equal(channels_first(back), channels_first(image))


def test_nifti_as_written_by_others(tmp_path: Path) -> None:
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    values = VALUES.astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "a.nii.gz")
    nibabel.save(nibabel.Nifti2Image(values, affine), tmp_path / "b.nii")
    nibabel.save(nibabel.Nifti1Pair(values, affine), tmp_path / "c.img")
    nibabel.save(nibabel.MGHImage(values.astype(np.int32), affine), tmp_path / "d.mgz")
    for name in ("a.nii.gz", "b.nii", "c.hdr", "c.img", "d.mgz"):
        image = read([tmp_path / name])
        np.testing.assert_array_equal(image.array[..., 0], values)
        np.testing.assert_allclose(image.affine, affine)
        head = peek(tmp_path / name)
        assert (head.shape, head.dimensions, head.spacing) == (SHAPE, 3, (1, 1, 2))
    np.testing.assert_array_equal(read([tmp_path / "c.hdr", tmp_path / "c.img"]).array[..., 0], values)
    analyze = nibabel.AnalyzeImage(values, None)
    nibabel.save(analyze, tmp_path / "e.img")
    np.testing.assert_array_equal(read([tmp_path / "e.hdr"]).array[..., 0], values)


def test_scaling_in_a_header_is_exact(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VALUES.astype(np.int16), np.eye(4))
    image.header.set_slope_inter(2, -1024)
    raw = image.to_bytes()
    (tmp_path / "whole.nii").write_bytes(raw)
    found = read([tmp_path / "whole.nii"])
    np.testing.assert_allclose(found.array[..., 0], np.asarray(nibabel.load(tmp_path / "whole.nii").dataobj))
    wide = read([write_image(found, tmp_path / "w")])
    np.testing.assert_array_equal(wide.array, found.array)


def test_colour_voxels(tmp_path: Path) -> None:
    rgb = np.zeros(SHAPE, dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    rgb["R"], rgb["B"] = VALUES % 255, 9
    nibabel.save(nibabel.Nifti1Image(rgb, np.eye(4)), tmp_path / "rgb.nii.gz")
    image = read([tmp_path / "rgb.nii.gz"])
    assert image.colour and image.array.shape == (*SHAPE, 3)
    np.testing.assert_array_equal(image.array[..., 0], VALUES % 255)
    assert peek(tmp_path / "rgb.nii.gz").channels == 3
    assert read([write_image(image, tmp_path / "c")], axis4="channels").array.shape == (*SHAPE, 3)


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".npy"])
def test_the_fourth_axis(tmp_path: Path, suffix: str) -> None:
    four = np.stack([VALUES, VALUES + 1, VALUES + 2], -1).astype(np.int16)
    path = tmp_path / f"x{suffix}"
    if suffix == ".npy":
        np.save(path, four.transpose(3, 2, 1, 0))
    elif suffix == ".nrrd":
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(four.transpose(3, 2, 1, 0), isVector=False), str(path))
    else:
        nibabel.save(nibabel.Nifti1Image(four, np.eye(4)), path)
    assert peek(path).frames == 3
    with pytest.raises(BadImage, match=r"x\.\S+ has .*axis4"):
        read([path])
    np.testing.assert_array_equal(read([path], axis4="channels").array, four)
    np.testing.assert_array_equal(read([path], axis4="first").array, four[..., :1])


def test_channels_are_joined_on_the_first_ones_grid(tmp_path: Path) -> None:
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    first = Image(VALUES.astype(np.int16)[..., None], affine)
    turned = canonical(first)
    other = Image(turned.array + 5, turned.affine)
    joined = stack([first, other], ["T1", "T2"])
    assert joined.channels == ("T1", "T2") and joined.array.shape == (*SHAPE, 2)
    np.testing.assert_array_equal(joined.array[..., 1], first.array[..., 0] + 5)
    back = read([write_image(joined, tmp_path / "j")], axis4="channels")
    np.testing.assert_array_equal(channels_first(back), channels_first(joined))
    moved = affine.copy()
    moved[0, 3] = 300
    with pytest.raises(BadImage, match="channel T2 covers 0% of the image only"):
        stack([first, Image(first.array, moved)], ["T1", "T2"])


def test_a_channel_on_another_grid_is_sampled_by_its_place_in_space() -> None:
    """What both show is one function of space, linear, so that sampling has to give it exactly."""

    def shown(shape: tuple[int, int, int], affine: np.ndarray) -> Image:
        places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
        return Image((places @ (1.0, 2.0, 3.0) + 7)[..., None].astype(np.float32), affine)

    fine = shown((16, 14, 9), np.diag([-1.0, -1.0, 2.0, 1.0]))
    turn = np.array([[0.0, -2.2, 0.1, 5.0], [-1.7, 0.0, 0.0, 4.0], [0.0, 0.15, 2.5, -6.0], [0.0, 0.0, 0.0, 1.0]])
    coarse = shown((16, 14, 13), turn)
    joined = stack([fine, coarse], ["t2", "adc"])
    assert joined.array.shape == (16, 14, 9, 2)
    inner = joined.array[2:-2, 2:-2, 1:-1]
    np.testing.assert_allclose(inner[..., 1], inner[..., 0], atol=1e-3)
    with pytest.raises(BadImage, match=r"channel b has .* voxels where the image has"):
        stack([Image(fine.array[..., 0, :], None), Image(coarse.array[:9, :, 0], None)], ["a", "b"])


def test_values_that_are_no_numbers_are_refused_with_their_place(tmp_path: Path) -> None:
    values = VALUES.astype(np.float32)
    values[4, 3, 2] = np.nan
    values[5, 3, 2] = np.inf
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "bad.nii.gz")
    with pytest.raises(
        BadImage, match=r"bad\.nii\.gz: 2 value\(s\) are NaN or infinite, the first at voxel \(4, 3, 2\)"
    ):
        read([tmp_path / "bad.nii.gz"])


def test_a_header_that_claims_too_much_is_refused_before_decoding(tmp_path: Path) -> None:
    header = nibabel.Nifti1Header()
    header.set_data_shape((30000, 30000, 3000))
    header["magic"], header["vox_offset"] = b"n+1", 352
    (tmp_path / "bomb.nii").write_bytes(header.binaryblock + bytes(1000))
    with pytest.raises(BadImage, match=r"bomb\.nii says that it holds 30000 x 30000 x 3000 x 1 values.*GB"):
        read([tmp_path / "bomb.nii"])
    nibabel.save(nibabel.Nifti1Image(VALUES.astype(np.int16), np.eye(4)), tmp_path / "fine.nii")
    with pytest.raises(BadImage, match="crop it"):
        read([tmp_path / "fine.nii"], most=500)


def test_a_header_leads_to_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.raw").write_bytes(bytes(range(64)))
    text = "ObjectType = Image\nNDims = 3\nDimSize = 4 4 4\nElementType = MET_UCHAR\nElementDataFile = {}\n"
    for data in ("../secret.raw", str(tmp_path / "secret.raw"), "LIST", "a%02d.raw 1 4 1"):
        (tmp_path / "inside" / "x.mhd").write_text(text.format(data))
        with pytest.raises(BadImage, match=r"x\.mhd takes its voxels from"):
            read([tmp_path / "inside" / "x.mhd"])
    nrrd = "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 4 4 4\nencoding: raw\ndata file: ../secret.raw\n\n"
    for name in ("x.nhdr", "y.nrrd"):
        (tmp_path / "inside" / name).write_text(nrrd)
        with pytest.raises(BadImage, match="takes its voxels from"):
            read([tmp_path / "inside" / name])


def test_a_volume_of_one_slice_as_a_picture(tmp_path: Path) -> None:
    files = series(tmp_path / "s", VALUES[:, :, :1], AXIAL)
    alone = read(files)
    assert alone.affine is None and alone.array.shape == (7, 9, 1)
    affine = np.diag([-0.5, -0.75, 2, 1])
    thin = Image(VALUES[:, :, :1, None].astype(np.int32) - 1024, affine)
    np.testing.assert_array_equal(as_picture(thin).array, alone.array)
    with pytest.raises(BadImage, match="where a picture is expected"):
        as_picture(Image(VALUES[..., None], affine))


def test_affines_without_direction_are_refused(tmp_path: Path) -> None:
    image = Image(VALUES[..., None], np.diag([1, 0, 1, 1]))
    with pytest.raises(BadImage, match="gives its axes no direction"):
        canonical(image)
