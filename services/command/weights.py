"""Commands about the shelf: weights from which trainings may begin."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from services.command.console import connect, out, progress
from services.command.upload import send_file
from shared.contracts.weights import Suffix, Weights

app = typer.Typer(help="The shelf: weights from which trainings may begin.", no_args_is_help=True)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, - and _.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A state dict: .safetensors, or .pt of torch.save.")],
    licence: Annotated[str, typer.Option(help="Under which it may be used; stands on the card of each package.")],
    source: Annotated[str, typer.Option(help="Where it is from: an address, a paper, a run.")],
    learned_from: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET", help="A dataset here that it was trained on; may be repeated."),
    ] = None,
) -> None:
    """Offer weights to trainings. They are looked at in the sandbox first; the same name again replaces them.

    Runs on a dataset that they were trained on are not offered them: they may know its test cases.
    """
    with connect() as gateway:
        with progress("sending") as bar:
            task = bar.add_task("sending")
            sent = send_file(gateway, file, lambda done, total: bar.update(task, completed=done, total=total))
        suffix: Suffix = ".safetensors" if file.suffix == ".safetensors" else ".pt"
        found = gateway.add_weights(name, sent, suffix, licence, source, learned_from or ())
    out.print(f"on the shelf: {found.path}, {found.looked.tensors} tensors, fits {_fits(found)}")


@app.command("list")
def list_all() -> None:
    """What is on the shelf."""
    with connect() as gateway:
        found = gateway.weights()
    table = Table("name", "MB", "tensors", "fits", "licence", "source", box=None)
    for one in found:
        size, tensors = f"{one.file.size / 1e6:.1f}", str(one.looked.tensors)
        table.add_row(one.name, size, tensors, _fits(one), escape(one.licence), escape(one.source))
    out.print(table if found else "The shelf is empty. m3builder weights add NAME FILE --licence TEXT --source TEXT")


@app.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Take weights off the shelf; packages that were trained from them stay as they are."""
    with connect() as gateway:
        gateway.remove_weights(name)
    out.print(f"taken off the shelf: {name}; its file goes with the next `m3builder forget`")


def _fits(weights: Weights) -> str:
    found = [f"{fit.backbone} {fit.width} in {fit.dimensions}D" for fit in weights.looked.fits[:2]]
    return ", ".join(found) or "no backbone of the templates"
