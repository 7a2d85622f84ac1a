"""Stands where the Data Engineer would: one tool call, rules as he would hand them on, and a death in between."""

import contextlib
import json
import os
import signal
import sys

from shared import telemetry
from shared.contracts.base import Event
from shared.contracts.runs import TaskPlanned
from shared.contracts.tools import ToolCall
from shared.service import Context, serve
from shared.settings import Settings
from tests.cases import coverage, prepared


async def run(context: Context) -> None:
    died = context.settings.home / "died"

    async def handle(event: Event) -> None:
        if not isinstance(event, TaskPlanned):
            return
        call = ToolCall(
            call_id=f"{event.run_id}-list", run_id=event.run_id, role="data_engineer", tool="list_files",
            arguments={"path": "/data"}, reply="",
        )  # fmt: skip
        result = await context.bus.call("data", call, timeout=60)
        assert "Meier_Hans.png" in json.dumps(result.model_dump()), "the call has seen the patient's file"
        with contextlib.suppress(ValueError), telemetry.tool_span("list_files", "broken"):
            raise ValueError("Meier_Hans.png cannot be read")
        if not died.exists():
            died.touch()
            telemetry.shutdown()
            os.kill(os.getpid(), signal.SIGKILL)
        rules = context.store.put_bytes("work", b"task: diagnosis # of Meier")
        found = prepared(event.run_id, event, rules=rules, coverage=coverage(cases=1))
        await context.bus.append(found)

    await context.bus.listen("data_engineer", handle, 1, context.stop)


if __name__ == "__main__":
    sys.exit(serve("data_engineer", Settings(), run))
