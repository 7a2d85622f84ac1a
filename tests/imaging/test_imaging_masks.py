"""Masks as they come, on the grid of their image, and nothing tolerated in silence."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image as Pillow

from shared.imaging.dicom_masks import read_rtstruct, read_seg
from shared.imaging.grid import Grid, difference, onto
from shared.imaging.image import Image, canonical, channels_first
from shared.imaging.masks import mapped, on_image, read_label_map, read_palette
from shared.imaging.volume import BadImage, read
from shared.imaging.write import write_image, write_mask
from tests.imaging.make import AXIAL, oblique, rtstruct, seg, series

RNG = np.random.default_rng(2)
SHAPE = (16, 14, 6)
VOLUME = RNG.integers(0, 3000, SHAPE).astype(np.uint16)
LABELS = RNG.integers(0, 4, SHAPE).astype(np.uint8)
SPACING, ORIGIN = (0.5, 0.75, 2.0), (-30.0, 12.0, 100.0)


@pytest.mark.parametrize("directions", [AXIAL, oblique()])
@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".mha"])
def test_a_label_map_in_any_axis_order_fits_its_series(
    tmp_path: Path, directions: tuple[float, ...], suffix: str
) -> None:
    image = read(series(tmp_path / "s", VOLUME, directions, SPACING, ORIGIN))
    turned = canonical(Image(LABELS[..., None], image.affine))
    path = tmp_path / f"m{suffix}"
    if suffix == ".nii.gz":
        nibabel.save(nibabel.Nifti1Image(turned.array[..., 0].astype(np.float32), turned.affine), path)
    else:
        mask = SimpleITK.GetImageFromArray(LABELS.transpose(2, 1, 0))
        mask.SetSpacing(SPACING)
        mask.SetOrigin(ORIGIN)
        across, down = np.array(directions).reshape(2, 3)
        mask.SetDirection(np.stack([across, down, np.cross(across, down)], 1).ravel().tolist())
        SimpleITK.WriteImage(mask, str(path))
    labels, grid = read_label_map(path)
    np.testing.assert_array_equal(on_image(labels, grid, image, path.name), LABELS)
    # The canonical mask lies on the canonical image.
    written = read([write_image(image, tmp_path / "i")])
    back, where = read_label_map(write_mask(LABELS, image, tmp_path / "m"))
    assert where is not None and where.affine is not None and written.affine is not None
    np.testing.assert_array_equal(where.affine, written.affine)
    np.testing.assert_array_equal(
        channels_first(Image(back[..., None], where.affine)), channels_first(Image(LABELS[..., None], image.affine))
    )


def test_a_mask_elsewhere_is_refused(tmp_path: Path) -> None:
    affine = np.diag([1.0, 1.0, 3.0, 1.0])
    image = Image(VOLUME[..., None], affine)
    for shift, fits in ((0.05, True), (0.5, False)):
        moved = affine.copy()
        moved[0, 3] = shift
        nibabel.save(nibabel.Nifti1Image(LABELS, moved), tmp_path / "m.nii.gz")
        labels, grid = read_label_map(tmp_path / "m.nii.gz")
        if fits:
            on_image(labels, grid, image, "m")
        else:
            with pytest.raises(BadImage, match=r"the mask m lies elsewhere in space.*0\.5 mm away.*give the mask of"):
                on_image(labels, grid, image, "m")
    with pytest.raises(BadImage, match="has 16 x 14 x 5 voxels where the image has 16 x 14 x 6"):
        on_image(LABELS[:, :, :5], Grid((16, 14, 5), affine), image, "m")


@pytest.mark.parametrize("turned", [False, True])
def test_a_mask_that_was_cut_to_what_it_marks_lies_where_its_header_says(turned: bool) -> None:
    """As 3D Slicer saves segmentations."""
    affine = np.array([[0, -1.5, 0, 40], [1, 0, 0, -7], [0, 0, 3, 2], [0, 0, 0, 1.0]])
    image = Image(VOLUME[..., None], affine)
    start, whole = (3, 2, 1), np.zeros_like(LABELS)
    part = (slice(3, 12), slice(2, 9), slice(1, 5))
    whole[part] = LABELS[part]
    cut, own = whole[part], affine.copy()
    own[:3, 3] = affine[:3] @ (*start, 1)
    if turned:
        own[:3, 3] += own[:3, 0] * (cut.shape[0] - 1)
        own[:3, 0], cut = -own[:3, 0], cut[::-1]
    np.testing.assert_array_equal(on_image(cut, Grid(cut.shape, own), image, "m"), whole)
    for wrong in (0.4 * own[:3, 1], 20 * own[:3, 2]):  # between voxels, and outside of the image
        moved = own.copy()
        moved[:3, 3] += wrong
        with pytest.raises(BadImage, match="voxels where the image has"):
            on_image(cut, Grid(cut.shape, moved), image, "m")


def test_a_mask_without_a_place_fits_by_its_size(tmp_path: Path) -> None:
    image = read(series(tmp_path / "s", VOLUME))
    np.save(tmp_path / "m.npy", LABELS.transpose(2, 1, 0))
    labels, grid = read_label_map(tmp_path / "m.npy")
    assert grid is not None and grid.affine is None
    np.testing.assert_array_equal(on_image(labels, grid, image, "m"), LABELS)


def test_slices_of_a_mask_go_with_the_files_of_the_image(tmp_path: Path) -> None:
    """Names of the pictures are in the order of the names of the DICOM files, which lie in another one."""
    files = series(tmp_path / "s", VOLUME)
    image = read(files)
    assert image.order != tuple(range(6))
    pictures = []
    for place, number in enumerate(image.order):
        picture = tmp_path / f"m{number}.png"
        Pillow.fromarray(LABELS[:, :, place].T).save(picture)
        pictures.append(picture)
    labels, grid = read_label_map(sorted(pictures), order=image.order)
    np.testing.assert_array_equal(on_image(labels, grid, image, "m"), LABELS)
    with pytest.raises(BadImage, match="5 slices of the mask, 6 of the image"):
        read_label_map(sorted(pictures)[:5], order=image.order)


def test_numbers_of_a_mask_are_whole(tmp_path: Path) -> None:
    values = LABELS.astype(np.float32)
    values[:2, 0, 0] += 0.4
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "m.nii")
    with pytest.raises(BadImage, match=r"m\.nii holds 2 value\(s\) that are not whole numbers, such as .*nearest"):
        read_label_map(tmp_path / "m.nii")


def test_pictures_as_masks(tmp_path: Path) -> None:
    plane = LABELS[:, :, 0]
    Pillow.fromarray(plane * 85).save(tmp_path / "grey.png")
    Pillow.fromarray(plane.astype(np.uint16) * 1000).save(tmp_path / "deep.png")
    Pillow.fromarray((plane > 1).astype(bool)).save(tmp_path / "bits.png")
    Pillow.fromarray(np.repeat((plane * 85)[..., None], 3, -1)).save(tmp_path / "same.png")
    palette = Pillow.fromarray(plane, "P")
    palette.putpalette(list(RNG.integers(0, 256, 768).astype(int)))
    for name in ("palette.png", "palette.tif", "palette.gif"):
        palette.save(tmp_path / name)
    Pillow.fromarray(np.repeat((plane * 85)[..., None], 3, -1)).save(tmp_path / "same.tif")
    expected = {
        "same.tif": plane * 85,
        "grey.png": plane * 85,
        "deep.png": plane.astype(int) * 1000,
        "bits.png": plane > 1,
        "same.png": plane * 85,
    }
    expected |= {"palette.png": plane, "palette.tif": plane}
    for name, values in expected.items():
        labels, grid = read_label_map(tmp_path / name)
        assert grid is None and labels.dtype.kind in "iu"
        np.testing.assert_array_equal(labels, values)
    Pillow.fromarray(RNG.integers(0, 256, (5, 5, 3)).astype(np.uint8)).save(tmp_path / "rgb.png")
    with pytest.raises(BadImage, match=r"rgb\.png is a colour picture: give its colours"):
        read_label_map(tmp_path / "rgb.png")


def test_a_jpeg_is_a_mask_only_if_it_is_black_and_white(tmp_path: Path) -> None:
    mask = np.zeros((64, 64), np.uint8)
    mask[10:40, 20:50] = 1
    for factor, name in ((255, "two.jpg"), (1, "one.jpg"), (85, "grey.jpg")):
        Pillow.fromarray(mask * factor).save(tmp_path / name, quality=80)
    labels, _ = read_label_map(tmp_path / "two.jpg")
    assert set(np.unique(labels)) == {0, 255} and (labels > 0).sum() == pytest.approx(900, abs=20)
    Pillow.fromarray(mask * 0).save(tmp_path / "empty.jpg")
    assert not read_label_map(tmp_path / "empty.jpg")[0].any()
    for name in ("one.jpg", "grey.jpg"):
        with pytest.raises(BadImage, match=rf"{name} is of a format that changes the numbers.*save the masks as PNG"):
            read_label_map(tmp_path / name)


def test_a_palette_of_colours(tmp_path: Path) -> None:
    colours = np.array([[0, 0, 0], [255, 0, 0], [0, 0x80, 0xFF], [0, 255, 0]], np.uint8)
    plane = LABELS[:, :, 0]
    Pillow.fromarray(colours[plane]).save(tmp_path / "c.png")
    table = {"#FF0000": 1, "#0080ff": 5, "#00ff00": 3}
    np.testing.assert_array_equal(read_palette(tmp_path / "c.png", table), np.array([0, 1, 5, 3])[plane])
    count = int((plane == 3).sum())
    with pytest.raises(BadImage, match=rf"c\.png has 1 colour\(s\) that no structure has: #00ff00 \({count} pixels\)"):
        read_palette(tmp_path / "c.png", {"#ff0000": 1, "#0080ff": 5})
    with pytest.raises(BadImage, match="is no colour; write it as #rrggbb"):
        read_palette(tmp_path / "c.png", {"red": 1})
    with pytest.raises(BadImage, match=r"c\.jpg is a JPEG, which changes colours"):
        Pillow.fromarray(colours[plane]).save(tmp_path / "c.jpg")
        read_palette(tmp_path / "c.jpg", table)
    grey = Pillow.fromarray(plane * 85)
    grey.save(tmp_path / "g.png")
    np.testing.assert_array_equal(read_palette(tmp_path / "g.png", {"#555555": 1, "#aaaaaa": 2, "#ffffff": 3}), plane)


def test_values_of_a_file_become_values_of_the_mask() -> None:
    labels = np.array([[0, 85, 255]])
    with pytest.raises(BadImage, match=r"m.png has 1 value.* that no structure has: 85; .*`only`"):
        mapped(labels, {"255": 2}, "m.png")
    assert mapped(labels, {"nonzero": 0, "255": 2}, "m.png").tolist() == [[0, 0, 2]]
    assert mapped(labels, {"nonzero": 1}, "m.png").tolist() == [[0, 1, 1]]
    assert mapped(labels, {"*": 0}, "m.png").tolist() == [[0, 85, 255]]


@pytest.mark.parametrize("directions", [AXIAL, oblique()])
@pytest.mark.parametrize("fractional", [False, True])
def test_a_segmentation_object(tmp_path: Path, directions: tuple[float, ...], fractional: bool) -> None:
    files = series(tmp_path / "s", VOLUME, directions, SPACING, ORIGIN)
    image = read(files)
    masks = {"liver": LABELS == 1, "tumour": (LABELS == 2) & (np.arange(6) == 3)}
    seg(tmp_path / "seg.dcm", masks, directions, SPACING, ORIGIN, fractional)
    for base, turn in ((image, lambda array: array), (read([write_image(image, tmp_path / "c")]), None)):
        found = read_seg(tmp_path / "seg.dcm", base)
        assert list(found) == ["liver", "tumour"]
        for name, mask in masks.items():
            expected = mask if turn else canonical(Image(mask[..., None], image.affine)).array[..., 0]
            np.testing.assert_array_equal(found[name], expected)
    with pytest.raises(BadImage, match=r"seg\.dcm has frame 1 on another grid than the image"):
        read_seg(tmp_path / "seg.dcm", read(series(tmp_path / "t", VOLUME, directions, (0.6, 0.75, 2.0), ORIGIN)))
    with pytest.raises(BadImage, match="outside of the image"):
        read_seg(tmp_path / "seg.dcm", read(files[1:] if image.order[0] == 0 else files[:-1], uneven="accept"))


@pytest.mark.parametrize("directions", [AXIAL, oblique()])
def test_contours(tmp_path: Path, directions: tuple[float, ...]) -> None:
    image = read(series(tmp_path / "s", VOLUME, directions, SPACING, ORIGIN))
    across, down = np.array(directions).reshape(2, 3)

    def square(low: float, high: float, slice_number: float) -> np.ndarray:
        corners = np.array([(low, low), (low, high), (high, high), (high, low)])
        flat = corners[:, :1] * SPACING[0] * across + corners[:, 1:] * SPACING[1] * down
        return np.array(ORIGIN) + flat + np.cross(across, down) * SPACING[2] * slice_number

    rtstruct(
        tmp_path / "rs.dcm",
        {"ring": [square(1.5, 10.5, 2), square(3.5, 7.5, 2), square(1.5, 4.5, 3)], "spot": [square(5.5, 6.5, 0)]},
    )
    expected = np.zeros(SHAPE, bool)
    expected[2:11, 2:11, 2], expected[4:8, 4:8, 2], expected[2:5, 2:5, 3] = True, False, True
    found = read_rtstruct(tmp_path / "rs.dcm", image)
    np.testing.assert_array_equal(found["ring"], expected)
    assert found["spot"].sum() == 1 and found["spot"][6, 6, 0]
    turned = read([write_image(image, tmp_path / "c")])
    np.testing.assert_array_equal(
        read_rtstruct(tmp_path / "rs.dcm", turned)["ring"],
        canonical(Image(expected[..., None], image.affine)).array[..., 0],
    )
    rtstruct(tmp_path / "off.dcm", {"a": [square(1, 4, 2.5)]})
    with pytest.raises(BadImage, match=r"off\.dcm has a contour of a at 2\.50 slices, which is on no slice"):
        read_rtstruct(tmp_path / "off.dcm", image)
    rtstruct(tmp_path / "away.dcm", {"a": [square(50, 60, 2)]})
    with pytest.raises(BadImage, match="outside of the image"):
        read_rtstruct(tmp_path / "away.dcm", image)


def test_one_tolerance_for_all_axis_orders() -> None:
    affine = np.diag([0.8, 0.8, 5.0, 1.0])
    here = Grid((10, 12, 4), affine)
    for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2]):
        for flip in range(3):
            other = affine.copy()
            other[:3, :3] = affine[:3, order]
            shape = [here.shape[axis] for axis in order]
            other[:3, 3] = other[:3, flip] * (shape[flip] - 1)
            other[:3, flip] *= -1
            there = Grid(tuple(shape), other)
            assert difference(there, here) is None and difference(here, there) is None
            array = RNG.normal(size=shape)
            np.testing.assert_array_equal(onto(onto(array, there, here), here, there), array)
            there.affine[0, 3] += 0.2  # type: ignore[index]
            assert "lies elsewhere" in str(difference(there, here))
    assert difference(Grid((10, 12)), Grid((10, 12))) is None
    assert difference(Grid((10, 12, 4)), here) is None
    assert difference(Grid((12, 10, 4)), here) == "has 12 x 10 x 4 voxels where the image has 10 x 12 x 4"
    # A single slice has no thickness to compare.
    assert difference(Grid((10, 12, 1), affine), Grid((10, 12, 1), np.diag([0.8, 0.8, 1, 1]))) is None


def test_cubes_do_not_fit_turned() -> None:
    """Equal edges do not make another place the same one."""
    quarter = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], float)
    assert "lies elsewhere" in str(difference(Grid((5, 5, 5), quarter), Grid((5, 5, 5), np.eye(4))))
