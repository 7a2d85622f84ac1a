"""Handoffs over a NATS cluster of three while the server that leads the events is killed, and what is left of them.

`python -m bench.cluster [--count 400]`: three nats-servers on loopback with three copies of every stream, every write
synced, all on one disk. Four at a time a run is asked for and planned, until the Data Engineer's handler has the plan:
`count` times, as often from the kill -9 of the server on, and as often once it is back. Then another server is killed,
so that the one that was away has to have what it missed, and every event that had been acknowledged is looked for.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.handoff import percentile, planned
from shared.bus import Bus
from shared.bus.streams import EVENTS
from shared.contracts.base import Event, new_run_id
from shared.contracts.runs import RunRequested
from shared.settings import Settings
from tests.nats_cluster import Cluster

AT_ONCE = 4
PARTS = ("before", "one away", "back")
BAR_P50_MS, BAR_MAX_S = 50.0, 30.0


@dataclass
class Measured:
    seconds: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    acknowledged: set[str] = field(default_factory=set)
    heard: list[str] = field(default_factory=list)
    found: set[str] = field(default_factory=set)

    @property
    def lost(self) -> int:
        return len(self.acknowledged - self.found)


class Handoffs:
    def __init__(self, senders: list[Bus], measured: Measured) -> None:
        self.senders, self.measured = senders, measured
        self.runs: list[str] = []
        self.waiting: dict[str, asyncio.Future[float]] = {}

    async def handle(self, event: Event) -> None:
        self.measured.heard.append(event.event_id)
        waiting = self.waiting.get(event.event_id)
        if waiting and not waiting.done():
            waiting.set_result(time.perf_counter())

    async def make(self, part: str, count: int) -> None:
        async def several(sender: Bus) -> None:
            for _ in range(count // AT_ONCE):
                self.measured.seconds[part].append(await self._once(sender))

        await asyncio.gather(*map(several, self.senders))

    async def _once(self, sender: Bus) -> float:
        run_id = new_run_id()
        asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x")
        event = planned(run_id, 0)
        arrived = self.waiting[event.event_id] = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        await sender.append(asked)
        await sender.append(event)
        self.measured.acknowledged |= {asked.event_id, event.event_id}
        self.runs.append(run_id)
        return await asyncio.wait_for(arrived, 120) - began


async def measure(count: int, folder: Path) -> Measured:
    cluster = await asyncio.to_thread(Cluster, folder)
    measured, stop, buses = Measured(), asyncio.Event(), []

    async def connect(name: str) -> Bus:
        urls = [server.url for server in cluster.servers]
        buses.append(await Bus.connect(Settings(home=folder, nats_url=",".join(urls[len(buses) % 3 :] + urls)), name))
        return buses[-1]

    try:
        senders = [await connect("task_manager") for _ in range(AT_ONCE)]
        await senders[0].provision()
        handoffs = Handoffs(senders, measured)
        listening = asyncio.create_task(
            (await connect("data_engineer")).listen("data_engineer", handoffs.handle, 8, stop)
        )
        await handoffs.make("before", count)
        away = await _leader(senders[0])
        await asyncio.gather(handoffs.make("one away", count), asyncio.to_thread(cluster.servers[away].kill))
        await asyncio.to_thread(cluster.start_again, away)
        await handoffs.make("back", count)
        async with asyncio.timeout(60):
            while not await _current(senders[0]):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await asyncio.to_thread(cluster.servers[(away + 1) % 3].kill)
        reader = await connect("gateway")
        for run_id in handoffs.runs:
            measured.found |= {event.event_id for _, event in await reader.events(run_id)}
        stop.set()
        await listening
        return measured
    finally:
        for bus in buses:
            await bus.close()
        await asyncio.to_thread(cluster.stop)


async def _leader(bus: Bus) -> int:
    found = (await bus.connection.js.stream_info(EVENTS)).cluster
    assert found and found.leader
    return int(found.leader.removeprefix("n"))


async def _current(bus: Bus) -> bool:
    """Whether every server has everything of every stream."""
    infos = await bus.connection.insist(bus.connection.js.streams_info, "a look at the streams", 30)
    return all(peer.current and not peer.lag for one in infos if one.cluster for peer in one.cluster.replicas or ())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(count, Path(folder)))
    print(f"{'':10}{'handoffs':>10}{'p50 ms':>10}{'p99 ms':>10}{'longest s':>12}")
    for part, seconds in found.seconds.items():
        print(
            f"{part:10}{len(seconds):10}{percentile(seconds, 50):10.1f}{percentile(seconds, 99):10.1f}"
            f"{max(seconds):12.1f}"
        )
    again = len(found.heard) - len(set(found.heard))
    print(f"acknowledged events {len(found.acknowledged)}, lost {found.lost}; handed over a second time {again}")
    good = not found.lost and all(percentile(one, 50) <= BAR_P50_MS for one in found.seconds.values())
    good &= max(found.seconds["one away"]) <= BAR_MAX_S
    print(f"bar: none lost, p50 <= {BAR_P50_MS:.0f} ms, none waits {BAR_MAX_S:.0f} s: {'held' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
