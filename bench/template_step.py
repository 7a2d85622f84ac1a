"""What a training step costs in each template beside the plain framework: same network, batch, samples and threads.

    python -m bench.template_step [--rounds 8] [--steps 5] [--only WORD ...] [--folder DIR]

Both are trainings in processes of their own that take turns, some steps each (`rig/turns.py`); a step reaches from one
optimizer step to the next, with drawing and augmenting its samples. The ratio is that of the medians; what comes once
an epoch (evaluation, checkpoint) is no step. Exit code 1 if a ratio is above 1.05. Some minutes.
`halves` are the ratios of the first and the second half of the rounds: where they differ, the machine was not quiet.
`cpu` is the ratio of processor seconds, which a busy machine changes less.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.rig.kinds import Kind
from bench.rig.turns import Seconds, Training, medians, take_turns
from bench.rig.workspace import Json, Workspace

BAR = 1.05


@dataclass(frozen=True)
class Pair:
    kind: Kind
    plain: str
    """What bench.rig.plain is asked for."""
    shape: tuple[int, ...]
    count: int
    """Samples, a third of them for validation."""


PAIRS = (
    Pair(Kind("diagnosis", 2), "trainer", (128, 128), 144),
    Pair(Kind("diagnosis", 3), "trainer", (24, 64, 64), 72),
    Pair(Kind("report_generation", 2), "trainer", (128, 128), 96),
    Pair(Kind("organ_segmentation", 2, engine="monai"), "loop", (128, 128), 24),
    Pair(Kind("organ_segmentation", 3, engine="monai"), "loop", (48, 64, 64), 12),
    Pair(Kind("organ_segmentation", 3, engine="nnunet"), "nnunet", (48, 64, 64), 9),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5, help="of a turn, more where they are short")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="lines with all of these words")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    given = parser.parse_args()
    threads, above = len(os.sched_getaffinity(0)), 0
    print(f"{given.rounds} rounds of {given.steps} steps, {threads} threads, load {os.getloadavg()[0]:.1f}")
    print(f"{'':36}{'ours ms':>10}{'plain ms':>10}{'ratio':>8}{'halves':>14}{'cpu':>8}", flush=True)
    for pair in PAIRS:
        if not all(word in pair.kind.name.split() for word in given.only):
            continue
        with tempfile.TemporaryDirectory(prefix="bench-step-", dir=given.folder) as folder:
            ours, plain = measure(pair, Path(folder), given.rounds, given.steps, threads)
        (wall, cpu), (bare, bare_cpu) = medians(ours), medians(plain)
        half = len(ours) // 2
        halves = (medians(ours[part])[0] / medians(plain[part])[0] for part in (slice(half), slice(half, None)))
        above += wall / bare > BAR
        print(
            f"{pair.kind.name:36}{wall * 1000:10.1f}{bare * 1000:10.1f}{wall / bare:8.3f}"
            f"{next(halves):8.3f}{next(halves):6.3f}{cpu / bare_cpu:8.3f}{'   MISSED' if wall / bare > BAR else ''}",
            flush=True,
        )
    print(f"{above} above {BAR}; load {os.getloadavg()[0]:.1f}")
    return int(above > 0)


def measure(pair: Pair, folder: Path, rounds: int, steps: int, threads: int) -> tuple[list[Seconds], list[Seconds]]:
    """Of the steps of the template and of those of the plain framework."""
    made = folder / "made"
    pair.kind.data(made, pair.shape, pair.count)
    ours, plain = (pair.kind.workspace(folder / name, made, settings(pair), threads) for name in ("ours", "plain"))
    cache = [str(ours.folder / "cache" / "nnunet")] if pair.plain == "nnunet" else []
    started: list[Training] = []
    try:
        one = Training(folder, "ours", starter(ours, "bench.rig.turns", "train.py"))
        started.append(one)
        # One after the other: nnU-Net's plain trainer needs what the template preprocessed.
        one.wait()
        other = Training(folder, "plain", starter(plain, "bench.rig.plain", pair.plain, *cache))
        started.append(other)
        other.wait()
        return take_turns(one, other, rounds, steps)
    except RuntimeError as error:
        raise SystemExit(f"{pair.kind.name}: {error}\n{ours.said()}\n{plain.said()}") from None
    finally:
        for training in started:
            training.close()


def starter(space: Workspace, *command: str) -> Callable[[dict[str, str]], "subprocess.Popen[bytes]"]:
    return lambda variables: space.start((sys.executable, "-m", *command), **variables)


def settings(pair: Pair) -> Json:
    """The template's own defaults, without an end. Every sample is augmented: half of them would make two kinds of
    steps, and a median between the two."""
    training = {"epochs": 10_000, "train_seconds": None, "patience": 0}
    # No processes that load: they would go on while the other side has its turn.
    if pair.plain == "nnunet":
        epochs = {"workers": 0, "iterations": 250, "epochs": 10_000}
        return {"nnunet": epochs, "training": {"train_seconds": None}}
    return {"augmentation": {"probability": 1.0}, "training": {**training, "workers": 0}}


if __name__ == "__main__":
    sys.exit(main())
