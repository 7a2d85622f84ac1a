"""A run from request to score whose test cases lie in a real store, as intake leaves them. Nothing was trained: what a
package would have answered is told."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from shared.bus import Bus
from shared.contracts.base import SEGMENTATIONS, Ref, TaskKind, new_run_id
from shared.contracts.data import IndexRow, SealedSplit
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import RunFinished
from shared.contracts.scoring import RunScored
from shared.contracts.training import JobFinished, TrainingFinished
from shared.store import Store
from tests.cases import begun, dataset_facts, locked, prepared, store_cases


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
    known_ = dataset_facts(task=task, dimensions=dimensions, label_names=tuple(values or labels), label_values=values)
    split = SealedSplit(
        rows=tuple(rows), stored=store_cases(store, data, rows, masks=task in SEGMENTATIONS), facts=known_, seed="00",
        keys=tuple(row.sample_id for row in rows),
    )  # fmt: skip
    sealed = store.put_bytes("sealed", split.model_dump_json().encode())
    predictions = store.put_bytes("packages", json.dumps({"cases": dict(answers or {})}).encode())
    details = store.put_bytes("packages", json.dumps({"labels": list(labels), "cases": list(cases)}).encode())
    known: dict[str, Any] = {"run_id": run_id}
    asked, planned = begun(run_id, {"path": str(data)}, task=task, dimensions=dimensions, metric="dice")
    found = prepared(run_id, planned, rules=kept)
    lock = locked(
        run_id, found, sealed=sealed, view=kept, facts=known_, counts={"test": {"all": len(rows)}},
        patients={"test": len(rows)},
    )  # fmt: skip
    module = AssembledModule(template="t", model="m", loss="l", input_shape=(1, 8, 8))
    assembled = ModuleAssembled.make(
        **known, sender="module_architect", cause=lock, module=module, batch_shapes={}, workspace_sha256="0" * 64
    )
    trained = TrainingFinished.make(
        **known, sender="model_trainer", cause=assembled, package=kept, validation={}, attempts=1
    )
    score = RunScored.make(
        **known, sender="scorer", cause=trained, metric=None, controls=(), gates=(), level="valid", locks=1,
        scorings=1, details=details,
    )  # fmt: skip
    end = RunFinished.make(**known, sender="task_manager", cause=score, end="succeeded", level="valid")
    facts = [
        asked, planned, found, lock, assembled, trained,
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
