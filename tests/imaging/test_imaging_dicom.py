"""DICOM as it comes: compressed, in colour, in pieces, in frames, and with something missing."""

import shutil
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.uid import RLELossless, generate_uid

from shared.imaging.headers import dicom_values, peek
from shared.imaging.image import canonical, channels_first
from shared.imaging.volume import BadImage, read
from tests.imaging.make import AXIAL, dicom, oblique, sequence, series

RNG = np.random.default_rng(3)
VOLUME = RNG.integers(0, 3000, (8, 6, 5)).astype(np.uint16)
PLANE = RNG.integers(0, 250, (6, 8)).astype(np.uint8)


def sample(name: str) -> Path:
    found = get_testdata_file(name, download=False)
    assert found
    return Path(found)


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        ("MR_small_RLE.dcm", "MR_small.dcm"),
        ("MR_small_jp2klossless.dcm", "MR_small.dcm"),
        ("MR_small_jpeg_ls_lossless.dcm", "MR_small.dcm"),
        ("MR_small_bigendian.dcm", "MR_small.dcm"),
        ("MR_small_implicit.dcm", "MR_small.dcm"),
        ("SC_rgb_rle_16bit.dcm", ""),
        ("JPGExtended.dcm", "JPEG-lossy.dcm"),
        ("SC_rgb_jls_lossy_line.dcm", ""),
    ],
)
def test_compressed_pixels(packed: str, plain: str) -> None:
    image = read([sample(packed)])
    assert image.affine is None and image.array.ndim == 3
    if plain:
        expected = pydicom.dcmread(sample(plain))
        if plain == "MR_small.dcm":
            np.testing.assert_array_equal(image.array[..., 0], expected.pixel_array)
        else:
            np.testing.assert_array_equal(image.array, read([sample(plain)]).array)
    else:
        assert image.colour and image.array.shape == (100, 100, 3)


def test_gdcm_gives_stored_values_that_are_rescaled_once(tmp_path: Path) -> None:
    """JPEG-LS is what only GDCM decodes; the header's rescaling is ours."""
    dataset = pydicom.dcmread(sample("MR_small_jpeg_ls_lossless.dcm"))
    dataset.RescaleSlope, dataset.RescaleIntercept = 2, -1000
    dataset.save_as(tmp_path / "x.dcm")
    plain = pydicom.dcmread(sample("MR_small.dcm")).pixel_array
    np.testing.assert_array_equal(read([tmp_path / "x.dcm"]).array[..., 0], plain.astype(int) * 2 - 1000)


def test_a_whole_series_compressed(tmp_path: Path) -> None:
    files = series(tmp_path / "rle", VOLUME, oblique(), syntax=RLELossless)
    assert pydicom.dcmread(files[0]).file_meta.TransferSyntaxUID == RLELossless
    plain = read(series(tmp_path / "plain", VOLUME, oblique()))
    np.testing.assert_array_equal(read(files).array, plain.array)


def test_light_and_dark_exchanged(tmp_path: Path) -> None:
    dicom(
        tmp_path / "a.dcm", PLANE.astype(np.uint16), PhotometricInterpretation="MONOCHROME1", BitsStored=12, HighBit=11
    )
    image = read([tmp_path / "a.dcm"])
    np.testing.assert_array_equal(image.array[..., 0], 4095 - PLANE.astype(int))


def test_colour_stays_colour_and_grey_in_colour_is_grey(tmp_path: Path) -> None:
    rgb = np.stack([PLANE, PLANE[::-1], PLANE], -1)
    dicom(tmp_path / "c.dcm", rgb, Modality="US")
    image = read([tmp_path / "c.dcm"])
    assert image.colour and peek(tmp_path / "c.dcm").colour
    np.testing.assert_array_equal(image.array, rgb)
    dicom(tmp_path / "g.dcm", np.repeat(PLANE[..., None], 3, -1), Modality="US")
    grey = read([tmp_path / "g.dcm"])
    assert not grey.colour
    np.testing.assert_array_equal(grey.array[..., 0], PLANE)
    for name in ("examples_palette.dcm", "examples_jpeg2k.dcm", "SC_ybr_full_422_uncompressed.dcm"):
        assert read([sample(name)]).colour


def test_slices_without_position_go_by_their_number(tmp_path: Path) -> None:
    files = []
    for number in range(4):
        path = tmp_path / f"{9 - number}.dcm"
        dicom(path, np.full((3, 2), number, np.uint8), InstanceNumber=number, PixelSpacing=[2, 1], SliceThickness=5)
        files.append(path)
    image = read(sorted(files))
    assert image.grid.spacing == (1, 2, 5) and image.order == (3, 2, 1, 0)
    np.testing.assert_array_equal(channels_first(image)[0, :, 0, 0], [0, 1, 2, 3])


def test_order_says_which_file_each_slice_is(tmp_path: Path) -> None:
    files = series(tmp_path, VOLUME)
    image = read(files)
    for place, number in enumerate(image.order):
        stored = pydicom.dcmread(files[number]).pixel_array.T.astype(int) - 1024
        np.testing.assert_array_equal(image.array[:, :, place, 0], stored)
    assert canonical(image).order == image.order


def test_the_same_object_twice_counts_once(tmp_path: Path) -> None:
    files = series(tmp_path, VOLUME)
    shutil.copy(files[2], tmp_path / "000 copy.dcm")
    twice = read(sorted(tmp_path.iterdir()))
    np.testing.assert_array_equal(twice.array, read(files).array)
    # Numbers are those of the files given, the copy ("000 copy" comes first) among them.
    assert [sorted(tmp_path.iterdir())[number].name for number in twice.order][2] == "003.dcm"


def test_a_gap_is_refused_or_taken_on_demand(tmp_path: Path) -> None:
    files = series(tmp_path, np.concatenate([VOLUME] * 2, 2))
    with pytest.raises(BadImage, match=r"the 8 slices of the series are not evenly spaced.*give the whole series"):
        read([*files[:3], *files[5:]])
    assert read([*files[:3], *files[5:]], uneven="accept").array.shape[2] == 8


def test_what_makes_no_series_is_refused(tmp_path: Path) -> None:
    files = series(tmp_path / "a", VOLUME)
    other = series(tmp_path / "b", VOLUME, SeriesInstanceUID="9.9")
    with pytest.raises(BadImage, match="belong to 2 series; give the files of one"):
        read([*files, *other])
    turned = series(tmp_path / "c", VOLUME[:, :, :1], oblique(), SOPInstanceUID=generate_uid())
    with pytest.raises(BadImage, match=r"000\.dcm has another orientation than the series, as a localizer"):
        read([*files[1:], *turned])
    small = series(tmp_path / "d", VOLUME[:4, :, :1])
    with pytest.raises(BadImage, match="has another size than the series"):
        read([*files[1:], *small])
    again = series(tmp_path / "e", VOLUME[:, :, :1] + 1)
    with pytest.raises(BadImage, match="several slices in 1 of 5 places"):
        read([*files, *again])


def test_times_of_one_series_are_a_fourth_axis(tmp_path: Path) -> None:
    early = series(tmp_path / "a", VOLUME, AcquisitionNumber=1)
    late = series(tmp_path / "b", VOLUME + 7, AcquisitionNumber=2)
    with pytest.raises(BadImage, match="2 times; say with `axis4`"):
        read([*late, *early])
    np.testing.assert_array_equal(read([*late, *early], axis4="first").array, read(early).array)
    both = read([*late, *early], axis4="channels").array
    np.testing.assert_array_equal(both[..., 1], both[..., 0] + 7)


@pytest.mark.parametrize("directions", [AXIAL, oblique()])
def test_an_enhanced_object_is_as_its_series(tmp_path: Path, directions: tuple[float, ...]) -> None:
    spacing, origin = (0.5, 0.75, 2.0), np.array([-30.0, 12.0, 100.0])
    plain = read(series(tmp_path / "s", VOLUME, directions, spacing, origin))
    across, down = np.array(directions).reshape(2, 3)
    order = [3, 0, 4, 2, 1]
    places = [origin + np.cross(across, down) * spacing[2] * z for z in order]
    frames = [
        sequence(PlanePositionSequence=sequence(ImagePositionPatient=[float(f"{v:.10g}") for v in place]))[0]
        for place in places
    ]
    dicom(
        tmp_path / "e.dcm",
        np.ascontiguousarray(VOLUME.transpose(2, 1, 0)[order]),
        PerFrameFunctionalGroupsSequence=pydicom.Sequence(frames),
        SharedFunctionalGroupsSequence=sequence(
            PlaneOrientationSequence=sequence(ImageOrientationPatient=[float(f"{v:.12g}") for v in directions]),
            PixelMeasuresSequence=sequence(PixelSpacing=[0.75, 0.5], SliceThickness=2),
            PixelValueTransformationSequence=sequence(RescaleSlope=1, RescaleIntercept=-1024, RescaleType="HU"),
        ),
    )
    image = read([tmp_path / "e.dcm"])
    assert image.hu_known
    np.testing.assert_array_equal(image.array, plain.array)
    np.testing.assert_allclose(image.affine, plain.affine, atol=1e-4)
    head = peek(tmp_path / "e.dcm")
    assert (head.dimensions, head.shape, head.spacing) == (3, (8, 6, 5), (0.5, 0.75, 2.0))


def test_a_cine_loop_is_a_picture_at_several_times(tmp_path: Path) -> None:
    dicom(tmp_path / "us.dcm", np.stack([PLANE, PLANE + 1, PLANE + 2]), Modality="US", FrameTime=40)
    head = peek(tmp_path / "us.dcm")
    assert (head.dimensions, head.frames, head.shape) == (2, 3, (8, 6))
    with pytest.raises(BadImage, match=r"us\.dcm is a cine loop of 3 frames"):
        read([tmp_path / "us.dcm"])
    np.testing.assert_array_equal(read([tmp_path / "us.dcm"], axis4="first").array[..., 0], PLANE)


def test_objects_without_pixels_and_truncated_ones() -> None:
    for name in ("rtplan.dcm", "test-SR.dcm", "waveform_ecg.dcm"):
        with pytest.raises(BadImage, match="DICOM object without pixels"):
            read([sample(name)])
        with pytest.raises(BadImage, match="without pixels"):
            peek(sample(name))
    with pytest.raises(BadImage, match=r"MR_truncated\.dcm has pixels that cannot be decoded"):
        read([sample("MR_truncated.dcm")])
    with pytest.raises(BadImage, match="dicom_seg"):
        read([sample("liver_1frame.dcm")])
    assert peek(sample("rtstruct.dcm")).kind == "annotation"


def test_headers_by_keyword(tmp_path: Path) -> None:
    dicom(tmp_path / "a.dcm", PLANE, PatientAge="061Y", ImageType=["ORIGINAL", "PRIMARY"])
    path = tmp_path / "a.dcm"
    found = dicom_values(path, ["PatientID", "PatientName", "PatientAge", "ImageType", "StudyDate"])
    assert found == {
        "PatientID": "p1", "PatientName": "Doe^Jane", "PatientAge": "061Y", "ImageType": "ORIGINAL\\PRIMARY",
    }  # fmt: skip
    assert peek(path).dicom["PatientID"] == "p1" and peek(path).modality == "CT"
    with pytest.raises(BadImage, match="no such keyword"):
        dicom_values(path, ["PatientColour"])
