"""What we wrote ourselves is read as it stands, beside data that are not."""

from pathlib import Path

import pytest

from services.team import TEAM
from shared.agent.brief import make_brief
from shared.contracts.state import fold, order_for
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation, Turn
from shared.disclosure.requests import Outgoing
from tests.cases import told_until

PAGE = (Path(__file__).parents[2] / "shared/dataset/rules/persons.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "paths, told",
    [
        (("/m3/shared/dataset/rules/persons.py",), True),
        (("/m3/shared/a.py", "/workspace/b.py"), False),
        (("/m3/../data/b.py",), False),
    ],
)
def test_the_library_is_read_as_it_is(paths: tuple[str, ...], told: bool) -> None:
    role = next(one for one in TEAM if one.name == "data_engineer")
    state = fold("r1", enumerate(told_until("r1", role.name), 1))
    order = order_for(role.name, state)
    assert order
    brief = make_brief(role.name, order, state, (), 600).model_copy(update={"secret": "5e" * 32})
    head = {"run_id": "r1", "role": role.name}
    woken = Observation(**head, number=0, event_id="e", event={"order": "x"})
    call = Call(name="read_files", arguments={"paths": list(paths)})
    turn = Turn(**head, number=1, at=brief.requested.at, core="c:m", calls=(call,))
    result = ToolResult(call_id=f"r1-{role.name}-1-0", tool="read_files", ok=True, summary=PAGE)
    outgoing = Outgoing(brief, "c:m")
    outgoing.follow([woken, turn, Observation(**head, number=1, results=(result,))])
    assert (PAGE in outgoing.rest[0].asked[0].answer) is told
