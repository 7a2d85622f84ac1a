"""Systems of their own, for tests that kill processes or need an environment of theirs."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from m3bench import replicas
from m3bench.cards import paths
from services.gateway.client import Gateway
from services.gateway.items import Item
from shared.contracts.base import Event
from shared.contracts.events import decode_event
from shared.contracts.runs import RunFinished
from shared.contracts.starting import StartTraining
from shared.contracts.transcript import Call, Turn, decode_entry
from shared.embedded import processes
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.settings import Settings
from tests.e2e.conftest import REPLICA, Running


@contextmanager
def apart(folder: Path, empty: bool = False, **environment: str) -> Iterator[Running]:
    """A system in `folder` with the small replica registered, or `empty`. Its services, also those that are started
    again within, get `environment`."""
    data = folder / "data"
    data.mkdir()
    if not empty:
        replicas.make(REPLICA, data / "scans", size="tiny", seed=3)
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("M3_")]:
        del os.environ[name]
    os.environ.update(environment)
    try:
        system = up(Settings(home=folder / "home"), (data,))
        with Gateway(system.settings) as gateway:
            for path in () if empty else paths():  # all of them: a recorded plan says of each why it is not taken
                here = path.stem == REPLICA
                gateway.add_dataset(path.read_text(), data / "scans" if here else None, here=here)
            yield Running(system, gateway, data / "scans")
    finally:
        down(Home(folder / "home"))
        os.environ.clear()
        os.environ.update(before)


def kill(running: Running, *names: str) -> None:
    """End processes without warning, as a crash would, and wait until they are gone."""
    found = [record for name in names if (record := processes.load(name, running.system.home.run))]
    assert [record.alive for record in found] == [True] * len(names)
    for record in found:
        os.kill(record.pid, signal.SIGKILL)
    eventually(lambda: not any(record.alive for record in found))


def start_again(running: Running) -> None:
    """Start what is missing, as a supervisor or a person would."""
    up(Settings(home=running.system.home.root), running.system.settings.data_roots)


def eventually(holds: Callable[[], object], seconds: float = 240) -> None:
    """Wait until it holds; `seconds` is for machines that are busy with something else."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.1)


def recorded(running: Running, run_id: str, epochs: int) -> str:
    """The run's transcript, as the core `scripted:` takes it, with another training: it ends by its epochs, however
    slow they are, and has a checkpoint after each."""
    answer = running.gateway._http.get(f"/runs/{run_id}/transcript").raise_for_status()
    wanted = {"training.epochs": epochs, "training.save_seconds": 0, "training.patience": 0}
    edit = Call(name="edit_files", arguments={"path": "config.yaml", "set": wanted})
    lines = []
    for entry in map(decode_entry, answer.content.splitlines()):
        if isinstance(entry, Turn) and entry.calls[-1].name == StartTraining.tool:
            start = entry.calls[-1].model_copy(update={"arguments": {"command": entry.calls[-1].arguments["command"]}})
            entry = entry.model_copy(update={"calls": (edit, start)})
        if isinstance(entry, Turn) and entry.calls[-1].name == "submit_plan":
            entry = entry.model_copy(update={"calls": (*entry.calls[:-1], _of_the_benchmark(entry.calls[-1]))})
        lines.append(entry.model_dump_json())
    # The id of a job tells the place of the call that started it.
    return re.sub(r"(-model_trainer-\d+)-\d+", r"\1-1", "\n".join(lines))


def _of_the_benchmark(plan: Call) -> Call:
    """The plan without what it says of cards that other tests had registered: the next system does not have them."""
    known = {path.stem for path in paths()}
    refused = plan.arguments["refused"]
    assert isinstance(refused, list)
    kept = [card for card in refused if isinstance(card, dict) and card["dataset_id"] in known]
    return plan.model_copy(update={"arguments": {**plan.arguments, "refused": kept}})


class Watch:
    """The items of one run in their order, read as far as a test wants to wait."""

    def __init__(self, running: Running, run_id: str) -> None:
        self.run_id = run_id
        self.seen: list[Item] = []
        self._items = running.gateway.follow(run_id)

    def until(self, kind: str, *words: str) -> Item:
        """The next item of this kind with these words in it."""
        for item in self._items:
            self.seen.append(item)
            if item.kind == kind and all(word in item.data for word in words):
                return item
        raise AssertionError(f"the run ended before {kind} {words}: {self.seen[-1]}")

    @property
    def events(self) -> list[Event]:
        return [decode_event(item.data.encode()) for item in self.seen if item.kind[0].isupper()]

    def end(self) -> RunFinished:
        return RunFinished.model_validate_json(self.until("RunFinished").data)
