"""The command `m3builder`: thin over the gateway's HTTP, except for starting, stopping and looking at this machine.

Exit codes: 0 done (of `run` and `watch`: the run succeeded), 1 anything else, 2 wrong input, 130 detached by Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.markup import escape
from rich.table import Table

from services.command import (
    asking,
    backup,
    datasets,
    disclosure,
    forget,
    live,
    packages,
    prompts,
    report,
    system,
    top,
    weights,
)  # fmt: skip
from services.command.console import connect, err, known, out, some
from services.command.fetch import fetch_run, whole
from services.command.guard import guard
from services.command.trace_view import plain, render
from services.gateway import questions
from services.gateway.bodies import NewRun
from services.gateway.client import Gateway
from services.gateway.summary import summary
from shared.contracts.base import Event
from shared.contracts.questions import POINTS
from shared.contracts.runs import SWITCHES, Budget
from shared.embedded.home import Home
from shared.errors import M3Error, UserError
from shared.settings import Settings

app = typer.Typer(
    help="From one sentence to a trained, independently scored, packaged medical imaging model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(system.app)
app.add_typer(backup.app)
app.add_typer(report.app)
app.add_typer(top.app)
app.add_typer(disclosure.app)
app.add_typer(prompts.app)
app.add_typer(forget.app)
app.add_typer(packages.app)
app.add_typer(packages.keys, name="keys")
app.add_typer(datasets.app, name="dataset")
app.add_typer(weights.app, name="weights")

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
def run(
    requirement: Annotated[str, typer.Argument(help="What the model should do, in plain words.")],
    core: Annotated[
        str,
        typer.Option(
            help="playbook, a model's name, <endpoint>:<model> or scripted:<transcript>; A,task_manager=B for one role"
        ),
    ] = "playbook",
    seed: Annotated[int, typer.Option()] = 0,
    train_seconds: Annotated[
        float | None, typer.Option(help="Wall seconds of a training; all together, twice that.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="ID", help="The dataset to take; without it the Task Manager chooses.")
    ] = None,
    approve: Annotated[
        str,
        typer.Option(metavar="POINTS", help="Be asked before the run goes on: plan,split,release, or some of them."),
    ] = "",
    unattended: Annotated[
        bool, typer.Option(help="Ask nobody: a question gets its default, one without ends the run.")
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            metavar="BOUNDS",
            help="actions=100,tokens=90000,usd=2,gpu_seconds=3600,wall_seconds=7200,search_seconds=600, or some.",
        ),
    ] = "",
    without: Annotated[
        str,
        typer.Option(
            metavar="PARTS", help="What the run goes without: collaboration,debugging,reflection,few_shot, or some."
        ),
    ] = "",
    detach: Annotated[bool, typer.Option(help="Print the run's id and return at once.")] = False,
) -> None:
    """Ask for a model and follow the run; its questions are asked here. Ctrl-C detaches; the run goes on."""
    if train_seconds is not None and train_seconds <= 0:
        raise UserError("--train-seconds must be more than 0.")
    bounds, points = _budget(budget, train_seconds), some(approve, POINTS, "--approve")
    left_out = some(without, SWITCHES, "--without")
    with connect() as gateway:
        if core.startswith("scripted:"):
            from services.command.replay import replay  # the bus takes long to import

            run_id = replay(
                known(Settings()),
                NewRun(
                    requirement=requirement,
                    core=f"scripted:{Path(core.removeprefix('scripted:')).absolute()}",
                    seed=seed,
                    budget=bounds,
                    dataset=dataset,
                    approvals=points,
                    unattended=unattended,
                    without=left_out,
                ),
            )
        else:
            run_id = gateway.request_run(requirement, core, seed, bounds, dataset, points, unattended, left_out)
        if detach:
            print(run_id)
            return
        out.print(f"run {run_id}")
        _follow(gateway, run_id)


@app.command()
def watch(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Follow a run from its beginning; its open question is asked here. Ctrl-C detaches."""
    with connect() as gateway:
        _follow(gateway, run_id)


@app.command()
def show(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Where a run stands and what it found so far, in a screen of text."""
    with connect() as gateway:
        told, waits = gateway.record(run_id), gateway.waiting(run_id)
    _tell(list(enumerate(told.events, 1)))
    if waits:
        print(f"Waits       {waits.role}, {waits}")


@app.command()
def trace(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="As one picture, in a file for a browser.")] = None,
) -> None:
    """Where a run's time went: hand-offs, turns, calls and jobs, and each role's share; so far, if it still goes."""
    with connect() as gateway:
        found = gateway.trace(run_id)
    if html:
        from services.gateway.timeline import page

        temporary = html.with_name(f".{html.name}.{os.getpid()}")
        temporary.write_text(page(found), encoding="utf-8")
        temporary.replace(html)
        out.print(f"{html}: open it in a browser", highlight=False)
    elif as_json:
        print(found.model_dump_json(indent=1))
    elif out.is_terminal:
        out.print(render(found))
    else:
        print(plain(found))


@app.command()
def runs() -> None:
    """All runs that you may see, the newest last."""
    with connect() as gateway:
        found = gateway.runs()
    table = Table("run", "status", "stage", "level", "core", "by", "request", box=None)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in found:
        by, request = escape(one.asked_by or "-"), escape(one.requirement[:60])
        table.add_row(one.run_id, one.status, one.stage or "-", one.level, one.core, by, request)
    out.print(table if found else 'No run yet. Start one: m3builder run "..."')
    for one in found:
        if one.question:
            out.print(f"{one.run_id} asks: {one.question} (m3builder answer {one.run_id})", markup=False)


@app.command()
def answer(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", show_default=False)] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", show_default=False)] = None,
) -> None:
    """Answer the question that a run waits for; without VALUE show it."""
    with connect() as gateway:
        if key and value:
            out.print(f"{run_id}: {gateway.answer(run_id, key, value)}")
            return
        question = gateway.question(run_id)
    if question is None:
        out.print(f"{run_id} asks nothing just now.")
    else:
        print(f"{run_id} asks for {question.key}:\n{questions.whole(run_id, question, out.width)}")


@app.command()
def cancel(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """End a run; a training job is stopped first."""
    with connect() as gateway:
        out.print(f"{run_id}: {gateway.cancel(run_id)}")


@app.command()
def fetch(run_id: Annotated[str, typer.Argument(metavar="RUN")], folder: Annotated[Path, typer.Argument()]) -> None:
    """Put package/, record.json and summary.txt of a run into a new folder."""
    if fetch_run(run_id, folder):
        out.print(
            f"{folder}/package: m3builder predict {folder}/package INPUT --output DIR checks it and runs it alone"
        )
    else:
        out.print(f"{folder}: the run made no package; summary.txt and record.json tell why")
        raise typer.Exit(1)


@app.command()
def record(run_id: Annotated[str, typer.Argument(metavar="RUN")], file: Annotated[Path, typer.Argument()]) -> None:
    """Write a run's turns to a file that the core `scripted:FILE` replays."""
    with connect() as gateway:
        whole(gateway, f"/runs/{run_id}/transcript", file, "transcript")


@app.command()
def rules(run_id: Annotated[str, typer.Argument(metavar="RUN")], file: Annotated[Path, typer.Argument()]) -> None:
    """Write the rules by which a run's cases were found to a YAML file: what a person approves with its split."""
    with connect() as gateway:
        whole(gateway, f"/runs/{run_id}/artifacts/rules", file, "rules")


@app.command()
def replay(file: Annotated[Path, typer.Argument()]) -> None:
    """Play a recorded run again, and name where reality went another way; the exit code is 1 where it did."""
    from services.command import replay as again  # the bus takes long to import

    settings = known(Settings())
    with connect() as gateway:
        run_id = again.replay(settings, again.recorded_request(file))
        out.print(f"run {run_id}")
        code = 0
        try:
            _follow(gateway, run_id)
        except typer.Exit as ended:
            code = ended.exit_code
    if code != DETACHED:
        found = again.diverged(settings, file, run_id)
        for one in found:
            print(f"diverged at {one}")
        print("" if found else "Every tool answered as it is recorded.")
        code = code or int(bool(found))
    raise typer.Exit(code)


def _follow(gateway: Gateway, run_id: str) -> None:
    def died(names: list[str]) -> None:
        out.print(f"[red]{', '.join(names)} has died[/]; `m3builder up` starts it again, `m3builder logs` says why")

    try:
        with guard(Home(Settings().home.absolute()), died):
            view = live.follow(gateway.follow(run_id), out, asking.asker(gateway, out))
    except KeyboardInterrupt:
        out.print(f"\ndetached; the run goes on: m3builder watch {run_id}")
        raise typer.Exit(DETACHED) from None
    out.print()
    _tell(view.events)
    if view.finished is None or view.finished.end != "succeeded":
        raise typer.Exit(1)


def _tell(events: Sequence[tuple[int, Event]]) -> None:
    print(summary(events, min(out.width, 110) if out.is_terminal else 110))
    print(questions.waiting(events, out.width), end="")


def _budget(text: str, train_seconds: float | None) -> Budget:
    """`name=amount` with commas between, as the fields of Budget."""
    given: dict[str, Any] = {"train_seconds": train_seconds}
    given |= {name.strip(): amount for name, _, amount in (part.partition("=") for part in text.split(",") if part)}
    try:
        return Budget.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--budget: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def _fail(error: Exception, code: int) -> NoReturn:
    err.print(f"[red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
