"""The summary tells what a reader must not miss, from events alone."""

from services.gateway.summary import duration, summary
from shared.contracts.base import Event, Spent
from shared.contracts.runs import Candidate, DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import Control, Gate, Metric, RunScored

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
    return list(enumerate((requested, planned, scored, finished), 1))


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
