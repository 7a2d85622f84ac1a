"""Runs of the benchmark, from the sentence to the score: tasks x cores x rounds on an embedded system of its own.

All cards are registered, with the distractors; of the tasks that are run the data are there. A round is a seed of the
replicas and one of each task's requests. A question is answered as by a person who knows which dataset is meant and
takes the proposed answer to everything else; what was asked stands in the result.
"""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from m3bench import cards, replicas, results
from m3bench.results import UNSERVED, Part, Result, Setting
from m3bench.tasks import Task, card_of, unserved
from services.gateway.client import Gateway
from services.gateway.trace_model import Trace
from shared.contracts.base import Event
from shared.contracts.events import decode_event
from shared.contracts.questions import QuestionAsked
from shared.contracts.runs import Budget, RunFinished, Switch
from shared.contracts.state import RunState, fold
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.settings import Settings

ACTIONS = 100
"""Of a run at most, as in the paper (section 3.2)."""
ASKED = "needs_answer"


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where."""

    folder: Path
    """New or of an earlier call: holds the system's home and the data."""
    results: Path
    tasks: Sequence[Task]
    cores: Sequence[str]
    rounds: int
    size: str = "tiny"
    layout: str = "distributed"
    train_seconds: float = 90.0
    without: tuple[Switch, ...] = ()
    unserved: bool = False
    real: Path | None = None
    """Folder with real datasets, each in a folder of its card's id."""
    parallel: int = 1

    def settings_of(self, number: int) -> list[tuple[Setting, Task | None, str]]:
        """Those of a round, with their task and request."""
        found: list[tuple[Setting, Task | None, str]] = []
        for core in self.cores:
            for task in self.tasks:
                real = bool(self.real and (self.real / task.card).is_dir())
                request = task.requests[number % len(task.requests)]
                found.append((self._setting(task.name, core, number, real), task, request))
            if self.unserved:
                for place, request in enumerate(unserved()):
                    found.append((self._setting(f"{UNSERVED} {place + 1}", core, number, False), None, request))
        return found

    def _setting(self, task: str, core: str, number: int, real: bool) -> Setting:
        return Setting(
            task=task, core=core, round=number, size=self.size, layout=self.layout, real=real,
            train_seconds=self.train_seconds, without=self.without,
        )  # fmt: skip


def run(plan: Plan, tell: Callable[[Result], None]) -> None:
    """Run what the results do not have yet; each result is written, and told, when its run has ended.

    Raises UserError, before anything is started, for a file of results that cannot be read. What was interrupted is
    run again by the next call.
    """
    data = plan.folder.absolute() / "data"
    done = {result.setting for result in results.read(plan.results)}
    rounds = [[one for one in plan.settings_of(number) if one[0] not in done] for number in range(plan.rounds)]
    if not any(rounds):
        return
    data.mkdir(parents=True, exist_ok=True)
    roots = (data, plan.real.absolute()) if plan.real else (data,)
    home = plan.folder.absolute() / "home"
    # Runs at once train at once and share the cores: threads that wait for each other's are several times slower.
    os.environ.setdefault("M3_TRAIN_JOBS", str(plan.parallel))
    os.environ.setdefault("M3_SANDBOX_CPU_THREADS", str(min(2, max(1, (os.cpu_count() or 1) // plan.parallel))))
    try:
        system = up(Settings(home=home), roots)
        with Gateway(system.settings) as gateway:
            for path in cards.distractors():
                gateway.add_dataset(path.read_text(encoding="utf-8"), here=False)
        for number, todo in enumerate(rounds):
            if not todo:
                continue
            folders = {task.card: _data(plan, task, number, data) for task in plan.tasks}
            with Gateway(system.settings) as gateway:
                for task in plan.tasks:
                    gateway.add_dataset(card_of(task), folders[task.card])
            with ThreadPoolExecutor(plan.parallel) as pool:
                for result in pool.map(lambda one: _one(system.settings, *one), todo):
                    results.append(plan.results, result)
                    tell(result)
            shutil.rmtree(data / f"round-{number}", ignore_errors=True)
    finally:
        down(Home(home))


def _data(plan: Plan, task: Task, number: int, data: Path) -> Path:
    """The folder of a task's dataset in a round; a replica is made where the real one is not there."""
    if plan.real and (plan.real / task.card).is_dir():
        return (plan.real / task.card).absolute()
    folder = data / f"round-{number}" / task.card
    if not folder.exists():
        place_data(task, folder, plan.size, plan.layout, number)
    return folder


def place_data(task: Task, folder: Path, size: str, layout: str, seed: int) -> None:
    """Make the replica of a task, open to the runner's user as an operator's data would be."""
    replicas.make(task.card, folder, size=size, seed=seed, layout=layout)
    for path in (folder, *folder.rglob("*"), folder.parent):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def _one(settings: Settings, setting: Setting, task: Task | None, request: str) -> Result:
    began = time.monotonic()
    with Gateway(settings) as gateway:
        budget = Budget(actions=ACTIONS, train_seconds=setting.train_seconds)
        run_id = gateway.request_run(
            request, core=setting.core, budget=budget, seed=setting.round, without=setting.without
        )
        events, asked = followed(gateway, run_id, task.card if task else None)
        trace = gateway.trace(run_id)
    state = fold(run_id, enumerate(events, 1))
    return result_of(setting, task, request, state, trace, asked, time.monotonic() - began)


def followed(
    gateway: Gateway, run_id: str, dataset: str | None, until: type[Event] = RunFinished
) -> tuple[list[Event], tuple[str, ...]]:
    """The events of a run up to the first of the kind `until`, or its end, and what was asked. `dataset` is the answer
    where the question is which one; without one such a question ends the run."""
    events: list[Event] = []
    asked = []
    for item in gateway.follow(run_id):
        if not item.kind[0].isupper():
            continue
        event = decode_event(item.data.encode())
        events.append(event)
        if isinstance(event, until):
            break
        if isinstance(event, QuestionAsked):
            question = event.question
            asked.append(f"{question.key}: {', '.join(question.values)}"[:200])
            if question.wants == "dataset" and dataset not in question.values:
                gateway.cancel(run_id, "none of the datasets offered is meant")
            elif question.wants == "dataset":
                gateway.answer(run_id, question.key, str(dataset))
            elif question.default or question.values:
                gateway.answer(run_id, question.key, question.default or question.values[0])
            else:
                gateway.cancel(run_id, "nobody is there to answer")
    return events, tuple(asked)


def result_of(
    setting: Setting, task: Task | None, request: str, state: RunState, trace: Trace, asked: tuple[str, ...],
    seconds: float,
) -> Result:  # fmt: skip
    end = state.finished.end if state.finished else state.status
    taken = state.planned.plan.dataset_id if state.planned else ""
    right = taken == task.card if task else not taken and (bool(asked) or end in ("infeasible", "not_supported", ASKED))
    scored, metric = state.scored, state.scored.metric if state.scored else None
    bars = {} if task is None else task.real if setting.real else task.replicas.get(setting.size, {})
    if metric and metric.name != bars.get("metric"):
        bars = {}  # what was measured is of another metric
    measured = bars.get("measured", {})
    return Result(
        setting=setting,
        kind=task.kind if task else None,
        request=request,
        dataset=taken,
        right=right,
        asked=asked,
        end=end,
        level=state.finished.level if state.finished else "none",
        metric=metric.name if metric else "",
        value=metric.value if metric else None,
        low=metric.low if metric else None,
        high=metric.high if metric else None,
        patients=metric.patients if metric else 0,
        floor=bars.get("floor") if metric else None,
        no_image=measured.get("no_image"),
        greys=measured.get("greys"),
        network=measured.get("network"),
        failed_gates=tuple(gate.name for gate in scored.gates if not gate.passed) if scored else (),
        reason=_reason(state),
        parts=_parts(state, trace, right),
        usd=state.spent.usd,
        seconds=round(seconds, 1),
        commit=commit(),
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        at=datetime.now(UTC),
    )


def _reason(state: RunState) -> str:
    """Why a run ended without a model, or what its model lacks to be useful."""
    if state.scored and state.scored.level in ("ran", "valid"):
        return "; ".join(state.scored.why)
    return state.finished.reason if state.finished and state.finished.end != "succeeded" else ""


def _parts(state: RunState, trace: Trace, right: bool) -> dict[str, Part]:
    done: dict[str, bool] = {
        "task_manager": right,
        "data_engineer": state.locked is not None,
        "module_architect": state.assembled is not None,
        "model_trainer": state.trained is not None,
    }
    iterations: dict[str, int] = {}
    work = [(one.sender, one) for one in trace.handoffs] + [(one.role, one) for one in trace.open]
    for role, one in work:
        failed = sum(any(call.ok is False for call in turn.calls) for turn in one.turns)
        failed += sum(job.outcome not in ("ok", "queued", "running") for job in one.jobs if job.asked_by == role)
        iterations[role] = iterations.get(role, 0) + failed
    return {
        share.role: Part(
            done=done[share.role],
            turns=share.turns,
            actions=share.actions,
            iterations=iterations.get(share.role, 0),
            tokens=share.tokens,
            estimated=share.estimated,
        )
        for share in trace.roles
        if share.role in done
    }


def commit() -> str:
    """Of the code that ran, with a mark where it has changed since; empty where this is no checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
