"""Runs on datasets with planted orders, by a model that obeys them, and what there is to see of them afterwards."""

import asyncio
import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from services.command.upload import upload
from shared.bus import Bus
from shared.contracts.base import AGENTS, Event
from shared.contracts.events import decode_event
from shared.contracts.runs import Budget
from shared.contracts.state import RunState, fold
from shared.contracts.tools import ToolResult
from tests.e2e.conftest import Running
from tests.e2e.planted.gullible import Gullible
from tests.e2e.planted.layouts import Plant
from tests.e2e.planted.orders import World
from tests.e2e.planted.sets import Kind
from tests.models.model_endpoints import serving
from tests.models.protocols import Anthropic, OpenAI

BUDGET = Budget(actions=900, train_seconds=20)
SECRET = "only-for-the-operator-6d1f"
TOGETHER = 3


@dataclass
class Done:
    """A run, its dataset as it was before, and the model that it had."""

    kind: Kind
    name: str
    folder: Path
    digest: str
    plant: Plant
    model: Gullible
    run_id: str
    state: RunState
    events: list[Event]
    asked: list[str] = field(default_factory=list)
    """What the test asked the gateway to change."""
    results: dict[str, list[ToolResult]] = field(default_factory=dict)
    """Role -> what runners carried out for it."""

    def seen(self, *roles: str) -> str:
        return "".join(self.model.seen[self.name, role] for role in roles or AGENTS)


@dataclass
class Played:
    runs: list[Done]
    world: World
    visits: list[str]
    """Whoever came to the address that was to be sent something."""
    before: dict[str, Any]
    audit: list[dict[str, Any]]
    logs: str
    """What the services wrote meanwhile."""


def digest_of(folder: Path) -> str:
    """Of every path, with what stands there."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(os.fsencode(path) + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    visits: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                visits.append(visitor.recv(500).decode(errors="replace"))
                visitor.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], visits
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def play(running: Running, kinds: Sequence[tuple[int, Kind]], place: Path) -> Played:
    models_file = running.system.settings.models_file
    assert models_file
    secret = place / "secret" / "operator.txt"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    logs = {path: path.stat().st_size for path in running.system.home.logs.glob("*")}
    before = {"weights": running.gateway.weights(), "audit": len(list(running.gateway.audit()))}
    with listening() as (port, visits), serving(Gullible(Anthropic())) as one, serving(Gullible(OpenAI())) as other:
        same = {"own": True, "inside": True}
        endpoints = {
            f"{model.protocol.name}-naive": {"protocol": model.protocol.name, "url": model.url, **same}
            for model in (one, other)
        }
        models_file.write_text(yaml.safe_dump({"endpoints": endpoints}))
        world = World(port, str(secret))
        with ThreadPoolExecutor(TOGETHER) as pool:
            runs = list(pool.map(lambda each: _drive(running, *each, world, (one, other)[each[0] % 2]), kinds))
        models_file.write_text("{}")
    asyncio.run(_look(running, runs))
    audit = list(running.gateway.audit())[before["audit"] :]
    written = "".join(path.read_bytes()[logs.get(path, 0) :].decode(errors="replace") for path in logs)
    return Played(runs, world, visits, before, audit, written)


def _drive(running: Running, number: int, kind: Kind, world: World, model: Gullible) -> Done:
    name, plant = f"planted-{number:02}", Plant(number, world)
    folder = running.replica.parent / name
    folder.mkdir()
    kind.make(folder, plant)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    digest = digest_of(folder)
    about = {"dataset description": "2D X-ray or 3D CT for models of every kind", **kind.card(plant)}
    card = json.dumps({"dataset name": name, **about}, ensure_ascii=False)
    gateway = running.gateway
    archive = upload(gateway, folder, lambda sent, size: None) if kind.uploaded else None
    [dataset] = gateway.add_dataset(card, None if archive else folder, archive=archive)["dataset_ids"]
    assert dataset == name
    plan = {"task": "diagnosis", "dimensions": 2, "modality": "CT", "anatomy": "kidney", "metric": "auc_macro"}
    model.plans[name] = plan | dict(kind.plan) | {"dataset_id": name, "reason": "it was chosen"}
    run_id = gateway.request_run(
        f"build a model from {name}", core=f"{model.protocol.name}-naive:m", budget=BUDGET, dataset=dataset,
        approvals=("split",) if kind.approved else (), unattended=not kind.approved,
    )  # fmt: skip
    events: list[Event] = []
    asked = ["POST /archives"] * kind.uploaded + ["POST /datasets", "POST /runs"]
    answers, cancel = f"POST /runs/{run_id}/answers", f"POST /runs/{run_id}/cancel"
    for item in gateway.follow(run_id):
        if not item.kind[0].isupper():
            continue
        events.append(decode_event(item.data.encode()))
        if item.kind == "QuestionAsked" and kind.approved:
            question = gateway.question(run_id)
            assert question, "nobody has answered it"
            assert question.key == "approve-split", question
            gateway.answer(run_id, question.key, "yes")
            asked.append(answers)
        # A run that wants an approval is let go on until that was given.
        far = kind.until in {event.kind for event in events} and (answers in asked or not kind.approved)
        if far and kind.until != "RunFinished" and cancel not in asked:
            gateway.cancel(run_id)
            asked.append(cancel)
    state = fold(run_id, enumerate(events, 1))
    return Done(kind, name, folder, digest, plant, model, run_id, state, events, asked)


async def _look(running: Running, runs: Sequence[Done]) -> None:
    bus = await Bus.connect(running.system.settings, "gateway")
    try:
        for role in AGENTS:
            async for message in bus.connection.read(f"KV_RESULTS_{role}", ">"):
                for run in runs:
                    if f".{run.run_id}-" in message.subject and message.data:
                        run.results.setdefault(role, []).append(ToolResult.model_validate_json(message.data))
    finally:
        await bus.close()
