"""More replicas under load: Model Trainers whose model makes them wait, runners whose calls want a core each.

`python -m bench.scaling [--runs 32] [--reply 20] [--only PART]`: real processes on servers of their own.
`trainers`: runs at the Model Trainer, whose model answers each request after `reply` seconds by asking a person; one
replica has four runs at a time. `runners`: calls of two CPU seconds each, in runs of their own, a runner to a core.
`changed`: one trainer, two more added while it works, the first told to end, the second killed; each run has to end
with one question. The machine's load is printed: other work takes the cores that runners are measured by.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.data import ViewManifest
from shared.contracts.questions import QuestionAsked
from shared.contracts.tools import ToolCall
from shared.embedded.nats import start_nats
from shared.embedded.s3 import start_s3
from shared.settings import Settings
from shared.store import Store
from tests.cases import dataset_facts, told_until
from tests.processes import environment, start
from tests.runner.jobs import ready_to_train, runner_folder

BAR = 3.6
BURN = "import time\nwhile time.process_time() < 2: pass\n"
QUESTION = {"key": "which", "text": "Which?", "wants": "text"}
Processes = list["subprocess.Popen[str]"]


class SlowModel:
    """An endpoint that takes its time and then has the role ask a person."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked, self.url = seconds, 0, ""

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                await reader.readexactly(int(lines.get(b"content-length", 0)))
                self.asked += 1
                await asyncio.sleep(self.seconds)
                use = {"name": "ask_person", "arguments": json.dumps(QUESTION)}
                message = {"role": "assistant", "content": None}
                message |= {"tool_calls": [{"id": "c", "type": "function", "function": use}]}
                body = {"id": "r", "object": "chat.completion", "created": 1, "model": "m"}
                body |= {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
                data = json.dumps(body | {"usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}})
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(f"content-length: {len(data)}\r\n\r\n{data}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Load:
    """Processes of ours on servers of their own."""

    def __init__(self, settings: Settings, bus: Bus, model: SlowModel, folder: Path) -> None:
        self.settings, self.bus, self.model, self.folder = settings, bus, model, folder
        self.started: Processes = []

    async def trainer(self) -> "subprocess.Popen[str]":
        env = {"OLLAMA_BASE_URL": self.model.url, "OLLAMA_API_KEY": "x"}
        return await self._start("services.model_trainer", env)

    async def runner(self, core: int) -> "subprocess.Popen[str]":
        process = await self._start("services.tool_runner", {}, "--class", "build")
        os.sched_setaffinity(process.pid, {core})
        return process

    async def _start(self, module: str, env: dict[str, str], *argv: str) -> "subprocess.Popen[str]":
        home = self.folder / f"p{len(self.started)}-{new_run_id()}"
        runner_folder(self.settings, home)
        ready = home / "runner" / "ready"
        told = environment(self.settings, home=str(home), ready_file=str(ready), log_level="ERROR") | env
        self.started.append(start(module, told, *argv))
        async with asyncio.timeout(120):
            while not ready.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return self.started[-1]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        self.started.clear()

    async def order(self, count: int) -> list[str]:
        """Runs that wait for a Model Trainer."""
        empty = ViewManifest(rows=(), stored=(), facts=dataset_facts(dimensions=3)).model_dump_json().encode()
        view = await asyncio.to_thread(Store.connect(self.settings).put_bytes, "data", empty)

        async def one(run_id: str) -> None:
            asked, *others = told_until(run_id, "model_trainer", view)
            for event in (asked.model_copy(update={"core": "ollama:slow"}), *others):
                await self.bus.append(event)

        runs = [new_run_id() for _ in range(count)]
        await asyncio.gather(*map(one, runs))
        return runs

    async def answered(self, runs: list[str], count: int) -> None:
        """Wait until so many of the runs have asked."""
        async with asyncio.timeout(1200):
            while sum([bool((await self.bus.state(run_id)).question) for run_id in runs]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


async def trainers(load: Load, count: int, replicas: int) -> float:
    """Runs a minute."""
    # A role is told of the machine that its code will run on, so a runner has to be up.
    await asyncio.gather(load.runner(0), *(load.trainer() for _ in range(replicas)))
    # The first request of a process imports its protocol's SDK.
    await load.answered(await load.order(8 * replicas), 8 * replicas)
    began = time.monotonic()
    await load.answered(runs := await load.order(count), count)
    load.end()
    return 60 * len(runs) / (time.monotonic() - began)


async def runners(load: Load, count: int, replicas: int) -> float:
    """Calls a minute."""
    await asyncio.gather(*(load.runner(core) for core in range(replicas)))

    async def call(run_id: str, tool: str, **arguments: object) -> None:
        made = ToolCall(
            call_id=f"{run_id}-{tool}", run_id=run_id, role="module_architect", tool=tool, arguments=arguments, reply=""
        )
        result = await load.bus.call("build", made, 600)
        assert result.ok, result.summary

    runs = [await ready_to_train(load.settings, load.bus) for _ in range(count)]
    await asyncio.gather(*(call(run_id, "list_files") for run_id in runs))
    began = time.monotonic()
    await asyncio.gather(*(call(run_id, "run_script", script=BURN) for run_id in runs))
    load.end()
    return 60 * count / (time.monotonic() - began)


async def changed(load: Load, count: int) -> tuple[int, int, int]:
    """-> runs that ended with one question, with none or several, requests to the model beyond one a run."""
    load.model.asked = 0
    await load.runner(0)
    first, runs = await load.trainer(), await load.order(count)
    await load.answered(runs, 2)
    second, _ = await load.trainer(), await load.trainer()
    await load.answered(runs, count // 4)
    first.send_signal(signal.SIGTERM)
    await load.answered(runs, count // 3)
    second.kill()
    await load.answered(runs, count)
    asked = [sum(isinstance(event, QuestionAsked) for _, event in await load.bus.events(one)) for one in runs]
    load.end()
    return asked.count(1), count - asked.count(1), load.model.asked - count


async def with_load(seconds: float, folder: Path, work: Callable[[Load], Awaitable[Any]]) -> Any:
    nats, s3 = await asyncio.gather(
        asyncio.to_thread(start_nats, folder / "nats"), asyncio.to_thread(start_s3, folder / "s3")
    )
    settings = Settings(
        home=folder, nats_url=nats.url, s3_endpoint=s3.endpoint, s3_access_key=s3.access_key,
        s3_secret_key=s3.secret_key,
    )  # fmt: skip
    bus, model = await Bus.connect(settings, "module_architect"), SlowModel(seconds)
    load = Load(settings, bus, model, folder)
    try:
        async with await model.serve():
            await bus.provision()
            await asyncio.to_thread(Store.connect(settings).ensure_buckets)
            return await work(load)
    finally:
        load.end()
        await bus.close()
        nats.stop()
        s3.stop()


async def all_of_it(count: int, only: str | None, load: Load) -> bool:
    held, cores = True, os.cpu_count() or 1
    print(f"load {os.getloadavg()[0]:.1f} on {cores} cores\n{'':12}{'replicas':>9}{'a minute':>10}{'ratio':>7}")
    measured = {
        "runners": (partial(runners, load, 12), range(1, min(cores, 3) + 1)),
        "trainers": (partial(trainers, load, count), (1, 2, 4)),
    }
    for name, (work, sizes) in measured.items():
        rates = [await work(replicas) for replicas in sizes if only in (None, name)]
        for replicas, rate in zip(sizes, rates, strict=False):
            print(f"{name:12}{replicas:9}{rate:10.1f}{rate / rates[0]:7.2f}", flush=True)
        held &= name != "trainers" or not rates or rates[-1] / rates[0] >= BAR
    if only in (None, "changed"):
        good, bad, again = await changed(load, count)
        print(f"changed: {good} runs ended with one question, {bad} otherwise; {again} requests to the model repeated")
        held &= not bad
    print(f"bar: four trainers {BAR} x one, nothing lost: {'held' if held else 'MISSED'}")
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--reply", type=float, default=20.0)
    parser.add_argument("--only", choices=["runners", "trainers", "changed"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        held = asyncio.run(with_load(given.reply, Path(name), partial(all_of_it, given.runs, given.only)))
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
