"""Commands about this machine: starting, stopping and looking at the embedded system."""

import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from services.gateway.console import out
from shared.embedded.home import Home
from shared.errors import UserError
from shared.settings import Settings

app = typer.Typer()


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
def logs(
    service: Annotated[str, typer.Argument(metavar="SERVICE")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=1)] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
) -> None:
    """The end of a service's log."""
    from shared.contracts.base import SERVICES
    from shared.embedded.processes import tail
    from shared.embedded.system import SERVERS

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
