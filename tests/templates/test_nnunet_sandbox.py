"""A training and a prediction of nnU-Net as jobs of the real runner, in the real sandbox: its processes, shared memory,
home, environment and threads are those that a run has."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import CaseList, ViewManifest
from shared.contracts.training import JobFinished, JobSpec
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, dataset_facts, locked, prepared, row, store_cases
from tests.runner.jobs import run_jobs, runner_folder
from tests.templates import segbench

pytestmark = pytest.mark.timeout(1200)


def command() -> tuple[str, ...]:
    """With processes of its own to augment, which small machines are spared else."""
    small = {"epochs": 1, "iterations": 2, "memory_gb": 0.03, "features": 4, "workers": 2}
    config = {**segbench.NNUNET_LESIONS, "nnunet": small, "training": {"train_seconds": None}}
    copy, write = 'cp -r "$M3_TEMPLATES"/nnunet/. .', f"echo '{json.dumps(config)}' > config.yaml"
    return ("bash", "-c", f"{copy} && {write} && exec bash train.sh")


async def trainable(bus: Bus, store: Store, bench: segbench.SegBench) -> tuple[str, Ref]:
    """A run whose training may begin, and the case to predict: s5."""
    rows = [
        row(one["sample_id"], *one["files"], split="test" if one["sample_id"] == "s5" else one["split"],
            target=one["target"])
        for one in bench.rows
    ]  # fmt: skip
    stored = await asyncio.to_thread(store_cases, store, bench.data, rows, masks=True)
    known = dataset_facts(
        task="anomaly_detection", label_names=tuple(bench.names), label_values=bench.values, dimensions=3
    )
    seen = [(one, case) for one, case in zip(rows, stored, strict=True) if one.split != "test"]
    view = ViewManifest(rows=tuple(one for one, _ in seen), stored=tuple(case for _, case in seen), facts=known)
    sealed = CaseList(samples=tuple(case for case in stored if case.sample_id == "s5"))
    kept = await asyncio.to_thread(store.put_bytes, "data", view.model_dump_json().encode())
    samples = await asyncio.to_thread(store.put_bytes, "sealed", sealed.model_dump_json().encode())
    run_id = new_run_id()
    asked, planned = begun(run_id, task="anomaly_detection", dimensions=3, modality="MRI", metric="dice")
    found = prepared(run_id, planned)
    for event in (asked, planned, found, locked(run_id, found, view=kept, facts=known)):
        await bus.append(event)
    return run_id, samples


async def job(settings: Settings, bus: Bus, spec: JobSpec) -> JobFinished:
    await run_jobs(settings, [spec], seconds=600)
    return (await bus.state(spec.run_id)).jobs_done[spec.job_id]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bwrap", "landlock"])
async def test_nnunet_trains_and_predicts_as_jobs(settings: Settings, bus: Bus, tmp_path: Path, level: Any) -> None:
    settings = settings.model_copy(update={"isolation": level})
    runner_folder(settings, tmp_path)
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    (tmp_path / "made").mkdir()
    bench = segbench.lesions(tmp_path / "made", 3)
    run_id, samples = await trainable(bus, store, bench)
    shared: dict[str, Any] = {"run_id": run_id, "caused_by": "x"}
    train = JobSpec(
        job_id="train-1", kind="train", asked_by="model_trainer", seconds=500,
        command=command(), **shared,
    )  # fmt: skip
    trained = await job(settings, bus, train)
    assert trained.outcome == "ok" and trained.isolation == level, trained.summary
    assert str(trained.metrics["network"]).startswith("nnU-Net")
    assert trained.metrics["samples"] == {
        "train": 5,
        "val": 2,
    }
    if level == "landlock":  # one prediction is enough
        return
    inputs = {"package": trained.outputs["package"], "samples": samples}
    predict = JobSpec(job_id="predict-1", kind="predict", asked_by="scorer", inputs=inputs, **shared)
    predicted = await job(settings, bus, predict)
    assert predicted.outcome == "ok", predicted.summary
    found = json.loads(store.get_bytes(predicted.outputs["predictions"]))
    assert found["label_values"] == bench.values and set(found["cases"]) == {"s5"}
    assert found["cases"]["s5"]["suffix"] == ".nii.gz", found["cases"]
