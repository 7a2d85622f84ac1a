"""The whole system, started once as `m3builder up` starts it, with a small replica registered."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from m3bench import replicas
from m3bench.cards import paths
from services.command.replay import replay
from services.gateway.bodies import NewRun
from services.gateway.client import Gateway
from services.gateway.feed import Item
from shared.contracts.cards import parse_card
from shared.contracts.data import SealedSplit
from shared.contracts.events import decode_event
from shared.contracts.runs import Budget
from shared.contracts.state import RunState, fold
from shared.embedded.system import System, up
from shared.settings import Settings
from shared.store import Store
from tests.telemetry.receiver import Receiver, receiving

REQUEST = "I want to train a model for disease diagnosis using 3D CT images."
REPLICA = "cc-ccii"


@dataclass(frozen=True)
class Running:
    system: System
    gateway: Gateway
    replica: Path
    spans: Receiver | None = None
    """What the services tell of their work."""

    def ask(self, requirement: str = REQUEST, core: str = "playbook", train_seconds: float = 30) -> str:
        budget = Budget(train_seconds=train_seconds)
        if core.startswith("scripted:"):
            return replay(self.system.settings, NewRun(requirement=requirement, core=core, budget=budget))
        return self.gateway.request_run(requirement, core=core, budget=budget)

    def follow(self, run_id: str) -> list[Item]:
        return list(self.gateway.follow(run_id))

    def split(self, state: RunState) -> SealedSplit:
        """All cases with their sides, as the operator of the store can read them."""
        assert state.locked, state.finished
        return SealedSplit.model_validate_json(Store.connect(self.system.settings).get_bytes(state.locked.sealed))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("system")
    home, data = folder / "home", folder / "data"
    data.mkdir()
    replicas.make(REPLICA, data / "scans", size="tiny", seed=3)
    # The runner's user reads the data as an operator's data would be readable.
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = {name: value for name, value in os.environ.items() if name.startswith("M3_")}
    for name in before:
        del os.environ[name]
    with receiving() as spans:
        # In the environment, so that services that are started again in a test get it, too.
        told = {"M3_OTLP_ENDPOINT": spans.endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "2000"}
        # Read at each use, so that a test may enter endpoints of its own.
        told["M3_MODELS_FILE"] = str(folder / "models.yaml")
        (folder / "models.yaml").write_text("{}")
        os.environ.update(told)
        system = up(Settings(home=home), (data,))
        try:
            with Gateway(system.settings) as gateway:
                for path in paths():
                    text = path.read_text()
                    here = parse_card(text, path.name)[0].dataset_id == REPLICA
                    gateway.add_dataset(text, data / "scans" if here else None, here=here)
                yield Running(system, gateway, data / "scans", spans)
        finally:
            system.down()
            for name in told:
                del os.environ[name]
            os.environ.update(before)


@pytest.fixture(scope="session")
def main_job(running: Running) -> dict[str, Any]:
    """One run of the main job; several tests look at it from several sides."""
    run_id = running.ask()
    items = running.follow(run_id)
    events = [decode_event(item.data.encode()) for item in items if item.kind[0].isupper()]
    return {"run_id": run_id, "items": items, "events": events, "state": fold(run_id, enumerate(events, 1))}
