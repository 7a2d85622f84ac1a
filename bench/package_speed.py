"""What predicting from a package costs: cases a minute and memory, one call with many inputs and many calls with one.

    python -m bench.package_speed [--cases 12] [--calls 3] [--only WORD ...] [--folder DIR]

Each package is trained for some seconds on small data first. `many` is one call with --cases inputs, `one` the median
of --calls calls with one; `case s` is what a further case costs in a call, `start` how often that call with one takes
longer than `python -c "import torch"` in the same run. `controls` is how often `many` takes as long with the scorer's
control cases among its inputs, their making included; the bar is 2. Memory is the largest resident size of the child
(ru_maxrss). Some minutes, most of them for the trainings.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.rig.kinds import KINDS, Kind

ROOT = Path(__file__).parent.parent
BAR = 2.0
SHAPES = {2: (256, 256), 3: (40, 96, 96)}
"""Of the images that are predicted; those of the training are smaller."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="lines with all of these words")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if not kind.multi_label and all(word in kind.name.split() for word in given.only)]
    print(f"{given.cases} cases, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    heads = ("many /min", "one /min", "case s", "start", "controls", "many MB", "one MB")
    print(f"{'':36}" + "".join(f"{head:>11}" for head in heads), flush=True)
    missed = 0
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="bench-package-", dir=given.folder) as folder:
            missed += measure(kind, Path(folder), given.cases, given.calls) > BAR
    return min(1, missed)


def measure(kind: Kind, folder: Path, cases: int, calls: int) -> float:
    """Prints a line; how often a prediction takes as long with control cases."""
    kind.data(folder / "made")
    space = kind.workspace(folder / "work", folder / "made", kind.small(epochs=2))
    if code := space.train():
        raise SystemExit(f"{kind.name}: training ended with {code}\n{space.said()}")
    # A third of what is made is for validation, and these are the inputs.
    inputs = kind.data(folder / "asked", SHAPES[kind.dimensions], 3 * cases)
    command = [sys.executable, "-I", str(space.folder / "package" / "predict.py"), "--output", str(folder / "out")]
    run([*command, str(inputs[0])])  # Files and libraries are in memory from here on.
    one, torch = [], []
    for number in range(calls):
        torch.append(run([sys.executable, "-I", "-c", "import torch"])[0])
        one.append(run([*command, str(inputs[number % len(inputs)])]))
    seconds, memory = run([*command, *map(str, inputs)])
    controlled = with_controls(command, inputs, folder / "controls") / seconds
    single = statistics.median(value for value, _ in one)
    further = (seconds - single) / max(1, cases - 1)
    print(
        f"{kind.name:36}{60 * cases / seconds:11.1f}{60 / single:11.1f}{further:11.2f}"
        f"{single / statistics.median(torch):11.1f}{controlled:11.2f}"
        f"{memory:11.0f}{max(value for _, value in one):11.0f}",
        flush=True,
    )
    return controlled


def with_controls(command: Sequence[str], inputs: Sequence[Path], folder: Path) -> float:
    """Seconds of making control cases of the inputs as the scorer does, half of them blank and half with noise, and of
    predicting all."""
    folder.mkdir()
    names = {}
    for number, path in enumerate(inputs[: 2 * (len(inputs) // 2)]):
        name = f"control_{number}{''.join(path.suffixes)}"
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / name)
        names[name] = ("blanked", "noise")[number % 2]
    made, _ = run(
        [sys.executable, "-P", "-m", "shared.dataset.intake.altered", json.dumps(names)],
        folder,
        {"PYTHONPATH": str(ROOT)},
    )
    return made + run([*command, *map(str, inputs), *(str(folder / name) for name in names)])[0]


def run(command: Sequence[str], folder: Path = Path("/"), environment: Mapping[str, str] = {}) -> tuple[float, float]:
    """Wall seconds, and the largest resident MB of this child alone. Ends the program where the child fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{command[2]} ended with {process.returncode}: {said.read().decode()[-600:]}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
