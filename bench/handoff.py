"""Handoff from agent to agent beside a bare JetStream publish to delivery, measured in turns in the same run.

`python bench/handoff.py [--count 500]`: starts a nats-server of its own (every write synced). Ours is `Bus.append` of a
DatasetPrepared until the decoded event is in the handler of a listener on another connection: fold, validation, fence
and trace context included. Bare is js.publish of the same bytes until a waiting fetch(1) has them.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from shared import telemetry
from shared.bus import Bus
from shared.contracts.base import Event, new_run_id
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.embedded.nats import start_nats
from shared.settings import Settings

BAR_RATIO, BAR_P99_MS = 20.0, 20.0


def planned(run_id: str, number: int) -> TaskPlanned:
    """About 2 KiB, as a planning document is."""
    return TaskPlanned.make(
        run_id=run_id,
        sender="task_manager",
        cause=None,
        salt=str(number),
        plan=TaskPlan(
            task="diagnosis",
            dataset_id="chest-ct",
            reason="It fits. " * 60,
            dimensions=3,
            modality="CT",
            metric="auc_macro",
            instructions={"data_engineer": "Prepare. " * 60},
        ),
        card=DataCard(dataset_id="chest-ct", name="Chest CT", description="Scans. " * 60),
    )


class Handoff:
    """One sender and one listener; each handoff is the plan of a run of its own."""

    def __init__(self, sender: Bus, receiver: Bus) -> None:
        self.sender, self.receiver = sender, receiver
        self.arrived: asyncio.Future[tuple[str, float]] | None = None

    async def handle(self, event: Event) -> None:
        if self.arrived and not self.arrived.done():
            self.arrived.set_result((event.event_id, time.perf_counter()))

    async def once(self, number: int) -> float:
        run_id = new_run_id()
        await self.sender.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
        self.arrived = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        event = planned(run_id, number)
        appending = asyncio.create_task(self.sender.append(event))
        event_id, ended = await asyncio.wait_for(self.arrived, 10)
        await appending
        assert event_id == event.event_id
        return ended - began


class Bare:
    def __init__(self, sender: Client, receiver: Client, data: bytes) -> None:
        self.js, self.receiver, self.data = sender.jetstream(), receiver.jetstream(), data

    async def prepare(self) -> None:
        await self.js.add_stream(name="BARE", subjects=["bare.>"])
        await self.js.add_consumer("BARE", ConsumerConfig(durable_name="bare", ack_policy=AckPolicy.EXPLICIT))
        self.subscription = await self.receiver.pull_subscribe_bind(durable="bare", stream="BARE")

    async def once(self) -> float:
        fetching = asyncio.create_task(self.subscription.fetch(1, timeout=10))
        await asyncio.sleep(0.001)
        began = time.perf_counter()
        publishing = asyncio.create_task(self.js.publish("bare.x", self.data))
        (message,) = await fetching
        ended = time.perf_counter()
        await publishing
        await message.ack_sync()
        return ended - began


async def measure(count: int, folder: Path) -> tuple[list[float], list[float]]:
    server = await asyncio.to_thread(start_nats, folder)
    settings = Settings(home=folder, nats_url=server.url, log_level="WARNING")
    telemetry.setup("bench", settings)
    sender, receiver = await Bus.connect(settings, "task_manager"), await Bus.connect(settings, "data_engineer")
    clients = [Client(), Client()]
    stop = asyncio.Event()
    try:
        await sender.provision()
        handoff = Handoff(sender, receiver)
        listening = asyncio.create_task(receiver.listen("data_engineer", handoff.handle, 4, stop))
        for client in clients:
            await client.connect(server.url)
        bare = Bare(clients[0], clients[1], planned(new_run_id(), 0).encode())
        await bare.prepare()
        ours, plain = [], []
        for number in range(count + 20):
            plain.append(await bare.once())
            ours.append(await handoff.once(number))
            await asyncio.sleep(0.002)
        return ours[20:], plain[20:]
    finally:
        stop.set()
        await listening
        for client in clients:
            await client.close()
        await sender.close()
        await receiver.close()
        await asyncio.to_thread(server.stop)


def percentile(seconds: list[float], percent: int) -> float:
    """In milliseconds."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print the seconds of each handoff instead")
    asked = parser.parse_args()
    count = asked.count
    with tempfile.TemporaryDirectory() as folder:
        ours, plain = asyncio.run(measure(count, Path(folder)))
    if asked.json:
        print(json.dumps({"ours": ours, "bare": plain}))
        return 0
    print(f"{count} handoffs, about 2 KiB each")
    print(f"{'':10}{'p50 ms':>10}{'p99 ms':>10}")
    for name, values in (("bare", plain), ("ours", ours)):
        print(f"{name:10}{percentile(values, 50):10.3f}{percentile(values, 99):10.3f}")
    ratio = percentile(ours, 50) / percentile(plain, 50)
    print(f"{'ratio':10}{ratio:10.1f}{percentile(ours, 99) / percentile(plain, 99):10.1f}")
    good = ratio <= BAR_RATIO and percentile(ours, 99) <= BAR_P99_MS
    print(f"bar: p50 <= {BAR_RATIO:.0f} x bare, p99 <= {BAR_P99_MS:.0f} ms: {'held' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
