"""What the loop costs a turn beside the model: python -m bench.loop_overhead [--turns 200]

One role at work on a nats-server of its own (every write synced), with a core that answers at once and a runner that
does: state, budget, what the core is given (the whole request of a language model is made), turn and observation on
record, the call and its answer. Bar: 20 ms at the median. Exit code 1 where missed; the load of the machine is told.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from services.data_engineer.role import ROLE
from shared.agent.brief import Brief, make_brief
from shared.agent.core import Decision
from shared.agent.desk import Desk
from shared.agent.dialogue import exchanges
from shared.agent.loop import run_agent
from shared.agent.prompt import opening
from shared.agent.role import Role
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.runs import Budget, DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import order_for
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobSpec
from shared.contracts.transcript import Call, Observation, Turn
from shared.embedded.nats import start_nats
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, read_catalogue
from shared.settings import Settings

BAR_MS = 20.0


class Done(Exception):
    """Turns enough."""


class Quick:
    """Makes the request that a language model would get, and answers with the next file to read."""

    name = "quick"
    opened = sees = False

    def __init__(self, turns: int) -> None:
        place = read_catalogue().endpoints["anthropic"]
        self.core = AnthropicCore(Listing("anthropic", place, Model(endpoint="anthropic", model="-"), known=False))
        self.turns = turns
        self.asked: list[float] = []

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        self.core.body(role, brief, opening(brief), exchanges(segment))
        self.asked.append(time.perf_counter())
        if len(self.asked) > self.turns:
            raise Done
        return Decision(calls=(Call(name="read_files", arguments={"paths": [f"{len(self.asked)}.txt"]}),))


async def measure(folder: Path, turns: int) -> list[float]:
    server = start_nats(folder)
    settings = Settings(home=folder, nats_url=server.url)
    bus, runner, stop = (
        await Bus.connect(settings, "data_engineer"),
        await Bus.connect(settings, "tool_runner"),
        asyncio.Event(),
    )
    try:
        await bus.provision()

        async def on_call(call: ToolCall) -> ToolResult:
            return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="a line of a file\n" * 20)

        async def on_job(job: JobSpec, attempt: int) -> None:
            raise AssertionError("no job was asked for")

        serving = asyncio.create_task(runner.serve_tools("data", on_call, on_job, 1, stop))
        run_id = new_run_id()
        asked = RunRequested.make(
            run_id=run_id, sender="gateway", cause=None, requirement="a model", budget=Budget(actions=10**6)
        )
        await bus.append(asked)
        plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
        card = DataCard(dataset_id="d", name="d", description="d", path="/d")
        state = await bus.append(
            TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card)
        )
        core = Quick(turns)
        desk = Desk(bus, ROLE, make_brief("data_engineer", order_for("data_engineer", state) or "", state, (), 60))
        with contextlib.suppress(Done):
            await run_agent(desk, core)
        stop.set()
        await serving
        return [1000 * (after - before) for before, after in zip(core.asked, core.asked[1:], strict=False)]
    finally:
        await bus.close()
        await runner.close()
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=200)
    with tempfile.TemporaryDirectory(prefix="bench-loop-") as name:
        found = sorted(asyncio.run(measure(Path(name), parser.parse_args().turns)))
    middle, late = statistics.median(found), found[int(0.95 * len(found))]
    load = os.getloadavg()[0]
    print(f"a turn without the model: p50 {middle:.1f} ms, p95 {late:.1f} ms; bar {BAR_MS:g}")
    print(f"{len(found)} turns, load {load:.1f}")
    return 1 if middle > BAR_MS else 0


if __name__ == "__main__":
    sys.exit(main())
