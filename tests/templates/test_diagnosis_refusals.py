"""What is wrong is said before training, all of it, and nothing is left behind."""

import os
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def left_behind(bench):
    return {"progress.jsonl", "metrics.json", "checkpoints", "package"} & {
        item.name for item in bench.workspace.iterdir()
    }


def test_unknown_and_wrong_keys_are_named(bench):
    bench.scans(6, (16, 16))
    bench.write()
    path = bench.workspace / "config.yaml"
    text = path.read_text().replace("  width: 16", "  widht: 16").replace("backbone: resnet10", "backbone: resnet11")
    path.write_text(text.replace("  batch_size: 8", "  batch_size: 0") + "extra: 1\n")
    done = bench.train()
    assert done.returncode == 2
    for wanted in ("unknown key model.widht", "model.backbone", "training.batch_size", "unknown key extra"):
        assert wanted in done.stderr
    assert "Traceback" not in done.stderr
    assert left_behind(bench) == set()


def test_a_training_that_would_never_end_is_refused(bench):
    bench.scans(6, (16, 16))
    bench.write()
    bench.configure(train_seconds=None)
    done = bench.train()
    assert done.returncode == 2 and "set one of them" in done.stderr and left_behind(bench) == set()


def test_kappa_is_of_classes_that_are_grades(bench):
    bench.scans(9, (16, 16), ("none", "mild", "severe"))
    bench.write()
    bench.configure(metric="quadratic_kappa")
    done = bench.train()
    assert done.returncode == 2 and "label_map.json does not say that classes are" in done.stderr
    assert left_behind(bench) == set()


def test_index_problems_are_listed_at_once(bench):
    bench.scans(9, (16, 16), ("a", "b", "c"))
    bench.rows[-1]["patient"] = bench.rows[0]["patient"]
    bench.rows[2]["label"] = "d"
    bench.rows[3]["label"] = None
    bench.write()
    done = bench.train()
    assert done.returncode == 2
    assert "patient patient-s000: stands on both sides" in done.stderr
    assert "s002: has the label 'd', which is not in the label map (a, b, c)" in done.stderr
    assert "s003: has no label" in done.stderr
    assert left_behind(bench) == set()


def test_missing_validation_part_is_refused(bench):
    bench.scans(6, (16, 16))
    for row in bench.rows:
        row["split"] = "train"
    bench.write()
    done = bench.train()
    assert done.returncode == 2 and "no row with split val" in done.stderr


def test_one_class_only_is_refused(bench):
    bench.scans(8, (16, 16))
    bench.rows = [row for row in bench.rows if row["split"] == "train" or row["label"] == "plain"]
    bench.write()
    done = bench.train()
    assert done.returncode == 2 and "split val: holds the class 'plain' only" in done.stderr


def test_every_unusable_image_is_listed(bench):
    bench.scans(9, (8, 16, 16))
    data = bench.data
    (data / "s000" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    np.save(data / "nan.npy", np.full((8, 16, 16), np.nan))
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 8, 8, 3), np.float32), np.eye(4)), data / "four.nii.gz")
    np.save(data / "object.npy", np.array([{"a": 1}], dtype=object))
    for sample, file in (("nan", "nan.npy"), ("four", "four.nii.gz"), ("object", "object.npy"), ("gone", "gone.png")):
        bench.add(sample, [file], "plain", "train")
    bench.write()
    bench.configure(input_shape=[8, 16, 16])
    done = bench.train()
    assert done.returncode == 2
    for wanted in (
        "5 problem(s)",
        "s000: 3.png cannot be read",
        "nan: nan.npy: 2048 value(s) are NaN or infinite, the first at voxel (0, 0, 0)",
        "four: has 3 channel(s) where the model takes 1",
    ):
        assert wanted in done.stderr
    assert "object: object.npy holds no array of numbers" in done.stderr
    assert "gone: gone.png does not exist" in done.stderr
    assert "Traceback" not in done.stderr
    assert left_behind(bench) == set()


def test_a_pickle_that_runs_code_is_refused_and_arrays_are_read(tmp_path):
    import pickle
    import subprocess

    class Evil:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/owned",))

    array = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    (tmp_path / "good.pck").write_bytes(pickle.dumps(array, protocol=2))
    (tmp_path / "evil.pck").write_bytes(pickle.dumps(Evil()))
    script = (
        "from pathlib import Path; from shared.imaging.volume import BadImage, channels_first, read\n"
        "array = channels_first(read([Path('good.pck')]))[0]; assert array.shape == (2, 3, 4) and array.max() == 23\n"
        "try: read([Path('evil.pck')])\n"
        "except BadImage as error: print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert "system, which is refused" in done.stdout, done.stderr
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("kind", ["train", "val"])
def test_a_label_outside_the_map_is_never_dropped(bench, kind):
    """The published loader dropped such labels silently, which leaves all-zero targets."""
    bench.scans(6, (16, 16))
    row = next(row for row in bench.rows if row["split"] == kind)
    row["label"] = "Plain"
    bench.write()
    done = bench.train()
    assert done.returncode == 2 and f"{row['sample_id']}: has the label 'Plain'" in done.stderr


def test_image_of_the_wrong_dimension_is_named(bench):
    bench.scans(6, (16, 16))
    np.save(bench.data / "volume.npy", np.random.default_rng(0).normal(size=(5, 16, 16)))
    bench.add("volume", ["volume.npy"], "plain", "train")
    bench.write()
    bench.configure(input_shape=[16, 16])
    done = bench.train()
    assert done.returncode == 2
    assert "volume: is a volume of 16 x 16 x 5 voxels where a picture is expected" in done.stderr
