"""Pack and predict jobs of a segmentation, by the real runner in the real sandbox: which masks are taken."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from services.tool_runner import predictions
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import CaseList
from shared.contracts.training import JobSpec
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, row, store_cases
from tests.runner.jobs import run_jobs, runner_folder

PROBE = Path(predictions.__file__).with_name("probes") / "read_predictions.py"

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
        names = os.listdir(os.path.dirname(path))
        case = {"input": path, "error": json.dumps([len(names), *{name[:5] + name[-7:] for name in names}])}
    elif kind == 8:
        continue
    elif kind == 9:
        case["mask"] = 17
    elif kind == 10:
        case["mask"] = "masks/\\ud800.nii.gz"
    elif kind == 11:
        case["mask"] = "/etc/passwd"
    elif kind == 12:
        (out / mask).write_bytes((out / mask).read_bytes()[:-20])
    elif kind == 13:
        # Zeros without end behind a header of 8 x 8 pixels, and one that asks for more than there is.
        import struct, zlib
        packer = zlib.compressobj(1)
        zeros = b"".join(packer.compress(bytes(1 << 20)) for _ in range(500)) + packer.flush()
        parts = [(b"IHDR", struct.pack(">IIBBBBB", 1 << 17, 1 << 17, 8, 0, 0, 0, 0)), (b"IDAT", zeros), (b"IEND", b"")]
        data = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
        case["mask"] += ".png"
        (out / case["mask"]).write_bytes(b"\\x89PNG\\r\\n\\x1a\\n" + data)
    elif kind == 14:
        np.save(out / "objects.npy", np.full(scan.shape, None))
        case["score"] = "objects.npy"
    elif kind == 15:
        import gzip
        with gzip.open(out / mask, "wb", 1) as file:
            file.write(nib.Nifti1Image(np.zeros((2, 2, 2), np.uint8), None).to_bytes()[:40])
            for _ in range(1000):
                file.write(bytes(1 << 20))
    elif kind == 16 and os.fork() == 0:
        # What is left behind exchanges the file while it is read.
        os.setsid()
        nib.save(nib.Nifti1Image(np.full(scan.shape, 6, np.uint8), scan.affine), out / "other.nii.gz")
        while True:
            os.link(out / "other.nii.gz", out / "next.nii.gz")
            os.replace(out / "next.nii.gz", out / mask)
            shutil.copy(out / "other.nii.gz", out / mask)
    elif kind == 17:
        import gzip
        raw = bytearray(nib.Nifti1Image(np.zeros((2, 2, 2), np.uint8), None).to_bytes()[:352])
        raw[40:56] = np.array([3, 1000, 1000, 1500, 1, 1, 1, 1], "<i2").tobytes()
        with gzip.open(out / mask, "wb", 1) as file:
            file.write(bytes(raw))
            for _ in range(1500):
                file.write(bytes(10**6))
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
    12: "cannot be read",
    13: "cannot be read",
    15: "cannot be read",
    17: "need more than 724 MB of memory",
}
"""What the package does in the case of that number -> what is said of it."""
SCANS = 18
MEMORY = 1024
"""Megabytes of the sandbox."""


def save(path: Path, value: int, dtype: type = np.int16) -> None:
    nib.save(nib.Nifti1Image(np.full((4, 5, 6), value, dtype), np.diag([1.0, 1.0, 2.0, 1.0])), path)


@pytest.fixture
async def planned(settings: Settings, bus: Bus, tmp_path: Path) -> tuple[Settings, Store, str]:
    """A run with a segmentation planned, and a test scan for each game."""
    data = tmp_path / "data"
    data.mkdir()
    for number in range(SCANS):
        save(data / f"scan{number}.nii.gz", number)
    for path in (data, *data.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055)
    known = settings.model_copy(update={"data_roots": (data,), "sandbox_memory_mb": MEMORY})
    runner_folder(known, tmp_path)
    run_id = new_run_id()
    for event in begun(run_id, {"path": str(data)}, task="organ_segmentation", dimensions=3, metric="dice"):
        await bus.append(event)
    store = Store.connect(known)
    await asyncio.to_thread(store.ensure_buckets)
    return known, store, run_id


async def job(bus: Bus, settings: Settings, run_id: str, kind: str, name: str, **inputs: Ref) -> dict[str, Ref]:
    """Run it in a process of its own; its outputs."""
    spec = JobSpec(job_id=name, run_id=run_id, kind=kind, asked_by="scorer", caused_by="x", inputs=inputs)
    assert await run_jobs(settings, [spec]) < 600, "megabytes: the runner itself unpacks nothing"
    finished = (await bus.state(run_id)).jobs_done[name]
    assert finished.outcome == "ok", finished.summary
    assert finished.isolation in ("bwrap", "landlock")
    return finished.outputs


async def test_masks_are_collected_by_predict(planned: tuple[Settings, Store, str], bus: Bus, tmp_path: Path) -> None:
    settings, store, run_id = planned
    rows = [row(f"s{number}", f"scan{number}.nii.gz", split="test") for number in range(SCANS)]
    given = await asyncio.to_thread(store_cases, store, tmp_path / "data", rows)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "predict.py").write_text(PREDICT)
    package = store.put_folder("packages", tmp_path / "package")
    samples = store.put_bytes("sealed", CaseList(samples=given).model_dump_json().encode())
    outputs = await job(bus, settings, run_id, "predict", "predict-1", package=package, samples=samples)
    result = json.loads(store.get_bytes(outputs["predictions"]))
    assert (result["task"], result["labels"]) == ("organ_segmentation", ["spleen"])
    assert result["label_values"] == {"spleen": 28}
    assert set(result) == {"task", "labels", "label_values", "cases", "seconds"}
    cases = result["cases"]
    assert set(cases) == {f"s{number}" for number in range(SCANS)}
    taken = {case for case, answer in cases.items() if "mask" in answer}
    assert taken - {"s16"} == {"s0", "s14"}
    assert "no real numbers" in cases["s14"]["score_error"] and "score" not in cases["s14"]
    unreadable = {case for case, answer in cases.items() if answer.get("unreadable")}
    assert unreadable - {"s16"} == {"s6", "s12", "s13", "s15"}
    ref = Ref.model_validate(cases["s0"]["mask"])
    assert (ref.bucket, cases["s0"]["suffix"]) == ("packages", ".nii.gz")
    (tmp_path / "mask.nii.gz").write_bytes(store.get_bytes(ref))
    assert (np.asarray(nib.load(tmp_path / "mask.nii.gz").dataobj) == 28).all()
    if "mask" in cases["s16"]:
        swapped = nib.Nifti1Image.from_bytes(gzip.decompress(store.get_bytes(Ref.model_validate(cases["s16"]["mask"]))))
        assert len(np.unique(swapped.dataobj)) == 1, "of one file or the other"
    for number, said in REFUSED.items():
        assert said in cases[f"s{number}"]["error"], (number, cases[f"s{number}"])
    assert json.loads(cases["s7"]["error"]) == [SCANS, "case_.nii.gz"]

    # A result folder that is a link into the package's own working folder is no result folder.
    made = '(out / "masks").mkdir(parents=True)'
    assert made in PREDICT
    linked = PREDICT.replace(made, 'os.makedirs("real/masks"); os.symlink("real", out)')
    (tmp_path / "package" / "predict.py").write_text(linked)
    package = store.put_folder("packages", tmp_path / "package")
    outputs = await job(bus, settings, run_id, "predict", "predict-2", package=package, samples=samples)
    result = json.loads(store.get_bytes(outputs["predictions"]))
    assert {answer["error"] for answer in result["cases"].values()} == {"no prediction was returned"}


def test_a_reader_that_is_killed_costs_its_case_alone(tmp_path: Path) -> None:
    """By its seconds, by its memory, and by what the machine does when that is short."""
    (result := tmp_path / "out" / "result").mkdir(parents=True)
    (work := tmp_path / "work").mkdir()
    save(result / "good.nii.gz", 3, np.uint8)
    grid = np.random.default_rng(0).integers(0, 3, (600, 600, 400)).astype(np.uint8)
    nib.save(nib.Nifti1Image(grid, np.eye(4)), result / "slow.nii.gz")
    np.save(result / "fine.npy", np.full((4, 5, 6), 0.5, np.float32))
    given = {"a": "good", "slow": "slow", "b": "good"}
    cases = [{"input": name, "mask": f"{mask}.nii.gz", "score": "fine.npy"} for name, mask in given.items()]
    (result / "predictions.json").write_text(json.dumps({"cases": cases}))

    def read(seconds: int, megabytes: int, kill: bool = False) -> dict[str, dict[str, Any]]:
        with subprocess.Popen(
            [sys.executable, str(PROBE), str(1 << 20), str(seconds), str(megabytes)], cwd=work, text=True,
            env=os.environ | {"M3_OUT": str(tmp_path / "out"), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as program:  # fmt: skip
            assert program.stdin and program.stdout
            program.stdin.write(json.dumps(list(given)))
            program.stdin.close()
            lines = []
            for line in program.stdout:
                lines.append(json.loads(line))
                if kill and lines[-1].get("input") == "a":
                    _kill_child(program.pid, work)
        assert program.returncode == 0
        return {line["input"]: line for line in lines[1:]}

    for said, told in {
        "take more than 1 s": read(1, 4000),
        "need more than 180 MB": read(300, 180),
        "need more than 4000 MB": read(300, 4000, kill=True),
    }.items():
        assert list(told) == list(given)
        assert said in told["slow"]["error"] and "unreadable" not in told["slow"] and "mask" not in told["slow"]
        assert all(told[name]["mask"] == ".nii.gz" and told[name]["score"] == ".nii.gz" for name in ("a", "b"))
    assert sorted(path.name for path in work.iterdir()) == [
        f"{name}.{what}.nii.gz" for name in ("a", "b") for what in ("mask", "score")
    ]


def _kill_child(parent: int, work: Path) -> None:
    """Once it writes the file of the slow case."""
    while not (work / "slow.mask.nii.gz").exists():
        time.sleep(0.005)
    [child] = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
