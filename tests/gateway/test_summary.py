"""The summary tells what a reader must not miss, from events alone."""

import pytest
from pydantic import JsonValue

from services.gateway.summary import duration, money, summary
from shared.contracts.base import Event, Spent
from shared.contracts.data import LeakageReport
from shared.contracts.runs import Candidate, DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import Control, Gate, Metric, RunScored
from shared.contracts.training import JobFinished, TrainingFinished
from tests.cases import NOWHERE, locked, prepared, told_until
from tests.gateway import reported

RUN = "r1"


def events(*, gate_passed: bool) -> list[tuple[int, Event]]:
    requested = RunRequested.make(run_id=RUN, sender="gateway", cause=None, requirement="classify chest CT")
    plan = TaskPlan(
        task="diagnosis",
        dataset_id="one",
        reason="its card states chest CT",
        refused=(Candidate(dataset_id="two", reason="is MRI"), Candidate(dataset_id="three", reason="is MRI")),
        dimensions=3,
        modality="CT",
        metric="auc_macro",
        max_train=1000,
    )
    card = DataCard(dataset_id="one", name="Dataset One", description="chest CT", path="/data/one")
    planned = TaskPlanned.make(run_id=RUN, sender="task_manager", cause=requested, plan=plan, card=card)
    scored = RunScored.make(
        run_id=RUN,
        sender="scorer",
        cause=planned,
        metric=Metric(name="auc_macro", value=0.91, low=0.84, high=0.97, n=60, patients=40),
        controls=(Control(name="majority", value=0.5),),
        permutation_p=0.001,
        gates=(Gate(name="patients_apart", passed=gate_passed, evidence="patient 7 is on both sides"),),
        level="useful" if gate_passed else "ran",
        locks=1,
        scorings=1,
    )
    finished = RunFinished.make(
        run_id=RUN,
        sender="task_manager",
        cause=scored,
        end="succeeded" if gate_passed else "failed_gate",
        gate=None if gate_passed else "patients_apart",
        level="useful" if gate_passed else "ran",
        spent=Spent(turns=9, actions=11, input_tokens=1200, tokens_estimated=True),
    )
    _, _, *between = told_until(RUN, "model_trainer")
    trained = TrainingFinished.make(
        run_id=RUN, sender="model_trainer", cause=between[-1], package=NOWHERE, validation={}, attempts=1
    )
    return list(enumerate((requested, planned, *between, trained, scored, finished), 1))


def test_a_good_run() -> None:
    told = summary(events(gate_passed=True), width=200)
    for words in (
        "r1: succeeded, level useful",
        "classify chest CT [core playbook]",
        "Dataset One: its card states chest CT",
        "two, three (is MRI)",
        "at most 1000 to train on",
        "auc_macro 0.910, 95 % interval 0.840 to 0.970 (60 samples of 40 patients)",
        "majority 0.500, permutation test p = 0.001",
        "all 1 passed: patients_apart",
        "9 turns, 11 actions, 1,200 tokens (estimated)",
    ):
        assert words in told, told


@pytest.mark.parametrize(
    ("spent", "says"),
    [
        (Spent(), ""),
        (Spent(usd=0.254), "0.25 USD"),
        (Spent(unpriced=True), "cost in USD not known"),
        (Spent(usd=2, unpriced=True), "more than 2.00 USD"),
    ],
)
def test_the_cost_is_what_is_known_of_it(spent: Spent, says: str) -> None:
    assert money(spent) == says


def test_that_the_weights_were_fitted_once_more_is_told() -> None:
    told = events(gate_passed=True)
    assert "learned from the validation cases" not in summary(told, width=200)
    place, trained = told[-3]
    assert isinstance(trained, TrainingFinished)
    measured: dict[str, JsonValue] = {"auc_macro": 0.912, "last_fit": {"seconds": 18.0}}
    told[-3] = (place, trained.model_copy(update={"validation": measured}))
    assert "by its own word: auc_macro 0.912; what is delivered then learned from the validation cases, too" in summary(
        told, width=200
    )


def test_what_a_request_limited_the_run_to_is_told() -> None:
    told = events(gate_passed=True)[:2]
    limited = "limited to liver, as was asked; the dataset also has spleen"
    cases = prepared(RUN, told[1][1], notes=("a case is a file", limited))
    assert f"Cases       a case is a file; {limited}\n" in summary([*told, (3, cases)], width=200)


def scored_masks(per_class: dict[str, dict[str, float]]) -> str:
    told = events(gate_passed=True)
    planned, scored = told[1][1], told[-2][1]
    assert isinstance(planned, TaskPlanned) and isinstance(scored, RunScored)
    plan = planned.plan.model_copy(update={"task": "organ_segmentation", "metric": "dice"})
    counts = {"train": {"all": 9}, "test": {"all": 5}}
    report = LeakageReport(checks={"same_patient": 0}, notes=("All was compared.", "Nothing was found."))
    lock = locked(RUN, planned, leakage=report, counts=counts, patients={"train": 8, "test": 4})
    masks = scored.model_copy(
        update={
            "metric": Metric(name="dice", value=0.712, low=0.65, high=0.78, n=5, patients=4),
            "controls": (Control(name="mean_mask", value=0.31), Control(name="constant", value=0.02)),
            "per_class": per_class,
        }
    )
    plan_event = planned.model_copy(update={"plan": plan})
    facts = [event for _, event in told]
    facts[1], facts[3], facts[-2] = plan_event, lock, masks
    return summary(list(enumerate(facts, 1)), width=200)


def test_the_model_is_the_one_that_was_delivered() -> None:
    told = reported.events()
    assert "resnet18, 3D on 1x32x64x64 input, loss name focal" in summary(told, width=200)
    made = {"network": "ResNet(resnet18,\x1b[31m width 24)", "input_shape": [2, 48, 64, 64], "loss": "focal"}
    facts = [
        event.model_copy(update={"metrics": {**event.metrics, **made}}) if isinstance(event, JobFinished) else event
        for _, event in told
    ]
    shown = summary(list(enumerate(facts, 1)), width=300)
    assert "ResNet(resnet18," in shown and "width 24) on 2x48x64x64 input, loss focal" in shown and "\x1b" not in shown
    own = [one.model_copy(update={"own_code": ("train.py",)}) if isinstance(one, JobFinished) else one for one in facts]
    assert "resnet10 on 1x32x64x64 input, loss cross entropy" in summary(list(enumerate(own, 1)), width=300)


def test_a_segmentation_is_told_by_structure() -> None:
    told = scored_masks(
        {
            "liver": {"dice": 0.93, "n": 5, "missed": 0, "invented": 0, "hd95": 3.14, "nsd": 0.912},
            "gall bladder": {"dice": 0.5, "n": 4, "missed": 1, "invented": 2},
            "spleen": {"n": 0, "missed": 0, "invented": 0},
        }
    )
    for words in (
        "dice 0.712, 95 % interval 0.650 to 0.780 (5 samples of 4 patients)",
        "Structures  liver: dice 0.930 in 5 cases, HD95 3.1, NSD 0.912\n",
        "same_patient 0; locked 1 time\n            All was compared. Nothing was found.\n",
        "            gall bladder: dice 0.500 in 4 cases, missed in 1, invented in 2\n",
        "            spleen: in no case\n",
        "mean_mask 0.310, constant 0.020, permutation test p = 0.001",
        "9 samples of 8 patients\n",
    ):
        assert words in told, told
    assert "Per class" not in told


def test_of_many_structures_the_worst_are_told() -> None:
    told = scored_masks({f"bone {number}": {"dice": 1 - number / 200, "n": 5} for number in range(104)})
    assert "bone 103: dice 0.485" in told and "bone 88:" not in told
    assert "and 89 more, none of them worse" in told


def test_a_failed_gate_is_named_with_its_evidence() -> None:
    told = summary(events(gate_passed=False), width=200)
    assert "failed_gate, level ran, gate patients_apart" in told
    assert "FAILED patients_apart: patient 7 is on both sides" in told
    assert "passed" not in told


def test_a_run_that_is_still_going_is_told_as_far_as_it_got() -> None:
    told = summary(events(gate_passed=True)[:2])
    assert "r1: running" in told and "Score" not in told
    assert summary([]) == "No event yet."


def test_durations_read_like_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3661)] == ["0 s", "59 s", "1 min 1 s", "1 h 1 min"]
