"""What holds for every template: which checkpoint is taken, what time is left, what a package may hold."""

import dataclasses
import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from transformers import TrainerControl, TrainerState

from shared.training import callbacks, checkpoints, told
from shared.training.budget import TimeBudget
from shared.training.checks import label_problems, split_problems
from shared.training.configfile import Source
from shared.training.exported.package_cli import damage
from shared.training.package import PackageFacts, write_package, write_results
from shared.training.progress import tell_progress
from tests.templates.conftest import modules
from tests.templates.segbench import read_progress

FACTS = PackageFacts(
    task="diagnosis",
    label_names=("a", "b"),
    input_text="One INPUT is one image.",
    input_shape=(1, 8, 8),
    counts={"train": {"a": 2, "b": 2}, "val": {"a": 1, "b": 1}},
    metric_name="auc_macro",
    metrics={"auc_macro": None},
    model="none",
    parameters=1,
    epochs=1,
    seconds=1,
    device="CPU",
)


def write_checkpoint(folder, step):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    safetensors.torch.save_file({"weight": torch.ones(64)}, path / "model.safetensors")
    torch.save({"state": {0: torch.ones(64)}}, path / "optimizer.pt")
    torch.save({"last_epoch": 1}, path / "scheduler.pt")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


@pytest.mark.parametrize("fault", ["sentinel", "no optimizer", "torn weights", "empty state", "torn optimizer"])
def test_a_damaged_checkpoint_is_passed_over_for_an_older_intact_one(tmp_path, fault):
    write_checkpoint(tmp_path, 9)
    newest = write_checkpoint(tmp_path, 100)
    assert checkpoints.pick_checkpoint(tmp_path)[0] == newest
    if fault == "sentinel":
        (newest / checkpoints.SENTINEL).write_text("")
    elif fault == "no optimizer":
        (newest / "optimizer.pt").unlink()
    elif fault == "empty state":
        (newest / "trainer_state.json").write_text("")
    else:
        path = newest / ("model.safetensors" if fault == "torn weights" else "optimizer.pt")
        path.write_bytes(path.read_bytes()[:-100])
    older = tmp_path / "checkpoint-9"
    picked, broken = checkpoints.pick_checkpoint(tmp_path)
    assert picked == older and list(broken) == ["checkpoint-100"]
    assert checkpoints.resume(tmp_path, "mark")[1] == older
    assert checkpoints.pick_checkpoint(tmp_path) == (older, {})


def test_checkpoints_of_another_training_are_not_taken(tmp_path):
    first = checkpoints.begin_attempt(tmp_path, "one")
    write_checkpoint(tmp_path, 5)
    checkpoints.note_seconds(tmp_path, first, 12.5)
    again = checkpoints.begin_attempt(tmp_path, "one")
    assert (again.number, again.seconds) == (2, 12.5)
    assert checkpoints.pick_checkpoint(tmp_path)[0]
    other = checkpoints.begin_attempt(tmp_path, "two")
    assert (other.number, other.seconds) == (1, 0)
    assert checkpoints.pick_checkpoint(tmp_path)[0] is None
    assert (tmp_path / "previous" / "checkpoint-5" / "optimizer.pt").exists()


def test_a_kill_while_checkpoints_are_set_aside_loses_none(tmp_path):
    checkpoints.begin_attempt(tmp_path, "old")
    for name in ("checkpoint-1", "checkpoint-2"):
        (tmp_path / name).mkdir()
    # As a kill leaves it: one is moved, one is not, the note still names the old training.
    (tmp_path / "previous.part").mkdir()
    (tmp_path / "checkpoint-1").rename(tmp_path / "previous.part" / "checkpoint-1")
    assert checkpoints.begin_attempt(tmp_path, "new").number == 1
    assert {path.name for path in (tmp_path / "previous").iterdir()} == {"checkpoint-1", "checkpoint-2"}
    # Or all are moved and the note is not written yet.
    (tmp_path / "run.json").write_text(json.dumps({"fingerprint": "old", "attempts": 1, "seconds": 0.0}))
    checkpoints.begin_attempt(tmp_path, "new")
    assert {path.name for path in (tmp_path / "previous").iterdir()} == {"checkpoint-1", "checkpoint-2"}


def test_a_training_progresses_with_steps_or_time_whichever_is_further():
    free = TimeBudget(None, time.monotonic())
    assert free.progressed(10, 100) == 0.1 and free.progressed(100, 100) == free.progressed(101, 100) == 1
    late = TimeBudget(100, time.monotonic() - 99)
    late.lead = 0
    assert late.progressed(10, 100) > 0.98 and late.remaining() < 1.1
    resumed = TimeBudget(100, time.monotonic(), spent=95)
    assert 9 < resumed.remaining() <= 10


@pytest.mark.parametrize(("patients", "delivered"), [(25, "the end"), (math.inf, "an evaluation")])
def test_the_end_is_preferred_to_an_evaluation_that_was_ahead_by_chance(tmp_path, monkeypatch, patients, delivered):
    """0.8 of 25 patients has a standard error of 0.08: an evaluation with 0.9 says nothing against it."""
    monkeypatch.chdir(tmp_path)
    budget = TimeBudget(None, time.monotonic())
    wanted = modules("diagnosis", "config").config.Training()
    watch = callbacks.Watch(wanted, budget, tmp_path, checkpoints.Attempt(1, 0.0), patients)
    state, control = TrainerState(epoch=1.0, global_step=10), TrainerControl()
    watch.on_train_begin(SimpleNamespace(num_train_epochs=2), state, control)
    layer = torch.nn.Linear(1, 1, bias=False)

    def evaluated(weight, value):
        layer.weight.data.fill_(weight)
        watch.on_evaluate(None, state, control, {"eval_auc_macro": value, "eval_loss": 1.0}, model=layer)
        return safetensors.torch.load_file(watch.best.weights)["weight"].item()

    assert [evaluated(1, 0.7), evaluated(2, 0.9), evaluated(3, 0.8)] == [1, 2, 2], "while it trains, the best is kept"
    watch.ended = True
    assert evaluated(4, 0.8) == {"the end": 4, "an evaluation": 2}[delivered]
    assert evaluated(5, 0.1) != 5, "but what has gone wrong is not delivered"


@pytest.mark.parametrize("template", ["diagnosis", "report_generation"])
def test_the_rate_warms_up_and_falls(template):
    rate = modules(template, "train").train.rate
    assert rate(0) == 0.02 and rate(0.1) == pytest.approx(1, abs=0.01) and rate(1) < 0.01
    assert rate(0.05) < rate(0.1) > rate(0.5) > rate(0.9)


def test_a_torn_progress_line_costs_only_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "progress.jsonl"
    path.write_text('{"epoch": 1}\n{"epo')
    tell_progress(epoch=2, loss=float("nan"))
    assert read_progress(path) == [{"epoch": 1}, {"epoch": 2}]
    with pytest.raises(ValueError, match="no field epohc"):
        tell_progress(epohc=3)


def test_metrics_hold_no_nan_and_name_their_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = dataclasses.replace(FACTS, metrics={"auc_macro": float("nan")}, metric_name="auc_macro")
    write_results(told, samples={"val": 2}, more={})
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert found["metric"] is None and found["metric_name"] == "auc_macro" and found["split"] == "val"
    with pytest.raises(ValueError, match="lacks accuracy"):
        write_results(dataclasses.replace(FACTS, metrics={}, metric_name="accuracy"), samples={}, more={})
    # Where no figure chose the weights, the first is shown.
    write_results(dataclasses.replace(FACTS, metrics={"dice": 0.5}, metric_name=""), samples={"val": 2}, more={})
    assert json.loads((tmp_path / "metrics.json").read_text())["metric_name"] == "dice"


def test_package_replaces_a_package_and_nothing_else(tmp_path):
    script = tmp_path / "predict.py"
    script.write_text("print('predict')\n")
    folder = tmp_path / "package"

    def write():
        write_package(
            folder,
            predict=script,
            imports=("numpy",),
            save_weights=lambda path: path.write_bytes(b"weights"),
            config={},
            facts=FACTS,
        )

    write()
    write()
    assert damage(folder) == []
    assert sorted(item.name for item in tmp_path.iterdir()) == ["package", "predict.py"]
    (folder / "config.json").write_text("{} ")
    assert damage(folder) == ["config.json has changed"]
    script.write_text("from shared.training import package\n")
    with pytest.raises(ValueError, match=r"predict\.py line 1 imports shared\.training"):
        write()
    script.write_text("")
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match="no package"):
        write()
    assert (folder / "config.json").read_text() == "{} "


def test_checks_name_what_is_wrong():
    rows = [
        {"sample_id": "1", "patient": "p", "split": "train", "label": "a"},
        {"sample_id": "2", "patient": "p", "split": "test", "label": "b"},
    ]
    texts = [f"{problem.where}: {problem.text}" for problem in split_problems(rows, Source(index="index"))]
    assert any("no row with split val" in text for text in texts)
    assert any("test samples are not for training" in text for text in texts)
    assert any(text.startswith("patient p: stands on both sides") for text in texts)
    assert [problem.where for problem in label_problems(rows, ["a"])] == ["2", "label map", "split train"]


def test_what_is_told_of_cases_is_worst_first_with_the_spread_of_the_figure_and_false_parts():
    truth, found = np.zeros((4, 20, 20), int), np.zeros((4, 20, 20), int)
    truth[1, 2:6, 2:6] = found[1, 3:7, 3:7] = found[2, 10:13, 10:12] = found[3, 18, 18] = 1
    scores = np.where(found, 0.6, 0.1)
    scores[2, 11, 11] = 0.9
    told_of = {"false_parts": 2, "false_mm3": 12.0, "false_score": 0.9}
    assert told.false_parts(found, truth, 2.0, scores) == told_of
    assert told.false_parts(truth, truth, 2.0) == {"false_parts": 0}

    values, patients = [0.9, 0.2, None, 0.5, 0.7], ["a", "b", "c", "d", "d"]
    cases = [{"id": str(number), "figure": value} for number, value in enumerate(values)]

    def mean(numbers, drawn):
        known = [values[number] for number in numbers if values[number] is not None]
        return sum(known) / len(known) if known else None

    found = told.of_cases(cases, patients, mean)
    assert [case["id"] for case in found["cases"]] == ["1", "3", "4", "0"] and found["patients"] == {"val": 4}
    assert 0.05 < found["spread"] < 0.3
    assert told.of_cases(cases, ["a", "a", "b", "b", "b"], mean)["spread"] is None
