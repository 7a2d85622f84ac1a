"""What a run told language models outside of the hospital."""

from typing import Annotated

import typer
from rich.table import Table

from services.command.console import connect, out

app = typer.Typer()


@app.command()
def disclosure(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    text: Annotated[int | None, typer.Option(metavar="N", help="Print what left with request N, as it left.")] = None,
) -> None:
    """What left for language models outside of the hospital: each request, and how much of it became surrogates."""
    with connect() as gateway:
        if text is not None:
            print(gateway.disclosed_text(run_id, text))
            return
        found = gateway.disclosure(run_id)
    table = Table("N", "role", "turn", "bytes", "surrogates", "where they stand", "to", "sha256", box=None)
    for number, one in enumerate(found, 1):
        where = ", ".join(f"{many} {rule}" for rule, many in one.hidden.items())
        row = (str(number), one.role, str(one.turn), f"{one.size:,}", str(one.surrogates))
        table.add_row(*row, where, one.core, one.sha256[:12])
    out.print(table if found else f"Run {run_id} has asked no language model outside of the hospital.")
