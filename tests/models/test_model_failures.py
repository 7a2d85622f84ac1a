"""Endpoints that refuse, fail, break off or are not there."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from services.agent import AgentService
from services.task_manager.keeper import keep
from shared.agent.desk import Desk
from shared.agent.loop import run_agent
from shared.agent.role import Role
from shared.bus import Bus, consume
from shared.bus.streams import LOG
from shared.contracts.base import Event
from shared.contracts.transcript import Turn, Waiting
from shared.errors import EndpointAway, M3Error, ToolBroken, Unavailable, UserError
from shared.models.endpoint import MAX_RETRIES, _asked_to_wait
from shared.service import Context
from shared.settings import Settings
from tests.models.at_work import SUBMIT, Runner, core_for, desk_for, endpoint_of
from tests.models.protocols import Protocol, Reply
from tests.serving import serving as serving_runner


async def test_a_busy_endpoint_is_asked_again(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = protocol.error(429, "rate_limit_error", "slow down", retry_after_ms="1")
    with endpoint_of(monkeypatch, protocol, busy, protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol, max_retries=2)) is not None
    assert endpoint.bodies[0] == endpoint.bodies[1]
    turns = [entry for entry in desk.entries if isinstance(entry, Turn)]
    assert len(turns) == 1 and desk.spent.actions == 1


@pytest.mark.parametrize(
    ("status", "kind", "error", "says"),
    [
        (401, "authentication_error", UserError, "_API_KEY"),
        (403, "permission_error", UserError, "_API_KEY"),
        (404, "not_found_error", UserError, "'a-model'"),
        (402, "billing_error", UserError, "no credit"),
        (400, "invalid_request_error", ToolBroken, "HTTP 400: what it said"),
        (503, "overloaded_error", EndpointAway, "HTTP 503: what it said"),
        (529, "overloaded_error", EndpointAway, "HTTP 529: what it said"),
        (429, "rate_limit_error", EndpointAway, "HTTP 429: what it said"),
    ],
)
async def test_a_final_refusal_says_what_to_do(
    desk: Desk, protocol: Protocol, status: int, kind: str, error: type[M3Error], says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    refusal = protocol.error(status, kind, "what it said")
    with endpoint_of(monkeypatch, protocol, refusal), pytest.raises(error, match=says) as caught:
        await run_agent(desk, core_for(protocol))
    assert type(caught.value) is error
    assert protocol.name in str(caught.value).lower()
    assert "secret-key" not in str(caught.value)


async def test_an_endpoint_that_will_not_have_the_request_ends_the_run_with_its_words(
    bus: Bus, bus_settings: Settings, role: Role, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = await desk_for(bus, role, f"{protocol.name}:a-model")
    with endpoint_of(monkeypatch, protocol, protocol.error(400, "invalid_request_error", "an odd request")):
        service = AgentService(role, Context("data_engineer", bus_settings, bus))
        await service.handle((await bus.events(desk.brief.run_id))[-1][1])
    state = await bus.state(desk.brief.run_id)
    end = keep(state)
    assert end is not None and end.end == "crashed"
    assert f"data_engineer: the endpoint of {protocol.name}:a-model answered HTTP 400: an odd request" in end.reason
    assert state.spent.turns == 0, "what was never answered is no turn"


async def test_an_outage_longer_than_the_retries_holds_the_run_up_and_costs_nothing(
    bus: Bus, bus_settings: Settings, role: Role, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = await desk_for(bus, role, f"{protocol.name}:a-model")
    service = AgentService(role, Context("data_engineer", bus_settings, bus))
    event = (await bus.events(desk.brief.run_id))[-1][1]
    broken = protocol.error(500, "api_error", "out of order", retry_after_ms="1")
    with endpoint_of(monkeypatch, protocol, *[broken] * (1 + MAX_RETRIES), protocol.reply(SUBMIT)):
        async with serving_runner(bus, Runner()):
            with pytest.raises(Unavailable, match="out of order"):  # which the bus answers by calling again
                await service.handle(event)
            assert keep(await bus.state(desk.brief.run_id)) is None, "the run goes on"
            await service.handle(event)
    state = await bus.state(desk.brief.run_id)
    assert state.infeasible is not None and state.spent.turns == 1


async def test_an_outage_of_an_hour_is_held_up_and_told_once(
    bus: Bus, bus_settings: Settings, role: Role, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six looks a minute, with all delays taken away."""
    monkeypatch.setattr(consume, "AWAY_DELAYS", ())
    monkeypatch.setattr(consume, "AWAY_DELAY", 0.0)
    desk = await desk_for(bus, role, f"{protocol.name}:a-model")
    run_id, name = desk.brief.run_id, f"{protocol.name}:a-model"
    service = AgentService(role, Context("data_engineer", bus_settings, bus))
    stop = asyncio.Event()
    told: list[Waiting | None] = []

    async def handle(event: Event) -> None:
        if event.run_id == run_id:  # the server is shared with other tests
            try:
                await service.handle(event)
            finally:
                told.append(await bus.waiting(run_id, "data_engineer"))

    away = protocol.error(529, "overloaded_error", "try later", retry_after_ms="1")
    answer = protocol.reply(SUBMIT)
    with endpoint_of(monkeypatch, protocol, *[away] * 360, answer):
        async with serving_runner(bus, Runner()):
            listening = asyncio.create_task(bus.listen("data_engineer", handle, 1, stop, on_dead=service.dead))
            async for _, event in bus.follow(run_id):
                if event.sender == "data_engineer":
                    break
            stop.set()
            await listening
    state = await bus.state(run_id)
    assert state.infeasible is not None and state.spent.turns == 1
    waits = told[0]
    assert waits is not None and told.count(waits) == len(told) - 1 >= 70 and told[-1] is None
    assert str(waits).startswith(f"waiting for the endpoint {name} since ") and "HTTP 529: try later" in str(waits)
    said = [message async for message in bus.connection.read(LOG, f"log.{run_id}.data_engineer")]
    assert len(said) == 1


async def test_a_page_instead_of_a_reply_points_to_the_base_url(
    desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Reply(200, "<html>welcome</html>")
    variable = f"{protocol.name.upper()}_BASE_URL"
    with endpoint_of(monkeypatch, protocol, page), pytest.raises(Unavailable, match=variable):
        await run_agent(desk, core_for(protocol))


def test_an_endpoint_may_ask_to_wait_until_a_time_of_day() -> None:
    def asked(value: str) -> float:
        error = M3Error("")
        error.response = httpx.Response(429, headers={"retry-after": value})  # type: ignore[attr-defined]
        return _asked_to_wait(error)

    assert 170 < asked(format_datetime(datetime.now(UTC) + timedelta(seconds=180), usegmt=True)) <= 180
    assert (asked("90"), asked("soon"), asked("Wed, 21 Oct 2015 07:28:00 GMT")) == (90, 0, 0)


@pytest.mark.parametrize("broken", ["dropped", "half", "late"])
async def test_a_broken_connection_is_tried_again(
    bus: Bus, desk: Desk, protocol: Protocol, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = dataclasses.replace(protocol.reply(SUBMIT), broken=broken)
    with endpoint_of(monkeypatch, protocol, lost, protocol.reply(SUBMIT)):
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol, max_retries=1))
    assert accepted is not None and accepted.spent.turns == 1


async def test_nobody_at_the_address_is_an_outage(
    desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", "http://somebody:secret-word@127.0.0.1:9/v1")
    with pytest.raises(Unavailable, match=r"could not be reached at http://127\.0\.0\.1:9/v1:"):
        await run_agent(desk, core_for(protocol))


async def test_a_local_server_needs_no_key(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY")
    with endpoint_of(monkeypatch, protocol, protocol.reply(SUBMIT)):
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None


async def test_neither_key_nor_address_names_both_variables(
    desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = protocol.name.upper()
    monkeypatch.delenv(f"{name}_API_KEY")
    with pytest.raises(UserError, match=f"{name}_API_KEY.*{name}_BASE_URL"):
        await run_agent(desk, core_for(protocol))
