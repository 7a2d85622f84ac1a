"""What is wrong with images and masks is said before training, all of it, and nothing is left behind."""

import json

import nibabel
import numpy as np


def left_behind(bench):
    return {"progress.jsonl", "metrics.json", "checkpoints", "package"} & {
        item.name for item in bench.workspace.iterdir()
    }


def save(path, array, affine):
    nibabel.save(nibabel.Nifti1Image(array, affine), path)


def test_every_unusable_image_and_mask_is_listed(organs):
    organs.organs(12)
    data, affine = organs.data, np.diag([2.0, 2.0, 3.0, 1.0])
    mask = np.asanyarray(nibabel.load(data / "mask0.nii.gz").dataobj)
    foreign = mask.copy()
    foreign[0, 0, :2] = (7, 9)
    save(data / "mask0.nii.gz", foreign, affine)
    foreign[0, 0, :2] = (0, 11)
    save(data / "mask1.nii.gz", foreign, affine)
    (data / "image2.nii.gz").unlink()
    (data / "image3.nii.gz").write_bytes(b"\x1f\x8b torn")
    save(data / "mask4.nii.gz", mask[:, :, 1:], affine)
    shifted = affine.copy()
    shifted[0, 3] = 5
    save(data / "mask5.nii.gz", mask, shifted)
    image = np.zeros(mask.shape, np.float32)
    image[3, 4, 5] = np.nan
    save(data / "image6.nii.gz", image, affine)
    save(data / "image7.nii.gz", np.zeros((*mask.shape, 3), np.float32), affine)
    (data / "mask8.nii.gz").unlink()
    save(data / "mask9.nii.gz", mask * 0.5, affine)
    organs.write()
    done = organs.train()
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "10 problem(s) in the data; nothing was trained:"
    for sample, wanted in (
        ("s0", "mask0.nii.gz holds the values 7, 9, which the label map does not have (28 ball, 3 dark block)"),
        ("s1", "mask1.nii.gz holds the value 11, which"),
        ("s2", "image2.nii.gz does not exist"),
        ("s3", "image3.nii.gz cannot be read"),
        ("s4", "mask4.nii.gz has 24 x 20 x 11 voxels where the image has 24 x 20 x 12"),
        ("s5", "mask5.nii.gz lies elsewhere in space than the image"),
        ("s6", "image6.nii.gz: 1 value(s) are NaN or infinite, the first at voxel (3, 4, 5)"),
        ("s7", "has 3 channel(s) where the model takes 1"),
        ("s8", "mask8.nii.gz does not exist"),
        ("s9", "value(s) that are not whole numbers"),
    ):
        assert any(line.startswith(f"- {sample}: ") and wanted in line for line in lines), (sample, wanted, lines)
    told = json.loads((organs.workspace / "problems.json").read_text())
    assert [f"- {sample}: {wrong}" for sample, wrong in told.items()] == lines[1:]
    assert "Traceback" not in done.stderr and left_behind(organs) == set()


def test_a_structure_that_no_training_mask_has_is_refused(organs):
    organs.organs(3)
    organs.values = {**organs.values, "third": 5}
    organs.names = list(organs.values)
    organs.write()
    done = organs.train()
    assert done.returncode == 2 and "- structure third: no training mask has it (value 5)" in done.stderr
    assert left_behind(organs) == set()


def test_index_label_map_and_unknown_keys(organs):
    organs.organs(3)
    organs.values = {"ball": 28, "dark block": 28, "air": 0}
    organs.names = list(organs.values)
    organs.rows[0]["target"] = None
    organs.write()
    done = organs.train()
    assert done.returncode == 2
    for wanted in ("ball, dark block have the same value 28", "'air' has the value 0", "s0: has no mask (target)"):
        assert wanted in done.stderr
    path = organs.workspace / "config.yaml"
    path.write_text(path.read_text().replace("  width: 16", "  widht: 16").replace("metric: dice", "metric: best"))
    done = organs.train()
    assert done.returncode == 2 and "unknown key model.widht" in done.stderr and "training.metric:" in done.stderr
    assert left_behind(organs) == set()
