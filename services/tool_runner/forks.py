"""Copies of the build workspace in which jobs run side by side: what `try_configs` and `repackage` prepare.

A copy is made here from what the store holds of the workspace, by changing its manifest; no code of a core runs, and
the workspace stays as it is. What a copy begins with is kept under a name of its own, which only runners write: so a
job says nothing of where it works but that it has a copy, and one that was prepared under an earlier lock finds none.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, ValidationError

from services.tool_runner.paths import SCRIPTS, Roots
from services.tool_runner.tools import Execute
from services.tool_runner.tools.syntax import MAX_YAML, find_problem
from services.tool_runner.tools.yaml_keys import as_config, keys_of, near, set_keys, value_of
from services.tool_runner.training import RESULTS
from shared.contracts.base import Ref
from shared.contracts.data import IndexRow
from shared.contracts.starting import Repackage, Try, TryConfigs
from shared.contracts.state import RunState
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.training import JobFinished, Tried, for_training
from shared.errors import ToolBroken, ToolRefused
from shared.store import FileEntry, FolderManifest, Store
from shared.store.paths import UnsafePath

if TYPE_CHECKING:
    from shared.bus import Bus

PREPARED = (TryConfigs.tool, Repackage.tool)
CONFIG, NOTE = "config.yaml", "try.json"
LEFT_BEHIND = (*RESULTS, "progress.jsonl", NOTE)
"""Of a workspace, what a copy does not begin with: it says how another training ended."""
CHECKPOINTS = "checkpoints"
INDEX = "train_index.jsonl"
MAX_FILE = 200_000
"""Characters of a file that a try brings."""
MAX_INDEX = 64 << 20


def fork_area(area: str, job_id: str) -> str:
    """Name of the copy of the workspace `area` in which the job works."""
    return f"{area}-{job_id}"


async def seed_of(bus: Bus, run_id: str, area: str) -> Ref | None:
    """What a workspace held when the first training in it, or its making, began."""
    return await bus.workspace_head(run_id, f"{area}-seed")


async def keep_seed(bus: Bus, run_id: str, area: str, head: Ref) -> None:
    await bus.set_workspace_head(run_id, f"{area}-seed", head)


class Forks:
    """Prepares the copies that one call asks for."""

    def __init__(
        self, call: ToolCall, state: RunState, area: str, bus: Bus, store: Store, roots: Roots, execute: Execute
    ) -> None:
        self.call, self.state, self.area = call, state, area
        self.bus, self.store, self.roots, self.execute = bus, store, roots, execute

    async def prepared(self) -> ToolResult:
        """`data["jobs"]` are the ids of the jobs that may be queued. What is wrong is said, and nothing prepared."""
        try:
            if self.call.tool == Repackage.tool:
                made = [await self._repackaged(Repackage.model_validate(dict(self.call.arguments)))]
            else:
                made = await self._tries(TryConfigs.model_validate(dict(self.call.arguments)))
        except (ToolRefused, ValidationError, UnsafePath) as refused:
            return self._result(False, f"Nothing was started. {refused}")
        jobs = []
        for number, (manifest, tried) in enumerate(made):
            jobs.append(job_id := f"{self.call.call_id}-{number}")
            note = await self._stored(tried.model_dump_json())
            copy = FolderManifest(files={**manifest.files, NOTE: note}, links=manifest.links)
            head = await asyncio.to_thread(self.store.put_manifest, "work", copy)
            await keep_seed(self.bus, self.call.run_id, fork_area(self.area, job_id), head)
        lines = [f"{tried.name}: {tried.change}" for _, tried in made]
        return self._result(
            True, "\n".join([f"queued {len(jobs)}; you will be woken when all have ended", *lines]), jobs
        )

    def _result(self, ok: bool, summary: str, jobs: list[str] | None = None) -> ToolResult:
        data: dict[str, JsonValue] = {"jobs": list(jobs)} if jobs else {}
        return ToolResult(call_id=self.call.call_id, tool=self.call.tool, ok=ok, summary=summary, data=data)

    async def _tries(self, asked: TryConfigs) -> list[tuple[FolderManifest, Tried]]:
        names = [one.name for one in asked.tries]
        tried = [done.tried for done in self.state.trainings if done.tried]
        known = {name for one in tried for name in (one.name, one.fold_of)}
        if again := sorted({name for name in names if names.count(name) > 1 or name in known}):
            raise ToolRefused(f"There is a try of the name {again[0]} already; give each another name.")
        made = [await self._try(one, asked.seconds, asked.folds > 1) for one in asked.tries]
        if asked.folds == 1:
            return made
        if continued := [one.name for one in asked.tries if one.continues]:
            raise ToolRefused(f"{continued[0]} goes on from a training that has seen the patients of other folds.")
        return [fold for manifest, one in made for fold in await self._folds(manifest, one, asked.folds)]

    async def _folds(self, manifest: FolderManifest, tried: Tried, folds: int) -> list[tuple[FolderManifest, Tried]]:
        """The copy so many times, each with other patients held out."""
        entry = manifest.files.get(INDEX)
        if entry is None or entry.ref.size > MAX_INDEX:
            raise ToolRefused(f"The workspace has no {INDEX} of at most {MAX_INDEX:,} bytes to divide.")
        text = (await asyncio.to_thread(self.store.get_bytes, entry.ref)).decode("utf-8", "replace")
        made = []
        for number, index in enumerate(divided(text, folds), 1):
            files = {**manifest.files, INDEX: await self._stored(index)}
            update = {"name": f"{tried.name}-fold{number}", "fold_of": tried.name}
            made.append((FolderManifest(files=files, links=manifest.links), tried.model_copy(update=update)))
        return made

    async def _try(self, asked: Try, seconds: float, compared: bool) -> tuple[FolderManifest, Tried]:
        before = self._training(asked.continues) if asked.continues else None
        base = await self._workspace(before)
        files, told, spent = dict(base.files), [], 0.0
        for path, text in asked.files.items():
            name = await self._checked(asked.name, path, text)
            told.append(f"{name} {'changed' if name in files else 'added'}")
            files[name] = await self._stored(text)
        if before:
            spent = await self._seconds_in(files)
            told.insert(0, f"goes on from {before.tried.name if before.tried else before.job_id}")
        text, name = (await self._read(files[CONFIG])) if CONFIG in files else "", f"{asked.name}: {CONFIG}"
        config, changes = as_config(name, text), dict(asked.changes)
        for key, value in changes.items():
            told.append(f"{key} {_short(standing(config, key, name))} -> {_short(value)}")
        training = config.get("training") or {}
        if "train_seconds" in training:
            # The time of a job is bounded by its own seconds.
            changes.setdefault("training.train_seconds", int(for_training(seconds) + spent))
        if "whole_seconds" in training and (whole := self.state.budget.train_seconds):
            changes.setdefault("training.whole_seconds", for_training(whole))
        if compared and "last_fit" in training:  # whose weights nothing measures
            changes.setdefault("training.last_fit", 0)
        files[CONFIG] = await self._stored(set_keys(name, text, changes))
        manifest = FolderManifest(files=files, links=base.links)
        manifest.check()
        change = "; ".join(told) or "the workspace as it is"
        job = before.job_id if before else None
        return manifest, Tried(name=asked.name, change=change[:1000], continues=job, seconds=seconds)

    async def _repackaged(self, asked: Repackage) -> tuple[FolderManifest, Tried]:
        before = self._training(asked.job)
        if before.outcome != "ok" or "package" not in before.outputs:
            raise ToolRefused(f"The training {asked.job} ended as {before.outcome} and left no package.")
        label = before.tried.name if before.tried else "the training"
        tried = Tried(
            name=f"repackaged-{'-'.join(self.call.call_id.split('-')[-2:])}",
            change=f"{label} with the code of the workspace",
            continues=before.job_id,
            repackaged=True,
        )
        base = await self._workspace(None)
        if "predict.py" not in base.files:
            raise ToolRefused("The workspace has no predict.py, the program that a package is run with.")
        return base, tried

    def _training(self, name: str) -> JobFinished:
        if found := self.state.training(name):
            if found.tried and found.tried.fold_of:
                raise ToolRefused(f"{name} is a fold, trained on other patients: it can only be compared.")
            return found
        known = [done.tried.name if done.tried else done.job_id for done in self.state.trainings]
        raise ToolRefused(
            f"{name} is no training of this run under its present split. There are: {', '.join(known) or 'none yet'}."
        )

    async def _workspace(self, before: JobFinished | None) -> FolderManifest:
        """Without results; with checkpoints only where `before` is gone on with."""
        area = fork_area(self.area, before.job_id) if before and before.tried else self.area
        head = await self.bus.workspace_head(self.call.run_id, area)
        if head is None:
            raise ToolRefused("The workspace holds nothing yet: copy a template into it first.")
        found = await asyncio.to_thread(self.store.get_manifest, head)
        gone = LEFT_BEHIND if before else (*LEFT_BEHIND, CHECKPOINTS)
        files = {path: entry for path, entry in found.files.items() if path.split("/")[0] not in gone}
        links = {path: to for path, to in found.links.items() if path.split("/")[0] not in gone}
        return FolderManifest(files=files, links=links)

    async def _checked(self, name: str, path: str, text: str) -> str:
        """The file's path in a manifest."""
        place = self.roots.locate(path, for_write=True)
        if not place.parts or place.parts[0] in (*LEFT_BEHIND, CHECKPOINTS, "cache"):
            raise ToolRefused(f"{name}: {path} is no file that a try may bring; trainings write there.")
        if len(text) > MAX_FILE:
            raise ToolRefused(f"{name}: {path} has more than {MAX_FILE:,} characters; write it into the workspace.")
        if problem := await find_problem(place.virtual, text, self.execute):
            raise ToolRefused(f"{name}: {problem}")
        return "/".join(place.parts)

    async def _seconds_in(self, files: Mapping[str, FileEntry]) -> float:
        """What the attempts so far have used, as the training library notes it beside its checkpoints."""
        notes = [
            entry for path, entry in files.items() if path.startswith(CHECKPOINTS) and Path(path).name == "run.json"
        ]
        for entry in notes[:1]:
            try:
                found = json.loads(await self._read(entry))["seconds"]
                return float(found) if 0 <= float(found) < 1e7 else 0.0
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return 0.0

    async def _read(self, entry: FileEntry) -> str:
        if entry.ref.size > MAX_YAML:
            raise ToolRefused(f"{CONFIG} has more than {MAX_YAML:,} bytes.")
        return (await asyncio.to_thread(self.store.get_bytes, entry.ref)).decode("utf-8", "replace")

    async def _stored(self, text: str) -> FileEntry:
        ref = await asyncio.to_thread(self.store.put_bytes, "work", text.encode("utf-8", "replace"))
        return FileEntry(ref=ref, mode=0o644)


async def read_note(store: Store, seed: Ref) -> Tried:
    """What the runner that made a copy wrote down of it."""
    manifest = await asyncio.to_thread(store.get_manifest, seed)
    if NOTE not in manifest.files:
        raise ToolBroken("a copy of the workspace says nothing of what was changed in it")
    return Tried.model_validate_json(await asyncio.to_thread(store.get_bytes, manifest.files[NOTE].ref))


def divided(index: str, folds: int) -> list[str]:
    """The index once a fold, with other patients held out: all patients of train and val are dealt out, those of a
    label one by one, so that each fold has some of each. Raises ToolRefused for an index that cannot be divided."""
    try:
        rows = [IndexRow.model_validate_json(line) for line in index.splitlines() if line.strip()]
    except ValidationError as error:
        raise ToolRefused(f"{INDEX} cannot be divided: {error.errors()[0]['msg']}") from None
    labels: dict[str, set[str]] = {}
    for row in rows:
        labels.setdefault(row.patient, set()).add(str(row.label))
    if len(labels) < 2 * folds:
        raise ToolRefused(f"{len(labels)} patients are too few for {folds} folds.")
    of_class = Counter(
        str(row.label) for row in {(r.patient, r.label): r for r in rows if isinstance(r.label, str)}.values()
    )
    if of_class and (rarest := min(of_class.items(), key=lambda one: one[1]))[1] < folds:
        raise ToolRefused(f"{rarest[0]} has {rarest[1]} patients: {rarest[1]} folds at most, so that each has one.")
    # Names of patients are random, and so is their order.
    order = sorted(labels, key=lambda patient: (sorted(labels[patient]), patient))
    fold_of = {patient: place % folds for place, patient in enumerate(order)}
    return [
        "".join(
            row.model_copy(update={"split": "val" if fold_of[row.patient] == fold else "train"}).model_dump_json()
            + "\n"
            for row in rows
        )
        for fold in range(folds)
    ]


def standing(config: Mapping[str, Any], key: str, name: str) -> object:
    """What a key of a configuration has. Raises ToolRefused for one that is not there, and for a section."""
    try:
        found = value_of(config, key)
    except KeyError:
        found = config
    if isinstance(found, dict):
        told = f"{name} has no key {key}.{near(config, key)}"
        raise ToolRefused(f"{told} One that only config.py knows is added to it first.")
    return found


def changed(store: Store, before: FolderManifest, after: FolderManifest) -> str:
    """What the workspace of a training differs by from that of the one before: keys of config.yaml, files. Blocks."""
    told, values = [], []
    for kept in (before, after):
        try:
            entry = kept.files[CONFIG]
            if entry.ref.size > MAX_YAML:
                raise ToolRefused("it is too long")
            config = as_config(CONFIG, store.get_bytes(entry.ref).decode("utf-8", "replace"))
        except (KeyError, ToolRefused):
            config = {}
        values.append({key: value_of(config, key) for key in keys_of(config)})
    for key in dict.fromkeys((*values[0], *values[1])):
        one, other = (known.get(key) for known in values)
        if one != other:
            told.append(f"{key} {_short(one)} -> {_short(other)}")
    old, new = ({path: e.ref.sha256 for path, e in kept.files.items() if _is_code(path)} for kept in (before, after))
    told += [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    return "; ".join(told)


def _is_code(path: str) -> bool:
    return path.endswith((".py", ".jsonl")) and path.split("/")[0] not in (*LEFT_BEHIND, CHECKPOINTS, SCRIPTS)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
