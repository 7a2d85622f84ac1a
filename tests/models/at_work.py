"""A role at work on a real bus, whose model is an endpoint of the test and whose tools the test plays."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from shared.agent.brief import Brief, make_brief
from shared.agent.core import Core
from shared.agent.desk import Desk
from shared.agent.role import Facts, Role
from shared.bus import Bus
from shared.contracts.base import Event, Spent, new_run_id
from shared.contracts.runs import DataCard, Infeasibility, Infeasible, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import RunState, order_for
from shared.contracts.tools import Picture, ToolCall, ToolResult
from shared.contracts.training import JobSpec
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, Price, read_catalogue
from shared.models.openai import OpenAICore
from tests.models.model_endpoints import Endpoint, playing
from tests.models.protocols import Protocol, Reply

READ_A = {"paths": ["a.txt"]}
READ_B = {"paths": ["b.txt"]}
ANSWER = {"claim": "one_class", "reason": "one class only", "evidence": {"labels": ["a"]}}
SUBMIT = ("s9", "declare_infeasible", ANSWER)
PRICE = Price(input=3, output=15, cached=0.3, written=3.75)


def core_for(
    protocol: Protocol, max_retries: int = 0, inside: bool = True, pixels: bool = False, **figures: Any
) -> Core:
    kind = AnthropicCore if protocol.name == "anthropic" else OpenAICore
    model = Model(endpoint=protocol.name, model="a-model", **({"usd": (PRICE,)} | figures))
    # What words go to one outside is the matter of `tests/disclosure`.
    allowed = {"inside": inside, "pixels": pixels}
    place = read_catalogue().endpoints[protocol.name].model_copy(update=allowed)
    return kind(Listing(protocol.name, place, model, known=True), max_retries, timeout=5, patience=0)


@contextlib.contextmanager
def endpoint_of(monkeypatch: pytest.MonkeyPatch, protocol: Protocol, *replies: Reply) -> Iterator[Endpoint]:
    with playing(protocol, *replies) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        yield endpoint


def picture(path: str) -> str:
    return "A" * int(path) if path.isdigit() else path.ljust(1200, "A")


class Runner:
    """Every call works; `resolve_rules` says what the test wants, one answer after the other.

    `view_image` shows each of its paths as a picture, of so many characters where it is a number.
    """

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found = list(found) or [{"ok": True}]
        self.calls: list[ToolCall] = []
        self.jobs: list[JobSpec] = []
        self.has_job = asyncio.Event()

    async def on_call(self, made: ToolCall) -> ToolResult:
        self.calls.append(made)
        data = self.found.pop(0) if made.tool == "resolve_rules" else {}
        paths = made.arguments.get("paths") or []
        assert isinstance(paths, list)
        shown = paths if made.tool == "view_image" else []
        return ToolResult(
            call_id=made.call_id, tool=made.tool, ok=True, summary=f"seen {made.arguments.get('paths')}", data=data,
            pictures=tuple(Picture(name="v.png", media_type="image/png", content=picture(str(one))) for one in shown),
        )  # fmt: skip

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        self.jobs.append(job)
        self.has_job.set()


def check(answer: Infeasibility, facts: Facts, brief: Brief) -> list[str]:
    return [] if facts.get("ok") else [str(facts["why"])]


def said(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender="data_engineer", cause=brief.order, finding=answer, spent=spent)


async def desk_for(bus: Bus, role: Role, core: str = "playbook", **requested: Any) -> Desk:
    """In a new run where it is the Data Engineer's turn."""
    run_id = new_run_id()
    # By its request an endpoint of several runs knows whose turn it is.
    given = {"requirement": f"a model for {run_id}", "core": core} | requested
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, **given)
    await bus.append(asked)
    plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
    card = DataCard(dataset_id="d", name="d", description="d", path="/d")
    state = await bus.append(TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card))
    order = order_for("data_engineer", state)
    assert order is not None
    return Desk(bus, role, make_brief("data_engineer", order, state, (), 60))
