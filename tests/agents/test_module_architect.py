"""What the Module Architect makes of measured data and a machine: reports, and the intensities of segmentations."""

import json
from typing import Any

import pytest
import yaml

from services.module_architect.playbook import intensity_of, playbook
from services.tool_runner.mounts import TEMPLATES
from shared.agent.brief import Brief
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation
from tests.agents.edits import edited
from tests.cases import dataset_facts, locked

CONFIG = (TEMPLATES / "report_generation" / "config.yaml").read_text()
CPU: dict[str, Any] = {"gpus": [], "cpu_threads": 2}
GPU: dict[str, Any] = {"gpus": ["nvidia0"], "cpu_threads": 8}
FILMS = {"shape": {"median": [2500, 2048]}, "views": {"2": 9, "1": 1}, "channels": {"3": 8, "1": 2}}
SCAN = {"shape": {"median": [155, 240, 240]}, "views": {"1": 9}}
SEQUENCES = {**SCAN, "views": {"6": 9}, "channels": {"2": 9}}


def brief(measured: dict[str, Any], **plan: Any) -> Brief:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x", seed=5)
    fields = {"task": "report_generation", "dataset_id": "d", "reason": "r", "dimensions": 2, "modality": "X-ray"}
    planned = TaskPlanned.make(
        run_id="r1", sender="task_manager", cause=asked, card=DataCard(dataset_id="d", name="d", description="d"),
        plan=TaskPlan(**(fields | {"metric": "rouge_l"} | plan)),
    )  # fmt: skip
    known = dataset_facts(task="report_generation", dimensions=plan.get("dimensions", 2), measured=measured)
    return Brief(
        run_id="r1", role="module_architect", order="o", requested=asked, planned=planned,
        locked=locked("r1", planned, facts=known),
    )  # fmt: skip


def assembled(given: Brief, machine: dict[str, Any]) -> tuple[dict[str, Any], Call, Any]:
    """The template's configuration after the edits, the submission, and the script, which waits for its judgement."""
    script = playbook(given)
    copy, _ = next(script)
    assert copy.arguments["source"] == "/templates/report_generation"
    texts = {"config.yaml": CONFIG, "environment.json": json.dumps(machine)}
    files = {f"/workspace/{name}": {"text": text} for name, text in texts.items()}
    results = (
        ToolResult(call_id="a", tool="copy_files", ok=True, summary="copied"),
        ToolResult(call_id="b", tool="read_files", ok=True, summary="read", data={"files": files}),
    )
    *edits, submission = script.send(Observation(run_id="r1", role="module_architect", number=1, results=results))
    return yaml.safe_load(edited(CONFIG, *edits)), submission, script


@pytest.mark.parametrize(
    ("measured", "dimensions", "machine", "shape"),
    [
        (FILMS, 2, CPU, [384, 384]),
        (FILMS, 2, GPU, [384, 384]),
        (SCAN, 3, CPU, [96, 160, 160]),
        (SEQUENCES, 3, GPU, [96, 160, 160]),
    ],
)
def test_a_gpu_sees_larger_views_and_a_cpu_what_the_template_settles_by_the_time(
    measured: dict[str, Any], dimensions: int, machine: dict[str, Any], shape: list[int]
) -> None:
    config, _, _ = assembled(brief(measured, dimensions=dimensions), machine)
    seen = {key: config["preprocess"][key] for key in ("input_shape", "channels", "views")}
    assert seen == {"input_shape": shape if machine is GPU else "auto", "channels": "auto", "views": "auto"}
    size = {key: config["model"][key] for key in ("width", "hidden", "layers")}
    assert size == ({"width": 16, "hidden": 128, "layers": 2} if machine is CPU else
                    {"width": 32, "hidden": 512, "layers": 4})  # fmt: skip
    assert config["model"]["hidden"] % config["model"]["heads"] == 0


@pytest.mark.parametrize(("asked", "learned"), [("bleu_4", "bleu_4"), ("meteor", "rouge_l"), ("cider_d", "rouge_l")])
def test_a_figure_that_no_training_computes_has_one_that_stands_in(asked: str, learned: str) -> None:
    config, submission, script = assembled(brief(FILMS, metric=asked), CPU)
    assert config["training"]["metric"] == learned
    assert (asked in submission.arguments["notes"]) == (asked != learned or asked == "bleu_4")
    # What the probe does not accept goes back to the template's own choice.
    back, _ = script.send(Observation(run_id="r1", role="module_architect", number=2, notes=("no batch",)))
    assert back.arguments == {
        "path": "config.yaml", "set": {"preprocess.input_shape": "auto", "augmentation.modality": "auto"}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "modality", "intensity"),
    [
        ({"hu": 1.0}, "CT", "ct"),
        ({"hu": 1.0}, "?", "ct"),
        ({"hu": 0.1}, "CT", "zscore"),
        # Cropped to the body: no air, but what a CT may hold; a PNG of a CT does not go below zero.
        ({"hu": 0.0, "percentiles": {"all": [-150.0, 40.0, 300.0]}}, "CT", "ct"),
        ({"hu": 0.0, "percentiles": {"all": [-150.0, 40.0, 300.0]}}, "MRI", "zscore"),
        ({"hu": 0.0, "percentiles": {"all": [0.0, 90.0, 255.0]}}, "CT", "zscore"),
        ({}, "MRI", "zscore"),
        ({}, "CT / MRI", "auto"),
    ],
)
def test_a_scale_is_kept_where_values_are_hounsfield_units(
    measured: dict[str, object], modality: str, intensity: str
) -> None:
    assert intensity_of(measured, modality) == intensity
