"""Report generation: what is wrong is said before training, all of it, and nothing is left behind."""

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.training import checks

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def bench(tmp_path, new_bench):
    """Nine cases of one picture each, with reports."""
    made = new_bench(tmp_path, "report_generation")
    generator = np.random.default_rng(0)
    for number in range(9):
        Image.fromarray(generator.integers(0, 255, (16, 16)).astype(np.uint8)).save(made.data / f"s{number}.png")
        split = "val" if number >= 6 else "train"
        made.add(f"s{number}", [f"s{number}.png"], None, split, target=f"Picture of kind {number % 3}.")
    return made


def refused(bench, *wanted):
    bench.write()
    done = bench.train()
    assert done.returncode == 2, done.stdout + done.stderr
    for line in wanted:
        assert line in done.stderr
    assert "Traceback" not in done.stderr
    left = {item.name for item in bench.workspace.iterdir()}
    assert not left & {"progress.jsonl", "metrics.json", "checkpoints", "package", "val_reports.json"}


def test_rows_without_a_usable_report_are_all_listed(bench):
    texts = (None, "", "nan", "...", "reports/s4.txt")
    for row, text in zip(bench.rows, texts, strict=False):
        row["target"] = text
    assert [f"{problem.where}: {problem.text}" for problem in checks.report_problems(bench.rows)] == [
        "s0: has no report (target is None)",
        "s1: has no report (target is '')",
        "s2: has no report (target is 'nan')",
        "s3: has a report without a word: '...'",
        "s4: has the file reports/s4.txt as report; target must be the text itself",
    ]
    for row in bench.rows:
        row["target"] = "Normal."
    assert [problem.where for problem in checks.report_problems(bench.rows)] == ["split train"]


def test_empty_report_and_torn_split_end_the_training_together(bench):
    bench.rows[2]["target"] = " "
    bench.rows[-1]["patient"] = bench.rows[0]["patient"]
    refused(bench, "2 problem(s)", "s2: has no report", "patient patient-s0: stands on both sides")


def test_every_unusable_image_is_listed(bench):
    data = bench.data
    (data / "s0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    np.save(data / "nan.npy", np.full((16, 16), np.nan))
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 8, 8, 3), np.float32), np.eye(4)), data / "four.nii.gz")
    for sample, files in (("nan", ["nan.npy"]), ("four", ["four.nii.gz"]), ("gone", ["s1.png", "gone.png"])):
        bench.add(sample, files, None, "train", target="Something else.")
    refused(
        bench,
        "4 problem(s)",
        "s0: s0.png cannot be read",
        "nan: nan.npy: 256 value(s) are NaN or infinite",
        "four: has 3 channel(s) where the model takes 1",
        "gone: gone.png does not exist",
    )


def test_unknown_and_wrong_keys_are_named(bench):
    path = bench.workspace / "config.yaml"
    text = path.read_text().replace("  width: 16", "  widht: 16").replace("  vocabulary: 4000", "  vocabulary: 0")
    path.write_text(text + "extra: 1\n")
    refused(bench, "unknown key model.widht", "text.vocabulary", "unknown key extra")
