"""What the Module Architect makes of measured data and a machine: reports, and the intensities of segmentations."""

import json
from typing import Any

import pytest
import yaml

from services.module_architect.playbook import intensity_of, playbook
from services.tool_runner.mounts import TEMPLATES
from shared.agent.brief import Brief
from shared.contracts.base import Ref
from shared.contracts.data import DatasetLocked, LeakageReport
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation

CONFIG = (TEMPLATES / "report_generation" / "config.yaml").read_text()
REF = Ref(bucket="data", key="k", sha256="0" * 64, size=1)
CPU: dict[str, Any] = {"gpus": [], "cpu_threads": 2}
GPU: dict[str, Any] = {"gpus": ["nvidia0"], "cpu_threads": 8}
FILMS = {
    "image_sizes": {"2048x2500": 9},
    "files_per_sample": {"min": 1, "median": 2, "max": 5},
    "extensions": {".png": 9},
}
SCAN = {"image_sizes": {"240x240x155": 9}, "files_per_sample": {"median": 1}, "extensions": {".nii.gz": 9}}
SEQUENCES = {**SCAN, "files_per_sample": {"median": 6}}
SLICES = {"image_sizes": {"512x512": 9}, "files_per_sample": {"median": 120}, "extensions": {".png": 9}}


def brief(**plan: Any) -> Brief:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x", seed=5)
    fields = {"task": "report_generation", "dataset_id": "d", "reason": "r", "dimensions": 2, "modality": "X-ray"}
    planned = TaskPlanned.make(
        run_id="r1", sender="task_manager", cause=asked, card=DataCard(dataset_id="d", name="d", description="d"),
        plan=TaskPlan(**(fields | {"metric": "rouge_l"} | plan)),
    )  # fmt: skip
    locked = DatasetLocked.make(
        run_id="r1", sender="scorer", cause=planned, index_sha256="i", manifest_sha256="m", view=REF,
        leakage=LeakageReport(checks={}), locks=1, counts={}, patients={},
    )  # fmt: skip
    return Brief(run_id="r1", role="module_architect", order="o", requested=asked, planned=planned, locked=locked)


def assembled(given: Brief, measured: dict[str, Any], machine: dict[str, Any]) -> tuple[dict[str, Any], Call, Any]:
    """The template's configuration after the edits, the submission, and the script, which waits for its judgement."""
    script = playbook(given)
    copy, _ = next(script)
    assert copy.arguments["source"] == "/templates/report_generation"
    plan = json.dumps({"handoff": {"geometry": {"measured": measured}}})
    texts = {"config.yaml": CONFIG, "plan.json": plan, "environment.json": json.dumps(machine)}
    files = {f"/workspace/{name}": {"text": text} for name, text in texts.items()}
    results = (
        ToolResult(call_id="a", tool="copy_files", ok=True, summary="copied"),
        ToolResult(call_id="b", tool="read_files", ok=True, summary="read", data={"files": files}),
    )
    *edits, submission = script.send(Observation(run_id="r1", role="module_architect", number=1, results=results))
    text = CONFIG
    for edit in edits:
        assert text.count(str(edit.arguments["old"])) == 1
        text = text.replace(str(edit.arguments["old"]), str(edit.arguments["new"]))
    return yaml.safe_load(text), submission, script


@pytest.mark.parametrize(
    ("measured", "dimensions", "machine", "shape", "views"),
    [
        (FILMS, 2, CPU, [128, 128], {"files": "views", "most": 2}),
        (FILMS, 2, GPU, [384, 384], {"files": "views", "most": 2}),
        (SCAN, 3, CPU, [24, 64, 64], {"files": "views", "most": 1}),
        (SEQUENCES, 3, GPU, [96, 160, 160], {"files": "views", "most": 4}),
        (SLICES, 3, CPU, [24, 64, 64], {"files": "slices", "most": 1}),
    ],
)
def test_the_shape_of_a_view_is_measured_and_a_module_has_all_views(
    measured: dict[str, Any], dimensions: int, machine: dict[str, Any], shape: list[int], views: dict[str, object]
) -> None:
    config, submission, _ = assembled(brief(dimensions=dimensions), measured, machine)
    assert config["preprocess"]["input_shape"] == shape and config["views"] == views
    assert submission.arguments["input_shape"] == [views["most"], *shape]
    size = {key: config["model"][key] for key in ("width", "hidden", "layers")}
    assert size == ({"width": 16, "hidden": 128, "layers": 2} if machine is CPU else
                    {"width": 32, "hidden": 512, "layers": 4})  # fmt: skip
    assert config["model"]["hidden"] % config["model"]["heads"] == 0


@pytest.mark.parametrize(("asked", "learned"), [("bleu_4", "bleu_4"), ("meteor", "rouge_l"), ("cider_d", "rouge_l")])
def test_a_figure_that_no_training_computes_has_one_that_stands_in(asked: str, learned: str) -> None:
    config, submission, script = assembled(brief(metric=asked), FILMS, CPU)
    assert config["training"]["metric"] == learned
    assert (asked in submission.arguments["notes"]) == (asked != learned or asked == "bleu_4")
    # What the probe does not accept goes back to the template's own choice.
    *back, _ = script.send(Observation(run_id="r1", role="module_architect", number=2, notes=("no batch",)))
    assert [str(call.arguments["new"]).strip().split("#")[0].strip() for call in back] == [
        "input_shape: auto", "files: auto", "most: auto",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "modality", "intensity"),
    [
        ({"min": -1024, "max": 2000, "lowest_maximum": 900, "images": 9}, "CT", "ct"),
        ({"min": -175, "max": 250, "lowest_maximum": 250, "images": 9}, "CT", "ct"),
        ({"min": 0, "max": 255, "lowest_maximum": 240, "images": 9}, "CT", "zscore"),
        ({"min": 0, "max": 3000, "lowest_maximum": 1800, "images": 9}, "CT", "zscore"),
        ({"min": -1000, "max": 1500, "lowest_maximum": 255, "images": 9}, "CT", "zscore"),
        ({"min": -1000, "max": 1500, "lowest_maximum": 900, "images": 9}, "MRI", "zscore"),
        ({}, "CT", "ct"),
        ({}, "CT / MRI", "auto"),
    ],
)
def test_a_scale_is_kept_where_values_are_hounsfield_units(
    values: dict[str, float], modality: str, intensity: str
) -> None:
    assert intensity_of({"intensity": values} if values else {}, modality) == intensity
