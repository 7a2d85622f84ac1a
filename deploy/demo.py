"""One sentence to a scored, packaged model on this machine; see `--help`. Exit code 0 only if the run succeeded."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from services.command import live
from services.command.cli import fetch_run
from services.command.guard import guard
from services.command.package import predict_alone
from services.command.verify import verify
from services.gateway.client import Gateway
from services.gateway.summary import duration, summary
from shared.contracts.cards import parse_card
from shared.contracts.runs import Budget
from shared.embedded.home import Home
from shared.embedded.system import System, down, up
from shared.errors import M3Error, UserError
from shared.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[1]
REQUEST = "I want to train a model for disease diagnosis using 3D CT images."
REPLICA, NEW_LABEL = "cc-ccii", "NCP"

out = Console()


def main() -> int:
    arguments = _arguments()
    os.environ.setdefault("M3_HOME", str(REPOSITORY / ".m3builder"))
    settings = Settings()
    home = Home(settings.home.absolute())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _say_what_comes(home, arguments)
    began = time.monotonic()
    try:
        return _demo(settings, home, arguments, began)
    except KeyboardInterrupt:
        out.print("\ninterrupted")
        return 130
    except (M3Error, OSError, subprocess.SubprocessError) as error:
        out.print(f"[red]{type(error).__name__}[/]: ", end="")
        out.print(str(error), markup=False, highlight=False)
        return 1
    finally:
        # A second Ctrl-C must not leave half of it running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        down(home, out.print)


def _demo(settings: Settings, home: Home, arguments: argparse.Namespace, began: float) -> int:
    system = up(settings, tell=out.print)
    # The commands below find the system as a person's commands would.
    os.environ["M3_HOME"] = str(home.root)
    out.print(f"up after {duration(time.monotonic() - began)}: {system.settings.gateway_url}")
    replica = _replica(system, arguments)
    with Gateway(system.settings) as gateway:
        _register(gateway, replica)
        budget = Budget(train_seconds=arguments.train_seconds)
        run_id = gateway.request_run(REQUEST, core=arguments.core, seed=arguments.seed, budget=budget, unattended=True)
        out.print(f"\nrun {run_id}: “{REQUEST}”", highlight=False)
        with guard(home, lambda names: _start_again(settings, names)):
            view = live.follow(gateway.follow(run_id), out)
    out.print()
    print(summary(view.events, min(out.width, 110) if out.is_terminal else 110))
    if view.finished is None or view.finished.end != "succeeded":
        out.print(f"\nThe run did not succeed. Logs: {home.logs}")
        return 1
    _predict(system, run_id, arguments.seed)
    out.print(f"\nall of it took {duration(time.monotonic() - began)}; the run is kept in {home.root}")
    return 0


def _start_again(settings: Settings, names: list[str]) -> None:
    out.print(f"{', '.join(names)} has died; starting it again")
    try:
        up(settings, tell=out.print)
    except M3Error as error:
        out.print(str(error), markup=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="M3Builder from one sentence to a packaged model, on this machine.")
    parser.add_argument("--size", default="small", choices=["tiny", "small"], help="of the made-up dataset")
    parser.add_argument("--seed", default=0, type=int, help="of the made-up dataset and of the split")
    parser.add_argument("--train-seconds", default=130, type=float, help="wall time of the training job")
    parser.add_argument("--core", default="playbook", help="who decides; playbook needs no account")
    return parser.parse_args()


def _say_what_comes(home: Home, arguments: argparse.Namespace) -> None:
    out.print(
        f"""M3Builder demo. It will, on this machine and without any account:
  1. start a NATS server, an S3 server and seven services under {home.root}
  2. make a small made-up replica of the dataset CC-CCII there (chest CT, three classes, seed {arguments.seed})
  3. register it among the cards of the 14 datasets of the paper; the other 13 have a description but no data here
  4. ask, in the words of the paper's authors: “{REQUEST}”
  5. show the run as it goes, then its score, and one prediction by the delivered package alone
Everything is stopped at the end, also on Ctrl-C.
""",
        markup=False,
        highlight=False,
    )


def _replica(system: System, arguments: argparse.Namespace) -> Path:
    """Made once for a size and seed; it comes into being whole or not at all."""
    folder = system.settings.data_roots[0] / f"{REPLICA}-{arguments.size}-{arguments.seed}"
    if folder.is_dir():
        out.print(f"the replica is there already: {folder}")
        return folder
    command = [sys.executable, "-m", "m3bench.cli", "make", REPLICA, str(folder)]
    with out.status(f"making the replica in {folder}"):
        subprocess.run([*command, "--size", arguments.size, "--seed", str(arguments.seed)], check=True, cwd=REPOSITORY)
    return folder


def _register(gateway: Gateway, replica: Path) -> None:
    from m3bench.cards import paths

    for path in paths():
        text = path.read_text()
        here = parse_card(text, path.name)[0].dataset_id == REPLICA
        gateway.add_dataset(text, replica if here else None, here=here)
    out.print(f"{len(paths())} datasets registered, one of them with data: {replica}")


def _predict(system: System, run_id: str, seed: int) -> None:
    from m3bench.datasets.cc_ccii import new_scan

    folder = system.home.root / "demo" / run_id
    package, scan = folder / "model" / "package", folder / "new_scan"
    fetch_run(run_id, folder / "model")
    new_scan(scan, NEW_LABEL, 1000 + seed)
    checked = verify(package, system.settings.verify_key)
    with out.status("predicting with the package alone"):
        case, isolation = predict_alone(package, scan, folder / "prediction", system.settings.runner_uid)
    if not isinstance(case.get("label"), str):
        raise UserError(f"the package answered without a label: {json.dumps(case)[:300]}")
    probabilities = ", ".join(f"{label} {value:.3f}" for label, value in case.get("probabilities", {}).items())
    out.print(f"\nPackage     {package} ({checked.said})", highlight=False)
    out.print(f"New scan    {scan} (made just now, of a patient in no dataset; truth {NEW_LABEL})", highlight=False)
    out.print(f"Prediction  {case['label']} ({probabilities})", highlight=False)
    out.print(f"Isolation   {isolation}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
