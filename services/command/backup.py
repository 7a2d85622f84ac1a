"""Commands that save the system into a folder and make one of it."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from services.command.console import out
from shared import backup as folders
from shared.embedded.home import Home
from shared.embedded.system import attach, down, up
from shared.errors import M3Error, UserError
from shared.settings import Settings

app = typer.Typer()
Folder = Annotated[Path, typer.Argument(metavar="FOLDER")]


@app.command()
def backup(folder: Folder) -> None:
    """Save all runs, datasets, packages and transcripts into FOLDER, while the system is up; again: what is new.

    Not in it: files below data roots, the operator's keys, caches. Whoever reads it sees the locked test sets.
    """
    system = attach(Settings())
    if system is None:
        raise UserError("There is no system here; of a cluster `python -m shared.backup save FOLDER` makes a backup.")
    os.umask(0o077)
    with out.status("saving") as status:
        done = asyncio.run(folders.save(system.settings, folder, status.update))
    _copy_audit(system.home.gateway, folder / "audit")
    out.print(f"saved {done.messages:,} messages and {done.objects:,} objects ({done.bytes:,} bytes) in {folder}")


@app.command()
def restore(
    folder: Folder,
    data_root: Annotated[
        list[Path] | None, typer.Option(help="Folder below which datasets may lie; may be given several times.")
    ] = None,
) -> None:
    """Make a new system of a backup, in M3_HOME, where there is none yet, and start it."""
    settings = Settings()
    home = Home(settings.home.absolute())
    found = home.recall() is not None

    def fill(ours: Settings) -> None:
        asyncio.run(folders.load(ours, folder, lambda text: None))
        _copy_audit(folder / "audit", home.gateway)

    try:
        with out.status("restoring"):
            system = up(settings, [root.absolute() for root in data_root or []], fill=fill)
    except M3Error as error:
        if found:
            raise
        down(home)
        raise type(error)(f"{error} Remove {home.root} before you try again.") from None
    out.print(f"up: {system.settings.gateway_url}")


def _copy_audit(source: Path, target: Path) -> None:
    """It is appended to and never rewritten."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in source.glob("audit*.jsonl"):
        shutil.copy2(path, target / path.name)
