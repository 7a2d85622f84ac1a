"""The command that puts a run's result in one place."""

import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from services.command.console import connect, out
from services.command.fetch import whole
from services.gateway.client import Gateway
from shared.errors import UserError

FILES = {"text": "report.txt", "html": "report.html", "card": "model_card.md"}

app = typer.Typer()


@app.command()
def report(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Write files there instead of printing.")] = None,
    form: Annotated[
        Literal["text", "html", "card", "all"] | None,
        typer.Option("--format", help="text if it is printed, all if it is written."),
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, max=600, help="For the pictures of test cases in HTML; 0: none.")
    ] = 120,
) -> None:
    """The result of a run with its evidence: as text, as one HTML page, as a model card."""
    form = form or ("all" if output else "text")
    if form == "all" and not output:
        raise UserError("Three reports need a place: m3builder report RUN --output DIR.")
    forms = list(FILES) if form == "all" else [form]
    with connect() as gateway:
        if output:
            output.mkdir(parents=True, exist_ok=True)
            for one in forms:
                _write(gateway, run_id, one, output / FILES[one], wait)
                out.print(str(output / FILES[one]), highlight=False, soft_wrap=True, markup=False)
        else:
            with tempfile.TemporaryDirectory() as scratch:
                _write(gateway, run_id, forms[0], Path(scratch) / "report", wait)
                print((Path(scratch) / "report").read_text(encoding="utf-8"), end="")


def _write(gateway: Gateway, run_id: str, form: str, target: Path, wait: float) -> None:
    whole(gateway, f"/runs/{run_id}/report?format={form}&wait={wait:g}", target, form, wait + 30)
