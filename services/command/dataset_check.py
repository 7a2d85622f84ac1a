"""`m3builder dataset check DIR`: the profile of a folder on this machine. Needs no running system."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

import services
from services.command.console import out
from shared.errors import UserError

NOT_CHECKED = 3


def examine(folder: Path) -> dict[str, Any]:
    """{"profile", "text", "path", "isolation"} of a folder, from the sandbox.

    UserError for a folder that is none; exits with 3 where nothing can run.
    """
    if not folder.is_dir():
        there = "is a file; unpack it, or name the folder" if folder.exists() else "does not exist; name the folder"
        raise UserError(f"{folder} {there} that holds the dataset.")
    asked = [sys.executable, "-m", "services.tool_runner.local", str(folder.absolute())]
    with out.status(f"looking at {folder}") if out.is_terminal else nullcontext():
        done = subprocess.run(
            asked, cwd=Path(services.__path__[0]).parent, capture_output=True, text=True, check=False
        )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        typer.echo(f"The dataset was not checked: {said}", err=True)
        raise typer.Exit(NOT_CHECKED)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
