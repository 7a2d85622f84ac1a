"""The same main job where user namespaces are not to be had: the second rung of the sandbox ladder."""

from pathlib import Path

import pytest

from m3bench import replicas
from m3bench.cards import paths
from services.gateway.client import Gateway
from shared.contracts.events import decode_event
from shared.contracts.runs import Budget
from shared.contracts.state import fold
from shared.embedded.system import up
from shared.settings import Settings
from tests.e2e.conftest import REPLICA, REQUEST

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_main_job_at_the_landlock_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    replicas.make(REPLICA, data / "scans", size="tiny", seed=4)
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    monkeypatch.setenv("M3_ISOLATION", "landlock")
    system = up(Settings(home=tmp_path / "home"), (data,))
    try:
        with Gateway(system.settings) as gateway:
            card = next(path for path in paths() if path.stem == REPLICA).read_text()
            gateway.add_dataset(card, data / "scans")
            run_id = gateway.request_run(REQUEST, budget=Budget(train_seconds=20))
            items = list(gateway.follow(run_id))
    finally:
        system.down()
    state = fold(run_id, enumerate((decode_event(item.data.encode()) for item in items if item.kind[0].isupper()), 1))
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert {job.isolation for job in state.jobs_done.values()} == {"landlock"}
