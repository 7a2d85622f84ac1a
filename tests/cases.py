"""Facts of a run about its data, built for tests that begin behind them: rules, lock, and cases in a real store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.contracts.base import AgentName, Event, Ref
from shared.contracts.cases import Coverage
from shared.contracts.data import DatasetFacts, DatasetLocked, DatasetPrepared, IndexRow, LeakageReport, StoredCase
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.store import Store

MEDIA = {".png": "image/png", ".tif": "image/tiff", ".nii.gz": "application/x-nifti"}
NOWHERE = Ref(bucket="work", key="k", sha256="0" * 64, size=1)


def coverage(**fields: Any) -> Coverage:
    given: dict[str, Any] = {
        "task": "diagnosis", "dimensions": 3, "cases": 12, "files": 14, "used": 12, "patients": 12,
        "grouping": "stated", "grouping_from": "column patient", "counts": {"well": 6, "ill": 6},
        "label_names": ("ill", "well"), "left_out": {"damaged file: copy it again": 2},
    }  # fmt: skip
    return Coverage(**(given | fields))


def dataset_facts(**fields: Any) -> DatasetFacts:
    given: dict[str, Any] = {
        "task": "diagnosis", "dimensions": 3, "label_names": ("ill", "well"), "grouping": "stated",
        "grouping_from": "column patient", "split_from": "made", "left_out": {"damaged file: copy it again": 2},
    }  # fmt: skip
    return DatasetFacts(**(given | fields))


def prepared(run_id: str, cause: Event | str | None, **fields: Any) -> DatasetPrepared:
    given: dict[str, Any] = {"rules": NOWHERE, "coverage": coverage()}
    return DatasetPrepared.make(run_id=run_id, sender="data_engineer", cause=cause, **(given | fields))


def lock_fields(**fields: Any) -> dict[str, Any]:
    """Of a lock of 9 training, 1 validation and 2 test cases unless said otherwise."""
    given: dict[str, Any] = {
        "rules_sha256": NOWHERE.sha256, "sealed": NOWHERE, "manifest_sha256": "1" * 64, "view": NOWHERE,
        "leakage": LeakageReport(checks={"same_patient": 0}), "locks": 1, "facts": dataset_facts(),
        "counts": {"train": {"ill": 5, "well": 4}, "val": {"well": 1}, "test": {"ill": 1, "well": 1}},
        "patients": {"train": 9, "val": 1, "test": 2},
    }  # fmt: skip
    return given | fields


def locked(run_id: str, cause: Event | str | None, **fields: Any) -> DatasetLocked:
    return DatasetLocked.make(run_id=run_id, sender="scorer", cause=cause, **lock_fields(**fields))


def begun(run_id: str, card: Mapping[str, Any] | None = None, **plan: Any) -> tuple[RunRequested, TaskPlanned]:
    """The first two facts of a run: what was asked for, and a plan with what else is said of it and of its card."""
    given: dict[str, Any] = {
        "task": "diagnosis", "dataset_id": "d", "reason": "r", "dimensions": 2, "modality": "CT", "metric": "auc_macro",
    }  # fmt: skip
    fields = given | plan
    named = DataCard(**{"dataset_id": fields["dataset_id"], "name": "d", "description": "d"} | dict(card or {}))
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x")
    planned = TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=TaskPlan(**fields), card=named)
    return asked, planned


def told_until(run_id: str, role: AgentName, view: Ref = NOWHERE) -> list[Event]:
    """The facts of a run after which `role` holds the baton."""
    asked, planned = begun(run_id, dimensions=3)
    found = prepared(run_id, planned)
    sealed = locked(run_id, found, view=view)
    module = AssembledModule(template="diagnosis", model="m", loss="l", input_shape=(1, 8, 8, 8))
    assembled = ModuleAssembled.make(
        run_id=run_id,
        sender="module_architect",
        cause=sealed,
        module=module,
        batch_shapes={},
        workspace_sha256="2" * 64,
    )
    until = {"task_manager": 1, "data_engineer": 2, "module_architect": 4, "model_trainer": 5}
    return [asked, planned, found, sealed, assembled][: until[role]]


def row(name: str, *files: str, split: str = "train", **fields: Any) -> IndexRow:
    return IndexRow(sample_id=name, patient=f"p_{name}", files=files or (f"{name}/image.png",), split=split, **fields)


def store_cases(store: Store, folder: Path, rows: Sequence[IndexRow], masks: bool = False) -> tuple[StoredCase, ...]:
    """The files of each row below `folder`, in the bucket that cases lie in."""

    def put(name: str) -> Ref:
        media = next(media for suffix, media in MEDIA.items() if name.endswith(suffix))
        return store.put_file("cases", folder / name, media)

    return tuple(
        StoredCase(
            sample_id=one.sample_id,
            images=tuple(map(put, one.files)),
            mask=put(one.target) if masks and one.target else None,
        )
        for one in rows
    )


def write_files(folder: Path, contents: Mapping[str, str]) -> None:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
