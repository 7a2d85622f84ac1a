"""The command that erases runs and datasets."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from services.command.console import connect, out
from services.gateway.bodies import Erasure
from shared.embedded.home import Home
from shared.errors import UserError
from shared.settings import Settings

app = typer.Typer()


@app.command()
def forget(
    ids: Annotated[list[str] | None, typer.Argument(metavar="RUN|DATASET...", show_default=False)] = None,
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Also all runs that ended, and uploads no dataset took, so long ago."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON; without --yes only tell.")] = False,
) -> None:
    """Erase runs and datasets everywhere, for good: bus, store, folders, logs. Ends with what went and what is left.

    Asks before it does; asking for the same again finishes what was cut off. Nothing may be at work meanwhile.
    """
    if not ids and older_than is None:
        raise UserError("Name runs or datasets, or an age: m3builder forget RUN, m3builder forget --older-than 90.")
    with connect() as gateway, out.status("looking"):
        told = gateway.erase(ids or [], older_than, dry_run=True)
    if not yes and not as_json:
        _show(told)
        if not typer.confirm("Erase this for good?"):
            raise typer.Exit(1)
    if yes or not as_json:
        with connect() as gateway, out.status("erasing"):
            told = gateway.erase(told.ids, older_than, dry_run=False)
            _overwrite()
    if as_json:
        print(told.model_dump_json(indent=1))
    else:
        _show(told)


def _show(told: Erasure) -> None:
    out.print(f"{'would be erased' if told.dry_run else 'erased'}: {', '.join(told.ids) or 'no run, no dataset'}")
    table = Table("where", "how many", "bytes", box=None)
    for place, amount in told.erased.items():
        table.add_row(escape(place), f"{amount.count:,}", f"{amount.bytes:,}")
    if told.archives:
        table.add_row("uploads that no dataset took", f"{told.archives:,}", "in the store")
    out.print(table)
    out.print("left:")
    for sentence in told.left:
        out.print(f"- {sentence}", markup=False, highlight=False, soft_wrap=True)


def _overwrite() -> None:
    """Have the embedded store write its files anew without what was removed."""
    home = Home(Settings().home.absolute())
    if memory := home.recall():
        from shared.embedded.s3 import vacuum

        vacuum(home.s3, memory.ports["master"])
