"""Intake: decodes cases and writes each in canonical form. A program for the sandbox, on files of strangers.

    python -P -m shared.dataset.intake.intake ORDER

ORDER is an `Order` as JSON; `specs.jsonl` in the current folder holds a `CaseSpec` a line, with files below M3_DATA.
Written are, for line n, `out/<n>/image.png` (or `.tif`, `.nii.gz`; further views `image_1...`) and `out/<n>/mask...`, a
`Taken` in `records.jsonl` and a `shared.looks.RECORD` in `looks` (zeros for what was left out), all the same for the
same files. A worker that a file kills (its memory or seconds, a fault in a decoder) is replaced, the case left out.
"""

import json
import mmap
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import numpy as np

from shared.contracts.cases import CaseSpec
from shared.dataset.intake.intake_records import LOOKS, OUT, RECORDS, SPECS, LeftOut, Order, Taken
from shared.looks import RECORD

MB = 1 << 20


class _Shard:
    """Workers that share a queue: the offset of an open file, which the kernel moves for all of them."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.places = _line_places(Path(SPECS))
        with Path(".queue").open("wb") as queue:
            queue.write(np.arange(len(self.places) - 1, dtype=np.int64).tobytes())
        self.queue = os.open(".queue", os.O_RDONLY)
        self.specs = os.open(SPECS, os.O_RDONLY)
        self.looks = os.open(LOOKS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        # What nobody writes reads as zeros, which is a record without a look.
        os.truncate(self.looks, (len(self.places) - 1) * RECORD.itemsize)
        self.records = os.open(RECORDS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self.at = np.frombuffer(mmap.mmap(-1, 8 * order.workers), np.int64)
        """Case that each worker is at, or -1."""

    def run(self) -> None:
        # Loaded once, before the workers fork.
        import shared.dataset.intake.decode  # noqa: F401

        running: dict[int, int] = {}

        def start(worker: int) -> None:
            self.at[worker] = -1
            pid = os.fork()
            if not pid:
                self._work(worker)
            running[pid] = worker

        for worker in range(self.order.workers):
            start(worker)
        while running:
            pid, status = os.wait()
            worker = running.pop(pid)
            if status:
                if self.at[worker] >= 0:
                    self._lost(int(self.at[worker]), os.waitstatus_to_exitcode(status))
                start(worker)
        _sort(Path(RECORDS))

    def _work(self, worker: int) -> None:
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (self.order.memory_mb * MB // self.order.workers,) * 2)
            while number := os.read(self.queue, 8):
                at = int(np.frombuffer(number, np.int64)[0])
                self.at[worker] = at
                # Of processor time, so that a busy machine does not count; its signal ends the process.
                signal.setitimer(signal.ITIMER_PROF, self.order.seconds)
                self._take(at)
                self.at[worker] = -1
            os._exit(0)
        finally:
            os._exit(1)

    def _take(self, at: int) -> None:
        from shared.dataset.intake.decode import take

        line = os.pread(self.specs, int(self.places[at + 1] - self.places[at]), int(self.places[at]))
        folder = Path(OUT, str(at))
        folder.mkdir(parents=True)
        try:
            taken, look = take(at, CaseSpec.model_validate_json(line), Path(os.environ["M3_DATA"]), self.order, folder)
            os.pwrite(self.looks, look, at * RECORD.itemsize)
        except LeftOut as left:
            taken = Taken(n=at, left_out=str(left))
        except MemoryError:
            taken = Taken(n=at, left_out=self._too_large(), ended="memory")
        if taken.left_out:
            shutil.rmtree(folder)
        self._say(taken)

    def _too_large(self) -> str:
        share = self.order.memory_mb // self.order.workers
        return f"needs more than the {share} MB of memory there are for one case; make its images smaller, or give more"

    def _lost(self, at: int, code: int) -> None:
        shutil.rmtree(Path(OUT, str(at)), ignore_errors=True)
        os.pwrite(self.looks, bytes(RECORD.itemsize), at * RECORD.itemsize)
        if code == -signal.SIGPROF:
            reason = f"takes more than {self.order.seconds} s to read; save its files again, smaller or less packed"
            self._say(Taken(n=at, left_out=reason, ended="seconds"))
        elif code == -signal.SIGKILL:
            self._say(Taken(n=at, left_out=self._too_large(), ended="memory"))
        else:
            reason = "the reader died of its files, which are damaged; save them again with another program"
            self._say(Taken(n=at, left_out=reason, ended="died"))

    def _say(self, taken: Taken) -> None:
        # One write of a line, so that lines of several workers do not mix.
        os.write(self.records, taken.model_dump_json(exclude_defaults=True).encode() + b"\n")


def _line_places(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each line begins, and the end of the last."""
    with path.open("rb") as lines:
        return np.cumsum([0, *(len(line) for line in lines)], dtype=np.int64)


def _sort(path: Path) -> None:
    lines = sorted(path.read_bytes().splitlines(), key=lambda line: int(json.loads(line)["n"]))
    path.write_bytes(b"".join(line + b"\n" for line in lines))


if __name__ == "__main__":
    _Shard(Order.model_validate_json(sys.argv[1])).run()
