"""`m3bench`: the benchmark on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from m3bench import replicas, show
from shared.errors import UserError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="M3Bench: replicas, cards and runs of the benchmark."
)
ALL = "all"


@app.callback()
def _root() -> None:
    """Keeps `make` a subcommand while it is one of few."""


@app.command("make")
def make_command(
    name: Annotated[str, typer.Argument(help="Replica, by its card's name or id (see `m3bench list`), or `all`.")],
    folder: Annotated[Path, typer.Argument(help="New or empty folder; `all` makes one in it for each.", metavar="DIR")],
    size: Annotated[str, typer.Option(help="tiny, small or layout (the real number of cases).")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    patients: Annotated[int | None, typer.Option(help="So many, in the unit that `list` says.")] = None,
    layout: Annotated[str, typer.Option(help="paper, or distributed: as the original is.")] = "paper",
) -> None:
    """Write a made-up dataset in the real one's layout; its truth goes beside it, to DIR.truth.json."""
    try:
        if name == ALL:
            _make_all(folder, size, seed, patients, layout)
        else:
            made = replicas.measured(name, folder, size=size, seed=seed, patients=patients, layout=layout)
            typer.echo(
                f"{folder}: {made.files} files, {made.megabytes:.1f} MB, {made.seconds:.1f} s; truth in {made.truth}"
            )
    except (UserError, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None


def _make_all(folder: Path, size: str, seed: int, patients: int | None, layout: str) -> None:
    done: list[replicas.Made] = []
    for made in replicas.make_all(folder, size=size, seed=seed, patients=patients, layout=layout):
        typer.echo(f"{made.folder}", err=True)
        done.append(made)
    typer.echo(_table(done, f"{size}, {layout}"))


def _table(done: Sequence[replicas.Made], what: str) -> str:
    def line(name: str, *of: replicas.Made) -> str:
        files, megabytes, seconds = (
            sum(getattr(made, part) for made in of) for part in ("files", "megabytes", "seconds")
        )
        return f"{name:24}{files:8}{megabytes:9.1f}{seconds:8.1f}"

    lines = [line(made.key, made) for made in done]
    return "\n".join([f"{what:24}{'files':>8}{'MB':>9}{'s':>8}", *lines, line("together", *done)])


@app.command("list")
def list_command() -> None:
    """Name the replicas."""
    for key in sorted(replicas.GENERATORS):
        _, replica = replicas.find(key)
        sizes = ", ".join(f"{size} {count} {replica.unit}" for size, count in replica.patients.items())
        typer.echo(f"{key:12} {replica.summary} ({sizes})")


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Replica that DIR holds, or `all` for what `make all` wrote.")],
    folder: Annotated[Path, typer.Argument(help="The dataset.", metavar="DIR", exists=True, file_okay=False)],
    output: Annotated[Path, typer.Option(help="Picture to write (PNG).")],
    cases: Annotated[int | None, typer.Option(min=1, help="How many cases to show (4; 1 each with `all`).")] = None,
) -> None:
    """Draw a few cases: planes of volumes, without and with the masks in colour; with `all`, some of each replica."""
    folder = folder.absolute()
    try:
        if name == ALL:
            count = show.overview([folder / key for key in sorted(replicas.GENERATORS)], output, cases=cases or 1)
        else:
            replicas.find(name)
            count = show.montage(folder, output, cases=cases or 4)
    except (UserError, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{output}: {count} cases of {folder}")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
