"""Every template in 2D and 3D: trained, gone on with after kill -9, and used from its package alone.

    python -m bench.template_table [--only WORD ...] [--online] [--folder DIR]

One line a kind of training, one cell a trial: pass or FAIL, and its seconds. Trainings are on small data made here.
Exit code 1 if a cell is no pass. A quarter of an hour on two cores; --only picks lines that contain a word.

`resume` kills the whole process group once there is a second checkpoint (the first then is whole) and gives the same
command again: it has to say that it goes on, count attempt 2, write no epoch a second time, and end as configured.
`predict` copies the package away and runs it with no variable set in another folder and in a fresh virtual environment
that holds what its environment.txt names, where nothing of ours can be imported. It is filled from the installer's
cache; where that lacks a package, the cell says `no packages` and is no pass (--online fetches what is missing).
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.rig import answers
from bench.rig.emptyenv import EmptyEnvironments, NotHad
from bench.rig.kinds import EPOCHS, KINDS, Kind
from bench.rig.workspace import Workspace, kill, wait_until

CELLS = ("train", "resume", "predict")


class Failed(Exception):
    """What a cell saw instead of what it should."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="lines with all of these words")
    parser.add_argument("--online", action="store_true", help="let the installer fetch packages")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder; emptied at the end)")
    arguments = parser.parse_args()
    kinds = [kind for kind in KINDS if all(word in kind.name.split() for word in arguments.only)]
    if not kinds:
        parser.error(f"no line has all of {', '.join(arguments.only)}; there are: {'; '.join(k.name for k in KINDS)}")
    print(f"{'':36}" + "".join(f"{cell:>16}" for cell in CELLS), flush=True)
    reasons: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bench-table-", dir=arguments.folder) as scratch:
        environments = EmptyEnvironments(Path(scratch), arguments.online)
        for number, kind in enumerate(kinds):
            folder = Path(scratch) / f"line{number}"
            print(f"{kind.name:36}", end="", flush=True)
            reasons += line(kind, folder, environments)
            shutil.rmtree(folder)
    print(f"{3 * len(kinds) - len(reasons)} of {3 * len(kinds)} pass")
    for reason in reasons:
        print(reason, file=sys.stderr)
    return int(bool(reasons))


def line(kind: Kind, folder: Path, environments: EmptyEnvironments) -> list[str]:
    """Print the cells of a kind as they end. -> what was wrong."""
    inputs = kind.data(folder / "made")
    spaces = {name: kind.workspace(folder / name, folder / "made") for name in ("train", "resume")}
    trials: dict[str, Callable[[], None]] = {
        "train": lambda: train(kind, spaces["train"]),
        "resume": lambda: resume(kind, spaces["resume"]),
        "predict": lambda: predict(kind, spaces, folder, inputs, environments),
    }
    reasons = []
    for name, trial in trials.items():
        began, verdict = time.monotonic(), "pass"
        try:
            trial()
        except NotHad as error:
            verdict = "no packages"
            reasons.append(f"{kind.name}, {name}: {error}")
        except (Failed, answers.WrongAnswer, OSError, ValueError, KeyError) as error:
            verdict = "FAIL"
            reasons.append(f"{kind.name}, {name}: {type(error).__name__} {error}")
        print(f"{verdict:>11}{time.monotonic() - began:3.0f} s", end="", flush=True)
    print(flush=True)
    return reasons


def train(kind: Kind, space: Workspace) -> None:
    code = space.train()
    check(code == 0, f"exit code {code}: {space.said()}")
    check_result(kind, space, attempts=1)


def resume(kind: Kind, space: Workspace) -> None:
    process = space.start()
    try:
        reached = wait_until(lambda: len(space.checkpoints()) >= 2, process)
    finally:
        code = process.poll()
        kill(process)
    check(reached, f"it ended ({code}) or took ten minutes before a second checkpoint was there: {space.said()}")
    check(process.returncode == -signal.SIGKILL, f"it was not killed but ended with {process.returncode}")
    written = len(space.progress())
    code = space.train()
    check(code == 0, f"exit code {code} after the kill: {space.said()}")
    check("goes on from" in space.said(10_000), "it does not say that it goes on from a checkpoint")
    epochs = [entry["epoch"] for entry in space.progress()[written:] if "epoch" in entry]
    check(bool(epochs) and min(epochs) > 1, f"it started over: the first epoch after the kill is {epochs[:1]}")
    check_result(kind, space, attempts=2)


def check_result(kind: Kind, space: Workspace, attempts: int) -> None:
    found = space.metrics()
    check(found["split"] == "val", f"the metrics are of {found['split']}")
    check(found["attempts"] == attempts, f"{found['attempts']} attempts are counted, not {attempts}")
    check(round(found["epochs"]) == EPOCHS, f"{found['epochs']} epochs, not {EPOCHS}")
    check(space.progress()[-1]["epoch"] == found["epochs"], "the last line of progress is not of the last epoch")
    check((space.folder / "package" / "SHA256SUMS").is_file(), "there is no package")


def predict(
    kind: Kind, spaces: dict[str, Workspace], folder: Path, inputs: list[Path], environments: EmptyEnvironments
) -> None:
    """From the package of the resumed training, or of the other where that left none."""
    packages = [spaces[name].folder / "package" for name in ("resume", "train")]
    package = next((path for path in packages if path.is_dir()), None)
    check(package is not None, "there is no package")
    assert package is not None
    moved, elsewhere = folder / "moved" / "a model", folder / "elsewhere"
    shutil.copytree(package, moved)
    elsewhere.mkdir()
    answers.check_answers(kind, environments.python(moved), moved, inputs, elsewhere)


def check(right: bool, text: str) -> None:
    if not right:
        raise Failed(text)


if __name__ == "__main__":
    sys.exit(main())
