"""The looks of a dataset's samples (`shared.looks`), made in the sandbox: images are files of strangers."""

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from services.tool_runner.look_program import LOOKS, SAMPLES
from services.tool_runner.mounts import REPOSITORY, copied
from services.tool_runner.sandbox import Level, Limits, Mount, remove_tree, run
from shared.errors import ToolBroken
from shared.looks import FLAT, RECORD, SOLID
from shared.store.paths import UnsafePath, open_inside

log = logging.getLogger(__name__)

PROGRAM = "services.tool_runner.look_program"
_OURS = (f"{PROGRAM.replace('.', '/')}.py", "services/tool_runner/fingerprints.py", "shared/looks.py",
         "shared/maskfile.py")  # fmt: skip
CPU_SECONDS = 300
"""Of one sample; of a volume with 2 GB of voxels some 20 are needed."""
_RESERVE_MB = 300
"""Of the sandbox's memory, for the program beside its workers."""


class Looks:
    """Records as the sandbox left them: no more is read than one for a sample, and what is none is no look."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def fill(self, record: bytearray, number: int) -> None:
        """Put kind and look of a sample into its record; any thread. Nothing is put where there is no look."""
        start = RECORD.fields["kind"][1]  # type: ignore[index]
        found = os.pread(self._stream.fileno(), RECORD.itemsize - start, number * RECORD.itemsize + start)
        if len(found) == RECORD.itemsize - start and found[0] in (FLAT, SOLID):
            record[start:] = found

    def close(self) -> None:
        self._stream.close()


@dataclass(frozen=True)
class Looking:
    """One job's looks. `home` is the runner's, `scratch` a folder that does not exist yet, `log` beside no sandbox."""

    home: Path
    scratch: Path
    log: Path
    level: Level
    workers: int
    memory_mb: int
    cancel: asyncio.Event
    seconds: int = CPU_SECONDS

    async def __call__(self, data: Path, samples: Sequence[Sequence[str]]) -> Looks:
        """Looks of samples, each the paths of its images below `data` in slice order.

        A sample has none where its files cannot be read, and where the run ended before it came to it. Raises
        ToolBroken when there is nothing at all.
        """
        self.scratch.mkdir(parents=True)
        try:
            await asyncio.to_thread(self._list, samples)
            done = await run(
                ["python", "-P", "-m", PROGRAM, *(str(number) for number in self._bounds())],
                workspace=self.scratch,
                mounts=[
                    Mount(data, "/data", env="M3_DATA"),
                    Mount(copied(self.home, [REPOSITORY / name for name in _OURS]), "/m3"),
                ],
                limits=Limits(
                    # Only an end for what does not end by itself; a sample is bounded by its own seconds.
                    seconds=600 + 20 * len(samples),
                    memory_mb=self.memory_mb,
                    file_mb=1 + len(samples) * RECORD.itemsize // (1 << 20),
                    output_mb=1,
                    threads=1,
                ),
                log=self.log,
                level=self.level,
                cancel=self.cancel,
            )
            if done.outcome == "cancelled":
                raise ToolBroken("the job was cancelled while the images were looked at")
            if done.outcome != "ok":
                log.warning("looks ended %s: %s", done.outcome, done.reason or f"exit code {done.exit_code}")
            return Looks(self._opened(done.exit_code))
        finally:
            await asyncio.to_thread(remove_tree, self.scratch)

    def _bounds(self) -> tuple[int, int, int]:
        return self.workers, max(self.memory_mb - _RESERVE_MB, self.memory_mb // 2), self.seconds

    def _list(self, samples: Sequence[Sequence[str]]) -> None:
        with (self.scratch / SAMPLES).open("w") as listing:
            listing.writelines(f"{json.dumps(list(files))}\n" for files in samples)

    def _opened(self, exit_code: int | None) -> BinaryIO:
        try:
            with open_inside(self.scratch, LOOKS) as stream:
                return os.fdopen(os.dup(stream.fileno()), "rb")
        except (FileNotFoundError, UnsafePath):
            tail = self.log.read_text(errors="replace")[-1000:]
            raise ToolBroken(f"no looks could be made of the images (exit code {exit_code}): {tail}") from None
