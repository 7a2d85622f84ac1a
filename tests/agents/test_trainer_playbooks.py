"""How the Module Architect and the Model Trainer decide, held against results as the runner gives them."""

import json
from typing import Any

import pytest
import yaml

from services.model_trainer.playbook import playbook as train
from services.model_trainer.remedies import Changes, changed
from services.module_architect.playbook import input_shape
from services.module_architect.playbook import playbook as assemble
from services.module_architect.role import assembled
from services.tool_runner.mounts import TEMPLATES
from shared.agent.brief import Brief
from shared.contracts.base import Spent
from shared.contracts.modules import AssembledModule
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import RunState
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError
from shared.failures import DIRECTIONS, Known
from tests.agents.edits import edited
from tests.cases import dataset_facts, locked

CONFIG = (TEMPLATES / "diagnosis" / "config.yaml").read_text()
SEGMENTATION = (TEMPLATES / "segmentation" / "config.yaml").read_text()


def brief(role: str, measured: dict[str, Any] | None = None, **plan: Any) -> Brief:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x", seed=5)
    fields = {"task": "diagnosis", "dataset_id": "d", "reason": "r", "dimensions": 3, "modality": "CT"}
    planned = TaskPlanned.make(
        run_id="r1", sender="task_manager", cause=asked, card=DataCard(dataset_id="d", name="d", description="d"),
        plan=TaskPlan(**(fields | {"metric": "balanced_accuracy"} | plan)),
    )  # fmt: skip
    its = planned.plan
    lock = locked("r1", planned, facts=dataset_facts(task=its.task, dimensions=its.dimensions, measured=measured or {}))
    return Brief(run_id="r1", role=role, order="o", requested=asked, planned=planned, locked=lock, train_seconds=100)


def read(**texts: str) -> ToolResult:
    files = {f"/workspace/{name}": {"text": text} for name, text in texts.items()}
    return ToolResult(call_id="c", tool="read_files", ok=True, summary="read", data={"files": files})


def seen(*results: ToolResult, **fields: Any) -> Observation:
    return Observation(run_id="r1", role="model_trainer", number=1, results=results, **fields)


def ended(outcome: str, summary: str = "") -> Observation:
    started = ToolResult(call_id="c", tool="start_training", ok=True, summary="queued")
    return seen(started, event={"job_id": "job-1", "outcome": outcome, "summary": summary})


def after(text: str, calls: tuple[Call, ...]) -> dict[str, Any]:
    """The section `training` once the edits of a turn are applied."""
    return settings(text, calls)["training"]


def test_training_is_set_to_its_time_started_and_delivered() -> None:
    script = train(brief("model_trainer"))
    next(script)
    calls = script.send(seen(read(**{"config.yaml": CONFIG})))
    assert after(CONFIG, calls) | {"train_seconds": 90, "seed": 5} == after(CONFIG, calls)
    assert calls[-1].name == "start_training" and calls[-1].arguments["seconds"] == 100
    (submission,) = script.send(ended("ok"))
    assert submission.arguments["job_id"] == "job-1"
    assert submission.arguments["hyper_parameters"]["train_seconds"] == 90


NNUNET = (TEMPLATES / "nnunet" / "config.yaml").read_text()
NARROW = """preprocess:
  input_shape: [24, 64, 12]
model:
  width: 16
training:
  batch_size: 1
"""


def settings(text: str, calls: tuple[Call, ...]) -> dict[str, Any]:
    """The whole configuration once the edits of a turn are applied."""
    found: dict[str, Any] = yaml.safe_load(edited(text, *calls))
    return found


def told(name: str, cause: str = "something") -> str:
    """As the runner begins the summary of a job whose failure is known."""
    return f"{Known(name, cause)}\ntrain ended failed, exit code 1, 3 s, bwrap\nTraceback ..."


@pytest.mark.parametrize(
    ("config", "summary", "changes"),
    [
        (CONFIG, told("memory"), {"training.batch_size": 4, "training.accumulate": 2}),
        (CONFIG, told("gpu_memory"), {"training.batch_size": 4, "training.accumulate": 2}),
        (NARROW, told("memory"), {"preprocess.input_shape": [16, 48, 12]}),
        (
            CONFIG,
            told("memory", "the memory does not hold a batch of one"),
            {"training.batch_size": 8, "model.width": 8},
        ),
        (SEGMENTATION, told("memory"), {"preprocess.patch_voxels": 131072}),
        (NNUNET, told("gpu_memory"), {"nnunet.memory_gb": 2.0, "nnunet.workers": 0}),
        (CONFIG, told("nan"), {"training.learning_rate": yaml.safe_load(CONFIG)["training"]["learning_rate"] / 5}),
        (NNUNET, told("nan"), {"nnunet.learning_rate": 0.002}),
        (CONFIG, told("shm"), {"training.workers": 0, "training.batch_size": 8}),
        (CONFIG, told("dead_worker"), {"training.workers": 0}),
        (NNUNET, told("dead_worker"), {"nnunet.workers": 0, "nnunet.processes": 1}),
        (CONFIG, told("time"), {"training.train_seconds": 45}),
        (CONFIG, told("batch_of_one"), {"training.batch_size": 9}),
        (CONFIG, "train ended memory, exit code None", {"training.batch_size": 4}),
        (CONFIG, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", {"training.batch_size": 4}),
    ],
)
def test_a_failure_is_mended_by_its_name(config: str, summary: str, changes: dict[str, Any]) -> None:
    script = train(brief("model_trainer"))
    next(script)
    first = script.send(seen(read(**{"config.yaml": config})))
    text = edited(config, *first)
    outcome = "memory" if summary.startswith("train ended memory") else "failed"
    again = script.send(ended(outcome, summary))
    found = settings(text, again)
    for name, value in changes.items():
        section, key = name.split(".")
        assert found[section][key] == pytest.approx(value), name
    assert again[-1].name == "start_training"


def test_a_model_that_finds_nothing_gets_one_more_try_and_is_then_delivered() -> None:
    script = train(brief("model_trainer"))
    next(script)
    script.send(seen(read(**{"config.yaml": SEGMENTATION})))
    again = script.send(ended("ok", told("dice_zero")))
    assert again[-1].name == "start_training" and settings(SEGMENTATION, again[:-1])["sampling"]["foreground"] == 0.95
    (submission,) = script.send(ended("ok", told("dice_zero")))
    assert submission.name == "submit_training"


def test_a_failure_that_stays_or_is_beyond_the_playbook_is_an_honest_end_with_its_two_lines() -> None:
    script = train(brief("model_trainer"))
    next(script)
    script.send(seen(read(**{"config.yaml": CONFIG})))
    with pytest.raises(UserError, match="KeyError"):
        script.send(ended("failed", "Traceback ...\nKeyError: 'image'"))
    script = train(brief("model_trainer"))
    next(script)
    script.send(seen(read(**{"config.yaml": CONFIG})))
    script.send(ended("failed", told("memory")))
    script.send(ended("failed", told("memory")))
    with pytest.raises(UserError, match="failed 3 times"):
        script.send(ended("failed", told("memory")))
    for name in ("missing_module", "labels", "geometry", "disk", "no_gpu", "network", "process_group"):
        script = train(brief("model_trainer"))
        next(script)
        script.send(seen(read(**{"config.yaml": CONFIG})))
        with pytest.raises(UserError) as raised:
            script.send(ended("failed", told(name, "the cause")))
        assert str(raised.value).splitlines()[-2:] == [f"{name}: the cause", DIRECTIONS[name]]


def test_what_the_trainer_knows_of_the_configuration_is_what_its_edits_make_of_it() -> None:
    text = "a:   # one\n  x: 1   # why\nempty:\ntraining:\n  x: 1   # why\n  y: two\n"
    changes: Changes = {"training.x": 2, "a.z": [3], "b.w": True, "empty.v": "auto"}
    edit = Call(name="edit_files", arguments={"path": "config.yaml", "set": changes})
    assert changed(yaml.safe_load(text), changes) == settings(text, (edit,))


def test_the_module_fits_data_and_machine_and_falls_back_to_the_template() -> None:
    measured = {"shape": {"median": [96, 96, 28]}, "channels": {"3": 20}}
    script = assemble(brief("module_architect", measured))
    copy, _ = next(script)
    assert copy.arguments["source"] == "/templates/diagnosis"
    copied = ToolResult(call_id="c", tool="copy_files", ok=True, summary="copied")
    texts = {"config.yaml": CONFIG, "environment.json": '{"gpus": []}'}
    calls = script.send(seen(copied, read(**texts)))
    config = settings(CONFIG, calls)
    assert config["preprocess"]["input_shape"] == config["preprocess"]["channels"] == "auto", "settled by the time"
    assert config["training"]["metric"] == "balanced_accuracy"
    assert calls[-1].name == "submit_module"
    again = script.send(seen(notes=("batches of train have shape ...",)))
    assert (
        settings(CONFIG, again)["augmentation"]["modality"]
        == settings(CONFIG, again)["preprocess"]["input_shape"]
        == "auto"
    )
    with pytest.raises(UserError, match="still wrong"):
        script.send(seen(notes=("still wrong",)))


@pytest.mark.parametrize(
    ("size", "dimensions", "shape"),
    [
        ([512, 512], 2, (384, 384)),
        ([512, 512, 200], 3, (96, 160, 160)),
        ([48, 48, 40], 3, (40, 48, 48)),
        ([64, 64, 12], 3, (16, 64, 64)),
        ([], 3, (96, 96, 96)),
    ],
)
def test_input_shapes(size: list[int], dimensions: int, shape: tuple[int, ...]) -> None:
    assert input_shape({"shape": {"median": size}}, dimensions) == shape


@pytest.mark.parametrize(
    ("seconds", "machine", "modality", "keys"),
    [
        (
            100,
            {"gpus": [], "cpu_threads": 2, "memory_mb": 8192},
            "CT",
            {"max_voxels": 200_000, "patch_voxels": 200_000, "intensity": "ct", "width": 16},
        ),
        (
            600,
            {"gpus": [], "cpu_threads": 2, "memory_mb": 2048},
            "MRI",
            {"max_voxels": 1_200_000, "patch_voxels": 131_072, "intensity": "zscore"},
        ),
        (
            600,
            {"gpus": ["nvidia0"], "cpu_threads": 8, "memory_mb": 65536},
            "ultrasound",
            {"max_voxels": 163_840, "patch_voxels": 2_097_152, "intensity": "auto", "width": 32, "batch_size": 3},
        ),
    ],
)
def test_a_segmentation_fits_machine_and_modality(
    seconds: float, machine: dict[str, Any], modality: str, keys: dict[str, object]
) -> None:
    measured = {"shape": {"median": [64, 64, 40]}, "hu": float(modality == "CT")}
    asked = brief("module_architect", measured, task="organ_segmentation", metric="dice", modality=modality)
    script = assemble(asked.model_copy(update={"train_seconds": seconds}))
    copy, _ = next(script)
    assert copy.arguments["source"] == "/templates/segmentation"
    copied = ToolResult(call_id="c", tool="copy_files", ok=True, summary="copied")
    texts = {"config.yaml": SEGMENTATION, "environment.json": json.dumps(machine)}
    calls = script.send(seen(copied, read(**texts)))
    config = settings(SEGMENTATION, calls)
    found = {key: value for part in config.values() if isinstance(part, dict) for key, value in part.items()}
    assert found | keys == found and found["metric"] == "dice" and found["dimensions"] == "auto"
    module = calls[-1].arguments
    assert module["template"] == "segmentation"
    back = script.send(seen(notes=("train: images hold NaN",)))
    assert back[0].arguments["set"] == {"preprocess.intensity": "auto"}
    with pytest.raises(UserError, match="still wrong"):
        script.send(seen(notes=("still wrong",)))


def test_lesions_begin_with_their_own_configuration() -> None:
    asked = brief("module_architect", {"shape": {"median": [64, 64, 40]}}, task="anomaly_detection", metric="dice")
    script = assemble(asked)
    copy, _ = next(script)
    assert copy.arguments["source"] == "/templates/segmentation"
    copied = ToolResult(call_id="c", tool="copy_files", ok=True, summary="copied")
    begin, edit, submission = script.send(seen(copied, read(**{"environment.json": "{}"})))
    assert begin.name == "copy_files" and begin.arguments["overwrite"]
    config = settings((TEMPLATES.parent / str(begin.arguments["source"]).lstrip("/")).read_text(), (edit,))
    assert config["task"] == "anomaly_detection" and config["loss"]["present_only"] and not config["every_structure"]
    assert config["preprocess"]["max_voxels"] == 200_000 and submission.name == "submit_module"


@pytest.mark.parametrize(("task", "lesions"), [("organ_segmentation", False), ("anomaly_detection", True)])
def test_hours_on_a_gpu_are_nnunets(task: str, lesions: bool) -> None:
    measured = {"shape": {"median": [64, 64, 40]}, "hu": 1.0}
    asked = brief("module_architect", measured, task=task, metric="dice")
    machine = {"environment.json": json.dumps({"gpus": ["nvidia0"]})}
    script = assemble(asked.model_copy(update={"train_seconds": 7200}))
    (look,) = next(script)
    assert look.name == "read_files"
    copy, _ = script.send(seen(read(**machine)))
    assert copy.arguments["source"] == "/templates/nnunet"
    copied = ToolResult(call_id="c", tool="copy_files", ok=True, summary="copied")
    *changes, submission = script.send(seen(copied, read(**{"config.yaml": NNUNET}, **machine)))
    config = settings(NNUNET, tuple(changes))
    assert config["task"] == task and config["score_map"] is lesions and config["every_structure"] is not lesions
    assert config["nnunet"]["modality"] == "ct" and config["nnunet"]["configuration"] == "3d_fullres"
    assert submission.arguments["template"] == "nnunet"


def test_the_keys_of_a_segmentation_training_are_the_trainers() -> None:
    script = train(brief("model_trainer"))
    next(script)
    calls = script.send(seen(read(**{"config.yaml": SEGMENTATION})))
    found = after(SEGMENTATION, calls)
    assert found["train_seconds"] == 90 and found["seed"] == 5
    again = script.send(ended("failed", "the loss became nan at step 3"))
    assert again[-1].name == "start_training"
    assert again[0].arguments["set"] == {"training.learning_rate": found["learning_rate"] / 5}


def test_shape_and_words_on_record_are_those_of_what_was_built() -> None:
    its = brief("module_architect")
    answer = AssembledModule(template="diagnosis", model="m", loss="l", input_shape=(1, 9, 9, 9))
    built = {"model": "Classifier(encoder: ResNet)", "loss": "Focal(gamma 2)", "augmentation": "no flips"}
    shapes = {part: {"shape": [8, 1, 24, 64, 64]} for part in ("train", "val")}
    facts = {"batches": shapes, "workspace_sha256": "s", "built": built}
    step = {"samples": 8, "milliseconds": 100.0}
    facts |= {"counts": {"train": 80}, "step": step, "device": "cpu", "settled": {"preprocess.views": 1}}
    event = assembled(answer, facts, its, RunState(run_id="r1"), Spent())
    assert event.settled == {"preprocess.views": 1}
    steps = 0.8 * its.train_seconds / 0.1
    told = {"step": step, "epochs": {"seconds": its.train_seconds, "fit": steps / 10}}
    assert event.measured == {"device": "cpu"} | told
    # An epoch of patches has several of each image.
    facts["config"] = {"sampling.patches_per_image": 4, "training.seed": 0}
    event = assembled(answer, facts, its, RunState(run_id="r1"), Spent())
    assert event.measured["epochs"] == {"seconds": its.train_seconds, "fit": steps / 40}
    assert event.config == facts["config"]
    # The probe does not try the GPU that will train.
    gpu = its.model_copy(update={"machine": {"gpus": ["one"]}})
    assert "epochs" not in assembled(answer, facts, gpu, RunState(run_id="r1"), Spent()).measured
    assert event.module.input_shape == (1, 24, 64, 64)
    assert event.module.model_dump(include=set(built)) == built
    assert event.batch_shapes["val"] == (8, 1, 24, 64, 64)
