"""The trainer's search, held against results as the runner gives them; what the templates offer for it."""

import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.model_trainer.playbook import parsed
from services.model_trainer.playbook import playbook as train
from services.model_trainer.search import alternatives
from services.tool_runner.mounts import TEMPLATES
from shared.agent.brief import Brief
from shared.agent.tries import ahead, seconds_left
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.state import RunState
from shared.contracts.tools import ToolResult
from shared.contracts.training import JobFinished, Tried
from shared.contracts.transcript import Call, Observation
from shared.contracts.weights import Offered
from shared.training.told import of_cases
from tests.agents.test_trainer_playbooks import CONFIG, brief, ended, read, seen, settings, told

OFFERED = (TEMPLATES / "diagnosis" / "search.yaml").read_text()
SEARCHED = [(path.parent.name, path.name) for path in sorted(TEMPLATES.glob("*/*.yaml")) if path.name != "search.yaml"]
SEARCHED = [one for one in SEARCHED if (TEMPLATES / one[0] / "search.yaml").exists()]
FIT = {"backbone": "resnet18", "width": 64, "dimensions": 3, "share": 1.0}
SHELF = (
    Offered(
        path="/weights/flat.pt", licence="l", source="s", tensors=9, parameters=9, fits=({**FIT, "dimensions": 2},)
    ),
    Offered(path="/weights/big.pt", licence="l", source="s", tensors=9, parameters=99, fits=(FIT,)),
    Offered(path="/weights/fit.pt", licence="l", source="s", tensors=9, parameters=98, fits=(FIT,)),
    Offered(path="/weights/odd.pt", licence="l", source="s", tensors=9, parameters=9),
)
Script = Generator[tuple[Call, ...], Observation, None]


def begun(its: Brief, config: str = CONFIG) -> tuple[Script, tuple[Call, ...]]:
    """The playbook, with the calls of its second turn."""
    script = train(its)
    (looked,) = next(script)
    assert looked.arguments["paths"] == ["/workspace/config.yaml", "/workspace/search.yaml"]
    return script, script.send(seen(read(**{"config.yaml": config, "search.yaml": OFFERED})))


def timed(
    seconds: float, search: float | None = None, shelf: tuple[Offered, ...] = (), settled: dict[str, Any] | None = None
) -> Brief:
    module = AssembledModule(template="diagnosis", model="cnn", loss="cross entropy", input_shape=(1, 32, 32))
    made = {"module": module, "batch_shapes": {}, "workspace_sha256": "2" * 64, "config": settled or {}}
    assembled = ModuleAssembled.make(run_id="r1", sender="module_architect", cause=None, **made)
    update = {"train_seconds": seconds, "search_seconds": search, "weights": shelf, "assembled": assembled}
    return brief("model_trainer").model_copy(update=update)


def tries_of(calls: tuple[Call, ...]) -> dict[str, Any]:
    """Name -> what is tried, without the number of the round; all calls before are edits."""
    assert [one.name for one in calls[:-1]] == ["edit_files"] * (len(calls) - 1) and calls[-1].name == "try_configs"
    tries: Any = calls[-1].arguments["tries"]
    return {one["name"].rpartition("-")[0] or one["name"]: one for one in tries}


def figures(
    calls: tuple[Call, ...],
    values: Mapping[str, float | None],
    spread: float | None = 0.02,
    ahead: Mapping[str, Mapping[str, float]] | None = None,
) -> Observation:
    """The end of the tries that the calls ask for."""
    jobs = [
        {
            "job_id": f"job-{one['name']}",
            "tried": {"name": one["name"]},
            "outcome": "ok" if values[name] is not None else "failed",
            "metrics": {"metric": values[name], "spread": spread, "ahead": (ahead or {}).get(name)},
        }
        for name, one in tries_of(calls).items()
    ]
    return seen(event={"jobs": jobs})


def test_what_is_ahead_by_more_than_chance_is_chosen_in_two_rounds_and_gone_on_with() -> None:
    script, calls = begun(timed(2000))
    first = tries_of(calls)
    assert len(first) == 4 and "changes" in first["as-it-is"] and calls[-1].arguments["seconds"] == 800 // 2 // 4
    assert first["as-it-is"]["changes"] == {"training.seed": 5}
    assert first["higher-rate"]["changes"] == {"training.learning_rate": pytest.approx(0.003), "training.seed": 5}
    values = {name: 0.6 for name in first} | {"more-steps": 0.8, "as-it-is": 0.7, "higher-rate": None}
    calls = script.send(figures(calls, values))
    second = tries_of(calls)
    assert list(second) == ["as-it-is", "more-steps"]
    assert second["more-steps"]["continues"] == "more-steps-1" and "changes" not in second["more-steps"]
    assert calls[-1].arguments["seconds"] == 800 // 2 // 2
    beside = {"more-steps": {"mean": 0.03, "error": 0.01}}
    calls = script.send(figures(calls, {"as-it-is": 0.7, "more-steps": 0.73}, ahead=beside))
    last = tries_of(calls)["last"]
    assert last["continues"] == "more-steps-2" and calls[-1].arguments["seconds"] == 1200
    assert settings(CONFIG, calls[:-1])["training"]["batch_size"] == 4, "the workspace says what is trained"
    (submission,) = script.send(figures(calls, {"last": 0.75}))
    assert submission.name == "submit_training" and submission.arguments["job_id"] == "job-last"
    notes = str(submission.arguments["notes"])
    assert (
        "more-steps 0.730 ± 0.020 (+0.030 ± 0.010 by patient)" in notes
        and "higher-rate no figure" in notes
        and "more-steps is taken" in notes
    )


@pytest.mark.parametrize(("mean", "error", "taken"), [(0.02, 0.01, True), (0.02, 0.015, False), (-0.02, 0.01, False)])
def test_figures_of_the_same_patients_are_compared(mean: float, error: float, taken: bool) -> None:
    script, calls = begun(timed(300, search=120))
    for _ in range(2):
        beside = {"more-steps": {"mean": mean, "error": error}}
        calls = script.send(figures(calls, {"as-it-is": 0.7, "more-steps": 0.71}, 0.1, beside))
    assert tries_of(calls)["last"]["continues"] == ("more-steps-2" if taken else "as-it-is-2")


@pytest.mark.parametrize("better", [0.9, 0.6])
def test_where_patients_cannot_be_compared_the_module_stays_as_it_is(better: float) -> None:
    script, calls = begun(timed(300, search=180))
    assert len(tries_of(calls)) == 3, "as many as get thirty seconds"
    for _ in range(2):
        values = {name: 0.7 for name in tries_of(calls)} | {"more-steps": better}
        calls = script.send(figures(calls, values))
    assert (
        tries_of(calls)["last"]["continues"] == "as-it-is-2" and calls[-1].arguments["seconds"] == 300 - 3 * 30 - 2 * 45
    )
    assert settings(CONFIG, calls[:-1])["training"]["batch_size"] == 8
    (submission,) = script.send(figures(calls, {"last": 0.7}))
    assert "nothing is changed" in str(submission.arguments["notes"])


@pytest.mark.parametrize(("seconds", "search"), [(1799, None), (1000, 0), (300, 119), (60, 300)])
def test_without_time_or_where_a_person_wants_none_there_is_no_search(seconds: float, search: float | None) -> None:
    _, calls = begun(timed(seconds, search))
    assert calls[-1].name == "start_training" and calls[-1].arguments["seconds"] == seconds


@pytest.mark.parametrize(("with_them", "taken"), [(0.8, True), (0.705, False), (None, False)])
def test_weights_of_the_shelf_are_one_candidate_among_the_others(with_them: float | None, taken: bool) -> None:
    script, calls = begun(timed(1000, 120, SHELF))
    fitting = {"model.backbone": "resnet18", "model.width": 64, "model.weights": "/weights/fit.pt", "training.seed": 5}
    assert tries_of(calls)["weights"]["changes"] == fitting and len(tries_of(calls)) == 2
    values = {"as-it-is": 0.7, "weights": with_them}
    beside = {"weights": {"mean": (with_them or 0.7) - 0.7, "error": 0.01}}
    calls = script.send(figures(calls, values, ahead=beside))
    if with_them:
        calls = script.send(figures(calls, values, ahead=beside))
    assert (settings(CONFIG, calls[:-1])["model"]["weights"] == "/weights/fit.pt") is taken
    assert tries_of(calls)["last"]["continues"].startswith("weights" if taken else "as-it-is")


def test_a_module_that_does_not_train_is_mended_first_and_what_cannot_be_gone_on_with_begins_anew() -> None:
    script, calls = begun(timed(1000, 400))
    calls = script.send(figures(calls, {name: 0.9 for name in tries_of(calls)} | {"as-it-is": None}))
    assert calls[-1].name == "start_training" and calls[-1].arguments["seconds"] == 800
    # Nothing could be tried, or gone on with.
    refused = ToolResult(call_id="c", tool="try_configs", ok=False, summary="nothing was started")
    script, calls = begun(timed(1000, 400))
    calls = script.send(seen(refused))
    assert calls[-1].name == "start_training" and calls[-1].arguments["seconds"] == 1000
    script, calls = begun(timed(1000, 120))
    for _ in range(2):
        calls = script.send(figures(calls, {name: 0.7 for name in tries_of(calls)}))
    (again,) = script.send(seen(refused))
    assert again.name == "start_training" and again.arguments["seconds"] == 880
    calls = script.send(ended("failed", told("memory")))
    assert calls[-1].name == "start_training" and len(calls) > 1
    (submission,) = script.send(ended("ok"))
    assert submission.arguments["job_id"] == "job-1"


def test_an_entry_fits_the_configuration_or_is_left_out() -> None:
    config = parsed("a: {x: 4, y: auto, z: [24, 65, 8], flag: true}\ntraining: {rate: 0.01}\n")
    offered = """
half: {times: {a.x: 0.5, training.rate: 3}}
shape: {times: {a.z: 0.7}}
auto: {times: {a.y: 2}}
truth: {times: {a.flag: 2}}
unknown: {set: {a.w: 1}}
same: {set: {a.x: 4}}
elsewhere: {set: {a.x: 5}, where: {a.y: [3, 4]}}
here: {set: {a.x: 5}, where: {a.y: [auto, 4], training.rate: 0.01}}
as-it-is: {set: {a.x: 7}}
of no form: 7
"""
    assert alternatives(timed(1000), config, offered) == {
        "half": {"a.x": 2, "training.rate": pytest.approx(0.03)},
        "shape": {"a.z": [16, 48, 8]},
        "here": {"a.x": 5},
    }
    assert alternatives(timed(1000), config, "[:") == alternatives(timed(1000), config, "- a") == {}


@pytest.mark.parametrize(
    ("template", "name", "key", "settled", "wanted"),
    [
        ("diagnosis", "larger-input", "preprocess.input_shape", [24, 64, 64], [32, 96, 96]),
        ("report_generation", "larger-input", "preprocess.input_shape", [64, 48], [96, 72]),
        ("segmentation", "smaller-patch", "preprocess.patch_size", [1, 128, 96], [1, 88, 64]),
    ],
)
def test_what_auto_was_settled_to_is_changed(
    template: str, name: str, key: str, settled: list[int], wanted: list[int]
) -> None:
    """Bounds of what follows from images and time often change nothing."""
    config, offered = ((TEMPLATES / template / file).read_text() for file in ("config.yaml", "search.yaml"))
    assert name not in alternatives(timed(1000), parsed(config), offered)
    assert alternatives(timed(1000, settled={key: settled}), parsed(config), offered)[name] == {key: wanted}


def test_slices_are_offered_where_volumes_were_chosen_and_the_other_way_round() -> None:
    config, offered = ((TEMPLATES / "segmentation" / file).read_text() for file in ("config.yaml", "search.yaml"))
    settled = {"preprocess.dimensions": 2, "preprocess.patch_size": [96, 64]}
    found = alternatives(timed(1000, settled=settled), parsed(config), offered)
    assert "slices" not in found and found["volumes"] == {"preprocess.dimensions": 3}
    given = parsed(config.replace("patch_size: auto", "patch_size: [96, 64]"))
    found = alternatives(timed(1000, settled=settled), given, offered)
    assert found["volumes"] == {"preprocess.dimensions": 3, "preprocess.patch_size": "auto"}


@pytest.mark.parametrize(("template", "name"), SEARCHED, ids=lambda one: one)
def test_what_a_template_offers_is_a_configuration_of_it(template: str, name: str, tmp_path: Path) -> None:
    config = (TEMPLATES / template / name).read_text()
    offered = (TEMPLATES / template / "search.yaml").read_text()
    for key in ("input_shape", "patch_size"):
        config = config.replace(f"{key}: auto", f"{key}: [24, 64, 64]")
    found = alternatives(timed(1000), parsed(config), offered)
    listed = yaml.safe_load(offered)
    assert all(one["why"] for one in listed.values())
    assert {*listed} - {*found} <= {one for one in listed if "where" in listed[one]}, "a key that is not there"
    for number, changes in enumerate(found.values()):
        changed = parsed(config)
        for key, value in changes.items():
            section, _, last = key.partition(".")
            changed[section][last] = value  # type: ignore[index]
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(changed))
    code = "import sys, config; [config.load(path) for path in sys.argv[1:]]"
    folder = TEMPLATES / template
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, sorted(tmp_path.glob("*.yaml")))],
        cwd=folder, env={"PYTHONPATH": f"{folder}:{TEMPLATES.parent}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_trainings_that_ended_and_all_tries_share_twice_the_seconds_of_one() -> None:
    def done(job_id: str, seconds: float, outcome: str = "ok", given: float = 0, **more: Any) -> JobFinished:
        tried = Tried(name=job_id, seconds=given) if given else None
        made = {"job_id": job_id, "job": "train", "outcome": outcome, "seconds": seconds, "tried": tried}
        made |= {"asked_by": "model_trainer"} | more
        return JobFinished.make(run_id="r1", sender="tool_runner", cause=None, **made)

    ended = (
        done("first", 90),
        done("broken", 70, "failed"),
        done("slow-to-start", 35, given=20),
        done("try-that-failed", 5, "failed", given=20),
        done("of-the-architect", 10, given=10, asked_by="module_architect"),
        done("call-3", 40),
    )
    state = RunState(run_id="r1", jobs_done={one.job_id: one for one in ended})
    assert seconds_left(state, "model_trainer", 100) == 200 - 90 - 20 - 5 - 10 - 40
    assert seconds_left(state, "model_trainer", 100, but="call") == 75
    assert seconds_left(state, "module_architect", 100) == 25 - 10


def test_ahead_is_the_mean_difference_of_patients_that_both_have_with_its_error() -> None:
    def of(*values: float) -> dict[str, Any]:
        return {"figures": {str(number): value for number, value in enumerate(values)}}

    found = ahead(of(0.5, 0.6, 0.9, 0.2, 0.3, 0.4), of(0.4, 0.6, 0.7, 0.2, 0.1))
    assert found == (pytest.approx(0.1), pytest.approx(0.1 / 5**0.5))
    assert ahead(of(0.5, 0.6), of(0.4, 0.6)) is None and ahead({}, of(1, 2, 3, 4, 5)) is None


def test_what_a_training_tells_of_its_patients_is_what_two_are_compared_by() -> None:
    def told(better: float) -> dict[str, Any]:
        cases = [{"id": f"s{number}", "figure": 0.1 * (number % 4) + better} for number in range(12)]
        patients = [f"p{number // 2}" for number in range(12)]
        return of_cases([*cases, {"id": "s12", "figure": None}], [*patients, "p6"], lambda *_: None)

    assert told(0)["figures"] == pytest.approx({f"p{number}": (0.05, 0.25)[number % 2] for number in range(6)})
    assert ahead(told(0.2), told(0)) == (pytest.approx(0.2), pytest.approx(0, abs=1e-9))
    many = of_cases([{"id": str(n), "figure": 0.5} for n in range(450)], list(map(str, range(450))), lambda *_: None)
    assert list(many["figures"])[:2] == ["0", "3"] and len(many["figures"]) == 150
