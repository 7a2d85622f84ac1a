"""Several processes train as one: the same quality, files from the first only, one end for all."""

import json
import re
import signal
import sys

import pytest

from tests.templates.forked import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def images(tmp_path, new_bench):
    """Single pictures with a bright block or none, easy to tell apart; two scans of each patient."""
    made = new_bench(tmp_path)
    made.scans(36, (24, 24))
    for number, row in enumerate(made.rows):
        row["patient"] = f"patient-{number // 4}-{number % 2}"
    made.write()
    made.configure(epochs=10, width=8, patience=0, train_seconds=None, sampling="balanced", batch_size=4)
    made.configure(flip_axes=[], rotate_degrees=0, scale=0, shift=0, brightness=0, noise=0)
    config = (made.workspace / "config.yaml").read_text()
    (made.workspace / "config.yaml").write_text(config.replace("training:\n", "training:\n  precision: bf16\n"))
    return made


def test_two_processes_learn_what_one_does_and_the_first_writes(images):
    done = images.run("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on 2 processes" in done.stdout and done.stdout.count("epoch 10/10") == 1
    two = images.metrics()
    assert two["epochs"] == 10 and two["attempts"] == 1 and two["samples"] == {"train": 24, "val": 12}
    evaluated = [line["epoch"] for line in images.progress() if "metric" in line and "text" not in line]
    assert evaluated == list(range(1, 11))
    # 24 samples in batches of four, half of the batches each.
    assert max(line.get("step", 0) for line in images.progress()) == 30
    assert len(list((images.workspace / "cache").iterdir())) == 36
    images.configure(batch_size=8)
    done = images.train()
    assert done.returncode == 0, done.stdout + done.stderr
    one = images.metrics()
    for found in (one, two):
        assert found["metrics"]["auc_macro"] > 0.9 and found["metrics"]["auc_macro_by_patient"] > 0.9
        assert found["patients"] == {"val": 6}


def test_processes_stop_together_and_go_on_together(images):
    """By SIGTERM to the command that started them, then by the time that they have."""
    config = images.workspace / "config.yaml"
    text = config.read_text().replace("training:\n", "training:\n  processes: 2\n  save_seconds: 0\n")
    config.write_text(text.replace("  epochs: 10", "  epochs: 4000"))
    checkpoints = images.workspace / "checkpoints"
    process = images.start("train.py")
    wait_for(process, (checkpoints / "best" / "best.json").exists)
    process.send_signal(signal.SIGTERM)
    told = process.wait(900), process.out, process.err
    assert told[0] == 128 + signal.SIGTERM, told
    assert (process.out + process.err).count("stopped as asked") == 1
    assert not (images.workspace / "package").exists()
    saved = max(int(path.name.split("-")[1]) for path in checkpoints.glob("checkpoint-*"))
    images.configure(train_seconds=1)
    done = images.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"attempt 2 goes on from checkpoint-{saved}\b", done.stdout)
    spent = json.loads((checkpoints / "run.json").read_text())
    assert spent["attempts"] == 2 == images.metrics()["attempts"]
    best = json.loads((checkpoints / "best" / "best.json").read_text())
    assert images.metrics()["metric"] == pytest.approx(best["metric"])


def test_what_is_wrong_with_an_image_ends_all_of_them_with_its_exit_code(images):
    (images.data / "s003.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    config = images.workspace / "config.yaml"
    config.write_text(config.read_text().replace("training:\n", "training:\n  processes: 2\n"))
    done = images.train()
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("s003: s003.png cannot be read") == 1
    assert not (images.workspace / "progress.jsonl").exists()
    assert sys.executable not in done.stdout
