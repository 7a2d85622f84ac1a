"""Fifty short runs a protocol, over a real bus, with every fault that an endpoint can have, at random."""

import asyncio
import logging
import random
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from services.agent import AgentService
from shared.agent.role import Role
from shared.bus import Bus
from shared.contracts.base import Event
from shared.contracts.transcript import Turn
from shared.service import Context
from shared.settings import Settings
from tests.models.at_work import ANSWER, READ_A, Runner, desk_for
from tests.models.model_endpoints import Endpoint, serving
from tests.models.protocols import Protocol, Reply
from tests.serving import serving as serving_runner

RUNS = 50
KEY = "sk-canary-0123456789"
PRICES = """
endpoints:
  anthropic: {protocol: anthropic, url: "https://api.anthropic.com", inside: true}
  openai: {protocol: openai, url: "https://api.openai.com/v1", inside: true}
models:
  tried-anthropic: {endpoint: anthropic, model: tried, usd: [{input: 3, output: 15, cached: 0.3, written: 3.75}]}
  tried-openai: {endpoint: openai, model: tried, usd: [{input: 3, output: 15, cached: 0.3, written: 3.75}]}
"""
FORBIDDEN = {"command": "rm -r"}


def faults(protocol: Protocol, use: str) -> dict[str, list[Reply]]:
    """Name -> what the endpoint does, one reply after the other. Some quote the key, as real ones did."""

    def error(status: int, **headers: str) -> Reply:
        return protocol.error(status, "api_error", f"not now, {KEY}", retry_after_ms="1", **headers)

    def lost(how: Any) -> list[Reply]:
        reply = protocol.reply((use, "run_script", FORBIDDEN))
        reply.broken = how
        return [reply]

    whole = (use, "read_files", READ_A)
    cut = (f"{use}x", "run_script", FORBIDDEN)
    return {
        "429": [error(429)],
        "529": [error(529)],
        "500": [error(500)],
        "outage": [error(503)] * 6,
        "asked to wait": [protocol.error(429, "rate_limit_error", "later", retry_after="0.01")],
        "dropped": lost("dropped"),
        "half": lost("half"),
        "late": lost("late"),
        "no JSON": [Reply(200, "{")],
        "page": [Reply(200, f"<html>{KEY}</html>")],
        "cut": [protocol.stopped(protocol.reply(whole, cut), "length")],
        "refused": [protocol.stopped(protocol.reply(text="I will not."), "refusal")],
        "bad arguments": [protocol.reply((use, "read_files", {"path": "a"}))],
        "no object": [protocol.reply((use, "read_files", "{'command': " if protocol.name == "openai" else {}))],
        "unknown tool": [protocol.reply((use, "fly", {}))],
        "empty": [protocol.reply()],
        "prose": [protocol.reply(text='I would call read_files({"paths": ["a.txt"]}).')],
        "repeated id": [protocol.reply(("0", "read_files", READ_A), ("0", "read_files", READ_A))],
        "thought": [protocol.thoughtful(whole)[0]],
    }


class Faulty(Endpoint):
    """Plays the model of all runs: each reads a file, then submits; in between, faults. What it charged: `bill`."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol, [])
        self.met: Counter[str] = Counter()
        self.bill: dict[str, Counter[str]] = {}
        self._runs: dict[str, Endpoint] = {}
        self._due: dict[str, list[Reply]] = {}
        self._dice: dict[str, random.Random] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        with self._lock:
            run_id = re.findall(r"a model for (\S+)", self.protocol.said(body)[0].words)[0]
            looked = self._runs.setdefault(run_id, Endpoint(self.protocol, []))
            bill = self.bill.setdefault(run_id, Counter())
            due = self._due.setdefault(run_id, []) or self._next(run_id, bill)
            looked.replies = [due.pop(0)]
            reply = looked.answer(path, key, body)
            self.wrong += looked.wrong
            if reply.status == 200 and isinstance(reply.body, dict) and not reply.broken and not looked.wrong:
                bill += Counter(turns=1, input=1000, cached=900, written=60, output=20)
                self.bill[run_id] = bill
            return reply

    def _next(self, run_id: str, bill: Counter[str]) -> list[Reply]:
        dice = self._dice.setdefault(run_id, random.Random(len(self._dice)))
        use = f"u{bill['turns']}"
        self.met[run_id] += 1
        if self.met[run_id] < 12 and dice.random() < 0.8:
            name, replies = dice.choice(list(faults(self.protocol, use).items()))
            self.met[name] += 1
        elif not bill["read"]:
            bill["read"] = 1
            replies = [self.protocol.reply((use, "read_files", READ_A))]
        else:
            # A second submission is not judged.
            twice = ((f"{use}{place}", "declare_infeasible", ANSWER) for place in "ab")
            replies = [self.protocol.reply(*twice, (f"{use}c", "read_files", READ_A))]
        for reply in replies:
            if reply.status == 200 and isinstance(reply.body, dict):
                charged = self.protocol.reply(read=1000, wrote=20, cached=(60, 900)).body["usage"]
                reply.body["usage"] = charged
        self._due[run_id] = replies
        return replies


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_no_fault_of_an_endpoint_loses_a_run(
    bus: Bus,
    bus_settings: Settings,
    role: Role,
    protocol: Protocol,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    settings = bus_settings.model_copy(update={"models_file": prices, "model_seconds": 5.0})
    monkeypatch.setenv(f"{protocol.name.upper()}_API_KEY", KEY)
    runs = {
        (await desk_for(bus, role, f"playbook,data_engineer=tried-{protocol.name}")).brief.run_id for _ in range(RUNS)
    }
    service = AgentService(role, Context("data_engineer", settings, bus))

    async def handle(event: Event) -> None:
        if event.run_id in runs:  # the server is shared with other tests
            await service.handle(event)

    async def over() -> None:
        for run_id in runs:
            async for _, event in bus.follow(run_id):
                if event.sender == "data_engineer":
                    break

    runner, stop = Runner(*[{"ok": True}] * RUNS), asyncio.Event()
    with serving(Faulty(protocol)) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        async with serving_runner(bus, runner):
            listening = asyncio.create_task(bus.listen("data_engineer", handle, RUNS, stop, on_dead=service.dead))
            await over()
            stop.set()
            await listening
    missed = [name for name in faults(protocol, "u") if not endpoint.met[name]]
    assert not missed, f"never met: {missed}"
    assert not [made for made in runner.calls if made.tool == "run_script"]
    # The SDKs' own words for a developer are below INFO.
    shown = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert not [record for record in shown if record.exc_info or "Traceback" in record.getMessage()]
    told = caplog.text
    for run_id in runs:
        state = await bus.state(run_id)
        assert state.infeasible is not None, state.failed
        bill, spent = endpoint.bill[run_id], state.spent
        assert (spent.turns, spent.input_tokens) == (bill["turns"], bill["input"])
        assert (spent.cached_tokens, spent.output_tokens) == (bill["cached"], bill["output"])
        fresh = bill["input"] - bill["cached"] - bill["written"]
        usd = fresh * 3 + bill["cached"] * 0.3 + bill["written"] * 3.75 + bill["output"] * 15
        assert spent.usd == pytest.approx(usd / 1e6) and not spent.unpriced and not spent.tokens_estimated
        entries, _ = await bus.entries(run_id, "data_engineer")
        told += "".join(entry.model_dump_json() for entry in entries)
        told += "".join(event.model_dump_json() for _, event in await bus.events(run_id))
        assert sum(isinstance(entry, Turn) for entry in entries) == bill["turns"]
    assert KEY not in told
