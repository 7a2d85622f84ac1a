"""How a template's train.py is called and how it ends: what is raised becomes words on stderr and an exit code."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.imaging.volume import BadImage
from shared.training import ranks, smoke
from shared.training.checks import DataProblems, TrainingFailed
from shared.training.configfile import ConfigError
from shared.training.imports import NotExportable

REFUSED, TOLD = Path("problems.json"), 100
"""What a training that refuses its data says of so many samples, or of the whole by its name."""
WRONG = (ConfigError, DataProblems, BadImage, NotExportable, FileNotFoundError)


def main(
    doc: str | None,
    load: Callable[[str], Any],
    train: Callable[..., int],
    modes: Sequence[str],
    settings: Callable[[str], Mapping[str, Any]],
    row: Callable[[int, str], Mapping[str, Any]] | None = None,
    **flags: str,
) -> int:
    """`train.py [--config FILE] [--smoke [MODE|all]]`; `doc` is its help. -> exit code

    `modes`, the usual one first, `settings` and `row` are those of the try-out (smoke.py); `flags` are further switches
    and their help, which `train` takes by their names.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--smoke", nargs="?", const=modes[0], choices=[*modes, "all"], help="try-out on tiny data")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    given = parser.parse_args()
    if given.smoke:
        chosen = modes if given.smoke == "all" else (given.smoke,)
        return exit_code(lambda: smoke.run(chosen, lambda: train(load("config.yaml")), settings, row))
    return exit_code(lambda: train(load(given.config), **{name: getattr(given, name) for name in flags}))


def stopped() -> int:
    """By SIGTERM, with a checkpoint saved; -> the exit code."""
    ranks.say("stopped as asked; the same command goes on from the checkpoint")
    return 128 + signal.SIGTERM


def exit_code(train: Callable[[], int]) -> int:
    """0 done, 1 the training failed, 2 configuration or data are wrong, 143 stopped by SIGTERM."""
    try:
        code = train()
    except (*WRONG, TrainingFailed) as error:
        if ranks.first():
            print(error, file=sys.stderr)
            if isinstance(error, DataProblems):
                REFUSED.write_text(json.dumps({problem.where: problem.text for problem in error.problems[:TOLD]}))
        code = 2 if isinstance(error, WRONG) else 1
    return ranks.leave(code)
