"""Diagnoses and reports of several channels: what tells cases apart is in no single channel's brightness."""

import json
import shutil

import nibabel
import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WITHOUT_AUGMENTATION = {"flip_axes": [], "rotate_degrees": 0, "scale": 0, "shift": 0, "brightness": 0, "noise": 0}
RED, GREEN = (200, 40, 80), (40, 122, 80)
"""Of one luminance."""


def tinted(generator, colour, path):
    """32 x 32 of noise in one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = generator.normal(0, 10, (32, 32, 1))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)
    return path


def grey(generator, path):
    Image.fromarray(generator.integers(60, 140, (32, 32)).astype(np.uint8)).save(path)
    return path


def answers(done, output):
    assert done.returncode == 0, done.stderr
    return json.loads((output / "predictions.json").read_text())["cases"]


@pytest.fixture(scope="module")
def colours(tmp_path_factory, new_bench):
    """Red or green pictures of one brightness, a grey one among them."""
    made = new_bench(tmp_path_factory.mktemp("colours"))
    generator = np.random.default_rng(0)
    made.names = ["red", "green"]
    for number in range(30):
        name = f"s{number}/image.png"
        tinted(generator, (RED, GREEN)[number % 2], made.data / name)
        if number == 4:
            grey(generator, made.data / name)
        made.add(f"s{number}", [name], made.names[number % 2], "val" if number >= 20 else "train")
    made.write()
    made.configure(epochs=8, width=8, patience=0)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_colour_tells_pictures_apart(colours, predict, tmp_path):
    assert colours.metrics()["metric"] == 1 and colours.metrics()["input_shape"] == [3, 32, 32]
    package = colours.workspace / "package"
    assert json.loads((package / "config.json").read_text())["preprocess"]["channels"] == 3
    seen = json.loads((package / "metadata.json").read_text())["network_data_format"]["inputs"]["image"]
    assert seen["num_channels"] == 3 and list(seen["channel_def"].values()) == ["red", "green", "blue"]
    assert "Images are seen in colour" in (package / "MODEL_CARD.md").read_text()
    generator = np.random.default_rng(9)
    inputs = [tinted(generator, colour, tmp_path / name) for colour, name in ((RED, "a.png"), (GREEN, "b.tif"))]
    inputs.append(grey(generator, tmp_path / "c.png"))
    red, green, plain = answers(predict(package, tmp_path / "out", *inputs), tmp_path / "out")
    assert (red["label"], green["label"]) == ("red", "green") and "probabilities" in plain


def test_probes_keep_colour(colours):
    facts = colours.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["batches"]["train"]["shape"] == [4, 3, 32, 32], facts
    facts = colours.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"] and facts["largest_change"] > 1e-3, facts


@pytest.fixture(scope="module")
def phases(tmp_path_factory, new_bench):
    """Volumes of two channels, one of which has a bright block: which one is the class."""
    made = new_bench(tmp_path_factory.mktemp("phases"))
    generator = np.random.default_rng(0)
    made.names = ["first", "second"]
    for number in range(24):
        volume = generator.normal(100, 10, (24, 20, 10, 2)).astype(np.float32)
        volume[6:14, 6:14, 3:7, number % 2] += 150
        volume[..., 1] *= 10
        (made.data / f"s{number}").mkdir()
        nibabel.save(nibabel.Nifti1Image(volume, np.diag([2.0, 2, 3, 1])), made.data / f"s{number}" / "image.nii.gz")
        split = "val" if number >= 16 else "train"
        made.add(f"s{number}", [f"s{number}/image.nii.gz"], made.names[number % 2], split)
    made.write()
    made.configure(epochs=8, width=8, patience=0)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_channels_of_a_volume_are_one_file_or_a_folder_with_a_file_each(phases, predict, tmp_path):
    assert phases.metrics()["metric"] == 1 and phases.metrics()["input_shape"] == [2, 8, 24, 24]
    package = phases.workspace / "package"
    assert "a folder with a file (or DICOM series) a channel" in " ".join(
        (package / "MODEL_CARD.md").read_text().split()
    )
    row = phases.rows[-1]
    whole = nibabel.load(phases.data / row["files"][0])
    for folder, order in (("each", (0, 1)), ("turned", (1, 0)), ("lacking", (0,))):
        (tmp_path / folder).mkdir()
        for place, number in enumerate(order):
            channel = nibabel.Nifti1Image(whole.get_fdata(dtype=np.float32)[..., number], whole.affine)
            nibabel.save(channel, tmp_path / folder / f"{(9, 10)[place]}.nii.gz")
    inputs = [phases.data / row["files"][0], *(tmp_path / name for name in ("each", "turned", "lacking"))]
    one, each, turned, lacking = answers(predict(package, tmp_path / "out", *inputs), tmp_path / "out")
    assert one["label"] == each["label"] == row["label"] != turned["label"]
    assert one["probabilities"] == pytest.approx(each["probabilities"], abs=1e-6), "kernels differ by a batch's size"
    assert lacking["error"] == "has 1 channel(s) where the model takes 2"


def test_probes_keep_the_fourth_axis(phases):
    facts = phases.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["batches"]["val"]["shape"] == [4, 2, 8, 24, 24], facts
    facts = phases.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"] and facts["largest_change"] > 1e-3, facts


def test_other_numbers_of_channels_are_refused_by_sample(phases, new_bench, tmp_path):
    made = new_bench(tmp_path)
    made.names, made.rows = phases.names, [dict(row) for row in phases.rows]
    shutil.copytree(phases.data, made.data, dirs_exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(np.eye(20)[..., None] * np.ones(9), np.eye(4)), made.data / "s3" / "image.nii.gz")
    made.write()
    done = made.train()
    assert done.returncode == 2 and "s3: has 1 channel(s) where the model takes 2" in done.stderr


def test_a_diagnosis_of_views_on_grids_of_their_own(new_bench, predict, tmp_path):
    """Two volumes a case, of other shapes; the class is whether both or one of them has a bright block."""
    made = new_bench(tmp_path)
    generator = np.random.default_rng(0)
    made.names = ["one", "both"]
    for number in range(24):
        for view, shape in enumerate(((24, 20, 10), (20, 22, 12))):
            volume = generator.normal(100, 10, shape).astype(np.float32)
            if number % 2 or view == number // 2 % 2:
                volume[6:14, 6:14, 3:7] += 150
            path = made.data / f"s{number}" / f"image_{view}.nii.gz"
            path.parent.mkdir(exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(volume, np.diag([2.0, 2, 3 - view, 1])), path)
        files = [f"s{number}/image_0.nii.gz", f"s{number}/image_1.nii.gz"]
        made.add(f"s{number}", files, made.names[number % 2], "val" if number >= 16 else "train")
    made.write()
    made.configure(epochs=12, width=8, patience=0)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert made.metrics()["metric"] > 0.9 and made.metrics()["input_shape"][0] == 2
    facts = made.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["batches"]["val"]["shape"][:2] == [4, 2], facts
    package = made.workspace / "package"
    (tmp_path / "single").mkdir()
    shutil.copy(made.data / "s22" / "image_1.nii.gz", tmp_path / "single")
    inputs = [made.data / "s22", made.data / "s23", tmp_path / "single"]
    one, both, single = answers(predict(package, tmp_path / "out", *inputs), tmp_path / "out")
    assert (one["label"], both["label"]) == ("one", "both") and "probabilities" in single
    assert "or a folder with up to 2 of them" in " ".join((package / "MODEL_CARD.md").read_text().split())


def test_reports_of_views_in_colour(new_bench, predict, tmp_path):
    """Two views of three channels; the second has the colour that the report is of, and one case lacks it."""
    made = new_bench(tmp_path, "report_generation")
    generator = np.random.default_rng(0)
    for number in range(30):
        files = [f"s{number}/image.png", f"s{number}/image_1.png"]
        first = tinted(generator, GREEN, made.data / files[0])
        if number % 7 == 3:
            grey(generator, first)
        tinted(generator, (RED, GREEN)[number % 2], made.data / files[1])
        files = files[:1] if number == 5 else files
        text = f"The second film is {('red', 'green')[number % 2]}."
        made.add(f"s{number}", files, None, "val" if number >= 20 else "train", target=text)
    made.write()
    made.configure(epochs=40, width=8, hidden=32, layers=1, patience=0, batch_size=4, train_seconds=None)
    made.configure(**WITHOUT_AUGMENTATION)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert made.metrics()["input_shape"] == [6, 32, 32] and made.metrics()["metrics"]["rouge_l"] == 1
    package = made.workspace / "package"
    seen = json.loads((package / "metadata.json").read_text())["network_data_format"]["inputs"]["image"]
    assert seen["num_channels"] == 6 and seen["channel_def"]["4"] == "view 1 channel 1"
    inputs = [made.data / row["sample_id"] for row in made.rows[-2:]]
    found = answers(predict(package, tmp_path / "out", *inputs), tmp_path / "out")
    assert [case["report"] for case in found] == [row["target"] for row in made.rows[-2:]]
    facts = made.probe("verify_batches", "--folder", ".")
    assert facts["ok"] and facts["batches"]["train"]["shape"] == [4, 6, 32, 32], facts
    facts = made.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"], facts
