"""Readers, preprocessing and the dataset as the probe and the network see them."""

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.imaging import volume
from shared.imaging.inputs import input_files
from shared.imaging.volume import BadImage, channels_first, spacing_dhw
from tests.templates.conftest import modules

ours = modules("diagnosis", "config", "images")
images, Preprocess = ours.images, ours.config.Preprocess
ANY = Preprocess()
"""Nothing is settled, as in a survey."""
TENS = {"intensity": "window", "window": (0, 10)}


def test_oblique_nifti_is_turned_to_ras(tmp_path):
    """A block at the patient's right, front and top comes out at low W, high H and high D, however it is stored."""
    block = np.zeros((20, 24, 10), np.float32)  # R to L would be x descending; this one is RAS+
    block[:6, 16:, 7:] = 1
    plain = np.diag([0.8, 0.9, 2.5, 1.0])
    nibabel.save(nibabel.Nifti1Image(block, plain), tmp_path / "plain.nii.gz")
    turn = np.deg2rad(12)
    tilt = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    # Stored as z, -x, y and tilted by twelve degrees.
    stored = block.transpose(2, 0, 1)[:, ::-1, :]
    affine = np.eye(4)
    affine[:3, :3] = tilt @ np.array([[0, -0.8, 0], [0, 0, 0.9], [2.5, 0, 0]])
    nibabel.save(nibabel.Nifti1Image(np.ascontiguousarray(stored), affine), tmp_path / "oblique.nii")
    first = images.load_image([tmp_path / "plain.nii.gz"], ANY)
    second = images.load_image([tmp_path / "oblique.nii"], ANY)
    seen = channels_first(first)[0]
    assert seen.shape == (10, 24, 20)
    assert seen[8, 20, 2] == 1 and seen[1, 20, 2] == 0 and seen[8, 2, 2] == 0 and seen[8, 20, 15] == 0
    np.testing.assert_array_equal(seen, channels_first(second)[0])
    for image in (first, second):
        np.testing.assert_allclose(spacing_dhw(image), (2.5, 0.9, 0.8), rtol=1e-5)


def test_given_order_is_kept_and_folders_are_natural(tmp_path):
    for number in (1, 2, 10):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(tmp_path / f"{number}.png")
    Image.fromarray(np.full((8, 8), 3, np.uint8)).save(tmp_path / "11.jpg", quality=100)
    (tmp_path / "._1.png").write_bytes(b"resource fork")
    deep = Preprocess(input_shape=(4, 8, 8), channels=1)
    for how in (ANY, deep):
        listed = channels_first(images.load_image([tmp_path / "10.png", tmp_path / "2.png"], how))
        assert listed[0, :, 0, 0].tolist() == [10, 2]
    files = input_files(tmp_path)
    whole = channels_first(images.load_image(files, deep))
    assert whole.shape == (1, 4, 8, 8)
    np.testing.assert_allclose(whole[0, :, 4, 4], [1, 2, 10, 3], atol=1)
    # Of pictures that are seen one by one, no more are looked at than the network has views.
    for views in (1, 3):
        seen = images.read(files, Preprocess(input_shape=(8, 8), channels=1, views=views, **TENS))
        assert seen.shape == (views, 8, 8)
        np.testing.assert_allclose(seen[:, 4, 4], [-0.8, -0.6, 1][:views], atol=1e-5)
    Image.fromarray(np.full((4, 4), 3, np.uint8)).save(tmp_path / "11.jpg")
    with pytest.raises(BadImage, match=r"11\.jpg has 4 x 4 pixels"):
        images.load_image(files, deep)


def seen_as(path, channels, intensity="zscore"):
    how = Preprocess(input_shape=(8, 8), channels=channels, intensity=intensity, window=(0, 100))
    return images.preprocess(images.load_image([path], how), how)


def test_colour_keeps_its_hue_and_grey_is_taken_for_it(tmp_path):
    generator = np.random.default_rng(0)
    colour = np.stack([generator.integers(0, top, (8, 8)) for top in (250, 120, 30)], -1).astype(np.uint8)
    Image.fromarray(colour).save(tmp_path / "colour.png")
    Image.fromarray(colour[..., 0]).save(tmp_path / "grey.png")
    for intensity in ("zscore", "minmax", "window"):
        found = seen_as(tmp_path / "colour.png", 3, intensity)
        assert found.shape == (3, 8, 8) and found.dtype == np.float32
        assert found[0].mean() > found[1].mean() > found[2].mean(), "channels keep their relation"
        repeated = seen_as(tmp_path / "grey.png", 3, intensity)
        assert repeated.shape == (3, 8, 8) and (repeated == repeated[:1]).all()
        np.testing.assert_allclose(repeated[:1], seen_as(tmp_path / "grey.png", 1, intensity), atol=0.02)
    luminance = colour.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    expected = (luminance - luminance.mean()) / luminance.std()
    np.testing.assert_allclose(seen_as(tmp_path / "colour.png", 1)[0], expected, atol=1e-4)
    with pytest.raises(BadImage, match=r"has 3 channel\(s\) where the model takes 2"):
        seen_as(tmp_path / "colour.png", 2)


def test_channels_are_one_file_or_a_file_each_and_have_scales_of_their_own(tmp_path):
    generator = np.random.default_rng(0)
    planes = generator.normal(size=(6, 7, 5, 2)).astype(np.float32) * (1, 1000) + (0, 5000)
    nibabel.save(nibabel.Nifti1Image(planes.astype(np.float32), np.diag([2.0, 2, 3, 1])), tmp_path / "both.nii.gz")
    for number, name in enumerate(("1_t1", "2_t2")):
        # The second is stored with its axes another way round, on the same grid.
        image = nibabel.Nifti1Image(planes[..., number].astype(np.float32), np.diag([2.0, 2, 3, 1]))
        image = image.as_reoriented([[1, -1], [0, 1], [2, 1]]) if number else image
        (tmp_path / "each").mkdir(exist_ok=True)
        nibabel.save(image, tmp_path / "each" / f"{name}.nii.gz")
    how = Preprocess(input_shape=(5, 7, 6), channels=2, intensity="zscore")
    found = images.preprocess(images.load_image([tmp_path / "both.nii.gz"], how), how)
    assert found.shape == (2, 5, 7, 6)
    np.testing.assert_allclose(found.mean((1, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(found.std((1, 2, 3)), 1, atol=1e-2)
    files = input_files(tmp_path / "each")
    np.testing.assert_array_equal(images.preprocess(images.load_image(files, how), how), found)
    one = Preprocess(input_shape=(5, 7, 6), channels=1, intensity="zscore")
    with pytest.raises(BadImage, match=r"has 2 channel\(s\) where the model takes 1"):
        images.preprocess(images.load_image([tmp_path / "both.nii.gz"], one), one)
    with pytest.raises(BadImage, match="give one volume a file"):
        images.load_image(files, one)


def test_auto_is_what_most_training_images_have(tmp_path):
    shapes = [(40, 48, 3)] * 3 + [(40, 48)] * 2 + [(40, 48, 3), (40, 48)]
    for number, shape in enumerate(shapes):
        picture = np.random.default_rng(number).integers(0, 255, shape).astype(np.uint8)
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    rows = [{"files": [tmp_path / f"{number}.png"]} for number in range(len(shapes))]
    found = images.settle(ANY, [images.load_image(row["files"], ANY) for row in rows])
    assert images.whole(found) == (3, 40, 48) and images.in_colour(found) and found.intensity == "zscore"
    assert images.whole(images.settle(ANY, [images.load_image(row["files"], ANY) for row in rows[3:5]])) == (1, 40, 48)
    # Hounsfield units in all channels keep their scale; in one of them they do not.
    body = np.random.default_rng(0).integers(-1000, 200, (9, 16, 16)).astype(np.int16)
    for name, second in (("phases", body), ("pet", np.abs(body) + 4000)):
        both = nibabel.Nifti1Image(np.stack([body, second], -1).astype(np.int16), np.eye(4))
        nibabel.save(both, tmp_path / f"{name}.nii.gz")
        rows = [{"files": [tmp_path / f"{name}.nii.gz"]}]
        found = images.settle(ANY, [images.load_image(row["files"], ANY) for row in rows])
        assert images.whole(found) == (2, 16, 16, 16) and found.intensity == (
            "window" if name == "phases" else "zscore"
        )


def test_dicom_series_is_sorted_and_rescaled(tmp_path):
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    for name, z in (("a.dcm", 10.0), ("b.dcm", -5.0), ("c.dcm", 2.5)):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, f"1.2.3.{ord(name[0])}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        found = FileDataset(str(tmp_path / name), {}, file_meta=meta, preamble=b"\0" * 128)
        found.SOPClassUID, found.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        found.SeriesInstanceUID, found.Modality = "1.2.3", "CT"
        found.Rows = found.Columns = 4
        found.SamplesPerPixel, found.PhotometricInterpretation = 1, "MONOCHROME2"
        found.BitsAllocated = found.BitsStored = 16
        found.HighBit, found.PixelRepresentation = 15, 0
        found.RescaleSlope, found.RescaleIntercept = 1, -1024
        found.ImagePositionPatient, found.ImageOrientationPatient = [0, 0, z], [1, 0, 0, 0, 1, 0]
        found.PixelSpacing = [0.7, 0.8]
        found.PixelData = np.full((4, 4), int(z * 2) + 1000, np.uint16).tobytes()
        pydicom.dcmwrite(tmp_path / name, found, enforce_file_format=True)
    image = images.load_image(input_files(tmp_path), ANY)
    assert channels_first(image)[0, :, 0, 0].tolist() == [-10 - 24, 5 - 24, 20 - 24]
    np.testing.assert_allclose(spacing_dhw(image), (7.5, 0.7, 0.8), rtol=1e-6)


def test_constant_images_are_no_division_by_zero():
    flat = volume.Image(np.full((40, 40, 10, 2), 3.7, np.float32), np.eye(4))
    for intensity in ("zscore", "minmax"):
        how = Preprocess(input_shape=(4, 8, 8), channels=2, intensity=intensity)
        found = images.preprocess(flat, how)
        assert found.shape == (2, 4, 8, 8) and np.isfinite(found).all() and np.ptp(found) == 0
    how = Preprocess(input_shape=(4, 8, 8), channels=1, intensity="window", window=(-100, 300))
    window = images.preprocess(volume.Image(np.full((8, 8, 4, 1), 100, np.float32), np.eye(4)), how)
    np.testing.assert_allclose(window, 0, atol=1e-6)


def test_verify_batches_on_a_good_workspace(bench):
    bench.scans(12, (9, 40, 40))
    bench.write()
    facts = bench.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["errors"] == []
    assert facts["counts"] == {"train": 8, "val": 4} and facts["label_names"] == ["plain", "block"]
    for split in ("train", "val"):
        batch = facts["batches"][split]
        assert batch["shape"] == [4, 1, 8, 40, 40] and batch["dtype"] == "float32" and batch["finite"]
        assert batch["std"] > 0.1 and set(batch["labels"]) == {"plain", "block"}
    assert facts["forward"]["logits_shape"] == [4, 2] and facts["forward"]["loss"] > 0
    assert facts["parameters"] > 1000 and facts["constant_samples"] == 0 and facts["step"]["milliseconds"] > 0
    assert facts["step"]["samples"] == 8, "those of the configuration"
    settled = facts["settled"]
    assert settled["preprocess.input_shape"] == [8, 40, 40] and settled["preprocess.intensity"] == "zscore"
    assert "auto" not in settled.values(), settled
    path, built = bench.workspace / "model.py", "    inputs, *shape = whole(config.preprocess)"
    assert built in path.read_text()
    path.write_text(path.read_text().replace(built, f"    config = config.model_copy()\n{built}"))
    (error,) = bench.probe("verify_batches")["errors"]
    assert "fails with the configuration of a package" in error and "model_copy" in error
    assert facts["config"]["training.metric"] == "auc_macro" and "training.metric" not in settled


BROKEN = {
    "raises": ("image = images.as_tensor(", "None[0]; image = images.as_tensor(", "TypeError"),
    "nan": ('return {"image": image,', 'return {"image": image * float("nan"),', "NaN or infinity"),
    "labels": ('"labels": self.targets[number]}', '"labels": self.targets[number] + 5}', "not in the label map"),
    "keys": ('return {"image": image,', 'return {"picture": image,', "image and labels"),
    "syntax": ("class Cases(", "class Cases((", "SyntaxError"),
    "leak": ('if row["split"] == split], cache)', "], cache)", "patients on both sides"),
    "blank": ('return {"image": image,', 'print("noise"); return {"image": image * 0,', None),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_verify_batches_on_a_broken_dataset(bench, fault):
    old, new, expected = BROKEN[fault]
    bench.scans(8, (32, 32))
    bench.write()
    path = bench.workspace / "data.py"
    assert path.read_text().count(old) == 1
    bench.configure(flip_axes=[], rotate_degrees=0, scale=0, shift=0, brightness=0, noise=0)
    path.write_text(path.read_text().replace(old, new))
    facts = bench.probe("verify_batches", "--folder", ".", "--config", "config.yaml")
    if expected is None:
        assert facts["constant_samples"] == 8 and facts["batches"]["train"]["std"] == 0
        return
    assert not facts["ok"] and any(expected in error for error in facts["errors"]), facts["errors"]
    if fault in ("raises", "syntax"):
        assert any("(data.py:" in error for error in facts["errors"])


def test_a_few_pictures_of_a_case_are_views_whatever_their_sizes(bench):
    generator = np.random.default_rng(0)
    for number in range(12):
        files = [f"s{number}_{view}.png" for view in range(1 + number % 3)]
        for view, name in enumerate(files):
            pixels = generator.integers(0, 255, (40 + 8 * view, 48), dtype=np.uint8)
            Image.fromarray(pixels).save(bench.data / name)
        bench.add(f"s{number}", files, ("plain", "block")[number % 2], "val" if number > 7 else "train")
    bench.names = ["plain", "block"]
    bench.write()
    facts = bench.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["errors"] == []
    assert facts["batches"]["train"]["shape"] == [4, 3, 40, 48]
