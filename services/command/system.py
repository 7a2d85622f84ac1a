"""Commands about this machine: starting, stopping and looking at the embedded system."""

import asyncio
import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from services.command.console import connect, known, out
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
    out.print(f"up: {system.settings.gateway_url}")
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
def audit() -> None:
    """Who asked, looked, downloaded and approved, the newest last: time, user, request, status, what was made or why
    it was refused."""
    with connect() as gateway:
        for line in gateway.audit():
            print(line["at"], line["who"] or "-", line["did"], line["status"], line.get("made") or line.get("note", ""))


@app.command()
def login() -> None:
    """Log in at the gateway's OpenID provider, with a browser on this or another machine."""
    from services.gateway.login import log_in

    def tell(address: str, code: str) -> None:
        out.print(f"Open {address} and agree to the code {code}.", highlight=False, soft_wrap=True)

    settings = known(Settings())
    with connect() as gateway:
        log_in(settings, gateway.login(), tell)
        me = gateway.me()
    out.print(f"logged in as {me.name}; you may: {', '.join(me.rights)}", highlight=False, markup=False)


@app.command()
def logout() -> None:
    """Forget the login on this machine."""
    from services.gateway.login import log_out

    log_out(Settings())
    out.print("logged out")


@app.command()
def token() -> None:
    """What the gateway wants of other programs, as `Authorization: Bearer TOKEN`. Whoever has it acts in your name."""
    from services.gateway.login import Credentials

    found = Credentials(known(Settings())).token()
    if found is None:
        raise UserError("There is none here: `m3builder up`, `m3builder login`, or set M3_GATEWAY_TOKEN.")
    print(found)


@app.command()
def doctor(
    core: Annotated[
        str | None, typer.Option(help="Try the models of a core instead: key, endpoint, model, tools, vision, price.")
    ] = None,
) -> None:
    """What is installed, how code is isolated, GPU, disk and ports of this machine; or what a core's models can do."""
    from services.command.doctor import examine, try_cores

    table = Table("", "what", "found", box=None)
    findings = examine(Settings()) if core is None else asyncio.run(try_cores(core, Settings().models_file))
    for one in findings:
        mark = {"ok": "[green]ok[/]", "note": "[yellow]--[/]", "bad": "[red]no[/]"}[one.verdict]
        table.add_row(mark, one.what, escape(one.found))
    out.print(table)
    if any(one.verdict == "bad" for one in findings):
        raise typer.Exit(1)
