"""Two trainings that take turns, some steps each: what the machine does meanwhile slows both alike.

A training is a process that stops after an optimizer step, tells how long its steps took, and waits to be asked for
more. `python -m bench.rig.turns train.py ARGUMENTS` runs an unedited script so, from the moment when the framework's
own training begins; a script that calls `begin` itself needs no more. While it waits, nothing of it runs.
"""

import functools
import json
import os
import runpy
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ASK, TELL = "M3_BENCH_ASK", "M3_BENCH_TELL"

Seconds = tuple[float, float]
"""Of a step: wall, and processor over all threads, which a busy machine changes less."""


def begin() -> None:
    """In the training's process, once what follows is the training itself."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    asked, told = (os.open(os.environ[name], os.O_RDWR) for name in (ASK, TELL))
    seconds: list[Seconds] = []
    wanted, since, used = 0, time.perf_counter(), time.process_time()

    def stepped(*_: Any) -> None:
        nonlocal wanted, since, used
        now, by_now = time.perf_counter(), time.process_time()
        seconds.append((round(now - since, 6), round(by_now - used, 6)))
        since, used = now, by_now
        if len(seconds) < wanted:
            return
        # One write: a line is shorter than what a pipe takes at once.
        os.write(told, (json.dumps(seconds) + "\n").encode())
        seconds.clear()
        wanted = int(os.read(asked, 16))
        since, used = time.perf_counter(), time.process_time()

    register_optimizer_step_post_hook(stepped)


class Training:
    """From outside. `start(environment)` starts the process and is called at once; `wait` for it before its steps."""

    def __init__(self, folder: Path, name: str, start: Callable[[dict[str, str]], "subprocess.Popen[bytes]"]) -> None:
        pipes = [folder / f"{name}.{end}" for end in ("ask", "tell")]
        for pipe in pipes:
            os.mkfifo(pipe)
        # Both ends are held open by either side: nobody waits for the other to open.
        self.asked, self.told = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        self.name = name
        self.process = start({ASK: str(pipes[0]), TELL: str(pipes[1])})

    def steps(self, count: int) -> list[Seconds]:
        """Of each of the next `count` steps: from one optimizer step to the next, loading included."""
        os.write(self.asked, str(count).encode())
        return self.wait()

    def wait(self, seconds: float = 900) -> list[Seconds]:
        end, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            if select.select([self.told], [], [], 0.5)[0]:
                line += os.read(self.told, 65536)
            elif self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} ended ({self.process.poll()}) or took {seconds:g} s for some steps")
        return [(wall, cpu) for wall, cpu in json.loads(line)]

    def close(self) -> None:
        from bench.rig.workspace import kill

        kill(self.process)
        os.close(self.asked)
        os.close(self.told)


def take_turns(one: Training, other: Training, rounds: int, steps: int) -> tuple[list[Seconds], list[Seconds]]:
    """Of all steps of either. In each of `rounds` both do `steps` (more where they are short), and one more that warms
    up and is left out; so is a round before the first. Who begins alternates."""
    for training in (one, other):
        slowest = max(wall for wall, _ in training.steps(steps + 1)[1:])
        # Short steps differ more: a second of them, if there are not too many in it.
        steps = max(steps, min(30, round(1 / slowest)))
    found: dict[Training, list[Seconds]] = {one: [], other: []}
    for number in range(rounds):
        for training in (one, other) if number % 2 else (other, one):
            found[training] += training.steps(steps + 1)[1:]
    return found[one], found[other]


def medians(seconds: list[Seconds]) -> Seconds:
    return statistics.median(wall for wall, _ in seconds), statistics.median(cpu for _, cpu in seconds)


def _run_script() -> None:
    """Patches what frameworks call when a training begins; imports of the script then find it so."""
    import accelerate
    import transformers
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    once = functools.cache(begin)
    starts = (transformers.Trainer, "train"), (accelerate.Accelerator, "prepare"), (nnUNetTrainer, "on_train_start")
    for owner, name in starts:
        _before(owner, name, once)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _before(owner: Any, name: str, first: Callable[[], None]) -> None:
    known = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        first()
        return known(*arguments, **more)

    setattr(owner, name, call)


if __name__ == "__main__":
    _run_script()
