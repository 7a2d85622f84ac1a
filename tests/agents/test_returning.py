"""Handing work back: who may, to whom, how often, and what a refused training says about its samples."""

from collections.abc import Callable, Generator

import pytest

from services.model_trainer.playbook import playbook as train
from services.model_trainer.role import ROLE as TRAINER
from services.module_architect.playbook import playbook as assemble
from services.module_architect.role import ROLE as ARCHITECT
from shared.agent.returning import return_work
from shared.contracts.base import Spent
from shared.contracts.runs import MAX_RETURNS, ReturnedWork
from shared.contracts.state import RunState, fold
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError
from tests.agents.test_trainer_playbooks import CONFIG, brief, ended, read, seen
from tests.cases import told_until

Playing = Generator[tuple[Call, ...], Observation, None]
BAD = {"a/b 1.nii.gz": "12 values are NaN or infinite", "c": "cannot be read"}


def returned(target: str) -> ReturnedWork:
    return ReturnedWork(target=target, reason="r", evidence={"samples": {"a": "NaN"}})


def test_only_a_role_before_ones_own_can_be_given_work() -> None:
    check = return_work("module_architect").check
    assert check(returned("data_engineer"), {}, brief("module_architect")) == []
    assert "not to model_trainer" in check(returned("model_trainer"), {}, brief("module_architect"))[0]


def test_work_is_handed_back_twice_at_most() -> None:
    check = return_work("model_trainer").check
    facts = {"returned": {"model_trainer>data_engineer": MAX_RETURNS}}
    assert "2 times" in check(returned("data_engineer"), facts, brief("model_trainer"))[0]
    assert check(returned("module_architect"), facts, brief("model_trainer")) == []


def test_the_event_wakes_the_target_and_makes_what_came_after_it_void() -> None:
    its = brief("model_trainer")
    event = return_work("model_trainer").event(returned("data_engineer"), {}, its, RunState(run_id="r1"), Spent())
    assert event.subject() == "evt.r1.model_trainer.WorkReturned.data_engineer"
    state = fold("r1", enumerate([*told_until("r1", "model_trainer"), event], 1))
    assert state.handed_back == event and state.locked is None and state.stage == "data_engineer"


@pytest.mark.parametrize("role", [TRAINER, ARCHITECT])
def test_the_later_roles_can_hand_back(role) -> None:
    assert role.submission("return_work") is not None


def of_a_training() -> tuple[Playing, Observation]:
    script = train(brief("model_trainer"))
    next(script)
    script.send(seen(read(**{"config.yaml": CONFIG})))
    end = ended("failed", "train ended failed, exit code 2")
    return script, end.model_copy(update={"event": {**(end.event or {}), "bad_samples": BAD}})


def of_a_probe() -> tuple[Playing, Observation]:
    script = assemble(brief("module_architect"))
    next(script)
    copied = ToolResult(call_id="c", tool="copy_files", ok=True, summary="copied")
    script.send(seen(copied, read(**{"config.yaml": CONFIG, "environment.json": "{}"})))
    refused = ToolResult(call_id="c", tool="submit_module", ok=False, summary="no", data={"bad_samples": BAD})
    return script, seen(refused)


@pytest.mark.parametrize("refused", [of_a_training, of_a_probe])
def test_the_playbooks_hand_samples_back_that_no_setting_can_mend(
    refused: Callable[[], tuple[Playing, Observation]],
) -> None:
    script, told = refused()
    (call,) = script.send(told)
    assert call.name == "return_work" and call.arguments["target"] == "data_engineer"
    assert call.arguments["evidence"] == {"samples": BAD}
    with pytest.raises(UserError, match="2 samples cannot be"):
        script.send(seen(notes=("you have handed work back 2 times",)))
