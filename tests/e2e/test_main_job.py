"""One sentence to a scored package through seven real processes, and what else can become of a sentence."""

import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from services.command.package import predict_alone
from services.command.verify import verify
from services.gateway.summary import summary
from shared.contracts.events import decode_event
from shared.contracts.runs import RunFinished
from shared.contracts.state import fold
from shared.errors import UserError
from tests.e2e.conftest import Running
from tests.e2e.fetching import fetch

pytestmark = pytest.mark.timeout(900)

FACTS = [
    "RunRequested", "TaskPlanned", "DatasetPrepared", "JobStarted", "JobFinished", "DatasetLocked", "ModuleAssembled",
    "JobStarted", "JobFinished", "TrainingFinished", "JobStarted", "JobFinished", "RunScored", "RunFinished",
]  # fmt: skip


def test_a_sentence_becomes_a_scored_package(main_job) -> None:
    state = main_job["state"]
    assert state.finished.end == "succeeded", state.finished.reason
    assert state.scored.level in ("valid", "useful")
    assert [event.kind for event in main_job["events"]] == FACTS
    assert state.planned.plan.dataset_id == "cc-ccii"
    assert len(state.planned.plan.refused) >= 13, "every card of the benchmark was looked at"
    assert state.spent.turns <= 12
    assert all(gate.passed for gate in state.scored.gates)
    assert {control.name for control in state.scored.controls} >= {"majority", "permutation"}
    assert state.scored.metric.low <= state.scored.metric.value <= state.scored.metric.high


def test_progress_and_turns_are_shown_while_it_runs(main_job) -> None:
    kinds = [item.kind for item in main_job["items"]]
    assert kinds.count("turn") == main_job["state"].spent.turns
    progress = [json.loads(item.data) for item in main_job["items"] if item.kind == "progress"]
    assert any(line.get("epoch") for line in progress)
    assert kinds.index("progress") < kinds.index("RunScored")


def test_the_summary_can_be_read_by_a_person(main_job) -> None:
    text = summary(list(enumerate(main_job["events"], 1)), 110)
    for word in ("succeeded", "CC-CCII", "auc_macro", "majority", "patients"):
        assert word in text


def test_no_later_role_has_seen_the_test_set(running: Running, main_job) -> None:
    """Everything below the runner's build workspaces and views, as bytes, against every test case and patient."""
    state = main_job["state"]
    split = running.split(state)
    test = [row for row in split.rows if row.split == "test"]
    assert len(test) == sum(state.locked.counts["test"].values()) > 0
    runner = running.system.home.root / "runner"
    seen = [*(runner / "ws" / main_job["run_id"] / "build").rglob("*"), *(runner / "views").rglob("*")]
    assert len(seen) > 100
    names = "\n".join(str(path) for path in seen)
    text = b"\n".join(path.read_bytes() for path in seen if path.suffix in (".json", ".jsonl", ".yaml", ".md", ".log"))
    for row in test:
        assert row.sample_id not in names
        assert row.sample_id.encode() not in text and row.patient.encode() not in text
    train = next(row for row in split.rows if row.split == "train")
    assert train.sample_id.encode() in text, "the search would find what is there"
    for key in split.keys:
        assert key.encode() not in text, "nothing of the original names is left behind the lock"


def test_the_package_predicts_alone(running: Running, main_job, tmp_path: Path) -> None:
    from m3bench.datasets.cc_ccii import new_scan

    fetch(running, main_job["run_id"], tmp_path / "model")
    made = verify(tmp_path / "model" / "package", None).provenance
    assert made and made.isolation.keys() == {"intake", "train", "predict"} and made.template and not made.template.own
    assert made.data and made.data.sha256 == main_job["state"].planned.card.profile.digest
    new_scan(tmp_path / "scan", "NCP", 77)
    case, isolation = predict_alone(
        tmp_path / "model" / "package", tmp_path / "scan", tmp_path / "out", running.system.settings.runner_uid
    )
    assert set(case["probabilities"]) == {"CP", "NCP", "Normal"}
    assert sum(case["probabilities"].values()) == pytest.approx(1, abs=1e-4)
    assert isolation


@pytest.mark.slow
def test_the_run_replayed_from_its_transcript_has_the_same_events(running: Running, main_job, tmp_path: Path) -> None:
    recorded = tmp_path / "turns.jsonl"
    recorded.write_text(running.gateway._http.get(f"/runs/{main_job['run_id']}/transcript").text)
    again = running.ask(core=f"scripted:{recorded}")
    # An agent is killed in the middle of it: the next process goes on from the transcript.
    _kill_when(running, again, "DatasetLocked", "module_architect")
    events = [decode_event(item.data.encode()) for item in running.follow(again) if item.kind[0].isupper()]
    assert [event.kind for event in events] == [event.kind for event in main_job["events"]]
    first, second = main_job["state"], fold(again, enumerate(events, 1))
    assert second.locked.manifest_sha256 != first.locked.manifest_sha256, "the scorer's seed is its own"
    assert second.locked.facts.label_names == first.locked.facts.label_names
    assert second.planned.plan == first.planned.plan
    assert second.prepared.rules.sha256 == first.prepared.rules.sha256
    assert second.finished.end == "succeeded"


def _kill_when(running: Running, run_id: str, kind: str, service: str) -> None:
    """Kill a service with -9 at an event of the run and start it again, as a supervisor would."""
    for item in running.gateway.follow(run_id):
        if item.kind == kind:
            break
        assert item.kind != "RunFinished", item.data
    pid = next(line.pid for line in running.system.status() if line.name == service)
    os.kill(pid, signal.SIGKILL)
    from shared.embedded.system import up
    from shared.settings import Settings

    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    up(Settings(home=running.system.home.root), running.system.settings.data_roots)


def test_a_cancelled_training_stops(running: Running) -> None:
    run_id = running.ask(train_seconds=300)
    for item in running.gateway.follow(run_id):
        if item.kind == "progress":
            break
    running.gateway.cancel(run_id, "enough")
    began = time.monotonic()
    assert RunFinished.model_validate_json(running.follow(run_id)[-1].data).end == "cancelled"
    assert time.monotonic() - began < 60, "training was told to stop"


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda it: it.ask("   "), "request is empty"),
        (lambda it: it.ask(core="oracle"), "oracle"),
        (lambda it: it.gateway.add_dataset("not json"), "not JSON"),
        (lambda it: it.gateway.add_dataset('{"dataset name": "a", "dataset description": "b"}'), "dataset path"),
        (lambda it: it.gateway.add_dataset(_card("/nowhere/at/all")), "exist"),
        (lambda it: it.gateway.add_dataset(_card("/usr/share")), "data root"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence_and_nothing_is_written(running: Running, ask, says: str) -> None:
    before = (running.gateway.runs(), running.gateway.datasets())
    with pytest.raises(UserError, match=says):
        ask(running)
    assert (running.gateway.runs(), running.gateway.datasets()) == before
    assert httpx.get(running.system.settings.gateway_url + "/readyz").status_code == 200


def _card(path: str) -> str:
    return json.dumps({"dataset name": "a", "dataset description": "b", "dataset path": path})
