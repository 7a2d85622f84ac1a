"""A task exported, filled in by hand, and scored: the figure is the one that its sealed cases give by another way."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from m3bench import results
from m3bench.cli import app
from services.tool_runner.views import materialise_cases
from shared.bus import Bus
from shared.contracts.data import CaseList, SealedSplit
from shared.contracts.state import RunState
from shared.embedded.system import attach, down, up
from shared.settings import Settings
from shared.store import Store

TASK = "cc-ccii"


def call(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.slow
def test_what_is_exported_can_be_built_by_hand_and_scores_what_its_sealed_cases_say(tmp_path: Path) -> None:
    folder, beside = tmp_path / "work", tmp_path / "work.m3bench"
    call("export", TASK, str(folder), "--seed", "3", "--seconds", "40")
    prompt = (folder / "PROMPT.md").read_text()
    assert "{" not in prompt and "auc_macro" in prompt
    rows = [json.loads(line) for line in (folder / "train_index.jsonl").read_text().splitlines()]
    files = {file for row in rows for file in row["files"]}
    assert files == {str(path.relative_to(folder / "data")) for path in (folder / "data").rglob("*") if path.is_file()}
    assert {row["split"] for row in rows} == {"train", "val"}
    assert "no predict.py" in call("score", str(folder), code=2)
    spare = tmp_path / "spare.jsonl"
    assert "no_package" in call("score", str(folder), "--no-package", "--results", str(spare))
    (nothing,) = results.read(spare)
    assert (nothing.end, nothing.level, nothing.value) == ("no_package", "none", None)

    # By hand: the template, unedited but for its time.
    built = tmp_path / "built"
    shutil.copytree(folder / "templates" / "diagnosis", built)
    for name in ("train_index.jsonl", "label_map.json"):
        shutil.copy(folder / name, built)
    config = (built / "config.yaml").read_text().replace("train_seconds: 600", "train_seconds: 40")
    (built / "config.yaml").write_text(config)
    env = {**os.environ, "PYTHONPATH": str(folder / "library"), "M3_DATA": str(folder / "data")}
    subprocess.run([sys.executable, "train.py", "--config", "config.yaml"], cwd=built, env=env, check=True)
    shutil.copytree(built / "package", folder / "package")
    told = call("score", str(folder), "--system", "by hand")
    assert "by hand" in told
    (result,) = results.read(beside / "results.jsonl")
    assert result.metric == "auc_macro" and result.value is not None and result.level in ("ran", "valid")
    assert "has been scored" in call("score", str(folder), code=2)

    # Another system gets the same cases, and nothing that the first one did.
    other = tmp_path / "elsewhere" / "other"
    other.parent.mkdir()
    assert "not of KneeMRI" in call("export", "kneemri", str(other), "--like", str(folder), code=2)
    call("export", TASK, str(other), "--like", str(folder))
    assert "is there already" in call("export", TASK, str(other), "--like", str(folder), code=2)
    assert not (other / "package").exists() and (other / "PROMPT.md").read_text() == prompt
    assert (other / "train_index.jsonl").read_text() == (folder / "train_index.jsonl").read_text()
    shutil.copytree(folder / "package", other / "package")
    call("score", str(other), "--system", "another hand")
    (same,) = results.read(other.with_name("other.m3bench") / "results.jsonl")
    assert (same.value, same.low, same.setting.round) == (result.value, result.low, 3)

    # The same cases and package without runner and scorer.
    sealed, named = by_hand(beside, tmp_path / "cases")
    inputs = [str(tmp_path / "cases" / name) for name in named]
    out = tmp_path / "out"
    predict = [sys.executable, "-I", str(folder / "package" / "predict.py"), *inputs, "--output", str(out)]
    subprocess.run(predict, check=True)
    answers = json.loads((out / "predictions.json").read_text())
    by_name = {Path(case["input"]).name: case for case in answers["cases"]}
    labels = {row.sample_id: row.label for row in sealed.rows}
    names = list(sealed.facts.label_names)
    truth = [names.index(str(labels[named[name]])) for name in by_name]
    scores = [[case["probabilities"][name] for name in names] for case in by_name.values()]
    assert roc_auc_score(truth, scores, multi_class="ovr") == pytest.approx(result.value, abs=1e-6)


def by_hand(beside: Path, folder: Path) -> tuple[SealedSplit, dict[str, str]]:
    """The sealed split, and its test cases laid out: name -> sample_id."""
    system = attach(Settings(home=beside / "home"))
    assert system is not None
    # Ports may be others than when it was exported.
    system = up(system.settings, leave_out=("module_architect", "model_trainer"))
    try:
        run_id = json.loads((beside / "exported.json").read_text())["run_id"]
        store, state = Store.connect(system.settings), asyncio.run(state_of(system.settings, run_id))
        assert state.locked is not None
        found = SealedSplit.model_validate_json(store.get_bytes(state.locked.sealed))
        tested = {row.sample_id for row in found.rows if row.split == "test"}
        cases = CaseList(samples=tuple(case for case in found.stored if case.sample_id in tested))
        return found, materialise_cases(cases, store, folder)
    finally:
        down(system.home)


async def state_of(settings: Settings, run_id: str) -> RunState:
    bus = await Bus.connect(settings, "gateway")
    try:
        return await bus.state(run_id)
    finally:
        await bus.close()
