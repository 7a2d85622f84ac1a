"""The scorer on a real bus and a real object store. The test plays the other roles and the runner."""

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from case_tables import by_rules, case, labelled, looks, ref, table
from looking_alike import body, cropped
from scorer_world import PACKAGE, World, running, scored

from services.scorer.history import counted
from services.task_manager.approvals import approval
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.cases import CaseTable
from shared.contracts.data import CaseList, DatasetLocked, IndexRow, ViewManifest
from shared.contracts.erasure import Tombstone
from shared.contracts.questions import UNSAID, YES, QuestionAnswered
from shared.contracts.rules import Rules
from shared.contracts.runs import AcceptableRange, RoleFailed, WorkReturned
from shared.contracts.scoring import RunScored
from shared.contracts.state import RunState
from shared.settings import Settings
from shared.store import Store

LABELS = ("covid", "normal")


def good(row: IndexRow, number: int) -> object:
    p = 0.9 - 0.01 * number
    return {"probabilities": {name: p if name == row.label else 1 - p for name in LABELS}}


def constant(row: IndexRow, number: int) -> object:
    return {"probabilities": {"normal": 0.6, "covid": 0.4}}


RULES = {"task": "diagnosis", "dimensions": 2, "images": [{"files": "{class}/*.png"}],
         "label": {"source": {"field": "class"}}}  # fmt: skip
"""That the search proposes, too."""
TOLD = RULES | {"label": RULES["label"] | {"classes": {f"scan{n}": LABELS[n % 2] for n in range(100)}}}


def cases(store: Store) -> CaseTable:
    return by_rules(table(labelled(100)), RULES, [RULES])


@pytest.fixture
async def world(settings: Settings, bus: Bus) -> AsyncIterator[World]:
    async with running(settings, bus, cases, good, "auc_macro") as world:
        yield world


async def test_from_prepared_to_useful_and_nothing_of_test_in_the_view(world: World) -> None:
    acceptable = AcceptableRange(metric="auc_macro", floor=0.7, alarm=0.99, source="card")
    result = await scored(world, acceptable=acceptable, metric="AUC")
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert (locked.locks, locked.patients) == (1, {"train": 64, "val": 16, "test": 20})
    assert {name for name, count in locked.leakage.checks.items() if count} == {"look_not_compared"}
    assert (locked.sealed.bucket, locked.view.bucket, locked.facts.by_script) == ("sealed", "data", False)

    seen, test = await world.get(locked.view), await world.test()
    stored = {one.sample_id: one for one in (await world.sealed()).stored}
    for data in (seen.decode(), locked.model_dump_json()):
        assert "NOTE" not in data and "name0" not in data and "key" not in data.replace('"key":', "")
        for row in test:
            for name in (row.sample_id, row.patient, stored[row.sample_id].images[0].sha256):
                assert name not in data
    view = ViewManifest.model_validate_json(seen)
    assert view.rows == tuple(row for row in (await world.sealed()).rows if row.split != "test")

    intake, predict = world.jobs
    assert (intake.kind, set(intake.inputs)) == ("intake", {"rules"})
    assert set(predict.inputs) == {"package", "samples"} and predict.inputs["package"] == PACKAGE
    assert predict.inputs["samples"].bucket == "sealed"
    listed = CaseList.model_validate_json(await world.get(predict.inputs["samples"]))
    assert [one.sample_id for one in listed.samples if one.sample_id not in listed.altered] == [
        row.sample_id for row in test
    ]
    assert Counter(listed.altered.values()) == {"blanked": 10, "moved": 6, "noise": 4}

    assert result.level == "useful"
    assert (result.metric.name, result.metric.value, result.metric.n) == ("auc_macro", 1.0, 20)
    assert {one.name for one in result.others} == {"balanced_accuracy", "accuracy", "f1_macro", "brier", "ece"}
    assert {one.name for one in result.controls} == {"majority", "constant", "permutation"}
    assert result.permutation_p is not None and result.permutation_p < 0.01
    assert (result.locks, result.scorings) == (1, 1)
    gates = {gate.name: gate for gate in result.gates}
    assert all(gate.passed for gate in gates.values())
    assert {"package_of_this_lock", "cases_left_out", "no_near_duplicates", "split_unchanged"} <= gates.keys()
    assert "grouping: stated (column id)" in gates["no_patient_on_both_sides"].evidence
    assert "above the alarm bar" in gates["alarm"].evidence and "same_patient 0" in gates["alarm"].evidence
    said = " ".join(result.rests_on)
    assert "0.0% of the candidate images are no case" in said and "bits a case could have been carried" in said
    # Tests before this one may have used the dataset, too.
    assert re.search(r"was locked (once|\d+ times) and scored (once|\d+ times) so far", result.rests_on[0])
    assert "suspect a leak" in result.rests_on[-1]
    lines = json.loads(await world.get(result.details))["cases"]
    assert [line["sample_id"] for line in lines] == [row.sample_id for row in test]


async def test_handling_every_event_again_adds_nothing(world: World) -> None:
    await scored(world)
    before = await world.kinds()
    for _ in range(2):
        for _, event in await world.bus.events(world.run_id):
            await world.scorer.handle(event)
    assert await world.kinds() == before
    assert before.count("DatasetLocked") == before.count("RunScored") == 1
    assert [job.kind for job in world.jobs] == ["intake", "predict"]


@pytest.mark.parametrize(
    ("isolation", "apart", "level"),
    [("landlock", True, "useful"), ("landlock", False, "valid"), ("none", True, "valid"), ("", False, "valid")],
)
async def test_the_level_needs_walls_around_training_and_prediction(
    world: World, isolation: str, apart: bool, level: str
) -> None:
    world.isolation, world.apart = isolation, apart
    result = await scored(world)
    gate = next(gate for gate in result.gates if gate.name == "isolated")
    assert (result.level, gate.passed) == (level, level == "useful")
    assert f"train ran at {isolation or 'no known level'} and predict ran at" in gate.evidence


async def test_runs_on_one_dataset_are_counted_together(world: World) -> None:
    counts = []
    for _ in range(2):
        world.run_id = new_run_id()
        told = (await scored(world)).rests_on[0]
        counts.append([int(number) for number in re.findall(r"\d+", told)])
    assert [after - before for before, after in zip(counts[0][:2], counts[1][:2], strict=True)] == [1, 1]
    assert counts[1][2] == counts[0][2] + 1 >= 2


async def test_a_constant_answer_is_valid_and_not_useful(world: World) -> None:
    world.answers = constant
    result = await scored(world)
    assert result.level == "valid"
    assert (result.metric.value, result.permutation_p) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("outcome", "raw", "gate"),
    [
        ("ok", b'{"cases": {"x": {"probabilities": {"normal": NaN}}}}', "predictions_readable"),
        ("ok", b'{"cases": {}}', "all_cases_predicted"),
        ("ok", b"\x80\x04pickle", "predictions_readable"),
        ("timeout", None, "predictions_made"),
        ("failed", None, "predictions_made"),
        ("cancelled", None, "predictions_made"),
    ],
)
async def test_hostile_predictions_and_failed_jobs_end_as_ran(
    world: World, outcome: str, raw: bytes | None, gate: str
) -> None:
    world.outcome, world.raw = outcome, raw
    result = await scored(world)
    assert result.level == "ran"
    assert next(one.name for one in result.gates if not one.passed) == gate
    assert result.metric is None


async def refused(world: World) -> dict[str, str]:
    state = await world.until(lambda state: state.scored is not None)
    assert state.scored is not None and (state.scored.level, state.scored.metric) == ("ran", None)
    return {gate.name: gate.evidence for gate in state.scored.gates if not gate.passed}


async def test_a_package_of_an_earlier_lock_is_not_scored(world: World) -> None:
    """Trained under the first lock, started again and delivered under the second."""
    await world.begin()
    await world.prepare("1")
    await world.wait(DatasetLocked)
    await world.trainer("1")
    await world.prepare("2")
    await world.until(lambda state: state.locked is not None and state.locks == 2)
    await world.trainer("1")
    await world.deliver("1")
    assert "package_of_this_lock" in await refused(world)
    assert [job.kind for job in world.jobs] == ["intake", "intake"]
    # What is trained again is scored, although its bytes are the same.
    await world.train("2")
    state = await world.until(lambda state: state.scored is not None and state.scorings == 2)
    assert state.scored is not None and state.scored.level == "useful"


@pytest.mark.parametrize("named", [ref("other", bucket="packages"), ref("package", bucket="sealed")])
async def test_only_what_the_runner_made_is_scored(world: World, named: object) -> None:
    await world.begin()
    await world.prepare()
    await world.wait(DatasetLocked)
    await world.trainer()
    await world.deliver(package=named)  # type: ignore[arg-type]
    assert "package_of_this_lock" in await refused(world)
    assert [job.kind for job in world.jobs] == ["intake"]


async def test_a_package_without_a_job_is_not_scored(world: World) -> None:
    await world.begin()
    await world.prepare()
    await world.wait(DatasetLocked)
    await world.deliver()
    assert "package_of_this_lock" in await refused(world)


async def test_half_of_the_cases_left_out_is_valid_and_not_useful(world: World) -> None:
    world.table = table(labelled(100), files=200, left_out={"no pattern takes it": 100})
    result = await scored(world)
    (gate,) = [gate for gate in result.gates if not gate.passed]
    assert (result.level, gate.name) == ("valid", "cases_left_out") and gate.evidence.startswith("50.0%")
    assert result.metric is not None and result.metric.value == 1.0
    assert gate.evidence in " ".join(json.loads(await world.get(result.details))["why"])


@pytest.mark.parametrize("how", ["rules", "script", "rules before"])
async def test_rules_that_could_tell_the_answers_are_valid_and_not_useful(world: World, how: str) -> None:
    plain = world.table
    script = {"by_script": True, "rules": Rules(task="diagnosis", dimensions=2, listed="cases.jsonl")}
    world.table = plain.model_copy(update=script) if how == "script" else by_rules(plain, TOLD, [RULES])
    if how == "rules before":
        await world.begin()
        await world.prepare()
        await world.wait(DatasetLocked)
        world.table = plain
        await world.prepare("again")
        await world.until(lambda state: state.locks == 2)
        await world.train()
        result = await world.wait(RunScored)
    else:
        result = await scored(world)
    assert isinstance(result, RunScored)
    assert result.level == "valid" and result.locks == 1 + (how == "rules before")
    [failed] = [gate for gate in result.gates if not gate.passed]
    assert failed.name == "rules_say_little" and "could have told the answers" in failed.evidence
    assert f"{failed.evidence}." in result.rests_on
    locked = (await world.bus.state(world.run_id)).locked
    assert locked and f"{failed.evidence}." == locked.leakage.notes[-1]  # before any training, too
    assert locked.unvouched == (how != "script")  # of which nobody could say so


@pytest.mark.parametrize(("which", "value"), [("every", YES), ("every", UNSAID), ("last", YES)])
async def test_who_approves_each_split_vouches_for_the_rules(world: World, which: str, value: str) -> None:
    world.table = by_rules(world.table, TOLD, [RULES])
    world.asked = {}
    await world.begin()
    for number, salt in enumerate(("first", "second"), 1):
        await world.prepare(salt)
        await world.until(lambda state, number=number: state.locks == number)
        asked = approval(await world.bus.state(world.run_id), "split")
        said = {"run_id": world.run_id, "sender": "gateway", "cause": asked, "key": asked.question.key, "by": "anna"}
        assert "they could have told the answers of test cases" in asked.question.text
        await world.bus.append(asked)
        last = which == "every" or salt == "second"
        await world.bus.append(QuestionAnswered.make(**said, value=value if last else UNSAID))
    await world.train()
    result = await world.wait(RunScored)
    assert isinstance(result, RunScored)
    [gate] = [gate for gate in result.gates if gate.name == "rules_say_little"]
    vouched = (which, value) == ("every", YES)
    assert gate.passed is vouched and ("a person has approved the split" in gate.evidence) is vouched
    assert result.level == ("useful" if vouched else "valid")


async def test_a_copy_on_two_sides_of_a_given_split_is_returned_twice_and_then_ends_the_run(world: World) -> None:
    given = [case(n, label=LABELS[n % 2], split="train" if n < 30 else "test") for n in range(60)]
    given[40] = given[40].model_copy(update={"images": given[0].images})
    world.table = table(given)
    await world.begin()
    for salt in ("1", "2", "3"):
        await world.prepare(salt)
        await world.until(lambda state: state.prepared is None or not state.live)
    events = [event for _, event in await world.bus.events(world.run_id)]
    returned = [event for event in events if isinstance(event, WorkReturned)]
    assert len(returned) == 2
    assert returned[0].target == "data_engineer" and "drop `split`" in returned[0].reason
    assert set(returned[0].evidence["gates"]) == {"no_same_content"}
    assert returned[0].evidence["leakage"]["pairs"] == [["same_content", "key0", "key40"]]
    failed = [event for event in events if isinstance(event, RoleFailed)]
    assert [(event.end, event.gate) for event in failed] == [("failed_gate", "no_same_content")]


def alike(world: World, split: bool) -> None:
    """Looks of which the first and the last are of one image, saved twice."""
    pictures = [body(number, (64, 64)) for number in range(99)]
    records = looks([*pictures, cropped(pictures[0], 0.05)])
    stored = world.store.put_bytes("sealed", records.tobytes())
    given = [one.model_copy(update={"split": "train" if n < 70 else "test"}) for n, one in enumerate(labelled(100))]
    world.table = table(given if split else labelled(100), looks=stored)


async def test_near_duplicates_are_joined_and_nothing_is_sent_back(world: World) -> None:
    await asyncio.to_thread(alike, world, False)
    assert (await scored(world)).level == "useful"
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked) and set(locked.leakage.checks.values()) == {0}
    assert sum(locked.patients.values()) == 99 and "1 patients count as one" in " ".join(locked.leakage.notes)
    sealed = await world.sealed()
    rows = dict(zip(sealed.keys, sealed.rows, strict=True))
    assert (rows["key0"].split, rows["key0"].patient) == (rows["key99"].split, rows["key99"].patient)


async def test_near_duplicates_in_a_split_of_the_dataset_are_told_and_fail_nothing(world: World) -> None:
    await asyncio.to_thread(alike, world, True)
    result = await scored(world)
    locked = await world.wait(DatasetLocked)
    assert isinstance(locked, DatasetLocked)
    assert locked.leakage.checks["near_duplicate_in_given_split"] == 1 and locked.facts.split_from == "dataset"
    assert "near-duplicates cross the split that came with the dataset" in " ".join(locked.leakage.notes)
    assert result.level == "useful"
    gate = next(gate for gate in result.gates if gate.name == "no_near_duplicates")
    assert "1 cross the split that came with the dataset" in gate.evidence


async def test_locks_and_scorings_are_counted_and_an_old_preparation_moves_nothing(world: World) -> None:
    await scored(world)
    first, before = (await world.bus.state(world.run_id)).prepared, await world.sealed()
    # Handed back: one training case is gone, by its name.
    gone = next(key for key, row in zip(before.keys, before.rows, strict=True) if row.split == "train")
    world.table = table([one for one in labelled(100) if one.key != gone])
    second = await world.prepare("2")
    state = await world.until(lambda state: state.locked is not None)
    assert (state.prepared.event_id, state.locks) == (second.event_id, 2)
    assert set(world.jobs[-1].inputs) == {"rules", "sealed"}
    after = await world.sealed()
    assert after.seed == before.seed and set(after.rows) == {
        row for row, key in zip(before.rows, before.keys, strict=True) if key != gone
    }
    await world.scorer.handle(first)
    await world.train("2")
    state = await world.until(lambda state: state.scored is not None)
    assert (state.scored.locks, state.scored.scorings, state.scored.level) == (2, 2, "useful")
    assert (await world.kinds()).count("DatasetLocked") == 2


async def test_rules_for_another_task_go_back(world: World) -> None:
    await world.begin(task="report_generation", metric="bleu")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert isinstance(returned, WorkReturned)
    assert returned.target == "data_engineer" and "report_generation" in returned.reason


async def test_what_the_scorer_cannot_score_is_said_before_anything_is_trained(world: World) -> None:
    await world.begin(metric="dice")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert returned.target == "task_manager"
    assert "balanced_accuracy" in returned.reason


async def test_kappa_stands_beside_the_figures_of_grades(world: World) -> None:
    names = tuple(sorted({case.label for case in world.table.cases}, reverse=True))
    graded = world.table.coverage.model_copy(update={"ordered": True, "label_names": names})
    world.table = world.table.model_copy(update={"coverage": graded})
    result = await scored(world, metric="QWK")
    assert (result.metric.name, result.metric.value, result.metric.high) == ("quadratic_kappa", 1.0, 1.0)
    assert (await world.sealed()).facts.label_names == names


async def test_kappa_of_classes_without_an_order_goes_back(world: World) -> None:
    await world.begin(metric="kappa")
    await world.prepare()
    returned = await world.wait(WorkReturned)
    assert returned.target == "data_engineer" and "`label.order`" in returned.reason


async def test_an_error_that_stays_ends_the_run_with_its_reason(world: World) -> None:
    world.outcome = "silent"
    await world.begin()
    await world.prepare()
    locked = await world.wait(DatasetLocked)
    trained = await world.train()
    await world.scorer.dead(trained, RuntimeError("no such object"))
    failed = await world.wait(RoleFailed)
    assert failed.end == "crashed"
    assert "no such object" in failed.reason
    await world.scorer.dead(locked, RuntimeError("again"))
    assert (await world.kinds()).count("RoleFailed") == 1


def test_the_scorer_imports_no_framework() -> None:
    code = "import sys, services.scorer.__main__; sys.exit(bool({'torch', 'sklearn', 'monai'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_erased_runs_are_told_where_tries_are_counted() -> None:
    stones = [Tombstone(id=kind, kind=kind, at=datetime.now(UTC), by="somebody") for kind in ("run", "dataset")]
    state = RunState(run_id="one", locks=2, scorings=1)
    assert counted([state], []) == "This dataset was locked 2 times and scored 2 times so far; its runs: 1."
    assert counted([state], stones).endswith("its runs: 1. Runs that were erased here, on whatever dataset: 1.")
