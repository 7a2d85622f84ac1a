"""Looks of a dataset's samples, made inside the sandbox by workers that may die of what they read.

    python -m services.tool_runner.look_program WORKERS MEMORY_MB CPU_SECONDS

`samples.jsonl` in the current folder names the images of one sample a line, in slice order, below M3_DATA; what is
written is `looks`: a RECORD for each line, its content empty. A worker that a file kills (its memory, its seconds of
one sample, a fault in a decoder) is replaced by one that goes on behind it; such a sample has no look.
"""

import json
import mmap
import os
import resource
import signal
import sys
from pathlib import Path

import numpy as np

from services.tool_runner.fingerprints import record_of
from shared.looks import RECORD

SAMPLES, LOOKS = "samples.jsonl", "looks"
MB = 1 << 20


def main(workers: int, memory_mb: int, seconds: int) -> None:
    with Path(SAMPLES).open("rb") as listing:
        count = sum(1 for _ in listing)
    out = os.open(LOOKS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    # What nobody writes reads as zeros, which is a record without a look.
    os.truncate(out, count * RECORD.itemsize)
    reached = np.frombuffer(mmap.mmap(-1, 8 * workers), np.int64)
    running: dict[int, int] = {}

    def start(worker: int, first: int) -> None:
        if first < count:
            pid = os.fork()
            if not pid:
                _work(worker, first)
            running[pid] = worker

    def _work(worker: int, first: int) -> None:
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * MB // workers,) * 2)
            with Path(SAMPLES).open("rb") as listing:
                for number, line in enumerate(listing):
                    if number < first or number % workers != worker:
                        continue
                    reached[worker] = number
                    # Of processor time, so that a busy machine does not count; its signal ends the process.
                    signal.setitimer(signal.ITIMER_PROF, seconds)
                    os.pwrite(out, _record(json.loads(line)), number * RECORD.itemsize)
            os._exit(0)
        finally:
            os._exit(1)

    for worker in range(workers):
        reached[worker] = worker
        start(worker, worker)
    while running:
        pid, status = os.wait()
        worker = running.pop(pid)
        if status:
            start(worker, int(reached[worker]) + workers)


def _record(names: list[str]) -> bytes:
    return record_of(names, (), lambda name: Path(os.environ["M3_DATA"], name).open("rb"))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
