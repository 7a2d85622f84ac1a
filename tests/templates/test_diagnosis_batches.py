"""Readers, preprocessing and the dataset as the probe and the network see them."""

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.trainkit.exported.imaging import inference


def test_oblique_nifti_is_turned_to_ras(tmp_path):
    """A block at the patient's right, front and top comes out at low W, high H and high D, however it is stored."""
    volume = np.zeros((20, 24, 10), np.float32)  # R to L would be x descending; this one is RAS+
    volume[:6, 16:, 7:] = 1
    plain = np.diag([0.8, 0.9, 2.5, 1.0])
    nibabel.save(nibabel.Nifti1Image(volume, plain), tmp_path / "plain.nii.gz")
    turn = np.deg2rad(12)
    tilt = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    # Stored as z, -x, y and tilted by twelve degrees.
    stored = volume.transpose(2, 0, 1)[:, ::-1, :]
    affine = np.eye(4)
    affine[:3, :3] = tilt @ np.array([[0, -0.8, 0], [0, 0, 0.9], [2.5, 0, 0]])
    nibabel.save(nibabel.Nifti1Image(np.ascontiguousarray(stored), affine), tmp_path / "oblique.nii")
    first, spacing = inference.load_image([tmp_path / "plain.nii.gz"], {})
    second, other = inference.load_image([tmp_path / "oblique.nii"], {})
    assert first.shape == (10, 24, 20)
    assert first[8, 20, 2] == 1 and first[1, 20, 2] == 0 and first[8, 2, 2] == 0 and first[8, 20, 15] == 0
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(spacing, (2.5, 0.9, 0.8), rtol=1e-5)
    np.testing.assert_allclose(other, spacing, rtol=1e-5)


def test_given_order_is_kept_and_folders_are_natural(tmp_path):
    for number in (1, 2, 10):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(tmp_path / f"{number}.png")
    Image.fromarray(np.full((4, 4), 3, np.uint8)).save(tmp_path / "11.jpg", quality=100)
    (tmp_path / "._1.png").write_bytes(b"resource fork")
    listed, _ = inference.load_image([tmp_path / "10.png", tmp_path / "2.png"], {})
    assert listed[:, 0, 0].tolist() == [10, 2]
    files, _ = inference.input_files(tmp_path)
    whole, _ = inference.load_image(files, {})
    assert whole.shape == (4, 8, 8)
    np.testing.assert_allclose(whole[:, 4, 4], [1, 2, 10, 3], atol=1)


def test_colour_rescale_and_sixteen_bit(tmp_path):
    colour = np.zeros((4, 4, 3), np.uint8)
    colour[..., 1] = 200
    Image.fromarray(colour).save(tmp_path / "green.png")
    gray, _ = inference.load_image([tmp_path / "green.png"], {})
    assert gray.shape == (4, 4) and gray[0, 0] == pytest.approx(200 * 0.587, abs=1)
    Image.fromarray(np.full((4, 4), 3000, np.uint16)).save(tmp_path / "deep.png")
    deep, _ = inference.load_image([tmp_path / "deep.png"], {"Rescale Slope": "2", "rescale_intercept": -1024})
    assert deep[0, 0] == 3000 * 2 - 1024


def test_nifti_is_rescaled_by_a_table_only_where_no_converter_did(tmp_path):
    hu = np.full((8, 8, 8), -1000, np.int16)
    hu[2:7, 2:7, 2:7] = 40
    table = {"RescaleSlope": 1, "RescaleIntercept": -1024}
    for name, stored, told in (("raw", hu + 1024, table), ("hu", hu, table), ("plain", hu, {})):
        nibabel.save(nibabel.Nifti1Image(stored, np.eye(4)), tmp_path / f"{name}.nii.gz")
        found, _ = inference.load_image([tmp_path / f"{name}.nii.gz"], told)
        assert (found.min(), found.max()) == (-1000, 40), name


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
    volume, spacing = inference.load_image([tmp_path], {})
    assert volume[:, 0, 0].tolist() == [-10 - 24, 5 - 24, 20 - 24]
    np.testing.assert_allclose(spacing, (7.5, 0.7, 0.8))


def test_region_of_interest_and_constant_images():
    volume = np.random.default_rng(0).normal(size=(10, 40, 40)).astype(np.float32)
    region = {"roiZ": 2, "roiDepth": 4, "roiY": 5, "roiHeight": 10, "roiX": "20", "roiWidth": 10}
    assert inference.crop(volume, region, 0.0).shape == (4, 10, 10)
    assert inference.crop(volume, region, 0.5).shape == (8, 20, 20)
    how = inference.Preprocess(input_shape=(4, 8, 8), intensity="zscore")
    cut = inference.preprocess(volume, region, how)
    assert cut.shape == (1, 4, 8, 8) and cut.dtype == np.float32
    assert not np.allclose(cut, inference.preprocess(volume, {}, how))
    for intensity in ("zscore", "minmax"):
        how = inference.Preprocess(input_shape=(4, 8, 8), intensity=intensity)
        flat = inference.preprocess(np.full((10, 40, 40), 3.7, np.float32), {}, how)
        assert np.isfinite(flat).all() and np.ptp(flat) == 0
    how = inference.Preprocess(input_shape=(4, 8, 8), intensity="window", window=(-100, 300))
    window = inference.preprocess(np.full((4, 8, 8), 100, np.float32), {}, how)
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
    assert facts["parameters"] > 1000 and facts["constant_samples"] == 0


BROKEN = {
    "raises": ("image = self.seen(number)", "image = None[0]; self.seen(number)", "TypeError"),
    "nan": ('return {"image": image,', 'return {"image": image * float("nan"),', "NaN or infinity"),
    "labels": ('"labels": self.targets[number]}', '"labels": self.targets[number] + 5}', "not in the label map"),
    "keys": ('return {"image": image,', 'return {"picture": image,', "image and labels"),
    "syntax": ("class Dataset(", "class Dataset((", "SyntaxError"),
    "leak": ('if row["split"] == split]', "]", "patients on both sides"),
    "blank": ('return {"image": image,', 'print("noise"); return {"image": image * 0,', None),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_verify_batches_on_a_broken_dataset(bench, fault):
    old, new, expected = BROKEN[fault]
    bench.scans(8, (32, 32))
    bench.write()
    path = bench.workspace / "dataset.py"
    assert path.read_text().count(old) == 1
    bench.configure(flip_axes=[], rotate_degrees=0, scale=0, shift=0, brightness=0, noise=0)
    path.write_text(path.read_text().replace(old, new))
    facts = bench.probe("verify_batches", "--folder", ".", "--config", "config.yaml")
    if expected is None:
        assert facts["constant_samples"] == 8 and facts["batches"]["train"]["std"] == 0
        return
    assert not facts["ok"] and any(expected in error for error in facts["errors"]), facts["errors"]
    if fault in ("raises", "syntax"):
        assert any("(dataset.py:" in error for error in facts["errors"])
