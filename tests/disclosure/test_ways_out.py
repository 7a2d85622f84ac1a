"""Ways by which a dataset's own words might come to an endpoint outside: an earlier role, a path, reasoning."""

from typing import Any

import pytest

from services.team import TEAM
from shared.agent.bounds import bounded_turn
from shared.agent.brief import Brief, make_brief
from shared.agent.solo import going_on
from shared.contracts.base import MAX_MESSAGE_BYTES
from shared.contracts.profile import Candidate, Profile
from shared.contracts.state import fold, order_for
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation, Turn
from shared.contracts.values import Source
from shared.disclosure.public import public_words
from shared.disclosure.requests import Outgoing
from tests.cases import told_until

NAME, CORE = "Quackenbush", "outside:m"


def brief_of(name: str, **plan: Any) -> Brief:
    role = next(one for one in TEAM if one.name == name)
    state = fold("r1", enumerate(told_until("r1", role.name), 1))
    order = order_for(role.name, state)
    assert order
    brief = make_brief(role.name, order, state, (), 600).model_copy(update={"secret": "5e" * 32})
    if brief.planned and plan:
        changed = brief.planned.plan.model_copy(update=plan)
        brief = brief.model_copy(update={"planned": brief.planned.model_copy(update={"plan": changed})})
    return brief


def left(brief: Brief, summary: str, core: str = CORE, **turn: Any) -> str:
    """What leaves after one turn with one result."""
    head = {"run_id": "r1", "role": brief.role}
    call = Call(name="read_files", arguments={"paths": list(turn.pop("paths", ["a.txt"]))})
    said = Turn(**head, number=1, at=brief.requested.at, core=core, calls=(call,), **turn)
    result = ToolResult(call_id=f"r1-{brief.role}-1-0", tool="read_files", ok=True, summary=summary)
    outgoing = Outgoing(brief, CORE)
    outgoing.follow([
        Observation(**head, number=0, event_id="e", event={"order": "x"}), said,
        Observation(**head, number=1, results=(result,)),
    ])  # fmt: skip
    return outgoing.text


def test_what_another_role_was_told_by_name_is_hidden_in_the_files_it_wrote() -> None:
    """The Task Manager's words to one role come to the next by a file of the workspace, with the name put back."""
    brief = brief_of("model_trainer", instructions={"module_architect": f"The data are of {NAME}."})
    assert NAME.lower() not in left(brief, f"# Data of {NAME}, {NAME.upper()}\nname = '{NAME.lower()}_1'").lower()


def test_a_name_in_a_path_of_ours_is_no_text_of_ours() -> None:
    brief = brief_of("data_engineer", instructions={"data_engineer": f"Look at {NAME}."})
    paths = [f"/m3/{NAME}"]
    assert NAME not in left(brief, f"{paths[0]}: no such file", paths=paths, hidden=(NAME,))
    assert NAME not in left(brief, f"{paths[0]}: no such file", paths=paths, core="inside:m")


def test_reasoning_of_a_model_inside_does_not_go_on_to_one_outside() -> None:
    kept = [{"type": "thinking", "thinking": NAME, "signature": "s"}]
    assert NAME not in left(brief_of("data_engineer"), "x", core="inside:m", kept=kept)
    assert "thinking" in left(brief_of("data_engineer"), "x", kept=kept), "its own goes back to a model"


def test_a_plan_makes_no_word_public() -> None:
    brief = brief_of("data_engineer", labels=(NAME,))
    assert NAME not in left(brief, f"patients: {NAME} 30")


@pytest.mark.parametrize("alone", [False, True])
def test_classes_of_many_files_are_told_to_the_data_engineer(alone: bool) -> None:
    label = Candidate(source=Source(field="a"), where="", distinct=2, share=1, values={"zystolith": 30, "leer": 30})
    profile = Profile(digest="d", files=60, size=1, images=60, labels=(label,))
    brief = brief_of("data_engineer").model_copy(update={"public": tuple(public_words(profile))})
    if alone:  # the conversation is the Task Manager's, whose brief holds no names of classes
        first = brief_of("task_manager")
        head = {"run_id": "r1", "role": "task_manager"}
        opened = Observation(**head, number=0, event_id="e", event=first.model_dump(mode="json"))
        said = Turn(**head, number=1, at=first.requested.at, core=CORE, calls=(Call(name="submit_plan", arguments={}),))
        own = Observation(
            run_id="r1", role="data_engineer", number=0, event_id="o", event=brief.model_dump(mode="json")
        )
        brief, _ = going_on([opened, said], brief, [own])
    told = left(brief, f"zystolith/{NAME.lower()}_1.png")
    assert "zystolith" in told and NAME.lower() not in told


def test_who_works_alone_reads_data_as_data() -> None:
    """`_plain`: where only a card is read, English words in lower case pass."""
    brief = brief_of("task_manager")
    asked = brief.requested.model_copy(update={"without": ("collaboration",)})
    assert "drew_white" in left(brief, "drew_white.png")
    assert "drew_white" not in left(brief.model_copy(update={"requested": asked}), "drew_white.png")


def test_a_turn_that_is_too_long_is_cut_between_words() -> None:
    text = "a " * 1496 + NAME
    turn = Turn(run_id="r1", role="data_engineer", number=1, at=brief_of("task_manager").requested.at, core=CORE,
                text=text + "x" * MAX_MESSAGE_BYTES, hidden=(NAME,), calls=())  # fmt: skip
    assert bounded_turn(turn).text.strip().endswith(" a")
