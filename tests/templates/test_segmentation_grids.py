"""Grids, resampling and sampling of the segmentation template, without a training."""

import nibabel
import numpy as np
import pytest

from shared.imaging import case as images
from shared.imaging.inputs import input_files
from shared.imaging.volume import BadImage, fitted, from_dhw, size_dhw
from shared.training import dice, masks
from tests.templates.segbench import ORIENTATIONS, bright_blocks, modules, overlays


@pytest.fixture(scope="module")
def template():
    with modules(
        "segmentation", "config", "data", "model", "patches", "cases", "predict", "survey", "evaluate"
    ) as found:
        yield found


class Threshold:
    """A network that calls bright voxels class 1 and very bright ones class 2."""

    def __call__(self, image):
        import torch

        value = image[:, :1]
        return {"logits": torch.cat([0 * value, 40 * (value - 0), 80 * (value - 0.4)], 1)}


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_a_mask_overlays_the_oblique_anisotropic_image_it_was_made_from(template, tmp_path, name):
    path, image, affine = bright_blocks(tmp_path, name)
    scan = images.load_image([path])
    how = template.config.Preprocess(
        dimensions=3, spacing=(3.0, 3.0, 3.0), patch_size=(16, 16, 16), intensity="ct", window=(-100, 100), channels=1
    )
    for flips in ((), ("D", "W")):
        wanted = template.config.Prediction(flips=flips, min_component_mm3=0 if flips else 50)
        config = template.config.Config(preprocess=how, prediction=wanted)
        found, _ = template.predict.segment(Threshold(), scan, config, "cpu")
        assert found.shape == size_dhw(scan)
        values = np.array([0, 28, 3])[from_dhw(found, scan)]
        written = images.write_mask(scan, values, tmp_path, "mask")
        overlays(nibabel.load(tmp_path / written), image, affine, {28: 50, 3: 100})


def test_windows_give_what_the_whole_gives(template):
    """Windows change nothing for a network that looks at single voxels, whatever the sizes, in 3D or slice by slice."""
    import torch

    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (1, 21, 17, 30)).astype(np.float32)
    how = template.config.Preprocess(dimensions=3, spacing=(1, 1, 1), patch_size=(8, 8, 16), channels=1)
    flat = [
        template.config.Preprocess(dimensions=2, slices=axis, spacing=(1, 1, 1), patch_size=(8, 16), channels=1)
        for axis in "DHW"
    ]
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
        for kind in (how, *flat):
            config = template.config.Config(preprocess=kind)
            seen = template.predict.probabilities(Threshold(), image, config, "cpu")
            found, scores = template.predict.on_grid(seen, size)
            assert found.shape == scores.shape == size
            assert (found == planes.argmax(1).numpy()).mean() > 0.999


def test_thick_slices_are_merged_when_their_pixels_are_as_coarse(template):
    strides, unet = template.model.strides, template.config.Model(network="unet", levels=4)
    assert strides(unet, (32, 32, 32), (1, 1, 1.5)) == [(2, 2, 2)] * 3
    assert strides(unet, (16, 96, 104), (5, 0.5, 0.5)) == [(1, 2, 2), (1, 2, 2), (1, 2, 2)]
    assert strides(unet, (16, 96, 104), (3, 0.75, 0.75)) == [(1, 2, 2), (1, 2, 2), (2, 2, 2)]
    # An axis that is short waits for none, and none for it.
    assert strides(unet, (6, 64, 64), (0.5, 2, 2)) == [(1, 2, 2)] * 3
    assert strides(unet, (64, 48), (1, 1)) == [(2, 2)] * 3
    segresnet = template.config.Model(network="segresnet", levels=3)
    assert strides(segresnet, (16, 64, 64), (5, 1, 1)) == [(2, 2, 2)] * 2
    assert template.model.multiples(strides(unet, (16, 96, 104), (5, 0.5, 0.5)), 3) == [1, 8, 8]
    network = template.model.make_network(unet, (5, 16, 24), (5, 0.5, 0.5), 1, 3)
    import torch

    assert network(torch.zeros(1, 1, 5, 16, 24)).shape == (1, 3, 5, 16, 24)
    with pytest.raises(ValueError, match=r"multiples of \[1, 4, 4\]"):
        template.model.make_network(unet, (5, 16, 22), (5, 0.5, 0.5), 1, 3)


def test_small_and_unsure_pieces_become_background(template):
    classes = np.zeros((6, 10, 10), np.uint8)
    classes[0:3, 0:3, 0:3], classes[5, 9, 9], classes[4, 8, 2:4] = 1, 1, 2
    scores = np.where(classes > 0, 0.6, 0.1).astype(np.float32)
    scores[1, 1, 1], scores[5, 9, 9] = 0.9, 0.95
    pieces = template.predict.pieces_of(classes, scores, 2.0)

    def cut(*least):
        return template.predict.without_specks(classes, pieces, *least)

    assert [one.tolist() for one in pieces[1:3]] == [[0, 1, 1, 2], [0, 54, 2, 4]]
    assert pieces[3].tolist() == pytest.approx([0, 0.9, 0.95, 0.6])
    kept = cut(5.0, 0.0)
    assert (kept == 1).sum() == 27 and not (kept == 2).any() and (classes == 2).any()
    kept = cut(0.0, 0.8)
    assert (kept == 1).sum() == 28 and not (kept == 2).any()
    assert cut(0.0, 0.92).sum() == 1
    np.testing.assert_array_equal(cut(0.0, 0.0), classes)


def test_what_is_left_of_an_image_scores_as_its_mask_would(template):
    from shared.training.dice import score_case

    random = np.random.default_rng(3)
    truth, found = (random.integers(0, 5, (5, 16, 16)) * (random.random((5, 16, 16)) < 0.4) for _ in range(2))
    truth[truth == 4], found[found == 2] = 0, 0
    pieces = template.predict.pieces_of(found, random.random(found.shape).astype(np.float32), 2.0)
    left = template.evaluate.counted(found, truth, pieces, 4)
    for least in ((0.0, 0.0), (6.0, 0.0), (0.0, 0.97), (1e9, 0.0)):
        expected = score_case(template.predict.without_specks(found, pieces, *least), truth, 4)
        assert left.score(*least) == expected and len({*expected.dice}) > 1
    assert template.evaluate.counted(found, 0 * truth, pieces, 4).score(1e9, 0.0) == score_case(0 * truth, 0 * truth, 4)


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
    scan = images.load_image(input_files(folder))
    assert scan.array.shape == (6, 4, 3, 1) and scan.array[2, 1, 0, 0] == 6 + 2 + 1000 - 5 - 1024
    np.testing.assert_allclose(scan.affine @ [2, 1, 2, 1], [10 - 1.6, 20 - 0.7, 5, 1], rtol=1e-6)
    # A series that lacks a slice has no even grid: its mask would lie elsewhere.
    lacking = pydicom.dcmread(folder / "0.dcm")
    lacking.ImagePositionPatient, lacking.SOPInstanceUID = [-10, -20, 15], "1.2.3.9"
    pydicom.dcmwrite(tmp_path / "3.dcm", lacking)
    with pytest.raises(BadImage, match="the 4 slices of the series are not evenly spaced: one is missing"):
        images.load_image([*sorted(folder.iterdir()), tmp_path / "3.dcm"])
    # The same grid as a NIfTI converter may store it: rows turned over.
    mask = np.zeros((6, 4, 3), np.uint8)
    mask[1, 2, 0] = 28
    turned = scan.affine.copy()
    turned[:3, 1] *= -1
    turned[:3, 3] = (scan.affine @ [0, 3, 0, 1])[:3]
    nibabel.save(nibabel.Nifti1Image(mask[:, ::-1], turned), tmp_path / "mask.nii.gz")
    row = {"files": [f"series/{number}.dcm" for number in range(3)], "target": "mask.nii.gz"}
    _, classes = masks.load_case(row, tmp_path, {"x": 28})
    np.testing.assert_array_equal(classes, mask // 28)


def test_several_files_are_channels_or_slices(tmp_path):
    from PIL import Image

    planes = np.random.default_rng(0).integers(0, 255, (3, 6, 5)).astype(np.uint8)
    files = []
    for number, plane in enumerate(planes):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(plane).save(files[-1])
    # As many as the model has channels, or where that is not known: channels. Else slices.
    for channels in (0, 3):
        assert images.load_image(files, channels).array.shape == (6, 5, 3)
    volume = images.load_image(files, 1)
    assert volume.array.shape == (5, 6, 3, 1) and volume.grid.spacing == (1, 1, 1)
    for name, values in (("t1", planes), ("t2", planes + 1)):
        nibabel.save(nibabel.Nifti1Image(values, np.diag([2.0, 2, 3, 1])), tmp_path / f"{name}.nii.gz")
    pair = [tmp_path / "t1.nii.gz", tmp_path / "t2.nii.gz"]
    joined = images.load_image(pair, 2)
    assert joined.array.shape == (3, 6, 5, 2) and joined.channels == ("t1.nii.gz", "t2.nii.gz")
    with pytest.raises(BadImage, match=r"has 2 channel\(s\) where the model takes 1"):
        fitted(images.load_image(pair, 1), 1)
    # The same two as one file with a fourth axis, as canonical cases have them.
    nibabel.save(nibabel.Nifti1Image(joined.array, joined.affine), tmp_path / "both.nii.gz")
    np.testing.assert_array_equal(images.load_image([tmp_path / "both.nii.gz"]).array, joined.array)


def test_colour_is_seen_as_the_model_was_trained(tmp_path):
    from PIL import Image

    rgb = np.random.default_rng(0).integers(0, 255, (6, 5, 3)).astype(np.uint8)
    Image.fromarray(rgb).save(tmp_path / "rgb.png")
    Image.fromarray(rgb[..., 0]).save(tmp_path / "grey.png")
    colour, plain = images.load_image([tmp_path / "rgb.png"]), images.load_image([tmp_path / "grey.png"])
    assert fitted(colour, 3) is colour and fitted(plain, 1) is plain
    np.testing.assert_allclose(fitted(colour, 1).array[..., 0], rgb @ np.array([0.299, 0.587, 0.114]), atol=0.01)
    np.testing.assert_array_equal(fitted(plain, 3).array, np.repeat(plain.array, 3, -1))


def test_small_structures_survive_and_are_drawn(template):
    target = np.zeros((16, 64, 64), np.uint8)
    target[2:8, 10:40, 10:40] = 1
    target[9, 50, 51] = 2
    small = template.cases.shrink(target, (8, 20, 20))
    assert set(np.unique(small)) == {0, 1, 2} and small[4, 15, 16] == 2
    generator = np.random.default_rng(0)
    image = generator.normal(size=(1, *target.shape)).astype(np.float32)
    places = template.patches.places_in(target, apart=False)
    cut = template.patches.cut
    drawn = [cut(image, target, (8, 16, 16), places, 1.0, 0.0, generator) for _ in range(20)]
    assert all(found.shape == (1, 8, 16, 16) and classes.any() for found, classes in drawn)
    assert 2 < sum((classes == 2).any() for _, classes in drawn) < 18
    padded, classes = cut(image[:, :4], target[:4], (8, 16, 16), [], 1.0, 0.0, generator)
    assert padded.shape == (1, 8, 16, 16) and np.ptp(padded[0, 0]) == 0
    assert not classes[:2].any()


def test_sides_are_never_mirrored(template):
    def axes(*names, **wanted):
        return template.patches.flip_axes(template.config.Augmentation(**wanted), names, "DHW")

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
    sagittal = template.config.Augmentation(flip_axes=["D", "W"])
    assert template.patches.flip_axes(sagittal, ["a"], "DH") == (0,), "the axis across slices is not theirs"
    assert axes("a", "b", "c", flip_axes="unsided") == (2,) and axes("left a", "b", flip_axes="unsided") == ()


def test_dice_of_absent_structures_and_healthy_cases():
    truth, found = np.zeros((4, 4), int), np.zeros((4, 4), int)
    truth[0], found[0, :2], found[1, 0] = 1, 1, 3
    score = dice.score_case(found, truth, 3)
    assert score.dice == (pytest.approx(2 / 3), None, 0.0) and not score.empty
    assert set(dice.summary([score], ["a", "b", "c"])) == {"dice", "dice a", "dice b", "dice c"}
    # As the scorer: a healthy case is left out if nothing is found in it, and is 0 otherwise.
    nothing = np.zeros((4, 4), int)
    right, wrong = dice.score_case(nothing, nothing, 3), dice.score_case(found, nothing, 3)
    perfect = dice.score_case(truth, truth, 3)
    figures = dice.summary([perfect, right], ["a", "b", "c"])
    assert figures["dice"] == figures["dice_lesion"] == figures["dice_healthy"] == 1
    figures = dice.summary([perfect, right, wrong], ["a", "b", "c"])
    assert figures["dice"] == 0.5 and figures["dice_lesion"] == 1 and figures["dice_healthy"] == 0.5
    assert figures["dice b"] is None and dice.of_all_cases([perfect, right, wrong]) == pytest.approx(2 / 3)
    assert dice.summary([right], ["a"])["dice"] is None


def test_specks_are_left_out_by_more_than_one_image_and_never_as_large_as_what_is_marked(template):
    """Three validation images chose 3000 mm3 once, and every lesion of the test went."""
    gained = template.evaluate.gained
    assert gained([0.9, 0.5, 0.5], [0.2, 0.5, 0.55]) == 0.0  # one image decides
    assert gained([0.9], [0.1]) == 0.0
    assert gained([0.6, 0.7, 0.8], [0.5, 0.5, 0.7]) == 0.0  # of three
    assert gained([0.6, 0.7, 0.8, 0.9], [0.5, 0.5, 0.7, 0.8]) == pytest.approx(0.5 / 4)

    def mask(*edges: int) -> np.ndarray:
        labels = np.zeros((12, 40, 40), np.uint8)
        for number, edge in enumerate(edges):
            labels[1 : 1 + edge, 1 : 1 + edge, 1 + 13 * number : 1 + 13 * number + edge] = 1
        return labels

    class Marked:
        def __init__(self, *labels):
            self.rows, self.cases = list(range(len(labels))), self
            self.labels = labels

        def load(self, row):
            return None, self.labels[row]

    how = template.config.Preprocess(spacing=(2.0, 1.0, 1.0))
    config = template.config.Config(preprocess=how)
    # Specks of one voxel hold less than 1 %: they may go, and lesions of 27 voxels (54 mm3) stay.
    assert template.evaluate.largest_speck(Marked(mask(9, 1), mask(3, 9)), config) == 54
    other = mask(9)
    other[11, 30:32, 30] = 2  # a structure that is small everywhere
    assert template.evaluate.largest_speck(Marked(mask(9), other), config) == 4
    assert template.evaluate.largest_speck(Marked(mask()), config) == np.inf


def test_the_best_bound_of_pieces_is_chosen_and_all_are_told(template):
    """A true piece of each of six images, and false ones that are less sure: 0.65 in each, and 0.93 in one image."""

    def image(last: float, sure: float = 0.995):
        numbers = (np.array([0, 1, 1, 1]), np.zeros(4), np.array([0, sure, 0.65, last]), np.array([0, 50, 20, 10]))
        return template.evaluate.Pieces(*numbers, np.array([0, 50, 0, 0]), np.array([900, 50]))

    judge = object.__new__(template.evaluate.Judge)
    judge.tried, judge.bounds = ([0.0], template.evaluate.SURE), []
    assert judge.least([*(image(0.65) for _ in range(5)), image(0.93)]) == [0.0, 0.95]
    sizes, chances = judge.bounds
    assert [*sizes] == ["0"] and chances["0.7"] == chances["0.9"] < chances["0.95"] == 1 > chances["0"]
    # What is marked is no surer than what is not.
    assert judge.least([image(0.65, sure=0.62) for _ in range(6)]) == [0.0, 0.0]
