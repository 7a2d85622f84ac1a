"""A task of the benchmark for any other system: a workspace with a prompt, and the score of the package that it leaves.

The work is divided where the test set is sealed: the Task Manager and the Data Engineer of an embedded system take the
dataset in, the scorer locks it, and the other system gets what Module Architect and Model Trainer would get: the
training view, the templates and the library. What it leaves is scored by the same scorer, under the same lock. Several
systems get the same sealed cases where one export is made like another.
"""

import asyncio
import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from m3bench.results import Result, Setting
from m3bench.runs import One, commit, followed, machine, place_data, result_of
from m3bench.tasks import Task, card_of, find
from services.gateway.client import Gateway
from services.tool_runner.mounts import library, templates
from services.tool_runner.seeds import environment_of
from services.tool_runner.views import materialise_view, read_view, write_build_seed
from shared.bus import Bus
from shared.contracts.base import Ref, Service
from shared.contracts.data import DatasetLocked
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import Budget, RunFinished
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished
from shared.embedded.home import Home
from shared.embedded.system import System, down, up
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store
from shared.training.package import FITTED

NOT_STARTED: tuple[Service, ...] = ("module_architect", "model_trainer")
"""Their work is the other system's."""
SEALED, EXPORTED, SCORED = ".m3bench", "exported.json", "scored"
"""What lies beside a workspace ends so; there: what was exported, and the system that scored it."""
PROMPT = Path(__file__).with_name("prompt.md")


def export(task: Task, folder: Path, size: str, layout: str, seed: int, train_seconds: float) -> None:
    """Write the workspace to `folder`, which is new, and what is sealed to `<folder>.m3bench` beside it.

    Raises UserError when either is there, or the dataset could not be locked.
    """
    folder, beside = _new(folder)
    data = beside / "data" / task.card
    place_data(task, data, size, layout, seed)
    setting = Setting(
        task=task.name, core="", round=seed, size=size, layout=layout, train_seconds=train_seconds
    )  # fmt: skip
    request = task.requests[seed % len(task.requests)]
    system = _up(beside / "home", beside)
    try:
        with Gateway(system.settings) as gateway:
            dataset = gateway.add_dataset(card_of(task), data)["dataset_ids"][0]
            budget = Budget(train_seconds=train_seconds)
            run_id = gateway.request_run(request, budget=budget, dataset=dataset, seed=seed)
            events, _ = followed(gateway, run_id, dataset, task.structures, until=DatasetLocked)
        state = fold(run_id, enumerate(events, 1))
        if state.locked is None:
            raise UserError(f"{task.name} was not locked: {state.finished.reason if state.finished else state.status}")
        told = {"run_id": run_id, "setting": setting.model_dump(mode="json"), "request": request}
        (beside / EXPORTED).write_text(json.dumps(told) + "\n", encoding="utf-8")
        asyncio.run(_write(folder, system, state, request))
    finally:
        down(system.home)


def export_like(other: Path, folder: Path, task: Task) -> None:
    """Write the workspace of the export `other` once more, for another system on the same sealed cases. What was done
    in `other` since is not in it.

    Raises UserError where `folder` is there, or `other` is no export of this task.
    """
    given, told = _told(other)
    if told["setting"]["task"] != task.name:
        raise UserError(f"{other} is an export of {told['setting']['task']}, not of {task.name}")
    folder, beside = _new(folder)
    beside.mkdir()
    for name in ("data", "home"):
        _copy(given / name, beside / name)
    shutil.copy(given / EXPORTED, beside)
    system = _up(beside / "home", beside)
    try:
        asyncio.run(_write(folder, system, asyncio.run(_state(system, told["run_id"])), told["request"]))
    finally:
        down(system.home)


def _copy(source: Path, folder: Path) -> None:
    """Without sockets of a system that is down, and without what is its runner's, which is made anew."""

    def left(there: str, names: list[str]) -> list[str]:
        runner = Home(Path(there)).runner.name if Path(there) == source else None
        return [name for name in names if name == runner or (Path(there) / name).is_socket()]

    shutil.copytree(source, folder, symlinks=True, ignore=left)


def _new(folder: Path) -> tuple[Path, Path]:
    """A folder that is not there yet, and what is sealed of it."""
    folder = folder.absolute()
    beside = folder.with_name(folder.name + SEALED)
    for place in (folder, beside):
        if place.exists():
            raise UserError(f"{place} is there already; name a new folder")
    return folder, beside


def _told(folder: Path) -> tuple[Path, dict[str, Any]]:
    """What is sealed of an export, and what is known of it."""
    beside = folder.absolute().with_name(folder.absolute().name + SEALED)
    try:
        return beside, json.loads((beside / EXPORTED).read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{beside} does not hold what `m3bench export` sealed; name the folder that it wrote") from None


def score(folder: Path, name: str, ended: bool = False) -> Result:
    """Score `<folder>/package`, or what a template's last fit left beside it, as the work of the system `name`. Once: a
    run has one score.

    `ended`: the system has stopped, so a folder without a package is a result, too. Raises UserError for such a folder
    otherwise, and for one that `export` did not write.
    """
    folder, began = folder.absolute(), time.monotonic()
    last, (beside, told) = folder / FITTED, _told(folder)
    package = last if (last / "predict.py").is_file() else folder / "package"
    setting = Setting.model_validate(told["setting"] | {"core": name})
    if not (package / "predict.py").is_file():
        reason = f"{package} holds no predict.py"
        if not ended:
            raise UserError(f"{reason}; once the system has stopped without one, --no-package puts that on record")
        return _nothing(setting, told["request"], reason)
    home = beside / SCORED
    if home.exists():
        raise UserError("this task has been scored; a run has one score, so export the task again")
    # What was sealed stays as it was, for exports like this one.
    _copy(beside / "home", home)
    system = _up(home, beside)
    try:
        asyncio.run(_played(system, told["run_id"], package))
        with Gateway(system.settings) as gateway:
            events, _ = followed(gateway, told["run_id"], None, until=RunFinished)
            trace = gateway.trace(told["run_id"])
    except BaseException:
        down(system.home)
        shutil.rmtree(home)  # what has no score may be scored again
        raise
    down(system.home)
    state = fold(told["run_id"], enumerate(events, 1))
    found = result_of(One(setting, find(setting.task), told["request"]), state, trace, (), time.monotonic() - began)
    return found.model_copy(update={"parts": {}})


def _nothing(setting: Setting, request: str, reason: str) -> Result:
    task = find(setting.task)
    return Result(
        setting=setting, kind=task.kind, request=request, dataset=task.card, right=True, end="no_package", level="none",
        floor=task.replicas[setting.size].get("floor"), reason=reason, seconds=0.0, commit=commit(), machine=machine(),
        at=datetime.now(UTC),
    )  # fmt: skip


def _up(home: Path, beside: Path) -> System:
    return up(Settings(home=home), (beside / "data",), leave_out=NOT_STARTED)


async def _state(system: System, run_id: str) -> RunState:
    bus = await Bus.connect(system.settings, "gateway")
    try:
        return await bus.state(run_id)
    finally:
        await bus.close()


async def _write(whole: Path, system: System, state: RunState, request: str) -> None:
    """The workspace, at its place once it is whole."""
    assert state.locked is not None and state.planned is not None
    folder = whole.with_name(f".{whole.name}.part")
    store, home = Store.connect(system.settings), system.home.root
    folder.mkdir()
    view = await materialise_view(state.locked.view, store, home)
    shutil.copytree(view, folder / "data")
    write_build_seed(read_view(state.locked.view, store), folder)
    plan = state.planned.plan
    for name, value in (("plan", plan.model_dump(mode="json")), ("environment", environment_of(system.settings))):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    shutil.copytree(templates(home), folder / "templates")
    shutil.copytree(library(home), folder / "library")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    text = PROMPT.read_text(encoding="utf-8")
    seconds = state.budget.train_seconds or 0
    facts = {"REQUEST": request, "TASK": plan.task, "METRIC": plan.metric, "SECONDS": f"{seconds:.0f}"}
    for name, fact in facts.items():
        text = text.replace("{" + name + "}", fact)
    (folder / "PROMPT.md").write_text(text, encoding="utf-8")
    folder.rename(whole)


async def _played(system: System, run_id: str, package: Path) -> None:
    """Say in the builders' place that the package is what was trained. No isolation is claimed for that."""
    store = Store.connect(system.settings)
    ref: Ref = await asyncio.to_thread(store.put_folder, "packages", package)
    bus = await Bus.connect(system.settings, "gateway")
    try:
        state = await bus.state(run_id)
        assert state.locked is not None
        run: dict[str, Any] = {"run_id": run_id}
        module = AssembledModule(template="another system", input_shape=(1, 1, 1))
        assembled = ModuleAssembled.make(
            **run,
            sender="module_architect",
            cause=state.locked,
            module=module,
            batch_shapes={},
            workspace_sha256="0" * 64,
        )
        job: dict[str, Any] = {
            **run,
            "sender": "tool_runner",
            "cause": assembled,
            "job_id": "elsewhere",
            "job": "train",
        }
        made = {"asked_by": "model_trainer", "outcome": "ok", "outputs": {"package": ref}}
        trained = TrainingFinished.make(
            **run, sender="model_trainer", cause=assembled, package=ref, validation={}, attempts=1
        )
        for event in (assembled, JobStarted.make(**job), JobFinished.make(**job, **made), trained):
            await bus.append(event)
    finally:
        await bus.close()
