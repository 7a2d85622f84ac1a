"""A Data Engineer with a language model, as a process that tells of its work; the model and the tools are the test's.

Two turns: it reads a file, then says that there is no way. Prints the last answer, and exits 0. With the argument
`idle` it only tells that it is there.
"""

import asyncio
import os
import sys
from dataclasses import replace

from services.data_engineer.role import ROLE
from services.tool_runner.gpu_metrics import tell_gpus
from services.tool_runner.sandbox.gpu import Gpus
from shared import telemetry
from shared.agent.loop import run_agent
from shared.agent.role import Probe, Submission
from shared.bus import Bus
from shared.contracts.runs import Infeasibility
from shared.contracts.tools import ToolCall, ToolResult
from shared.settings import Settings
from tests.models.at_work import SUBMIT, check, core_for, desk_for, said
from tests.models.model_endpoints import playing
from tests.models.protocols import Anthropic
from tests.serving import serving

ANY_CLAIM = replace(
    ROLE,
    submissions=(
        Submission("declare_infeasible", Infeasibility, check, said, lambda answer, brief: Probe("resolve_rules", ())),
    ),
)
READ = ("c1", "read_files", {"paths": ["Meier_Hans.txt"]})


class Runner:
    async def on_call(self, made: ToolCall) -> ToolResult:
        data = {"ok": True} if made.tool != "read_files" else {}
        return ToolResult(
            call_id=made.call_id, tool=made.tool, ok=True, summary="Meier, Hans, born 1907-Feb-30", data=data
        )

    async def on_job(self, job: object, attempt: int) -> None:
        raise AssertionError("nothing is trained here")


async def work(settings: Settings) -> None:
    bus = await Bus.connect(settings, "data_engineer")
    try:
        await bus.provision()
        protocol = Anthropic()
        with playing(protocol, protocol.reply(READ, text="Meier has a file."), protocol.reply(SUBMIT)) as endpoint:
            os.environ["ANTHROPIC_BASE_URL"] = endpoint.url
            async with serving(bus, Runner()):
                accepted = await run_agent(await desk_for(bus, ANY_CLAIM), core_for(protocol))
        assert accepted is not None
        print(accepted.tool, flush=True)
    finally:
        await bus.close()


def main() -> int:
    settings = Settings()
    telemetry.setup("data_engineer", settings)
    tell_gpus(Gpus(names=("GPU-a",)))
    if "idle" in sys.argv:
        with telemetry.tool_span("list_files", "c1"):
            print("idle", flush=True)
    else:
        asyncio.run(work(settings))
    telemetry.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
