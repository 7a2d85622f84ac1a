"""Pack and predict jobs of a segmentation, by the real runner in the real sandbox: which masks are taken."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import IndexRow, PackList
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.training import JobSpec
from shared.settings import Settings
from shared.store import Store

DRIVER = Path(__file__).with_name("job_driver.py")

PREDICT = """
import json, os, pathlib, shutil, sys
import nibabel as nib, numpy as np

inputs, out = sys.argv[1:-2], pathlib.Path(sys.argv[-1])
(out / "masks").mkdir(parents=True)
os.symlink("masks", out / "door")
cases = [5, {"input": None}, {"input": "case_unknown.nii.gz", "mask": "masks/x.nii.gz"}]
for path in inputs:
    scan = nib.load(path)
    kind, name = int(scan.dataobj[0, 0, 0]), os.path.basename(path)
    mask = f"masks/{name}"
    good = nib.Nifti1Image(np.full(scan.shape, 28, np.uint8), scan.affine)
    nib.save(good, out / mask)
    case = {"input": path, "mask": mask}
    if kind == 1:
        os.symlink(name, out / "masks" / "soft.nii.gz")
        case["mask"] = "masks/soft.nii.gz"
    elif kind == 2:
        os.link(out / mask, out / "second.nii.gz")
    elif kind == 3:
        nib.save(good, out.parent / "outside.nii.gz")
        case["mask"] = "../outside.nii.gz"
    elif kind == 4:
        case["mask"] = f"door/{name}"
    elif kind == 5:
        os.remove(out / mask)
        os.mkfifo(out / mask)
    elif kind == 6:
        raw = bytearray(nib.Nifti1Image(np.zeros((2, 2, 2), np.uint8), None).to_bytes())
        raw[40:56] = np.array([3, 10000, 10000, 10000, 1, 1, 1, 1], "<i2").tobytes()
        import gzip
        (out / mask).write_bytes(gzip.compress(bytes(raw)))
    elif kind == 7:
        folder = os.path.dirname(path)
        case = {"input": path, "error": json.dumps(sorted(os.listdir(folder)))}
    elif kind == 8:
        continue
    elif kind == 9:
        case["mask"] = 17
    elif kind == 10:
        case["mask"] = "masks/\\ud800.nii.gz"
    elif kind == 11:
        case["mask"] = "/etc/passwd"
    cases.append(case)
values = {"spleen": 28, "x": 1.5}
(out / "predictions.json").write_text(json.dumps(
    {"task": "diagnosis", "labels": ["spleen", 3], "label_values": values, "cases": cases}))
"""
REFUSED = {
    1: "no regular file",
    2: "hard links",
    3: "no regular file",
    4: "no regular file",
    5: "no regular file",
    6: "promises 1000000000000 bytes",
    8: "no prediction was returned",
    9: "names no mask",
    10: "no text",
    11: ".nii.gz, .nii, .png",
}
"""What the package does in the case of that number -> what is said of it."""


def save(path: Path, value: int, dtype: type = np.int16) -> None:
    nib.save(nib.Nifti1Image(np.full((4, 5, 6), value, dtype), np.diag([1.0, 1.0, 2.0, 1.0])), path)


@pytest.fixture
async def planned(settings: Settings, bus: Bus, tmp_path: Path) -> tuple[Settings, Store, str]:
    """A run with a segmentation planned, on a dataset of twelve test scans and two for training."""
    data = tmp_path / "data"
    data.mkdir()
    for number in range(14):
        save(data / f"scan{number}.nii.gz", number)
        save(data / f"mask{number}.nii.gz", 28, np.uint8)
    (tmp_path / "runner").mkdir()
    for path in (tmp_path, *data.rglob("*"), data):
        path.chmod(path.stat().st_mode | 0o055)
    known = settings.model_copy(update={"data_roots": (data,)})
    if os.geteuid() == 0:
        os.chown(tmp_path / "runner", known.runner_uid, known.runner_uid)
    run_id = new_run_id()
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="segment the spleen")
    plan = TaskPlan(task="organ_segmentation", dataset_id="d", reason="r", dimensions=3, modality="CT", metric="dice")
    card = DataCard(dataset_id="d", name="d", description="d", path=str(data))
    await bus.append(asked)
    await bus.append(TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card))
    store = Store.connect(known)
    await asyncio.to_thread(store.ensure_buckets)
    return known, store, run_id


async def job(bus: Bus, settings: Settings, run_id: str, kind: str, name: str, **inputs: Ref) -> dict[str, Ref]:
    """Run it in a process of its own; its outputs."""
    spec = JobSpec(job_id=name, run_id=run_id, kind=kind, asked_by="scorer", caused_by="x", inputs=inputs)
    fields = ("home", "nats_url", "s3_endpoint", "s3_access_key", "s3_bucket_prefix", "data_roots", "runner_uid")
    given: dict[str, Any] = {name: value for name, value in settings.model_dump(mode="json").items() if name in fields}
    given["s3_secret_key"] = settings.s3_secret_key.get_secret_value()
    argv = [sys.executable, str(DRIVER), json.dumps(given), spec.model_dump_json()]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    finished = (await bus.state(run_id)).jobs_done[name]
    assert finished.outcome == "ok", finished.summary
    assert finished.isolation in ("bwrap", "landlock")
    return finished.outputs


async def test_masks_are_sealed_by_pack_and_collected_by_predict(
    planned: tuple[Settings, Store, str], bus: Bus, tmp_path: Path
) -> None:
    settings, store, run_id = planned
    rows = [
        IndexRow(
            sample_id=f"s{number}",
            patient=f"p{number}",
            target=f"mask{number}.nii.gz",
            files=(f"scan{number}.nii.gz",),
            split="test" if number < 12 else "train",
        )
        for number in range(14)
    ]
    index = store.put_bytes("work", "\n".join(row.model_dump_json() for row in rows).encode())
    outputs = await job(bus, settings, run_id, "pack", "pack-1", index=index)
    packs = PackList.model_validate_json(store.get_bytes(outputs["packs"])).samples
    assert [pack.files for pack in packs[:12]] == [("000.nii.gz",)] * 12
    assert {pack.target.bucket for pack in packs[:12] if pack.target} == {"sealed"}
    assert packs[12].files == ("scan12.nii.gz", "mask12.nii.gz") and packs[12].target is None

    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "predict.py").write_text(PREDICT)
    package = store.put_folder("packages", tmp_path / "package")
    images = tuple(pack.model_copy(update={"target": None}) for pack in packs[:12])
    samples = store.put_bytes("sealed", PackList(samples=images).model_dump_json().encode())
    outputs = await job(bus, settings, run_id, "predict", "predict-1", package=package, samples=samples)
    result = json.loads(store.get_bytes(outputs["predictions"]))
    assert (result["task"], result["labels"]) == ("organ_segmentation", ["spleen"])
    assert result["label_values"] == {"spleen": 28}
    assert set(result) == {"task", "labels", "label_values", "cases", "seconds"}
    cases = result["cases"]
    assert set(cases) == {f"s{number}" for number in range(12)}
    taken = {case for case, answer in cases.items() if "mask" in answer}
    assert taken == {"s0"}
    ref = Ref.model_validate(cases["s0"]["mask"])
    assert (ref.bucket, cases["s0"]["suffix"]) == ("packages", ".nii.gz")
    (tmp_path / "mask.nii.gz").write_bytes(store.get_bytes(ref))
    assert (np.asarray(nib.load(tmp_path / "mask.nii.gz").dataobj) == 28).all()
    for number, said in REFUSED.items():
        assert said in cases[f"s{number}"]["error"], (number, cases[f"s{number}"])
    seen = json.loads(cases["s7"]["error"] if cases["s7"]["error"].endswith("]") else "[]")
    assert len(seen) == 12 and all(name.startswith("case_") and name.endswith(".nii.gz") for name in seen)

    # A result folder that is a link into the package's own working folder is no result folder.
    made = '(out / "masks").mkdir(parents=True)'
    assert made in PREDICT
    linked = PREDICT.replace(made, 'os.makedirs("real/masks"); os.symlink("real", out)')
    (tmp_path / "package" / "predict.py").write_text(linked)
    package = store.put_folder("packages", tmp_path / "package")
    outputs = await job(bus, settings, run_id, "predict", "predict-2", package=package, samples=samples)
    result = json.loads(store.get_bytes(outputs["predictions"]))
    assert {answer["error"] for answer in result["cases"].values()} == {"no prediction was returned"}
