"""Grids, resampling and sampling of the segmentation template, without a training."""

import nibabel
import numpy as np
import pytest

from shared.trainkit.exported.segmenter import inference, masks, readers
from shared.trainkit.exported.segmenter.scan import BadImage
from shared.trainkit.segmentation import augment, cases, metrics, patches
from shared.trainkit.segmentation.settings import Augmentation
from tests.templates.segbench import ORIENTATIONS, bright_blocks, overlays


class Threshold:
    """A network that calls bright voxels class 1 and very bright ones class 2."""

    def __call__(self, image):
        import torch

        value = image[:, :1]
        return {"logits": torch.cat([0 * value, 40 * (value - 0), 80 * (value - 0.4)], 1)}


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_a_mask_overlays_the_oblique_anisotropic_image_it_was_made_from(tmp_path, name):
    path, image, affine = bright_blocks(tmp_path, name)
    scan = readers.load_scan([path])
    how = inference.Preprocess(
        dimensions=3, spacing=(3.0, 3.0, 3.0), patch_size=(16, 16, 16), intensity="ct", window=(-100, 100), channels=1
    )
    found = inference.segment(Threshold(), inference.prepare(scan, how), scan.grid.size, how, "cpu")
    values = np.array([0, 28, 3])[scan.grid.turn_back(found)]
    written = masks.write_mask(scan, values, tmp_path, "mask")
    overlays(nibabel.load(tmp_path / written), image, affine, {28: 50, 3: 100})


def test_slabs_give_what_the_whole_gives():
    """Windows and slabs change nothing for a network that looks at single voxels, whatever the sizes."""
    import torch

    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (1, 21, 17, 30)).astype(np.float32)
    how = inference.Preprocess(dimensions=3, spacing=(1, 1, 1), patch_size=(8, 8, 16), channels=1)
    for size in ((21, 17, 30), (40, 33, 30), (10, 17, 45)):
        chances = Threshold()(torch.from_numpy(image[None]))["logits"].softmax(1)
        # Along D by pairs of slices, without anti-aliasing, as the slabs do.
        place = np.clip((np.arange(size[0]) + 0.5) * 21 / size[0] - 0.5, 0, 20)
        low = np.floor(place).astype(int)
        mixed = torch.lerp(
            chances[0][:, low],
            chances[0][:, np.minimum(low + 1, 20)],
            torch.tensor(place - low).float()[None, :, None, None],
        )
        planes = torch.nn.functional.interpolate(mixed.transpose(0, 1), size[1:], mode="bilinear")
        found = inference.segment(Threshold(), image, size, how, "cpu")
        assert found.shape == size
        assert (found == planes.argmax(1).numpy()).mean() > 0.999


def test_dicom_geometry_and_a_mask_stored_in_another_order(tmp_path):
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    folder = tmp_path / "series"
    folder.mkdir()
    for number, z in enumerate((5.0, -5.0, 0.0)):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, f"1.2.3.{number + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        found = FileDataset(str(folder / f"{number}.dcm"), {}, file_meta=meta, preamble=b"\0" * 128)
        found.SOPClassUID, found.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        found.SeriesInstanceUID, found.Modality = "1.2.3", "CT"
        found.Rows, found.Columns, found.SamplesPerPixel, found.PhotometricInterpretation = 4, 6, 1, "MONOCHROME2"
        found.BitsAllocated = found.BitsStored = 16
        found.HighBit, found.PixelRepresentation = 15, 0
        found.RescaleSlope, found.RescaleIntercept = 1, -1024
        found.ImagePositionPatient, found.ImageOrientationPatient = [-10, -20, z], [1, 0, 0, 0, 1, 0]
        found.PixelSpacing = [0.7, 0.8]
        pixels = (np.arange(24).reshape(4, 6) + 1000 + int(z)).astype(np.uint16)
        found.PixelData = pixels.tobytes()
        pydicom.dcmwrite(folder / f"{number}.dcm", found, enforce_file_format=True)
    scan = readers.load_scan(readers.input_files(folder))
    assert scan.shape == (6, 4, 3) and scan.data[0, 2, 1, 0] == 6 + 2 + 1000 - 5 - 1024
    np.testing.assert_allclose(scan.grid.affine @ [2, 1, 2, 1], [10 - 1.6, 20 - 0.7, 5, 1])
    # A series that lacks a slice has no even grid: its mask would lie elsewhere.
    lacking = pydicom.dcmread(folder / "0.dcm")
    lacking.ImagePositionPatient = [-10, -20, 15]
    pydicom.dcmwrite(tmp_path / "3.dcm", lacking)
    with pytest.raises(BadImage, match="the 4 slices of the series are not evenly spaced: one is missing"):
        readers.load_scan([*sorted(folder.iterdir()), tmp_path / "3.dcm"])
    # The same grid as a NIfTI converter may store it: rows turned over.
    mask = np.zeros((6, 4, 3), np.uint8)
    mask[1, 2, 0] = 28
    turned = scan.grid.affine.copy()
    turned[:3, 1] *= -1
    turned[:3, 3] = (scan.grid.affine @ [0, 3, 0, 1])[:3]
    nibabel.save(nibabel.Nifti1Image(mask[:, ::-1], turned), tmp_path / "mask.nii.gz")
    row = {"files": [f"series/{number}.dcm" for number in range(3)], "target": "mask.nii.gz"}
    _, classes = cases.load_case(row, tmp_path, {"x": 28})
    np.testing.assert_array_equal(classes, mask // 28)


def test_small_structures_survive_and_are_drawn():
    target = np.zeros((16, 64, 64), np.uint8)
    target[2:8, 10:40, 10:40] = 1
    target[9, 50, 51] = 2
    small = cases.shrink(target, (8, 20, 20))
    assert set(np.unique(small)) == {0, 1, 2} and small[4, 15, 16] == 2
    generator = np.random.default_rng(0)
    image = generator.normal(size=(1, *target.shape)).astype(np.float32)
    places = patches.structure_places(target)
    drawn = [patches.cut(image, target, (8, 16, 16), places, 1.0, generator) for _ in range(20)]
    assert all(found.shape == (1, 8, 16, 16) and classes.any() for found, classes in drawn)
    assert 2 < sum((classes == 2).any() for _, classes in drawn) < 18
    padded, classes = patches.cut(image[:, :4], target[:4], (8, 16, 16), [], 1.0, generator)
    assert padded.shape == (1, 8, 16, 16) and np.ptp(padded[0, 0]) == 0
    assert not classes[:2].any()


def test_sides_are_never_mirrored():
    def axes(*names, **wanted):
        return augment.flip_axes(Augmentation(**wanted), names, 3)

    assert (
        axes("left kidney", "liver") == ()
        and axes(
            "kidney_R",
        )
        == ()
    )
    assert axes("tumour") == (2,) and axes("liver", "tumour") == (2,)
    assert axes("liver", "spleen", "stomach") == ()
    assert axes("left kidney", flip_axes=["D"]) == (0,)


def test_dice_of_absent_structures_and_healthy_cases():
    truth, found = np.zeros((4, 4), int), np.zeros((4, 4), int)
    truth[0], found[0, :2], found[1, 0] = 1, 1, 3
    score = metrics.score_case(found, truth, 3)
    assert score.dice == (pytest.approx(2 / 3), None, 0.0) and not score.empty
    assert set(metrics.summary([score], ["a", "b", "c"])) == {"dice", "dice a", "dice b", "dice c"}
    # As the scorer: a healthy case is left out if nothing is found in it, and is 0 otherwise.
    nothing = np.zeros((4, 4), int)
    right, wrong = metrics.score_case(nothing, nothing, 3), metrics.score_case(found, nothing, 3)
    perfect = metrics.score_case(truth, truth, 3)
    figures = metrics.summary([perfect, right], ["a", "b", "c"])
    assert figures["dice"] == figures["dice_lesion"] == figures["dice_healthy"] == 1
    figures = metrics.summary([perfect, right, wrong], ["a", "b", "c"])
    assert figures["dice"] == 0.5 and figures["dice_lesion"] == 1 and figures["dice_healthy"] == 0.5
    assert figures["dice b"] is None and metrics.of_all_cases([perfect, right, wrong]) == pytest.approx(2 / 3)
    assert metrics.summary([right], ["a"])["dice"] is None
