"""A run from request to score whose test samples lie in a real store, packed as a runner packs them. Nothing was
trained: what a package would have answered is told."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from services.tool_runner.packs import pack_samples
from shared.bus import Bus
from shared.contracts.base import SEGMENTATIONS, Ref, TaskKind, new_run_id
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexMeta, IndexRow, LeakageReport
from shared.contracts.runs import DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import RunScored
from shared.contracts.training import JobFinished, TrainingFinished
from shared.store import Store


async def told(
    bus: Bus,
    store: Store,
    data: Path,
    rows: Sequence[IndexRow],
    *,
    task: TaskKind,
    dimensions: Literal[2, 3],
    values: Mapping[str, int] | None = None,
    labels: Sequence[str] = (),
    answers: Mapping[str, Any] | None = None,
    cases: Sequence[Mapping[str, Any]] = (),
    scored: bool = True,
) -> str:
    """The run's id. `answers` and `cases` are those of the predict job and of the scorer's table."""
    values = dict(values or {})
    run_id = new_run_id()
    kept = store.put_bytes("work", "\n".join(row.model_dump_json() for row in rows).encode())
    packs = pack_samples(data, rows, store, lambda row: "sealed", with_targets=task in SEGMENTATIONS)
    packed = store.put_bytes("sealed", packs.model_dump_json().encode())
    predictions = store.put_bytes("packages", json.dumps({"cases": dict(answers or {})}).encode())
    details = store.put_bytes("packages", json.dumps({"labels": list(labels), "cases": list(cases)}).encode())
    known: dict[str, Any] = {"run_id": run_id}
    asked = RunRequested.make(**known, sender="gateway", cause=None, requirement="find it")
    plan = TaskPlan(task=task, dataset_id="d", reason="r", dimensions=dimensions, modality="CT", metric="dice")
    card = DataCard(dataset_id="d", name="d", description="d", path=str(data))
    planned = TaskPlanned.make(**known, sender="task_manager", cause=asked, plan=plan, card=card)
    meta = IndexMeta(
        task=task, dimensions=dimensions, label_names=tuple(values or labels), label_values=values, grouping="stated",
        grouping_from="ids", split_from="dataset",
    )  # fmt: skip
    shared: dict[str, Any] = {"counts": {"test": {"all": len(rows)}}, "patients": {"test": len(rows)}}
    prepared = DatasetPrepared.make(**known, sender="data_engineer", cause=planned, index=kept, meta=meta, **shared)
    locked = DatasetLocked.make(
        **known, sender="scorer", cause=prepared, index_sha256=kept.sha256, manifest_sha256="1" * 64, view=kept,
        leakage=LeakageReport(checks={}), locks=1, **shared,
    )  # fmt: skip
    trained = TrainingFinished.make(
        **known, sender="model_trainer", cause=locked, package=kept, validation={}, attempts=1
    )
    score = RunScored.make(
        **known, sender="scorer", cause=trained, metric=None, controls=(), gates=(), level="valid", locks=1,
        scorings=1, details=details,
    )  # fmt: skip
    end = RunFinished.make(**known, sender="task_manager", cause=score, end="succeeded", level="valid")
    facts = [
        asked, planned, prepared, _ended(run_id, "pack", prepared.event_id, packs=packed), locked, trained,
        _ended(run_id, "predict", trained.event_id, predictions=predictions), *([score, end] if scored else []),
    ]  # fmt: skip
    for fact in facts:
        await bus.append(fact)
    return run_id


def _ended(run_id: str, job: Any, cause: str, **outputs: Ref) -> JobFinished:
    return JobFinished.make(
        run_id=run_id, sender="tool_runner", cause=cause, salt=job, job_id=f"{job}-1", job=job, asked_by="scorer",
        outcome="ok", outputs=outputs,
    )  # fmt: skip
