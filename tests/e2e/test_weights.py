"""The shelf from `m3builder weights add` to the card of a package; files that are no weights, and one that attacks."""

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from shared.contracts.events import decode_event
from shared.contracts.starting import StartTraining
from shared.contracts.training import JobFinished
from shared.contracts.transcript import Call, Turn, decode_entry
from tests.cli.conftest import call
from tests.e2e.conftest import REPLICA, Running

TERMS = ("--licence", "CC-BY-4.0", "--source", "https://example.org/scans")
FORGED = '{"tensors": 1, "parameters": 1, "layers": {}, "fits": []}'


@pytest.fixture
def environment(running: Running) -> dict[str, str]:
    return {**os.environ, "M3_HOME": str(running.system.home.root), "COLUMNS": "250"}


class Attack:
    """Loaded as a pickle it says in the probe's name that all is well."""

    def __reduce__(self) -> Any:
        return exec, (f"import os; print({FORGED!r}, flush=True); os._exit(0)",)


@pytest.mark.slow
def test_what_is_no_state_dict_is_refused_and_nothing_in_it_is_executed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    texts = tmp_path / "text.safetensors"
    texts.write_text("these are no weights")
    attack, bare, listed = (tmp_path / name for name in ("attack.pt", "bare.bin", "listed.pth"))
    torch.save({"layer.weight": Attack()}, attack)
    bare.write_bytes(pickle.dumps(Attack()))
    torch.save([torch.zeros(3)], listed)
    for file, why in (
        (texts, "cannot be read"),
        (attack, "cannot be read"),
        (bare, "cannot be read"),
        (listed, "no ten"),
    ):
        told = call(environment, "weights", "add", "odd", str(file), *TERMS, code=2)
        assert "was not put on the shelf" in told and why in told and "state dict" in told
    assert "The shelf is empty" in call(environment, "weights", "list")
    told = call(environment, "weights", "add", "odd name", str(texts), *TERMS, code=2)
    assert "pattern" in told
    assert "is no file" in call(environment, "weights", "add", "odd", str(tmp_path / "none.pt"), *TERMS, code=2)


@pytest.mark.slow
def test_weights_are_added_used_told_on_the_card_and_removed(
    environment: dict[str, str], running: Running, main_job: dict[str, Any], tmp_path: Path
) -> None:
    trained = tmp_path / "trained"
    call(environment, "fetch", main_job["run_id"], str(trained))
    tensors = safetensors.torch.load_file(trained / "package" / "model.safetensors")
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in tensors.items()}}, tmp_path / "mine.pt")
    assert "resnet10 16 in 3D" in call(environment, "weights", "add", "mine", str(tmp_path / "mine.pt"), *TERMS)
    listed = call(environment, "weights", "list")
    assert "CC-BY-4.0" in listed and "https://example.org/scans" in listed
    (entry,) = running.gateway.weights()
    shapes = {name.removeprefix("module."): list(shape) for name, shape in entry.looked.layers.items()}
    assert shapes == {name: list(tensor.shape) for name, tensor in tensors.items()}

    answer = running.gateway._http.get(f"/runs/{main_job['run_id']}/transcript").raise_for_status()
    wanted = {"training.epochs": 2, "model.weights": "/weights/mine.pt"}
    edit = Call(name="edit_files", arguments={"path": "config.yaml", "set": wanted})
    lines = []
    for turn in map(decode_entry, answer.content.splitlines()):
        if isinstance(turn, Turn) and turn.calls[-1].name == StartTraining.tool:
            turn = turn.model_copy(update={"calls": (edit, turn.calls[-1])})
        lines.append(turn.model_dump_json())
    script = tmp_path / "recorded.jsonl"
    # The id of a job tells the place of the call that started it.
    script.write_text(re.sub(r"(-model_trainer-\d+)-\d+", r"\1-1", "\n".join(lines)))
    run_id = running.ask(core=f"scripted:{script}")
    running.follow(run_id)
    call(environment, "fetch", run_id, str(tmp_path / "second"))
    card = (tmp_path / "second" / "package" / "MODEL_CARD.md").read_text()
    digest = entry.file.sha256
    assert f"mine, licence: CC-BY-4.0, source: https://example.org/scans, SHA-256 {digest}" in card
    assert f"SHA-256 {digest}" in (tmp_path / "second" / "record.json").read_text()

    assert "mine (https://example.org/scans)" in trained_in(running, run_id).shelf

    # Known to have learned from the run's dataset, they are out of its reach.
    add = ("weights", "add", "mine", str(tmp_path / "mine.pt"), *TERMS, "--learned-from")
    assert "There is no dataset nowhere here" in call(environment, *add, "nowhere", code=2)
    call(environment, *add, REPLICA)
    ended = trained_in(running, running.ask(core=f"scripted:{script}"))
    assert ended.outcome == "failed" and "/weights/mine.pt" in ended.summary and not ended.shelf

    assert "taken off the shelf: mine" in call(environment, "weights", "remove", "mine")
    assert running.gateway.weights() == []
    assert "There are no weights mine" in call(environment, "weights", "remove", "mine", code=2)


def trained_in(running: Running, run_id: str) -> JobFinished:
    """The first training of a run, which is followed to its end."""
    events = [decode_event(item.data.encode()) for item in running.follow(run_id) if item.kind == "JobFinished"]
    return next(event for event in events if isinstance(event, JobFinished) and event.job == "train")
