"""A record that is played again on a real bus, whose tools answer otherwise."""

from pathlib import Path

import pytest

from services.command.replay import recorded_request
from shared.agent.desk import Desk
from shared.agent.loop import run_agent
from shared.bus import Bus
from shared.contracts.tools import ToolCall, ToolResult
from shared.errors import ReplayMismatch, UserError
from shared.models.diverged import divergences, kept
from shared.models.scripted import ScriptedCore, read_transcript
from tests.agents.test_loop import READ, SUBMIT, Runner, Script, desk_for, planned
from tests.serving import serving


class Telling(Runner):
    """Says what it is told to for `read_files`."""

    said = ""

    async def on_call(self, made: ToolCall) -> ToolResult:
        result = await super().on_call(made)
        return result.model_copy(update={"summary": self.said}) if made.tool == "read_files" else result


async def played(bus: Bus, core: object, said: str, ok: bool = True) -> Desk:
    runner = Telling(resolve_rules={"ok": ok})
    runner.said = said
    desk = desk_for(bus, await planned(bus))
    async with serving(bus, runner):
        await run_agent(desk, core)  # type: ignore[arg-type]
    return desk


async def test_a_changed_result_of_a_tool_is_named(bus: Bus, tmp_path: Path) -> None:
    text = "Exit code 0 after 1.2 s\nage,label\n40,a\n"
    first = await played(bus, Script(READ, SUBMIT), text)
    file = tmp_path / "turns.jsonl"
    file.write_text("".join(kept(entry).model_dump_json() + "\n" for entry in first.entries))
    assert "40,a" not in file.read_text(), "what the Data Engineer read names test cases"
    core = ScriptedCore(str(file))

    same = await played(bus, core, text.replace("1.2 s", "3.4 s"))
    before, record = {"data_engineer": first.entries}, read_transcript(file)
    assert not list(divergences(before, {"data_engineer": same.entries}))
    assert not list(divergences(record, {"data_engineer": same.entries}))

    other = await played(bus, core, text.replace("40,a", "40,b"))
    [found] = divergences(before, {"data_engineer": other.entries})
    assert str(found).splitlines() == [
        "data_engineer, turn 1, call 1 (read_files), line 3 of the result", "  recorded: 40,a", "  now:      40,b",
    ]  # fmt: skip
    [found] = divergences(record, {"data_engineer": other.entries})
    assert (found.turn, found.call, found.before) == (1, 1, "(of this role a digest is kept)")

    with pytest.raises(ReplayMismatch, match=r"has 2 turns.*diverged at data_engineer, turn 1, call 1 \(read_files\)"):
        await played(bus, core, "nothing there", ok=False)
    with pytest.raises(UserError, match="does not tell what was asked"):
        recorded_request(file)
