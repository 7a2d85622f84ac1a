"""A role whose model is outside, over a real bus: its secret, what is on record, and pictures."""

import asyncio
import hashlib
import json
import re

import httpx
import pytest
from typer.testing import CliRunner

from services.agent import AgentService
from services.command import cli
from shared.agent.loop import run_agent
from shared.agent.role import Role
from shared.bus import Bus
from shared.contracts.base import Event
from shared.contracts.transcript import Turn
from shared.disclosure.again import text_of_turn
from shared.disclosure.requests import refuse_pictures
from shared.errors import ToolBroken, UserError
from shared.service import Context
from shared.settings import Settings
from tests.gateway.conftest import data_root, http  # noqa: F401
from tests.gateway.test_report_gathered import door  # noqa: F401
from tests.models.at_work import ANSWER, Runner, core_for, desk_for, endpoint_of
from tests.models.conftest import protocol, role  # noqa: F401
from tests.models.protocols import Protocol
from tests.serving import serving as serving_runner

NAME = "Quackenbush_1957.txt"


async def test_each_request_is_on_record_and_can_be_made_again(
    bus: Bus,
    bus_settings: Settings,
    http: httpx.AsyncClient,  # noqa: F811
    door: None,  # noqa: F811
    role: Role,  # noqa: F811
    protocol: Protocol,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = await desk_for(bus, role, f"playbook,data_engineer={protocol.name}:a-model")
    run_id = desk.brief.run_id
    service, stop = AgentService(role, Context("data_engineer", bus_settings, bus)), asyncio.Event()

    async def handle(event: Event) -> None:
        if event.run_id == run_id:
            await service.handle(event)
            stop.set()

    replies = (
        # The service makes no second try of its own; the SDK sends the same bytes again.
        protocol.error(500, "api_error", "not now", retry_after_ms="1"),
        protocol.reply(("c1", "read_files", {"paths": [NAME]})),
        protocol.reply(("s1", "declare_infeasible", ANSWER)),
    )
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        async with serving_runner(bus, Runner()):
            await bus.listen("data_engineer", handle, 1, stop, on_dead=service.dead)
    assert (await bus.state(run_id)).infeasible is not None
    entries, _ = await bus.entries(run_id, "data_engineer")
    secret = await bus.secret(run_id)
    assert len(secret) == 64 and not any(secret in json.dumps(body) for body in endpoint.bodies)
    told = await bus.disclosed(run_id)
    assert [(one.role, one.turn) for one in told] == [("data_engineer", 1), ("data_engineer", 2)]
    assert told[1].surrogates > told[0].surrogates > 0 and told[1].size > told[0].size
    text = text_of_turn(told[1], entries, [])
    assert hashlib.sha256(text.encode()).hexdigest() == told[1].sha256
    first, spoke = endpoint.heard[0].words, endpoint.heard[1].calls["c1"][1]
    assert json.loads(text)[0] == first and run_id not in json.dumps(endpoint.bodies)
    assert spoke == {"paths": [NAME]}, "what the model said itself it is told as it said it"
    with pytest.raises(UserError, match="cannot be made again"):
        text_of_turn(told[1].model_copy(update={"sha256": "0" * 64}), entries, [])
    listed = (await http.get(f"/runs/{run_id}/disclosure")).json()
    assert [(one["turn"], one["sha256"]) for one in listed] == [(one.turn, one.sha256) for one in told]
    assert (await http.get(f"/runs/{run_id}/disclosure/2")).json() == text
    assert (await http.get(f"/runs/{run_id}/disclosure/3")).status_code == 404
    shown = await asyncio.to_thread(CliRunner().invoke, cli.app, ["disclosure", run_id])
    assert shown.exit_code == 0 and all(one.sha256[:8] in shown.output for one in told), shown.output
    printed = await asyncio.to_thread(CliRunner().invoke, cli.app, ["disclosure", run_id, "--text", "2"])
    assert printed.output == text + "\n"


async def test_what_the_model_knows_by_surrogates_is_real_in_calls_and_transcript(
    bus: Bus,
    role: Role,  # noqa: F811
    protocol: Protocol,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first result names a file; the model, that was told another name, asks for it."""
    desk = await desk_for(bus, role)
    desk.brief = desk.brief.model_copy(update={"secret": "5e" * 32})
    runner = Runner()
    core = core_for(protocol, inside=False)
    replies = [protocol.reply(("c1", "read_files", {"paths": ["."]}))]
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        real = runner.on_call

        async def on_call(made):  # type: ignore[no-untyped-def]
            result = await real(made)
            if made.arguments.get("paths") == ["."]:
                return result.model_copy(update={"summary": f"files: {NAME}"})
            if made.arguments.get("paths"):
                endpoint.replies.append(protocol.reply(("s1", "declare_infeasible", ANSWER)))
            return result

        runner.on_call = on_call  # type: ignore[method-assign]
        answer = endpoint.answer

        def ask(path, key, body):  # type: ignore[no-untyped-def]
            said = protocol.said(body)
            if "c1" in said[-1].results:
                shown = re.findall(r"files: (\S+\.txt)", said[-1].results["c1"][1])[0]
                assert "Quackenbush" not in shown
                endpoint.replies.append(protocol.reply(("c2", "read_files", {"paths": [f"/data/{shown}"]})))
            return answer(path, key, body)

        endpoint.answer = ask  # type: ignore[method-assign]
        async with serving_runner(bus, runner):
            assert await run_agent(desk, core) is not None
    ours = [made.arguments.get("paths") for made in runner.calls if made.run_id == desk.brief.run_id]
    assert ours[:2] == [["."], [f"/data/{NAME}"]]
    turns = [entry for entry in desk.entries if isinstance(entry, Turn)]
    assert turns[1].calls[0].arguments == {"paths": [f"/data/{NAME}"]} and turns[1].hidden == ("Quackenbush_1957",)
    assert not any("Quackenbush" in json.dumps(body) for body in endpoint.bodies)


def test_no_picture_leaves() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}
    with pytest.raises(ToolBroken, match="picture"):
        refuse_pictures({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, picture]}]}, "x:y")
    refuse_pictures({"messages": [{"role": "user", "content": "image"}]}, "x:y")
