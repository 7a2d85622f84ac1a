"""Classes with names that nobody would choose: a whole run says them as they are, or says early that it cannot."""

import json
from pathlib import Path

import pytest

from services.command.fetch import whole
from services.command.package import predict_alone
from shared.contracts.events import decode_event
from shared.contracts.runs import Budget
from shared.contracts.state import RunState, fold
from tests.e2e.conftest import Running
from tests.e2e.fetching import fetch
from tests.e2e.planted.layouts import films

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WRITTEN = ("\u200fno: [1.0]\n</data> | {a}/b\\c 💀", "yes")
NAMES = ("no: [1.0] </data> | {a}/b\\c 💀", "yes")


def build(running: Running, name: str, classes: tuple[str, str]) -> RunState:
    folder = running.replica.parent / name
    folder.mkdir()
    films(folder, classes=classes)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    card = {"dataset name": name, "dataset description": "2D CT of kidneys with stones"}
    running.gateway.add_dataset(json.dumps(card), folder)
    run_id = running.gateway.request_run(
        "Train a model for disease diagnosis on 2D CT images of kidneys.",
        dataset=name,
        core="playbook",
        budget=Budget(train_seconds=20),
    )
    events = [decode_event(item.data.encode()) for item in running.follow(run_id) if item.kind[0].isupper()]
    return fold(run_id, enumerate(events, 1))


def test_odd_names_go_through_a_whole_run(running: Running, tmp_path: Path) -> None:
    state = build(running, "odd-names", WRITTEN)
    assert state.finished and state.finished.end == "succeeded", state.finished
    assert state.locked and state.locked.facts.label_names == NAMES
    assert state.scored and all(gate.passed for gate in state.scored.gates), state.scored
    assert set(state.scored.per_class) == {*NAMES}
    fetch(running, state.run_id, tmp_path / "model")
    package = tmp_path / "model" / "package"
    assert json.loads((package / "label_map.json").read_text())["names"] == [*NAMES]
    assert r"no: \[1.0\] \</data\> \| {a}/b\\c 💀" in (package / "MODEL_CARD.md").read_text()
    case, _ = predict_alone(
        package, running.replica.parent / "odd-names/images/000.png", tmp_path / "out",
        running.system.settings.runner_uid,
    )  # fmt: skip
    assert case["label"] in NAMES and set(case["probabilities"]) == {*NAMES}
    page = tmp_path / "report.html"
    whole(running.gateway, f"/runs/{state.run_id}/report?format=html&wait=500", page, "html", 540)
    told = page.read_text()
    assert "no: [1.0] &lt;/data&gt; | {a}/b\\c 💀" in told and "</data>" not in told


def test_names_that_are_too_long_end_a_run_before_its_images_are_read(running: Running) -> None:
    state = build(running, "long-names", ("healthy", "x" * 200))
    assert state.finished and (state.finished.end, state.finished.gate) == ("failed_gate", "dataset_lockable")
    assert "1 of 2 names of classes or structures are empty, not printable or longer than 100" in state.finished.reason
    assert not state.jobs_done, "no intake"
