"""A tool call that does nothing, through Bus.call and serve_tools, beside a bare request and reply in the same run.

`python bench/tool_call.py [--count 300]`: starts a nats-server of its own. Ours writes three times to disk (the call,
the result, the acknowledgement); the bare one never does.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import telemetry
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobSpec
from shared.embedded.nats import start_nats
from shared.settings import Settings


async def on_call(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.call_id, tool=call.tool, ok=True, summary="nothing to do")


async def on_job(job: JobSpec, attempt: int) -> None:
    raise AssertionError("no job is submitted here")


async def answer(message: Msg) -> None:
    await message.respond(b"nothing to do")


async def measure(count: int, folder: Path) -> tuple[list[float], list[float]]:
    server = await asyncio.to_thread(start_nats, folder)
    settings = Settings(home=folder, nats_url=server.url, log_level="WARNING")
    telemetry.setup("bench", settings)
    caller, runner = await Bus.connect(settings, "data_engineer"), await Bus.connect(settings, "tool_runner")
    clients = [Client(), Client()]
    stop = asyncio.Event()
    try:
        await caller.provision()
        serving = asyncio.create_task(runner.serve_tools("data", on_call, on_job, 4, stop))
        for client in clients:
            await client.connect(server.url)
        await clients[1].subscribe("bare", cb=answer)
        await clients[1].flush()
        run_id = new_run_id()
        ours, plain = [], []
        for number in range(count + 20):
            began = time.perf_counter()
            await clients[0].request("bare", b"x" * 300, timeout=5)
            plain.append(time.perf_counter() - began)
            call_id = f"{run_id}-data_engineer-1-{number}"
            call = ToolCall(call_id=call_id, run_id=run_id, role="data_engineer", tool="list_files", reply="")
            began = time.perf_counter()
            await caller.call("data", call, 10)
            ours.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
        return ours[20:], plain[20:]
    finally:
        stop.set()
        await serving
        for client in clients:
            await client.close()
        await caller.close()
        await runner.close()
        await asyncio.to_thread(server.stop)


def percentile(seconds: list[float], percent: int) -> float:
    """In milliseconds."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        ours, plain = asyncio.run(measure(count, Path(folder)))
    print(f"{count} calls")
    print(f"{'':16}{'p50 ms':>10}{'p99 ms':>10}")
    for name, values in (("request/reply", plain), ("Bus.call", ours)):
        print(f"{name:16}{percentile(values, 50):10.3f}{percentile(values, 99):10.3f}")
    print(f"{'ratio':16}{percentile(ours, 50) / percentile(plain, 50):10.1f}")


if __name__ == "__main__":
    main()
