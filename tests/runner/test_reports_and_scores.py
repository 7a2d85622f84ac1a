"""What the runner takes of generated reports, by the real runner in the real sandbox, and of score images."""

import asyncio
import json
import os
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from read_predictions import segmentation
from test_predict_masks import job, save

from services.tool_runner.masks import mask_result
from services.tool_runner.reports import report_result
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import CaseList
from shared.reporttext import MAX_CHARACTERS
from shared.scorebins import BINS
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, row, store_cases
from tests.runner.jobs import runner_folder

PREDICT = """
import json, os, pathlib, sys

inputs, out = sys.argv[1:-2], pathlib.Path(sys.argv[-1])
out.mkdir(parents=True)
cases = [{"input": "case_unknown.png", "report": "x"}]
for path in inputs:
    pixel = pathlib.Path(path).read_bytes()
    cases.append({"input": path, "report": f"{len(pixel)} bytes, among {sorted(os.listdir(os.path.dirname(path)))}"})
cases[-1] = {"input": inputs[-1], "error": "no text for this one"}
(out / "predictions.json").write_text(json.dumps({"task": "diagnosis", "cases": cases}))
"""


async def test_a_package_writes_reports_and_sees_none(settings: Settings, bus: Bus, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(5):
        (data / f"{number}.png").write_bytes(b"\x89PNG" + bytes(number))
    for path in (data, *data.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055)
    known = settings.model_copy(update={"data_roots": (data,)})
    runner_folder(known, tmp_path)
    run_id = new_run_id()
    for event in begun(run_id, {"path": str(data)}, task="report_generation", modality="X-ray", metric="rouge_l"):
        await bus.append(event)
    store = Store.connect(known)
    await asyncio.to_thread(store.ensure_buckets)

    rows = [row(f"s{number}", f"{number}.png", split="test") for number in range(3)]
    cases = await asyncio.to_thread(store_cases, store, data, rows)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "predict.py").write_text(PREDICT)
    package = store.put_folder("packages", tmp_path / "package")
    samples = store.put_bytes("sealed", CaseList(samples=cases).model_dump_json().encode())
    outputs = await job(bus, known, run_id, "predict", "predict-1", package=package, samples=samples)
    result = json.loads(store.get_bytes(outputs["predictions"]))
    assert set(result) == {"task", "cases", "seconds"} and result["task"] == "report_generation"
    assert set(result["cases"]) == {"s0", "s1", "s2"}
    failed = [case for case, answer in result["cases"].items() if answer == {"error": "no text for this one"}]
    assert len(failed) == 1
    for number in range(3):
        if f"s{number}" not in failed:
            text = result["cases"][f"s{number}"]["report"]
            assert text.startswith(f"{4 + number} bytes, among ['case_") and text.count("case_") == 3


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ({"report": "Clear lungs."}, {"report": "Clear lungs."}),
        ({"report": "a\x1b\u202eb\x00\n c"}, {"report": "a b \n c"}),
        ({"report": ""}, {"report": ""}),  # for the scorer to judge
        ({"report": 5}, {"error": "the answer holds no report as text"}),
        ({}, {"error": "the answer holds no report as text"}),
        ({"report": "x", "error": "half\x07 done"}, {"error": "half done"}),
        (
            {"report": "x" * (MAX_CHARACTERS + 1)},
            {"error": f"the report has {MAX_CHARACTERS + 1} characters, at most {MAX_CHARACTERS} are read"},
        ),
        (None, {"error": "no prediction was returned"}),
    ],
)
def test_reports_are_bounded_and_cleaned(answer: dict[str, object] | None, taken: dict[str, str]) -> None:
    answers = {} if answer is None else {"case_1": answer}
    assert report_result("report_generation", answers, {"case_1": "s1"})["cases"] == {"s1": taken}


def test_a_score_image_is_stored_beside_its_mask_and_costs_it_nothing(settings: Settings, tmp_path: Path) -> None:
    store = Store.connect(settings)
    store.ensure_buckets()
    result, read = tmp_path / "result", tmp_path / "read"
    result.mkdir()
    read.mkdir()
    save(result / "mask.nii.gz", 1, np.uint8)
    np.save(result / "score.npy", np.zeros((4, 5, 6), np.float32))
    np.save(result / "good.npy", np.full((4, 5, 6), 0.5, np.float32))
    (tmp_path / "outside.npy").write_bytes(b"secret")
    (result / "link.npy").symlink_to(tmp_path / "outside.npy")
    os.link(result / "score.npy", tmp_path / "second.npy")
    (result / "alone.npy").write_bytes(b"whatever")
    given = {"a": "good.npy", "b": "score.npy", "c": "../outside.npy", "d": "link.npy", "e": "gone.npy", "f": "x.pkl"}
    answers = {name: {"mask": "mask.nii.gz", "score": path} for name, path in given.items()}
    answers |= {"g": {"mask": "mask.nii.gz", "score": 7}, "h": {"mask": "mask.nii.gz"}}
    answers |= {"i": {"mask": "mask.nii.gz", "score": "alone.npy"}}
    told = {name: segmentation(name, answer, tmp_path, read) for name, answer in answers.items()}
    for answer in told.values():
        answer.pop("input")
    cases = mask_result("anomaly_detection", read, {}, told, {name: name for name in told}, store)["cases"]
    assert all("mask" in case and "error" not in case for case in cases.values())
    ref = Ref.model_validate(cases["a"]["score"])
    (tmp_path / "bins.nii.gz").write_bytes(store.get_bytes(ref))
    bins = nib.load(tmp_path / "bins.nii.gz")
    assert ref.bucket == "packages" and (np.asarray(bins.dataobj) == BINS // 2).all()
    assert np.array_equal(bins.affine, np.diag([1.0, 1.0, 2.0, 1.0])), "those of the mask, as the file has none"
    assert "score" not in cases["h"] and "score_error" not in cases["h"]
    said = {name: case["score_error"] for name, case in cases.items() if "score_error" in case}
    assert "hard links" in said["b"] and "does not exist" in said["e"]
    assert "no regular file" in said["c"] and "no regular file" in said["d"]
    assert ".npy" in said["f"] and ".npy" in said["g"] and "cannot be read" in said["i"]


def test_what_the_program_tells_is_taken_by_its_form_alone(settings: Settings, tmp_path: Path) -> None:
    """It has read a stranger's files: neither names of other files nor other fields are followed."""
    store = Store.connect(settings)
    store.ensure_buckets()
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "linked.mask.png").symlink_to(tmp_path / "real")
    told: dict[str, dict[str, object]] = {
        "linked": {"mask": ".png"},
        "gone": {"mask": ".png"},
        "elsewhere": {"mask": "/../../etc/passwd"},
        "minus": {"mask": ".png", "fractions": -1},
        "more": {"error": "x", "mask_of": "y"},
        "long": {"error": "x" * 501},
    }
    cases = mask_result("organ_segmentation", tmp_path, {}, told, {name: name for name in told}, store)["cases"]
    assert cases == {name: {"error": "what was read of the answer was not kept"} for name in told}
