"""`m3builder top`: the whole system on one screen, again and again."""

import time
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from services.command.console import connect, out
from services.gateway.fleet_model import Fleet, QueueNow, RunNow
from services.gateway.summary import duration

app = typer.Typer()

QUIET = 300.0
"""Seconds of silence after which a run stands out."""
_COUNTS = ("waiting", "at work", "idle", "given up")


@app.command()
def top(
    once: Annotated[bool, typer.Option(help="One picture instead of a live one.")] = False,
    seconds: Annotated[float, typer.Option(min=0.5, help="Between two looks.")] = 2.0,
) -> None:
    """Runs, roles, queues and runners, live; the run that is silent for the longest first. Ctrl-C ends it."""
    with connect() as gateway:
        if once or not out.is_terminal:
            out.print(picture(gateway.fleet()))
            return
        with (
            suppress(KeyboardInterrupt),
            Live(picture(gateway.fleet()), console=out, screen=True, auto_refresh=False) as live,
        ):
            while True:
                time.sleep(seconds)
                live.update(picture(gateway.fleet()), refresh=True)


def picture(fleet: Fleet) -> RenderableType:
    waiting = sum(run.stage is None for run in fleet.runs)
    jobs = [(run, job) for run in fleet.runs for job in run.jobs]
    dead = sum(fleet.dead.values())
    head = (
        f"{fleet.at:%Y-%m-%d %H:%M:%S} UTC   runs {len(fleet.runs)} ({waiting} wait for a person)   jobs {len(jobs)}   "
        f"given up {dead}   streams {sum(fleet.streams.values()) / 1e6:.1f} MB"
    )
    runs = _table("run", "status", "stage", "age", "silent", "doing", right=("age", "silent"))
    for run in fleet.runs:
        quiet = run.stage is not None and run.silence > QUIET
        cells = (run.run_id, run.status, run.stage or "-", duration(run.age), duration(run.silence), _doing(run))
        runs.add_row(*map(Text, cells), style="yellow" if quiet else "")
    queues = _table("queue", "service", *_COUNTS, right=_COUNTS)
    for queue in fleet.queues:
        queues.add_row(*_queue(queue, fleet.dead.get(queue.name, 0)))
    runners = _table("runner", "job", "run", "attempt", "for", "isolation", right=("attempt", "for"))
    for run, job in jobs:
        held = (job.runner, job.kind, run.run_id, str(job.attempt), duration(job.seconds), job.isolation)
        runners.add_row(*map(Text, held))
    active = runs if fleet.runs else Text("No run is active.")
    return Group(Text(head, style="bold"), Text(""), active, Text(""), queues, *((Text(""), runners) if jobs else ()))


def _doing(run: RunNow) -> str:
    jobs = [" ".join(part for part in (job.kind, job.text) if part) for job in run.jobs]
    return "; ".join(part for part in (run.doing, *jobs) if part)


def _queue(queue: QueueNow, dead: int) -> tuple[Text, ...]:
    # Work that waits while nobody does: the service is away.
    alone = "red" if queue.pending and not queue.idle and not queue.taken else ""
    counts = (queue.pending, queue.taken, queue.idle)
    cells = [Text(text, style=alone) for text in (queue.name, queue.service, *map(str, counts))]
    return (*cells, Text(str(dead), style="red" if dead else ""))


def _table(*columns: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name != "doing")
    return table
