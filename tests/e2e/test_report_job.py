"""A writer of reports from one sentence: films in views, texts in a table, a scored package that writes alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from m3bench import replicas
from m3bench.cards import paths
from services.command.fetch import whole
from services.command.package import predict_alone
from services.gateway.summary import summary
from shared.contracts.events import decode_event
from shared.contracts.state import RunState, fold
from tests.e2e.conftest import Running
from tests.e2e.fetching import fetch
from tests.telemetry.edges import check_edges

pytestmark = pytest.mark.timeout(1800)

SENTENCE = "I want to train a model for report generation using 2D chest X-ray images."
CARD = next(path for path in paths() if path.stem == "iu-xray")
STUDIES = 40
"""An epoch is three steps."""


@pytest.fixture(scope="module")
def films(running: Running) -> Iterator[Path]:
    """The IU-Xray replica as it is distributed: reports and projections in two tables, one to three views a study."""
    folder = running.replica.parent / "films"
    replicas.make("iu-xray", folder, size="tiny", seed=11, patients=STUDIES, layout="distributed", workers=1)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    running.gateway.add_dataset(CARD.read_text(), folder)
    yield folder
    running.gateway.add_dataset(CARD.read_text(), here=False)


@pytest.fixture(scope="module")
def job(running: Running, films: Path) -> dict[str, Any]:
    run_id = running.ask(SENTENCE, train_seconds=60)
    events = [decode_event(item.data.encode()) for item in running.follow(run_id) if item.kind[0].isupper()]
    return {"run_id": run_id, "events": events, "state": fold(run_id, enumerate(events, 1))}


def test_its_edges_are_those_of_the_stages(running: Running, job: dict[str, Any]) -> None:
    check_edges(running.spans, job["run_id"])


def test_a_sentence_becomes_a_writer_of_reports(job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    failed = [gate for gate in state.scored.gates if not gate.passed] if state.scored else state.finished
    assert state.finished is not None and state.finished.end == "succeeded", failed
    assert state.planned is not None and state.planned.plan.task == "report_generation"
    assert state.planned.plan.dataset_id == "iu-xray"
    assert state.scored is not None and state.scored.level in ("valid", "useful")
    assert all(gate.passed for gate in state.scored.gates)
    assert {gate.name for gate in state.scored.gates} >= {"reports_are_texts", "all_cases_predicted"}
    assert {control.name for control in state.scored.controls} >= {"majority", "constant", "permutation"}
    metric = state.scored.metric
    assert metric is not None and metric.name == "rouge_l" and 0 <= metric.low <= metric.value <= metric.high <= 1
    assert {other.name for other in state.scored.others} >= {"bleu_1", "bleu_4", "meteor", "cider_d"}
    assert state.assembled is not None and len(state.assembled.module.input_shape) == 3
    assert state.assembled.module.input_shape[0] in (2, 3), "frontal and lateral; two of the studies have a third"
    assert state.spent.turns <= 12
    told = summary(list(enumerate(job["events"], 1)), 110)
    assert "rouge_l" in told and "majority" in told


def test_the_index_has_every_study_with_its_views(running: Running, films: Path, job: dict[str, Any]) -> None:
    state: RunState = job["state"]
    split = running.split(state)
    truth = json.loads(films.with_name("films.truth.json").read_text())
    usable = {str(study["uid"]) for study in truth["studies"] if study["empty"] != "both"}
    assert len(split.rows) == len({row.patient for row in split.rows}) == len(usable)
    assert {len(row.files) for row in split.rows} >= {1, 2}
    assert all(row.target and len(row.target.split()) > 1 for row in split.rows)
    assert state.locked and state.locked.facts.left_out


def test_the_package_writes_about_a_new_study_alone(running: Running, job: dict[str, Any], tmp_path: Path) -> None:
    fetch(running, job["run_id"], tmp_path / "model")
    replicas.make("iu-xray", tmp_path / "new", size="tiny", seed=12, patients=6, layout="distributed", workers=1)
    new = tmp_path / "study"
    new.mkdir()
    for number, film in enumerate(sorted((tmp_path / "new/images/images_normalized").glob("*.png"))[:2]):
        film.rename(new / f"{number}.png")
    case, isolation = predict_alone(
        tmp_path / "model" / "package", new, tmp_path / "out", running.system.settings.runner_uid
    )
    assert isolation and isinstance(case["report"], str) and len(case["report"].split()) > 3


def test_the_page_of_the_run_shows_films_and_texts(running: Running, job: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    whole(running.gateway, f"/runs/{job['run_id']}/report?format=html&wait=500", page, "html", 540)
    told = page.read_text()
    assert "rouge_l" in told and "There are no pictures" not in told
    assert '<figure class="case">' in told
