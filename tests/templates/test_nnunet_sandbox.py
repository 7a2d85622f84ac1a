"""A training and a prediction of nnU-Net as jobs of the real runner, in the real sandbox: its processes, shared memory,
home, environment and threads are those that a run has."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner.packs import pack_samples
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import DatasetLocked, IndexRow, LeakageReport, PackList, ViewManifest
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.training import JobFinished, JobSpec
from shared.settings import Settings
from shared.store import Store
from tests.templates import segbench
from tests.templates.conftest import ROOT

pytestmark = pytest.mark.timeout(1200)

DRIVER = ROOT / "tests/runner/job_driver.py"


def command() -> tuple[str, ...]:
    """With processes of its own to augment, which small machines are spared else."""
    small = {"epochs": 1, "iterations": 2, "memory_gb": 0.03, "features": 4, "workers": 2}
    config = {"engine": "nnunet", "nnunet": small, "training": {"train_seconds": None}}
    copy, write = 'cp -r "$M3_TEMPLATES"/anomaly_detection/. .', f"echo '{json.dumps(config)}' > config.yaml"
    return ("bash", "-c", f"{copy} && {write} && exec bash train.sh")


def rows_of(bench: segbench.SegBench) -> list[IndexRow]:
    """s5 is the test set."""
    fields = ("sample_id", "patient", "files", "target")
    return [
        IndexRow(**{key: row[key] for key in fields}, split="test" if row["sample_id"] == "s5" else row["split"])
        for row in bench.rows
    ]


async def begun(bus: Bus, store: Store, bench: segbench.SegBench) -> tuple[str, Ref]:
    """A run whose training may begin, and the samples to predict."""
    rows = rows_of(bench)

    def bucket(row: IndexRow) -> str:
        return "sealed" if row.split == "test" else "data"

    packs: PackList = await asyncio.to_thread(pack_samples, bench.data, rows, store, bucket, with_targets=True)
    seen = [row for row in rows if row.split != "test"]
    names = {row.sample_id for row in seen}
    view = ViewManifest(
        rows=tuple(seen), packs=tuple(pack for pack in packs.samples if pack.sample_id in names),
        label_names=tuple(bench.names), label_values=bench.values, task="anomaly_detection", dimensions=3,
    )  # fmt: skip
    sealed = PackList(samples=tuple(pack for pack in packs.samples if pack.sample_id not in names))
    kept = await asyncio.to_thread(store.put_bytes, "data", view.model_dump_json().encode())
    samples = await asyncio.to_thread(store.put_bytes, "sealed", sealed.model_dump_json().encode())
    run_id = new_run_id()
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="find bleedings")
    plan = TaskPlan(task="anomaly_detection", dataset_id="d", reason="r", dimensions=3, modality="MRI", metric="dice")
    card = DataCard(dataset_id="d", name="d", description="d")
    planned = TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card)
    locked = DatasetLocked.make(
        run_id=run_id, sender="scorer", cause=planned, index_sha256="i", manifest_sha256="m", view=kept,
        leakage=LeakageReport(checks={}), locks=1, counts={}, patients={}, label_values=bench.values,
    )  # fmt: skip
    for event in (asked, planned, locked):
        await bus.append(event)
    return run_id, samples


async def job(settings: Settings, bus: Bus, spec: JobSpec) -> JobFinished:
    fields = {"home", "nats_url", "s3_endpoint", "s3_access_key", "s3_bucket_prefix", "data_roots", "runner_uid"}
    given = settings.model_dump(mode="json", include=fields | {"isolation"})
    given["s3_secret_key"] = settings.s3_secret_key.get_secret_value()
    argv = [sys.executable, str(DRIVER), json.dumps(given), spec.model_dump_json()]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=600, check=False)
    if "no sandbox works here" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-3000:]
    return (await bus.state(spec.run_id)).jobs_done[spec.job_id]


@pytest.mark.parametrize("level", ["bwrap", "landlock"])
async def test_nnunet_trains_and_predicts_as_jobs(settings: Settings, bus: Bus, tmp_path: Path, level: Any) -> None:
    settings = settings.model_copy(update={"isolation": level})
    (tmp_path / "runner").mkdir()
    tmp_path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(tmp_path / "runner", settings.runner_uid, settings.runner_uid)
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    (tmp_path / "made").mkdir()
    bench = segbench.lesions(tmp_path / "made", 3)
    run_id, samples = await begun(bus, store, bench)
    shared: dict[str, Any] = {"run_id": run_id, "caused_by": "x"}
    train = JobSpec(
        job_id="train-1", kind="train", asked_by="model_trainer", seconds=500,
        command=command(), **shared,
    )  # fmt: skip
    trained = await job(settings, bus, train)
    assert trained.outcome == "ok" and trained.isolation == level, trained.summary
    assert trained.metrics["engine"] == "nnunet" and trained.metrics["samples"] == {"train": 5, "val": 2}
    if level == "landlock":  # one prediction is enough
        return
    inputs = {"package": trained.outputs["package"], "samples": samples}
    predict = JobSpec(job_id="predict-1", kind="predict", asked_by="scorer", inputs=inputs, **shared)
    predicted = await job(settings, bus, predict)
    assert predicted.outcome == "ok", predicted.summary
    found = json.loads(store.get_bytes(predicted.outputs["predictions"]))
    assert found["label_values"] == bench.values and set(found["cases"]) == {"s5"}
    assert found["cases"]["s5"]["suffix"] == ".nii.gz", found["cases"]
