"""Commands about a delivered package: keys that sign it, checking it, predicting with it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from services.command.console import err, out
from shared.errors import UserError
from shared.settings import Settings

app = typer.Typer()
keys = typer.Typer(help="The key that signs delivered packages.", no_args_is_help=True)

_Package = Annotated[Path, typer.Argument(metavar="PACKAGE", help="The folder package/ that `fetch` made.")]
_Key = Annotated[
    Path | None, typer.Option(metavar="PUB", help="Public key that must have signed it; else M3_VERIFY_KEY.")
]


@keys.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="For the private key; FILE.pub is for others.")],
) -> None:
    """Make an Ed25519 key. The gateway signs with it once M3_SIGNING_KEY names it at `m3builder up`."""
    from services.gateway.signing import new_key

    public, name = new_key(file.absolute())
    out.print(f"key {name}: {file.absolute()} (keep it), {public} (hand it out)", highlight=False, soft_wrap=True)


@app.command()
def verify(package: _Package, key: _Key = None) -> None:
    """Whether a package is what was delivered and signed. Exit code 0 for that alone; a changed file is named."""
    from services.command.verify import verify as look

    found = look(package, key or Settings().verify_key)
    out.print(found.said, markup=False, highlight=False, soft_wrap=True)
    if found.provenance:
        made = found.provenance
        data = made.data.sha256 if made.data else None
        out.print(f"run {made.run_id}, level {made.level}, finished {made.finished_at}, data {data}", highlight=False)
    if not found.signed:
        raise typer.Exit(1)


@app.command()
def predict(
    package: _Package,
    scan: Annotated[Path, typer.Argument(metavar="INPUT", help="An image, or a folder with one.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the answer and the log.")],
    key: _Key = None,
) -> None:
    """Predict with a package in the sandbox, never without, once it was checked; one that was changed is not run."""
    from services.command.package import predict_alone
    from services.command.verify import verify as look

    for place in (package, scan):
        if not place.exists():
            raise UserError(f"{place} does not exist.")
    if output.exists():
        raise UserError(f"{output} exists. Name a new folder.")
    settings = Settings()
    said = look(package.absolute(), key or settings.verify_key).said
    err.print(f"package {said}", markup=False, highlight=False, soft_wrap=True)
    case, isolation = predict_alone(package.absolute(), scan.absolute(), output.absolute(), settings.runner_uid)
    err.print(isolation, markup=False, highlight=False, soft_wrap=True)
    print(json.dumps(case, indent=1, ensure_ascii=False))
