"""Services with scripted roles on a server of their own: they would take up what other tests left on the shared one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from services.agent import run_role
from services.gateway.app import create_app
from services.task_manager.keeper import run_keeper
from shared.agent.asking import ask, ask_person
from shared.agent.brief import Brief
from shared.agent.calls import submit
from shared.agent.role import Facts, Role, Submission
from shared.bus import Bus
from shared.contracts.base import AgentName, Event, Spent
from shared.contracts.questions import Question
from shared.contracts.runs import DataCard, Infeasibility, Infeasible, TaskPlan, TaskPlanned
from shared.contracts.state import RunState
from shared.contracts.transcript import Call, Observation
from shared.embedded.nats import NatsHandle, start_nats
from shared.service import Context
from shared.settings import Settings
from shared.store import Store
from tests.conftest import RETRY_DELAYS

Script = Generator[tuple[Call, ...], Observation, None]
CARD = DataCard(dataset_id="chest-ct", name="Chest CT", description="3D chest CT for disease diagnosis", path="/data")
PLAN = TaskPlan(task="diagnosis", dataset_id="chest-ct", reason="fits", dimensions=3, modality="CT", metric="auc_macro")
COLUMN = (("class", "has two values"), ("grade", "has five values, one of them once"))


def the_end(brief: Brief, reason: str) -> tuple[Call, ...]:
    return (submit("declare_infeasible", Infeasibility(claim="one_class", reason=reason)),)


def asks_for_column(default: str | None = None) -> Callable[[Brief], Script]:
    """A Data Engineer who has to know a column, and then ends the run with what it was told."""

    def script(brief: Brief) -> Script:
        if "column" in brief.answers:
            yield the_end(brief, f"told to take {brief.answers['column']}")
        else:
            yield (ask("column", "Which column is the label?", COLUMN, default=default),)

    return script


def plans(brief: Brief) -> Script:
    yield (submit("submit_plan", PLAN),)


def _planned(plan: TaskPlan, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    fields = {"plan": plan, "card": CARD, "spent": spent}
    return TaskPlanned.make(run_id=brief.run_id, sender="task_manager", cause=brief.order, **fields)


def _infeasible(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender=brief.role, cause=brief.order, finding=answer, spent=spent)


def _fine(answer: object, facts: Facts, brief: Brief) -> list[str]:
    return []


def role(name: AgentName, script: Callable[[Brief], Script]) -> Role:
    return Role(
        name=name,
        tools=(),
        submissions=(
            Submission("submit_plan", TaskPlan, _fine, _planned),
            Submission("declare_infeasible", Infeasibility, _fine, _infeasible),
            ask_person(name),
        ),
        prompt=Path("prompt.md"),
        playbook=script,
    )


@dataclass
class Town:
    """What runs on the server of one test."""

    settings: Settings
    bus: Bus
    http: httpx.AsyncClient
    running: dict[str, tuple[Context, asyncio.Task[None]]] = field(default_factory=dict)

    async def serve(self, name: str, run: Callable[[Context], Awaitable[None]]) -> None:
        bus = await Bus.connect(self.settings, "task_manager" if name == "keeper" else name, retry_delays=RETRY_DELAYS)
        context = Context(name, self.settings, bus)  # type: ignore[arg-type]
        self.running[name] = (context, asyncio.create_task(run(context)))  # type: ignore[arg-type]

    async def role(self, name: AgentName, script: Callable[[Brief], Script]) -> None:
        await self.serve(name, lambda context: run_role(role(name, script), context))

    async def keeper(self) -> None:
        await self.serve("keeper", run_keeper)

    async def kill(self, name: str) -> None:
        """Without a word to anybody."""
        context, task = self.running.pop(name)
        task.cancel()
        await asyncio.wait([task])
        await context.bus.close()

    async def request(self, **body: object) -> str:
        answer = await self.http.post("/runs", json={"requirement": "classify chest CT", **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run_id"])

    async def answer(self, run_id: str, key: str, value: str) -> httpx.Response:
        return await self.http.post(f"/runs/{run_id}/answers", json={"key": key, "value": value})

    async def until(self, run_id: str, true: Callable[[RunState], object]) -> RunState:
        async with asyncio.timeout(30):
            async for _ in self.bus.follow(run_id):
                if true(state := await self.bus.state(run_id)):
                    return state
        raise AssertionError(f"the run ended before that: {await self.kinds(run_id)}")

    async def question(self, run_id: str) -> Question:
        state = await self.until(run_id, lambda state: state.question or state.finished)
        assert state.question and not state.finished, state.finished
        return state.question.question

    async def end(self, run_id: str) -> RunState:
        return await self.until(run_id, lambda state: state.finished)

    async def kinds(self, run_id: str) -> list[str]:
        return [event.kind for _, event in await self.bus.events(run_id)]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[NatsHandle]:
    server = start_nats(tmp_path / "nats")
    yield server
    server.stop()


@asynccontextmanager
async def _town(settings: Settings) -> AsyncIterator[Town]:
    bus = await Bus.connect(settings, "gateway", retry_delays=RETRY_DELAYS)
    await bus.provision()
    await bus.put_card(CARD)
    guarded = settings.model_copy(update={"gateway_token": SecretStr("token")})
    transport = httpx.ASGITransport(create_app(bus, Store.connect(settings), guarded), raise_app_exceptions=False)
    known = {"Authorization": "Bearer token"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=known, timeout=20) as http:
        town = Town(settings, bus, http)
        yield town
        for name in list(town.running):
            await town.kill(name)
    await bus.close()


@pytest.fixture
async def town(own_server: NatsHandle, settings: Settings) -> AsyncIterator[Town]:
    async with _town(settings.model_copy(update={"nats_url": own_server.url})) as found:
        yield found
