"""Runs of the benchmark, from the sentence to the score: tasks x cores x rounds on an embedded system of its own.

All cards are registered, with the distractors; of the tasks that are run the data are there. A round is a seed of the
replicas and one of each task's requests. A question is answered as by a person who knows which dataset and structures
are meant and takes the proposed answer to everything else, but grants no more than the budget; what was asked stands in
the result.
"""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from m3bench import cards, replicas, results
from m3bench.results import LACKING, UNSERVED, Part, Result, Setting
from m3bench.tasks import Task, card_of, lacking, unserved
from services.gateway.client import Gateway
from services.gateway.trace_model import Trace
from shared.contracts.base import Event
from shared.contracts.events import decode_event
from shared.contracts.questions import END, Question, QuestionAsked
from shared.contracts.runs import Budget, End, RunFinished, Switch
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

    def runs_of(self, number: int) -> list["One"]:
        """Those of a round."""
        found: list[One] = []
        without = {one.task: one.files for one in lacking()} if self.unserved else {}
        for core in self.cores:
            for task in self.tasks:
                real = bool(self.real and (self.real / task.card).is_dir())
                request = task.requests[number % len(task.requests)]
                found.append(One(self._setting(task.name, core, number, real), task, request))
                if files := without.get(task.name):
                    setting = self._setting(f"{LACKING} {task.name}", core, number, False)
                    found.append(One(setting, task, request, files))
            if self.unserved:
                for place, request in enumerate(unserved()):
                    found.append(One(self._setting(f"{UNSERVED} {place + 1}", core, number, False), None, request))
        return found

    def _setting(self, task: str, core: str, number: int, real: bool) -> Setting:
        return Setting(
            task=task, core=core, round=number, size=self.size, layout=self.layout, real=real,
            train_seconds=self.train_seconds, without=self.without,
        )  # fmt: skip


@dataclass(frozen=True)
class One:
    """A run that is to be made."""

    setting: Setting
    task: Task | None
    """None where no dataset serves the request."""
    request: str
    taken_out: tuple[str, ...] = ()
    """Patterns of names that the dataset lacks."""


def run(plan: Plan, tell: Callable[[Result], None]) -> list[str]:
    """Run what the results do not have yet; each result is written, and told, when its run has ended.

    Returns a line for each run of which no result was had. These, and what was interrupted, are run again by the next
    call. Raises UserError, before anything is started, for a file of results that cannot be read.
    """
    data = plan.folder.absolute() / "data"
    done = {result.setting for result in results.read(plan.results)}
    rounds = [[one for one in plan.runs_of(number) if one.setting not in done] for number in range(plan.rounds)]
    if not any(rounds):
        return []
    data.mkdir(parents=True, exist_ok=True)
    roots = (data, plan.real.absolute()) if plan.real else (data,)
    home = plan.folder.absolute() / "home"
    lost: list[str] = []
    # Runs at once train at once and share the cores: threads that wait for each other's are several times slower.
    os.environ.setdefault("M3_TRAIN_JOBS", str(plan.parallel))
    os.environ.setdefault("M3_SANDBOX_CPU_THREADS", str(min(2, max(1, (os.cpu_count() or 1) // plan.parallel))))
    try:
        system = up(Settings(home=home), roots)
        with Gateway(system.settings) as gateway:
            for one in gateway.runs():
                if one.status not in get_args(End):
                    gateway.cancel(one.run_id, "its benchmark was interrupted; it is run again")
            here = {task.card for task in plan.tasks}
            for path in [*cards.distractors(), *(path for path in cards.paths() if path.stem not in here)]:
                gateway.add_dataset(path.read_text(encoding="utf-8"), here=False)
        for number, todo in enumerate(rounds):
            if not todo:
                continue
            folders = {task.card: _data(plan, task, number, data) for task in plan.tasks}
            with Gateway(system.settings) as gateway:
                for task in plan.tasks:
                    gateway.add_dataset(card_of(task), folders[task.card])
            whole = [one for one in todo if not one.taken_out]
            lost += _side_by_side(plan, system.settings, whole, tell)
            # Once the runs on all of it have ended, since its card leads to one folder at a time.
            less = [one for one in todo if one.taken_out]
            with Gateway(system.settings) as gateway:
                for task, files in {one.task.card: (one.task, one.taken_out) for one in less if one.task}.values():
                    folder = data / f"round-{number}" / f"{task.card}-{LACKING}"
                    shutil.rmtree(folder, ignore_errors=True)  # of a call that was interrupted
                    place_data(task, folder, plan.size, plan.layout, number)
                    take_out(folder, files)
                    gateway.add_dataset(card_of(task), folder)
            lost += _side_by_side(plan, system.settings, less, tell)
            shutil.rmtree(data / f"round-{number}", ignore_errors=True)
    finally:
        down(Home(home))
    return lost


def _side_by_side(plan: Plan, settings: Settings, todo: Sequence[One], tell: Callable[[Result], None]) -> Iterator[str]:
    """Run them, as many at once as the plan says; a line for each that raised in place of a result."""
    with ThreadPoolExecutor(plan.parallel) as pool:
        begun = {pool.submit(_one, settings, one): one.setting for one in todo}
        for ended in as_completed(begun):
            if error := ended.exception():
                yield f"{begun[ended].task}, round {begun[ended].round}: {type(error).__name__}: {error}"
            else:
                results.append(plan.results, ended.result())
                tell(ended.result())


def take_out(folder: Path, patterns: Sequence[str]) -> None:
    """Remove files and folders whose names fit one of the patterns. Raises ValueError where none does."""
    found = [path for pattern in patterns for path in folder.rglob(pattern)]
    if not found:
        raise ValueError(f"{folder} has no {' and no '.join(patterns)}")
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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


def _one(settings: Settings, one: One) -> Result:
    began, setting, task, request = time.monotonic(), one.setting, one.task, one.request
    with Gateway(settings) as gateway:
        budget = Budget(actions=ACTIONS, train_seconds=setting.train_seconds)
        run_id = gateway.request_run(
            request, core=setting.core, budget=budget, seed=setting.round, without=setting.without
        )
        events, asked = followed(gateway, run_id, task.card if task else None, task.structures if task else ())
        trace = gateway.trace(run_id)
    state = fold(run_id, enumerate(events, 1))
    return result_of(one, state, trace, asked, time.monotonic() - began)


def followed(
    gateway: Gateway,
    run_id: str,
    dataset: str | None,
    meant: Sequence[str] = (),
    until: type[Event] = RunFinished,
) -> tuple[list[Event], tuple[str, ...]]:
    """The events of a run up to the first of the kind `until`, or its end, and what was asked. `dataset` is the answer
    where the question is which one; without one such a question ends the run. `meant` are structures."""
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
            elif END in question.values:
                gateway.answer(run_id, question.key, END)
            elif question.default or question.values:
                gateway.answer(run_id, question.key, answer_to(question, meant))
            else:
                gateway.cancel(run_id, "nobody is there to answer")
    return events, tuple(asked)


def answer_to(question: Question, meant: Sequence[str]) -> str:
    """The option with most words of the structures that are meant, the fewest others first; else what is proposed."""
    wanted = {word for name in meant for word in re.findall(r"[a-z]+", name.lower())}

    def fits(value: str) -> tuple[int, int]:
        words = set(re.findall(r"[a-z]+", value.lower()))
        return len(words & wanted), -len(words - wanted)

    best = max(question.values, key=fits, default="")
    proposed = question.default or question.values[0]
    return best if question.default is None and fits(best)[0] > fits(proposed)[0] else proposed


def result_of(one: One, state: RunState, trace: Trace, asked: tuple[str, ...], seconds: float) -> Result:
    setting, task, request = one.setting, None if one.taken_out else one.task, one.request
    end = state.finished.end if state.finished else state.status
    taken = state.planned.plan.dataset_id if state.planned else ""
    said_so = end in ("infeasible", "not_supported", ASKED)
    if task:
        right = taken == task.card
    elif one.taken_out:
        right = said_so or (bool(asked) and not state.locked)
    else:
        right = not taken and (said_so or bool(asked))
    scored, metric = state.scored, state.scored.metric if state.scored else None
    bars = {} if task is None else task.real if setting.real else task.replicas.get(setting.size, {})
    figures = [one for one in (metric, *(scored.others if scored else ())) if one]
    reached = next((one.value for one in figures if one.name == bars.get("metric")), None)
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
        reached=reached,
        floor=bars.get("floor"),
        no_image=measured.get("no_image"),
        greys=measured.get("greys"),
        network=measured.get("network"),
        failed_gates=tuple(gate.name for gate in scored.gates if not gate.passed) if scored else (),
        reason=_reason(state),
        parts=_parts(state, trace, right and not any(one.startswith("dataset:") for one in asked)),
        usd=state.spent.usd,
        seconds=round(seconds, 1),
        commit=commit(),
        machine=machine(),
        at=datetime.now(UTC),
    )


def _reason(state: RunState) -> str:
    """Why a run ended without a model, or what its model lacks to be useful."""
    if state.scored and state.scored.level in ("ran", "valid"):
        return "; ".join(state.scored.why)
    return state.finished.reason if state.finished and state.finished.end != "succeeded" else ""


def _parts(state: RunState, trace: Trace, unaided: bool) -> dict[str, Part]:
    done: dict[str, bool] = {
        "task_manager": unaided,
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
            iterations=1 + iterations.get(share.role, 0),
            tokens=share.tokens,
            estimated=share.estimated,
        )
        for share in trace.roles
        if share.role in done
    }


def machine() -> str:
    """Cores, memory and GPUs, by the programs that the runner asks, too."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    said = [f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.machine()}"]
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
        said += sorted(set(told.splitlines()))
    return ", ".join(said)


def commit() -> str:
    """Of the code that ran, with a mark where it has changed since; empty where this is no checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
