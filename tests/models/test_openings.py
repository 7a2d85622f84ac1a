"""What a role always begins with is called before a model is asked: it stands in the first message."""

from dataclasses import replace

import pytest

from shared.agent.desk import Desk
from shared.agent.loop import run_agent
from shared.agent.prompt import opening
from shared.agent.showing import fenced
from shared.bus import Bus
from shared.contracts.transcript import OPENING, Call, Turn
from tests.models.at_work import READ_A, READ_B, SUBMIT, Runner, core_for, endpoint_of, picture
from tests.models.protocols import Protocol
from tests.serving import serving

LOOK = {"paths": ["p"]}
CALLS = (Call(name="read_files", arguments=READ_A), Call(name="view_image", arguments=LOOK))


async def test_its_answers_and_pictures_cost_no_turn(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.role, runner = replace(desk.role, opening=lambda brief, again: () if again else CALLS), Runner()
    look = protocol.reply(("c1", "read_files", READ_B))
    with endpoint_of(monkeypatch, protocol, look, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, runner):
            accepted = await run_agent(desk, core_for(protocol, vision=True))
    first, _, told = endpoint.heard
    assert first.words.startswith(opening(desk.brief)) and fenced("seen ['a.txt']") in first.words
    assert '"paths"' not in first.words, "arguments may be anybody's words, and stand in no fence"
    assert first.pictures == [picture("p")] and not told.pictures
    assert told.results == {"c1": (True, fenced("seen ['b.txt']"))}
    assert [made.tool for made in runner.calls] == ["read_files", "view_image", "read_files", "resolve_rules"]
    assert accepted is not None and (accepted.spent.turns, accepted.spent.actions) == (2, 2)
    turns = [entry for entry in desk.entries if isinstance(entry, Turn)]
    assert [turn.core == OPENING for turn in turns] == [True, False, False] and not turns[0].spent.turns


async def test_who_works_alone_begins_itself(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.role = replace(desk.role, opening=lambda brief, again: CALLS, team=(desk.role,))
    with endpoint_of(monkeypatch, protocol, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert endpoint.heard[0].words == opening(desk.brief)
