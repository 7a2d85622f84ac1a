"""Commands about datasets and their cards."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from services.command.console import connect, out, progress
from services.command.dataset_check import examine
from services.command.upload import upload
from shared.contracts.cards import parse_card
from shared.contracts.runs import DataCard
from shared.errors import UserError

app = typer.Typer(help="Datasets and their cards.", no_args_is_help=True)


@app.command("add")
def add(
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DIR_OR_ARCHIVE", help="The dataset; takes the place of the path in the card."),
    ] = None,
    card: Annotated[Path, typer.Option(help="JSON with name, description and path; a list registers several.")] = ...,  # type: ignore[assignment]
    send: Annotated[
        bool, typer.Option("--upload", help="Send the folder, zip or tar from this machine instead of naming a folder.")
    ] = False,
    without_data: Annotated[bool, typer.Option(help="Register the description only.")] = False,
) -> None:
    """Register a dataset by its card. The same name again replaces the card; runs that wait for data look at it."""
    try:
        text = card.read_text()
    except OSError as error:
        raise UserError(f"The card {card} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"The card {card} is not UTF-8 text.") from None
    if without_data and (data or send):
        raise UserError("Give a folder or --without-data, not both.")
    if send and not data:
        raise UserError("Name what to send: `m3builder dataset add DIR_OR_ARCHIVE --card FILE --upload`.")
    data = data.expanduser().absolute() if data else None
    with connect() as gateway:
        if data and send:
            # A card that cannot be read is told before the sending, not after.
            if len(parse_card(text, path=str(data))) > 1:
                raise UserError("One folder or archive cannot be the data of several cards. Add them one by one.")
            with progress("sending") as bar:
                task = bar.add_task("sending")
                archive = upload(gateway, data, lambda done, total: bar.update(task, completed=done, total=total))
            answer = gateway.add_dataset(text, archive=archive)
        else:
            answer = gateway.add_dataset(text, data, here=not without_data)
    out.print(f"registered: {', '.join(answer['dataset_ids'])}")
    if answer["resumed"]:
        out.print(f"woken: {', '.join(answer['resumed'])}")


@app.command("check")
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The dataset's folder; it is only read.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was found as JSON.")] = False,
) -> None:
    """Look at a dataset before anything is trained on it; needs no running system, and changes nothing.

    Exit codes: 0 looked at, 1 nothing in it can be trained on, 2 wrong input, 3 not checked (no sandbox works here).
    """
    found = examine(folder.expanduser())
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        out.print(escape(found["text"]), soft_wrap=True, highlight=False)
    if not found["profile"]["tasks"]:
        raise typer.Exit(1)


@app.command("list")
def list_all() -> None:
    """All registered cards."""
    with connect() as gateway:
        found = gateway.datasets()
    table = Table("id", "name", "folder", "description", box=None)
    for one in found:
        table.add_row(one.dataset_id, escape(one.name), escape(_where(one)), escape(one.description[:60]))
    out.print(table if found else "No dataset yet. Add one: m3builder dataset add DIR --card FILE")


def _where(card: DataCard) -> str:
    if card.archive:
        return f"(uploaded, {card.archive.size / 1e6:.1f} MB)"
    return card.path or "(not here)"
