"""`m3bench`: the benchmark on the command line."""

import time
from pathlib import Path
from typing import Annotated

import typer

from m3bench import replicas, show
from shared.errors import UserError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="M3Bench: replicas, cards and runs of the benchmark."
)


@app.callback()
def _root() -> None:
    """Keeps `make` a subcommand while it is one of few."""


@app.command("make")
def make_command(
    name: Annotated[str, typer.Argument(help="Replica, by its card's name or id; `m3bench list` names all.")],
    folder: Annotated[Path, typer.Argument(help="New or empty folder for the dataset.", metavar="DIR")],
    size: Annotated[str, typer.Option(help="tiny, small or layout (the real number of cases).")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    patients: Annotated[int | None, typer.Option(help="So many, instead of the size's own number.")] = None,
    layout: Annotated[str, typer.Option(help="paper, or distributed: as the original is.")] = "paper",
) -> None:
    """Write a made-up dataset in the real one's layout; its truth goes beside it, to DIR.truth.json."""
    began = time.monotonic()
    try:
        truth = replicas.make(name, folder, size=size, seed=seed, patients=patients, layout=layout)
    except (UserError, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None
    files = [entry for entry in folder.rglob("*") if entry.is_file()]
    megabytes = sum(entry.stat().st_size for entry in files) / 1e6
    typer.echo(f"{folder}: {len(files)} files, {megabytes:.1f} MB, {time.monotonic() - began:.1f} s; truth in {truth}")


@app.command("list")
def list_command() -> None:
    """Name the replicas."""
    for key in sorted(replicas.GENERATORS):
        _, replica = replicas.find(key)
        sizes = ", ".join(f"{size} {count} {replica.unit}" for size, count in replica.patients.items())
        typer.echo(f"{key:12} {replica.summary} ({sizes})")


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Replica that DIR holds.")],
    folder: Annotated[Path, typer.Argument(help="The dataset.", metavar="DIR", exists=True, file_okay=False)],
    output: Annotated[Path, typer.Option(help="Picture to write (PNG).")],
    cases: Annotated[int, typer.Option(min=1, help="How many cases to show.")] = 4,
) -> None:
    """Draw a few cases: three planes each, without and with the masks in colour."""
    try:
        replicas.find(name)
        count = show.montage(folder.absolute(), output, cases=cases)
    except (UserError, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{output}: {count} cases of {folder}")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
