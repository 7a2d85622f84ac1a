"""The handoff of `bench.handoff` with nothing told, with OTLP to a collector, and with one that hangs, in one run.

`python -m bench.handoff_otlp [--count 300] [--rounds 3]`: the three run side by side, each in a process of its own, so
that whatever else the machine does meets all alike; the collector is a receiver in this process. p50 with OTLP on may
be 1.2 x that without.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from tests.telemetry.receiver import receiving
from tests.telemetry.test_export import hanging

BAR = 1.2


def start(endpoint: str | None, count: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "M3_OTLP_ENDPOINT"}
    told = {"M3_OTLP_ENDPOINT": endpoint} if endpoint else {}
    command = [sys.executable, "-m", "bench.handoff", "--count", str(count), "--json"]
    return subprocess.Popen(command, env=environment | told, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with receiving() as receiver, hanging() as (silent, _):
        ways = {"off": None, "on": receiver.endpoint, "hangs": silent}
        found: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(asked.rounds):
            running = {way: start(endpoint, asked.count) for way, endpoint in ways.items()}
            for way, process in running.items():
                found[way] += json.loads(process.communicate()[0])["ours"]
        spans = len(receiver.spans)
    off = statistics.median(found["off"])
    print(f"{asked.rounds} rounds of {asked.count} handoffs; {spans} spans received")
    print(f"{'OTLP':10}{'p50 ms':>10}{'x off':>10}")
    for way, seconds in found.items():
        print(f"{way:10}{statistics.median(seconds) * 1000:10.3f}{statistics.median(seconds) / off:10.2f}")
    good = statistics.median(found["on"]) <= BAR * off
    print(f"bar: on <= {BAR} x off: {'held' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
