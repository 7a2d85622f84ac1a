"""A run while it goes: one live view on a terminal, plain lines anywhere else. Fed with the items of the feed."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from services.gateway import questions
from services.gateway.items import Item
from services.gateway.summary import duration, looked_again, one_metric, samples_in
from shared.contracts.base import Event
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.events import decode_event
from shared.contracts.modules import ModuleAssembled
from shared.contracts.questions import QuestionAnswered, QuestionAsked
from shared.contracts.runs import (
    DatasetAdded,
    Infeasible,
    RoleFailed,
    RunFinished,
    RunRequested,
    TaskPlanned,
    WorkReturned,
)
from shared.contracts.scoring import RunScored
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobFinished, JobProgress, JobStarted, TrainingFinished
from shared.contracts.transcript import Waiting


@dataclass
class RunView:
    """What is known of a run so far. `feed` it in order; `line` tells what is worth a line of its own."""

    width: int = 250
    events: list[tuple[int, Event]] = field(default_factory=list)
    state: RunState | None = None
    turns: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    tools: str = ""
    progress: JobProgress | None = None
    waits: str = ""
    """For the endpoint of a language model."""
    _epoch_told: tuple[str, int] = ("", -1)

    def feed(self, item: Item) -> str | None:
        if item.kind == "turn":
            return self._turn(json.loads(item.data))
        if item.kind == "waiting":
            waits = Waiting.model_validate_json(item.data)
            self.waits = str(waits)
            return f"{self._clock(waits.since)} {waits.role:<16} {waits}"
        if item.kind == "progress":
            return self._progress(JobProgress.model_validate_json(item.data))
        event = decode_event(item.data.encode())
        self.events.append((item.id or 0, event))
        self.state = fold(event.run_id, self.events[-1:], self.state)
        if isinstance(event, JobFinished):
            self.progress = None
        more = looked_again(self.state) if isinstance(event, TaskPlanned) else ""
        return f"{self._clock(event.at)} {event.sender:<16} {_told(event, self.width)}{more}"

    @property
    def holder(self) -> str:
        return (self.state.stage if self.state else None) or ""

    @property
    def finished(self) -> RunFinished | None:
        return self.state.finished if self.state else None

    def _turn(self, turn: dict[str, Any]) -> str:
        role = turn["role"]
        self.turns[role] = turn["number"]
        self.waits = ""
        self.actions[role] = self.actions.get(role, 0) + len(turn["calls"])
        self.tools = ", ".join(turn["calls"])
        return f"{self._clock(datetime.fromisoformat(turn['at']))} {role:<16} turn {turn['number']}: {self.tools}"

    def _progress(self, progress: JobProgress) -> str | None:
        self.progress = progress
        if progress.epoch is None:
            return None
        job, epoch = progress.job_id, int(progress.epoch)
        if job == self._epoch_told[0] and epoch <= self._epoch_told[1]:
            return None  # a feed that reconnects tells it again
        self._epoch_told = (job, epoch)
        return f"{'':>6} {'':<16} {progress_line(progress)}"

    def _clock(self, at: datetime) -> str:
        began = self.events[0][1].at if self.events else at
        seconds = max(0, int((at - began).total_seconds()))
        return f"{seconds // 60:>3}:{seconds % 60:02}"


def progress_line(progress: JobProgress) -> str:
    words = []
    if progress.epoch is not None:
        words.append(f"epoch {progress.epoch:g}" + (f"/{progress.epochs:g}" if progress.epochs else ""))
    elif progress.step is not None:
        words.append(f"step {progress.step}")
    if progress.loss is not None:
        words.append(f"loss {progress.loss:.3f}")
    if progress.metric is not None:
        words.append(f"{progress.metric_name or 'metric'} {progress.metric:.3f}")
    if progress.eta_seconds is not None:
        words.append(f"about {duration(progress.eta_seconds)} left")
    return ", ".join(words) or progress.text


def follow(
    items: Iterable[Item], console: Console | None = None, ask: Callable[[QuestionAsked], None] | None = None
) -> RunView:
    """Show a run until its items end; returns what was seen. Ctrl-C is the caller's to catch.

    `ask` is given each question after it was told, with the terminal to itself.
    """
    console = console or Console(file=sys.stdout)
    view = RunView(width=console.width)

    def show(item: Item) -> QuestionAsked | None:
        """The question that the item was, if it was one."""
        if line := view.feed(item):
            console.print(line, markup=False, highlight=False, soft_wrap=not console.is_terminal)
        asked = view.state.question if view.state and item.kind == QuestionAsked.__name__ else None
        if asked and not ask:
            console.print(questions.how(asked.run_id, asked.question), markup=False, highlight=False, soft_wrap=True)
        return asked

    if not console.is_terminal:
        for item in items:
            show(item)
        return view
    spinner, coming = Spinner("dots"), iter(items)
    while True:
        # One display from question to question: an interrupt while one starts again would end as an error of its own.
        with Live(console=console, refresh_per_second=8, transient=True, get_renderable=lambda: _render(view, spinner)):
            asked = next((one for item in coming if (one := show(item)) and ask), None)
        if asked is None or ask is None:
            return view
        ask(asked)


def _render(view: RunView, spinner: Spinner) -> RenderableType:
    state = view.state
    if state is None or state.finished:
        return Text("")
    role = view.holder or state.status
    seconds = max(0.0, time.time() - state.first_at)
    text = f" {role}"
    if role in view.turns:
        text += f"  turn {view.turns[role]}, {view.actions[role]} actions"
    if view.waits:
        text += f"  {view.waits}"
    elif view.tools and not view.progress:
        text += f"  [{view.tools}]"
    spinner.update(text=Text(f"{text}  {duration(seconds)}"))
    rows: list[RenderableType] = [spinner]
    progress = view.progress
    if progress and progress.epoch is not None and progress.epochs:
        table = Table.grid(padding=(0, 2))
        table.add_row(ProgressBar(total=progress.epochs, completed=progress.epoch, width=40), progress_line(progress))
        rows.append(table)
    elif progress:
        rows.append(Text(progress_line(progress)))
    return Group(*rows)


def _told(event: Event, width: int) -> str:
    match event:
        case RunRequested():
            return f"asked: {event.requirement}"
        case TaskPlanned():
            return f"planned: {event.plan.task} on {event.card.name}, metric {event.plan.metric}"
        case DatasetPrepared():
            found = event.coverage
            return f"found {found.cases} cases of {found.patients} patients ({found.grouping}: {found.grouping_from})"
        case DatasetLocked():
            return f"locked: {_sizes(event.counts)}; {event.patients.get('test', 0)} patients sealed"
        case ModuleAssembled():
            return f"assembled {event.module.model}, loss {event.module.loss}"
        case JobStarted():
            return f"started {event.job} (attempt {event.attempt}, isolation {event.isolation or 'unknown'})"
        case JobFinished():
            return f"{event.job} ended: {event.outcome} after {duration(event.seconds)}"
        case TrainingFinished():
            return f"trained in {duration(event.seconds)}, {event.attempts} attempt(s)"
        case RunScored():
            return f"scored: {one_metric(event.metric)}; level {event.level}"
        case QuestionAsked():
            return f"asks for {event.question.key}:\n{questions.told(event.question, width)}"
        case QuestionAnswered():
            return questions.answered(event)
        case DatasetAdded():
            return f"dataset {event.dataset_id} was added; the cards are looked at again"
        case Infeasible():
            return f"these data cannot support the request: {event.finding.reason}"
        case WorkReturned():
            return f"handed back to {event.target}: {event.reason}"
        case RoleFailed():
            return f"failed: {event.reason}"
        case RunFinished():
            return f"the run ended: {event.end}, level {event.level}"
        case _:
            return event.kind


def _sizes(counts: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{split} {samples_in(classes)}" for split, classes in counts.items())
