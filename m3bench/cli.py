"""`m3bench`: the benchmark on the command line."""

import time
from pathlib import Path
from typing import Annotated

import typer

from m3bench import replicas

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="M3Bench: replicas, cards and runs of the benchmark."
)


@app.callback()
def _root() -> None:
    """Keeps `make` a subcommand while it is one of few."""


@app.command("make")
def make_command(
    name: Annotated[str, typer.Argument(help="Replica, for example cc-ccii; `m3bench list` names all.")],
    folder: Annotated[Path, typer.Argument(help="New or empty folder for the dataset.", metavar="DIR")],
    size: Annotated[str, typer.Option(help="tiny or small.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    patients: Annotated[int | None, typer.Option(help="Patients a class, instead of the size's own number.")] = None,
) -> None:
    """Write a made-up dataset in the real one's layout; its truth goes beside it, to DIR.truth.json."""
    began = time.monotonic()
    try:
        truth = replicas.make(name, folder, size=size, seed=seed, patients=patients)
    except (replicas.ReplicaError, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None
    files = [entry for entry in folder.rglob("*") if entry.is_file()]
    megabytes = sum(entry.stat().st_size for entry in files) / 1e6
    typer.echo(f"{folder}: {len(files)} files, {megabytes:.1f} MB, {time.monotonic() - began:.1f} s; truth in {truth}")


@app.command("list")
def list_command() -> None:
    """Name the replicas."""
    for name, replica in replicas.REPLICAS.items():
        sizes = ", ".join(f"{size} {count} patients a class" for size, count in replica.patients.items())
        typer.echo(f"{name:12} {replica.summary} ({sizes})")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
