"""The table of stages hangs together, and a stage is answered once."""

from importlib import import_module
from itertools import pairwise

import pytest

from shared.contracts.base import AGENTS, SERVICES, AgentName
from shared.contracts.events import decode_event
from shared.contracts.flow import KEEPER, SAYS, STAGES, stage_of
from shared.contracts.state import RunState, fold, order_for
from tests.cases import told_until


def test_every_stage_is_begun_by_the_answer_of_the_one_before() -> None:
    ordered = [stage for stage in STAGES if stage.answer]
    assert [after.wakes for _, after in pairwise(ordered) if after is not KEEPER] == [
        before.answer for before in ordered[:-2]
    ]
    assert ordered[0].wakes is None and ordered[-1] is KEEPER
    assert {stage.fact for stage in ordered} <= RunState.model_fields.keys()
    assert [stage.service for stage in STAGES if stage.area] == list(AGENTS) and {*map(stage_of, SERVICES)} <= {*STAGES}


@pytest.mark.parametrize("role", AGENTS)
def test_an_answer_counts_once_and_wakes_the_next(role: AgentName) -> None:
    events = told_until("r1", role)
    state = fold("r1", enumerate(events, 1))
    assert [name for name in SERVICES if order_for(name, state)] == [role]
    assert order_for(role, state) == events[-1].event_id
    again = decode_event(events[-1].encode()).model_copy(update={"event_id": "another"})
    assert fold("r1", [(9, again)], state) == state.model_copy(update={"head": 9, "passed_over": frozenset({9})})


@pytest.mark.parametrize("role", AGENTS)
def test_a_role_may_hand_back_or_end_a_run_only_where_it_has_a_submission_for_it(role: AgentName) -> None:
    tools = {one.tool for one in import_module(f"services.{role}.role").ROLE.submissions}
    ends = {"return_work": "WorkReturned", "declare_infeasible": "Infeasible"}
    assert {said for tool, said in ends.items() if tool in tools} == set(ends.values()) & set(SAYS[role])
