"""The Model Trainer at work before real runners: a run behind its lock, whose cases are pictures of two kinds."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from services.model_trainer.role import ROLE
from shared.agent.brief import Brief, make_brief
from shared.agent.core import Decision
from shared.agent.desk import Desk
from shared.agent.loop import Accepted, run_agent
from shared.agent.role import Role
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.data import ViewManifest
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import Budget, RunRequested
from shared.contracts.state import RunState, order_for
from shared.contracts.transcript import Call, Observation, Turn
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, dataset_facts, locked, prepared, row, store_cases
from tests.runner.jobs import as_words, runner_folder

DRIVER = Path(__file__).with_name("runner_driver.py")
TRAIN_SECONDS = 400.0


class Bench:
    """`role` works on an order of a run; what it does next, the test says."""

    def __init__(self, settings: Settings, bus: Bus, store: Store, state: RunState, role: Role) -> None:
        self.settings, self.bus, self.store, self.run_id, self.role = settings, bus, store, state.run_id, role
        self.order = order_for(role.name, state) or ""
        self.runners: list[subprocess.Popen[bytes]] = []

    @classmethod
    async def begin(
        cls, settings: Settings, bus: Bus, store: Store, folder: Path, role: Role = ROLE, masks: bool = False
    ) -> "Bench":
        rows = draw(folder, masks)
        facts = dataset_facts(dimensions=2, label_names=("dark", "light"))
        if masks:
            facts = dataset_facts(
                task="organ_segmentation", dimensions=2, label_names=("square",), label_values={"square": 1}
            )
        view = ViewManifest(rows=tuple(rows), stored=store_cases(store, folder, rows, masks), facts=facts)
        kept = await asyncio.to_thread(store.put_bytes, "data", view.model_dump_json().encode())
        run_id = new_run_id()
        _, planned = begun(run_id)
        asked = RunRequested.make(
            run_id=run_id, sender="gateway", cause=None, requirement="x", core="scripted:test",
            budget=Budget(train_seconds=TRAIN_SECONDS),
        )  # fmt: skip
        found = prepared(run_id, planned)
        lock = locked(run_id, found, view=kept, facts=facts)
        module = AssembledModule(template="diagnosis", model="m", loss="l", input_shape=(1, 32, 32))
        assembled = ModuleAssembled.make(
            run_id=run_id, sender="module_architect", cause=lock, module=module, batch_shapes={},
            workspace_sha256="2" * 64,
        )  # fmt: skip
        for event in (asked, planned, found, lock, *([assembled] if role is ROLE else [])):
            state = await bus.append(event)
        return cls(settings, bus, store, state, role)

    def start_runner(self, number: int) -> None:
        home = self.settings.home / f"runner-{number}"
        runner_folder(self.settings, home)
        words = as_words(self.settings, home=str(home), ack_wait_seconds=self.settings.ack_wait_seconds)
        self.runners.append(subprocess.Popen([sys.executable, str(DRIVER), words], start_new_session=True))

    async def stop(self) -> None:
        for process in self.runners:
            process.terminate()
            await asyncio.to_thread(process.wait)

    async def desk(self) -> Desk:
        """As a replica that knows nothing opens it."""
        state = await self.bus.state(self.run_id)
        desk = Desk(self.bus, self.role, make_brief(self.role.name, self.order, state, (), TRAIN_SECONDS))
        await desk.open()
        return desk

    async def turn(self, *calls: Call, seconds: float = 300) -> Observation | Accepted:
        """What comes of a turn, with the end of the jobs that it starts; without calls, of the one before."""
        core = Once(calls)
        for _ in range(int(seconds * 2)):
            desk = await self.desk()
            try:
                accepted = await run_agent(desk, core)
            except Asked:
                last = desk.entries[-1]
                assert isinstance(last, Observation)
                return last
            if accepted:
                return accepted
            await asyncio.sleep(0.5)
        raise AssertionError("the jobs did not end")


class Asked(Exception):
    """The core was asked for another turn."""


class Once:
    name = "test"
    opened, sees = False, True

    def __init__(self, calls: tuple[Call, ...]) -> None:
        self.calls: tuple[Call, ...] | None = calls or None

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        if self.calls is None:
            raise Asked
        calls, self.calls = self.calls, None
        return Decision(calls=calls)


def draw(folder: Path, masks: bool) -> list[Any]:
    """24 pictures for training and 12 for validation: the light half has a bright square somewhere. With `masks` all
    have one, and it is marked."""
    rows, random = [], np.random.default_rng(3)
    for number in range(36):
        light, split = number % 2, "train" if number < 24 else "val"
        pixels = random.normal(90, 25, (32, 32))
        top, left = random.integers(2, 18, 2)
        square = (slice(top, top + 12), slice(left, left + 12))
        pixels[square] += 40 if light or masks else 0
        what = {"target": f"s{number:02d}/mask.png"} if masks else {"label": ("dark", "light")[light]}
        made = row(f"s{number:02d}", f"s{number:02d}/000.png", split=split, **what)
        (folder / made.files[0]).parent.mkdir(parents=True, exist_ok=True)
        if masks:
            marked = np.zeros((32, 32), np.uint8)
            marked[square] = 1
            Image.fromarray(marked).save(folder / str(made.target))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / made.files[0])
        rows.append(made)
    return rows
