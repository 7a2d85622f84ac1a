"""The command `m3builder`: thin over the gateway's HTTP, except for starting, stopping and looking at this machine.

Exit codes: 0 done (of `run` and `watch`: the run succeeded), 1 anything else, 2 wrong input, 130 detached by Ctrl-C.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from services.gateway import live
from services.gateway.client import Gateway
from services.gateway.guard import guard
from services.gateway.record import Record
from services.gateway.summary import summary
from services.gateway.trace_view import plain, render
from shared.contracts.runs import Budget
from shared.embedded.home import Home
from shared.errors import M3Error, UserError
from shared.settings import Settings

app = typer.Typer(
    help="From one sentence to a trained, independently scored, packaged medical imaging model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
dataset = typer.Typer(help="Datasets and their cards.", no_args_is_help=True)
app.add_typer(dataset, name="dataset")

out, err = Console(), Console(stderr=True)
DETACHED = 130


def main() -> None:
    """Run the command; errors that we foresee are one red sentence, never a traceback."""
    if not out.is_terminal:
        # Nobody's window: lines stay whole for whoever reads them.
        out.width = 250
    try:
        app()
    except UserError as error:
        _fail(error, 2)
    except (M3Error, OSError) as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        sys.exit(DETACHED)


@app.command()
def up(
    data_root: Annotated[
        list[Path] | None, typer.Option(help="Folder below which datasets may lie; may be given several times.")
    ] = None,
) -> None:
    """Start bus, store and all services on this machine, and wait until they are ready."""
    from shared.embedded.system import up as start

    roots = [root.absolute() for root in data_root or []]
    with out.status("starting") as status:
        system = start(Settings(), roots, lambda text: status.update(text) if out.is_terminal else out.print(text))
    out.print(f"up: {system.settings.gateway_url} (API: {system.settings.gateway_url}/docs)")
    out.print(f"home {system.home.root}, data roots {', '.join(str(root) for root in system.settings.data_roots)}")


@app.command()
def down() -> None:
    """Stop everything that `up` started. Nothing is lost; running work goes on at the next `up`."""
    from shared.embedded.system import down as stop

    stop(Home(Settings().home.absolute()), out.print)
    out.print("down")


@app.command()
def status() -> None:
    """Which processes run here, and whether they are ready."""
    from shared.embedded.system import status as look

    table = Table("service", "pid", "state", "ready", "memory", "restarts", box=None)
    found = look(Home(Settings().home.absolute()))
    for one in found:
        colour = {"running": "green", "died": "red"}.get(one.state, "dim")
        memory = f"{one.resident_mb:.0f} MB" if one.resident_mb is not None else "-"
        ready = "yes" if one.ready else "no"
        table.add_row(one.name, str(one.pid or "-"), f"[{colour}]{one.state}[/]", ready, memory, str(one.restarts))
    out.print(table)
    if not all(one.ready for one in found):
        if any(one.state != "stopped" for one in found):
            out.print("`m3builder up` starts what is missing; `m3builder logs SERVICE` says why it stopped.")
        raise typer.Exit(1)


@app.command()
def run(
    requirement: Annotated[str, typer.Argument(help="What the model should do, in plain words.")],
    core: Annotated[
        str, typer.Option(help="playbook, anthropic:<model>, openai:<model> or scripted:<transcript>")
    ] = "playbook",
    seed: Annotated[int, typer.Option()] = 0,
    train_seconds: Annotated[float | None, typer.Option(help="Wall seconds that a training job may take.")] = None,
    detach: Annotated[bool, typer.Option(help="Print the run's id and return at once.")] = False,
) -> None:
    """Ask for a model and follow the run. Ctrl-C detaches; the run goes on."""
    if train_seconds is not None and train_seconds <= 0:
        raise UserError("--train-seconds must be more than 0.")
    if core.startswith("scripted:"):
        core = f"scripted:{Path(core.removeprefix('scripted:')).absolute()}"
    with _gateway() as gateway:
        run_id = gateway.request_run(requirement, core, seed, Budget(train_seconds=train_seconds))
        if detach:
            print(run_id)
            return
        out.print(f"run {run_id}")
        _follow(gateway, run_id)


@app.command()
def watch(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Follow a run from its beginning. Ctrl-C detaches."""
    with _gateway() as gateway:
        _follow(gateway, run_id)


@app.command()
def trace(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Where a run's time went: hand-offs, turns, calls and jobs, and each role's share; so far, if it still goes."""
    with _gateway() as gateway:
        found = gateway.trace(run_id)
    if out.is_terminal:
        out.print(render(found))
    else:
        print(plain(found))


@app.command()
def runs() -> None:
    """All runs, the newest last."""
    with _gateway() as gateway:
        found = gateway.runs()
    table = Table("run", "status", "stage", "level", "core", "request", box=None)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in found:
        table.add_row(one.run_id, one.status, one.stage or "-", one.level, one.core, escape(one.requirement[:60]))
    out.print(table if found else 'No run yet. Start one: m3builder run "..."')


@app.command()
def cancel(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """End a run; a training job is stopped first."""
    with _gateway() as gateway:
        out.print(f"{run_id}: {gateway.cancel(run_id)}")


@app.command()
def fetch(run_id: Annotated[str, typer.Argument(metavar="RUN")], folder: Annotated[Path, typer.Argument()]) -> None:
    """Put package/, record.json and summary.txt of a run into a new folder."""
    if fetch_run(run_id, folder):
        out.print(f"{folder}/package: `python predict.py INPUT... --output DIR` in there needs nothing of M3Builder")
    else:
        out.print(f"{folder}: the run made no package; summary.txt and record.json tell why")
        raise typer.Exit(1)


@app.command()
def record(run_id: Annotated[str, typer.Argument(metavar="RUN")], file: Annotated[Path, typer.Argument()]) -> None:
    """Write a run's turns to a file that the core `scripted:FILE` replays."""
    with _gateway() as gateway:
        _whole(gateway, f"/runs/{run_id}/transcript", file, "transcript")


@dataset.command("add")
def dataset_add(
    folder: Annotated[Path | None, typer.Argument(help="Takes the place of the path in the card.")] = None,
    card: Annotated[Path, typer.Option(help="JSON with name, description and path; a list registers several.")] = ...,  # type: ignore[assignment]
    without_data: Annotated[bool, typer.Option(help="Register the description only.")] = False,
) -> None:
    """Register a dataset by its card. The same name again replaces the card."""
    try:
        text = card.read_text()
    except OSError as error:
        raise UserError(f"The card {card} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"The card {card} is not UTF-8 text.") from None
    if folder and without_data:
        raise UserError("Give a folder or --without-data, not both.")
    with _gateway() as gateway:
        answer = gateway.add_dataset(text, folder.expanduser().absolute() if folder else None, here=not without_data)
    out.print(f"registered: {', '.join(answer['dataset_ids'])}")
    if answer["resumed"]:
        out.print(f"woken: {', '.join(answer['resumed'])}")


@dataset.command("list")
def dataset_list() -> None:
    """All registered cards."""
    with _gateway() as gateway:
        found = gateway.datasets()
    table = Table("id", "name", "folder", "description", box=None)
    for one in found:
        table.add_row(one.dataset_id, escape(one.name), escape(one.path or "(not here)"), escape(one.description[:60]))
    out.print(table if found else "No dataset yet. Add one: m3builder dataset add DIR --card FILE")


@app.command()
def logs(
    service: Annotated[str, typer.Argument(metavar="SERVICE")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=1)] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
) -> None:
    """The end of a service's log."""
    from shared.embedded.processes import tail
    from shared.embedded.system import SERVERS, SERVICES

    if service not in (*SERVERS, *SERVICES):
        raise UserError(f"There is no service {service!r}. There are: {', '.join((*SERVERS, *SERVICES))}.")
    log = Home(Settings().home.absolute()).log(service)
    if not log.is_file():
        raise UserError(f"{service} has no log at {log}: it was never started here.")
    if follow:
        subprocess.run(["tail", "-n", str(lines), "-F", str(log)], check=False)
    else:
        print(tail(log, lines))


@app.command()
def doctor() -> None:
    """What is installed, how code is isolated, GPU, disk and ports of this machine."""
    from services.gateway.doctor import examine

    table = Table("", "what", "found", box=None)
    findings = examine(Settings())
    for one in findings:
        mark = {"ok": "[green]ok[/]", "note": "[yellow]--[/]", "bad": "[red]no[/]"}[one.verdict]
        table.add_row(mark, one.what, escape(one.found))
    out.print(table)
    if any(one.verdict == "bad" for one in findings):
        raise typer.Exit(1)


def fetch_run(run_id: str, folder: Path) -> bool:
    """Fill a new or empty folder with `package/`, `record.json` and `summary.txt`; False when the run made no package.

    Raises UserError for a run that has no package yet. A half-done folder never carries its name.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty. Name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _gateway() as gateway, tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        tar, made = Path(scratch) / "package.tar", Path(scratch) / "made"
        made.mkdir()
        _whole(gateway, f"/runs/{run_id}/artifacts/record", made / "record.json", "record")
        told = Record.model_validate_json((made / "record.json").read_bytes())
        if told.package is None and told.end is None:
            raise UserError(f"Run {run_id} has no package yet. `m3builder watch {run_id}` follows it.")
        (made / "summary.txt").write_text(summary(list(enumerate(told.events, 1))) + "\n")
        if told.package:
            _whole(gateway, f"/runs/{run_id}/artifacts/package.tar", tar, "package")
            with tarfile.open(tar) as archive:
                archive.extractall(made / "package", filter="data")
            (made / "package").chmod(0o755)
        made.replace(folder)
    return told.package is not None


def gateway_url(settings: Settings) -> str:
    """M3_GATEWAY_URL when it is set, else that of the system in the home folder."""
    if "M3_GATEWAY_URL" in os.environ:
        return settings.gateway_url
    memory = Home(settings.home.absolute()).recall()
    return memory.settings(settings).gateway_url if memory else settings.gateway_url


def _gateway() -> Gateway:
    return Gateway(gateway_url(Settings()))


def _follow(gateway: Gateway, run_id: str) -> None:
    def died(names: list[str]) -> None:
        out.print(f"[red]{', '.join(names)} has died[/]; `m3builder up` starts it again, `m3builder logs` says why")

    try:
        with guard(Home(Settings().home.absolute()), died):
            view = live.follow(gateway.follow(run_id), out)
    except KeyboardInterrupt:
        out.print(f"\ndetached; the run goes on: m3builder watch {run_id}")
        raise typer.Exit(DETACHED) from None
    out.print()
    print(summary(view.events, min(out.width, 110) if out.is_terminal else 110))
    if view.finished is None or view.finished.end != "succeeded":
        raise typer.Exit(1)


def _whole(gateway: Gateway, path: str, target: Path, what: str) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
            task = progress.add_task(what)
            for done, total in gateway.download(path, temporary):
                progress.update(task, completed=done, total=total or None)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _fail(error: Exception, code: int) -> NoReturn:
    err.print(f"[red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
