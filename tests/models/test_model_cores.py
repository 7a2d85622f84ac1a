"""The cores behind an SDK: real SDK, real HTTP, real bus; the test plays the endpoint and the runner."""

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_endpoints import Anthropic, Endpoint, OpenAI, Protocol, Reply, playing
from model_endpoints import serving as serving_endpoint

from services.task_manager.keeper import keep
from shared.agent.brief import Brief, make_brief
from shared.agent.core import Core
from shared.agent.desk import Desk
from shared.agent.loop import run_agent, spent_in
from shared.agent.prompt import opening
from shared.agent.role import Facts, Probe, Role, Submission
from shared.agent.service import AgentService
from shared.bus import Bus
from shared.contracts.base import Event, Spent, new_run_id
from shared.contracts.runs import DataCard, Infeasibility, Infeasible, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import RunState, order_for
from shared.contracts.tools import ReadFiles, RunScript, StartTraining, ToolCall, ToolResult
from shared.contracts.training import JobFinished, JobSpec
from shared.contracts.transcript import Turn
from shared.errors import M3Error, ToolBroken, Unavailable, UserError
from shared.models import make_core
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, Price, read_catalogue
from shared.models.endpoint import MAX_RETRIES
from shared.models.openai import OpenAICore
from shared.service import Context
from shared.settings import Settings
from tests.serving import serving

READ_A = {"paths": ["a.txt"]}
READ_B = {"paths": ["b.txt"]}
ANSWER = {"claim": "one_class", "reason": "one class only", "evidence": {"labels": ["a"]}}
SUBMIT = ("s9", "declare_infeasible", ANSWER)


@pytest.fixture(params=[Anthropic(), OpenAI()], ids=["anthropic", "openai"])
def protocol(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    for name in ("ANTHROPIC", "OPENAI"):
        for variable in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "ADMIN_KEY"):
            monkeypatch.delenv(f"{name}_{variable}", raising=False)
    # Without it an SDK would look for a login of the person who runs the tests.
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "none"))
    result: Protocol = request.param
    monkeypatch.setenv(f"{result.name.upper()}_API_KEY", "secret-key")
    return result


PRICE = Price(input=3, output=15, cached=0.3, written=3.75)


def core_for(protocol: Protocol, max_retries: int = 0, **figures: Any) -> Core:
    kind = AnthropicCore if protocol.name == "anthropic" else OpenAICore
    model = Model(endpoint=protocol.name, model="a-model", **({"usd": (PRICE,)} | figures))
    place = read_catalogue().endpoints[protocol.name]
    return kind(Listing(protocol.name, place, model, known=True), max_retries, timeout=1, patience=0)


@contextlib.contextmanager
def endpoint_of(monkeypatch: pytest.MonkeyPatch, protocol: Protocol, *replies: Reply) -> Iterator[Endpoint]:
    with playing(protocol, *replies) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        yield endpoint


class Runner:
    """Every call works; `resolve_rules` says what the test wants, one answer after the other."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found = list(found) or [{"ok": True}]
        self.calls: list[ToolCall] = []
        self.jobs: list[JobSpec] = []
        self.has_job = asyncio.Event()

    async def on_call(self, made: ToolCall) -> ToolResult:
        self.calls.append(made)
        data = self.found.pop(0) if made.tool == "resolve_rules" else {}
        return ToolResult(
            call_id=made.call_id, tool=made.tool, ok=True, summary=f"seen {made.arguments.get('paths')}", data=data
        )

    async def on_job(self, job: JobSpec, attempt: int) -> None:
        self.jobs.append(job)
        self.has_job.set()


def check(answer: Infeasibility, facts: Facts, brief: Brief) -> list[str]:
    return [] if facts.get("ok") else [str(facts["why"])]


def said(answer: Infeasibility, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
    return Infeasible.make(run_id=brief.run_id, sender="data_engineer", cause=brief.order, finding=answer, spent=spent)


@pytest.fixture
def role(tmp_path: Path) -> Role:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("You prepare datasets – carefully.\n", encoding="utf-8")
    probe = Probe("resolve_rules", ())
    return Role(
        name="data_engineer",
        tools=(ReadFiles, RunScript, StartTraining),
        submissions=(Submission("declare_infeasible", Infeasibility, check, said, lambda answer, brief: probe),),
        prompt=prompt,
        playbook=lambda brief: iter(()),  # type: ignore[arg-type,return-value]
    )


@pytest.fixture
async def desk(bus: Bus, role: Role) -> Desk:
    return await desk_for(bus, role)


async def desk_for(bus: Bus, role: Role, core: str = "playbook") -> Desk:
    """In a new run where it is the Data Engineer's turn."""
    run_id = new_run_id()
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="a model", core=core)
    await bus.append(asked)
    plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
    card = DataCard(dataset_id="d", name="d", description="d", path="/d")
    state = await bus.append(TaskPlanned.make(run_id=run_id, sender="task_manager", cause=asked, plan=plan, card=card))
    order = order_for("data_engineer", state)
    assert order is not None
    return Desk(bus, role, make_brief("data_engineer", order, state, (), 60))


async def test_parallel_calls_of_a_turn_come_back_together(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = protocol.reply(("c1", "read_files", READ_A), ("c2", "read_files", READ_B), text="I look first.")
    with endpoint_of(monkeypatch, protocol, first, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and accepted.answer["reason"] == ANSWER["reason"]
    opened, spoke, told = endpoint.heard
    assert opened.words == opening(desk.brief)
    assert spoke.words == "I look first."
    assert spoke.calls == {"c1": ("read_files", READ_A), "c2": ("read_files", READ_B)}
    assert told.results == {"c1": (True, "seen ['a.txt']"), "c2": (True, "seen ['b.txt']")} and not told.words
    assert "You prepare datasets – carefully." in str(endpoint.bodies[0])
    assert endpoint.bodies[0]["model"] == "a-model"
    assert endpoint.keys[0] == "Bearer secret-key"


async def test_a_refused_submission_is_told_once_and_mended(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = protocol.reply(("s1", "declare_infeasible", ANSWER)), protocol.reply(SUBMIT)
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        async with serving(bus, Runner({"ok": False, "why": "two patients cross"}, {"ok": True})):
            assert await run_agent(desk, core_for(protocol)) is not None
    ok, text = endpoint.heard[2].results["s1"]
    assert not ok and "two patients cross" in text
    assert str(endpoint.bodies[-1]["messages"]).count("two patients cross") == 1


async def test_the_start_of_a_job_and_its_end_are_one_message(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = protocol.reply(("j1", "start_training", {"command": ["python", "train.py"], "seconds": 5}))
    runner = Runner()
    with endpoint_of(monkeypatch, protocol, start, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is None
            assert len(endpoint.bodies) == 1, "nobody is asked while the job runs"
            await runner.has_job.wait()
            job = runner.jobs[0]
            await bus.append(
                JobFinished.make(
                    run_id=job.run_id, sender="tool_runner", cause=job.caused_by, salt=job.job_id, job_id=job.job_id,
                    job="train", asked_by="data_engineer", outcome="memory", summary="killed at 8 GB",
                )
            )  # fmt: skip
            # Another replica goes on: it has nothing but the transcript.
            assert await run_agent(Desk(bus, desk.role, desk.brief), core_for(protocol)) is not None
    told = endpoint.heard[2]
    assert told.results["j1"][0] and job.job_id in told.results["j1"][1]
    assert "JobFinished" in told.words and "killed at 8 GB" in told.words and "memory" in told.words


@pytest.mark.parametrize("words", ["I think I am done.", ""])
async def test_a_reply_without_calls_is_answered(
    bus: Bus, desk: Desk, protocol: Protocol, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint_of(monkeypatch, protocol, protocol.reply(text=words), protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert "asked for no tool" in endpoint.heard[2].words


async def test_arguments_that_cannot_be_read_are_refused_and_not_run(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner()
    with endpoint_of(monkeypatch, protocol, protocol.garbled(), protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert [made.tool for made in runner.calls] == ["resolve_rules"]
    _, spoke, told = endpoint.heard
    assert not spoke.words and "cut off" in told.words
    assert "rm -r" in spoke.calls["g1"][1]["_unparsed"]
    ok, text = told.results["g1"]
    assert not ok and "no complete JSON object" in text


@pytest.mark.parametrize("raw", ['["a.txt"]', "{'paths': 1}", '{"seconds": NaN}'])
async def test_only_a_json_object_is_arguments(bus: Bus, desk: Desk, raw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    protocol = OpenAI()
    replies = (
        protocol.reply(("c1", "run_script", raw)),
        protocol.reply(("c2", "read_files", "")),
        protocol.reply(SUBMIT),
    )
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    heard = endpoint.heard
    assert heard[1].calls["c1"][1] == {"_unparsed": raw}
    assert heard[3].calls["c2"][1] == {}, "no text at all means no arguments"
    assert "paths" in heard[4].results["c2"][1]


async def test_ids_that_repeat_or_are_missing_become_unique(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [protocol.reply((name, "read_files", {"paths": [f"{turn}"]})) for turn, name in enumerate(["0", "0", ""])]
    with endpoint_of(monkeypatch, protocol, *replies, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert [list(one.calls) for one in endpoint.heard[1::2]] == [["0"], ["call_2_0"], ["call_3_0"]]


async def test_tokens_are_counted_with_what_went_through_the_cache(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = (
        protocol.reply(("c1", "read_files", READ_A), read=1000, wrote=20, cached=(900, 0)),
        protocol.reply(SUBMIT, read=1100, wrote=30, cached=(150, 900)),
    )
    with endpoint_of(monkeypatch, protocol, *replies):
        async with serving(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None
    assert (accepted.spent.input_tokens, accepted.spent.output_tokens) == (2100, 50)
    assert accepted.spent.cached_tokens == 900
    assert accepted.spent.usd == pytest.approx((150 * 3 + 900 * 0.3 + 1050 * 3.75 + 50 * 15) / 1e6)
    assert (accepted.spent.turns, accepted.spent.actions) == (2, 2)
    assert not accepted.spent.tokens_estimated


async def test_an_endpoint_that_does_not_count_is_estimated_and_said_so(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint_of(monkeypatch, protocol, protocol.uncounted(SUBMIT)):
        async with serving(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and accepted.spent.tokens_estimated
    assert accepted.spent.input_tokens > 500 and accepted.spent.output_tokens > 10


async def test_a_busy_endpoint_is_asked_again(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = protocol.error(429, "rate_limit_error", "slow down", retry_after_ms="1")
    with endpoint_of(monkeypatch, protocol, busy, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol, max_retries=2)) is not None
    assert endpoint.bodies[0] == endpoint.bodies[1]
    turns = [entry for entry in desk.entries if isinstance(entry, Turn)]
    assert len(turns) == 1 and spent_in(desk).actions == 1


@pytest.mark.parametrize(
    ("status", "kind", "error", "says"),
    [
        (401, "authentication_error", UserError, "_API_KEY"),
        (403, "permission_error", UserError, "_API_KEY"),
        (404, "not_found_error", UserError, "'a-model'"),
        (402, "billing_error", UserError, "no credit"),
        (400, "invalid_request_error", ToolBroken, "HTTP 400: what it said"),
        (503, "overloaded_error", Unavailable, "HTTP 503: what it said"),
        (529, "overloaded_error", Unavailable, "HTTP 529: what it said"),
        (429, "rate_limit_error", Unavailable, "HTTP 429: what it said"),
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
    with endpoint_of(monkeypatch, protocol, protocol.error(400, "invalid_request_error", "too long")):
        service = AgentService(role, Context("data_engineer", bus_settings, bus))
        await service.handle((await bus.events(desk.brief.run_id))[-1][1])
    state = await bus.state(desk.brief.run_id)
    end = keep(state)
    assert end is not None and end.end == "crashed"
    assert f"data_engineer: the endpoint of {protocol.name}:a-model answered HTTP 400: too long" in end.reason
    assert state.spent.turns == 0, "what was never answered is no turn"


async def test_an_outage_longer_than_the_retries_holds_the_run_up_and_costs_nothing(
    bus: Bus, bus_settings: Settings, role: Role, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = await desk_for(bus, role, f"{protocol.name}:a-model")
    service = AgentService(role, Context("data_engineer", bus_settings, bus))
    event = (await bus.events(desk.brief.run_id))[-1][1]
    broken = protocol.error(500, "api_error", "out of order", retry_after_ms="1")
    with endpoint_of(monkeypatch, protocol, *[broken] * (1 + MAX_RETRIES), protocol.reply(SUBMIT)):
        async with serving(bus, Runner()):
            with pytest.raises(Unavailable, match="out of order"):  # which the bus answers by calling again
                await service.handle(event)
            assert keep(await bus.state(desk.brief.run_id)) is None, "the run goes on"
            await service.handle(event)
    state = await bus.state(desk.brief.run_id)
    assert state.infeasible is not None and state.spent.turns == 1


async def test_what_a_model_thought_goes_back_as_it_was_given(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, thought = protocol.thoughtful(("c1", "read_files", READ_A))
    with endpoint_of(monkeypatch, protocol, first, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    spoke = endpoint.heard[1]
    assert (spoke.thought, list(spoke.calls)) == (thought, ["c1"])


async def test_a_cut_call_is_not_made_even_if_it_looks_whole(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = ("c1", "read_files", READ_A), ("c2", "run_script", {"command": ["rm", "-r"]})
    runner = Runner()
    cut = protocol.stopped(protocol.reply(*uses), "length"), protocol.stopped(protocol.reply(*uses[1:]), "refusal")
    with endpoint_of(monkeypatch, protocol, *cut, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert [made.tool for made in runner.calls] == ["read_files", "resolve_rules"]
    assert endpoint.heard[2].results["c1"][0] and not endpoint.heard[2].results["c2"][0]


async def test_a_call_behind_a_submission_waits_for_what_becomes_of_it(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = ("c1", "run_script", {"command": ["ls"]})
    replies = protocol.reply(("s1", "declare_infeasible", ANSWER), behind), protocol.reply(SUBMIT, behind)
    runner = Runner({"ok": False, "why": "two patients cross"}, {"ok": True})
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        async with serving(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert {made.tool for made in runner.calls} == {"resolve_rules"}
    ok, text = endpoint.heard[2].results["c1"]
    assert not ok and "behind declare_infeasible" in text


async def test_the_oldest_results_make_room_in_a_small_context(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(number: int) -> dict[str, Any]:
        return {"paths": [f"{number}-{'x' * 3000}"]}

    replies = [protocol.reply((f"c{number}", "read_files", long(number))) for number in range(6)]
    asked: list[dict[str, Any]] = []

    class Forgetful(Endpoint):
        """Does not mind that what was said changes."""

        def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
            asked.append(body)
            self.bodies.clear()
            return super().answer(path, key, body)

    small = core_for(protocol, context=12_000, output=1_000)
    with serving_endpoint(Forgetful(protocol, [*replies, protocol.reply(SUBMIT)])) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        async with serving(bus, Runner()):
            assert await run_agent(desk, small) is not None
        results = {call: text for one in endpoint.heard for call, (_, text) in one.results.items()}
    assert "left out" in results["c0"] and "left out" not in results["c5"]
    assert "call again" in results["c0"]
    assert max(len(str(body["messages"])) for body in asked) < 3 * 12_000


async def test_a_page_instead_of_a_reply_points_to_the_base_url(
    desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Reply(200, "<html>welcome</html>")
    variable = f"{protocol.name.upper()}_BASE_URL"
    with endpoint_of(monkeypatch, protocol, page), pytest.raises(Unavailable, match=variable):
        await run_agent(desk, core_for(protocol))


@pytest.mark.parametrize("broken", ["dropped", "half", "late"])
async def test_a_broken_connection_is_tried_again(
    bus: Bus, desk: Desk, protocol: Protocol, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = dataclasses.replace(protocol.reply(SUBMIT), broken=broken)
    with endpoint_of(monkeypatch, protocol, lost, protocol.reply(SUBMIT)):
        async with serving(bus, Runner()):
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
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None


async def test_neither_key_nor_address_names_both_variables(
    desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = protocol.name.upper()
    monkeypatch.delenv(f"{name}_API_KEY")
    with pytest.raises(UserError, match=f"{name}_API_KEY.*{name}_BASE_URL"):
        await run_agent(desk, core_for(protocol))


@pytest.mark.parametrize("spec", ["anthropic:claude-x", "openai:qwen2.5:7b"])
def test_a_run_names_its_model(spec: str) -> None:
    assert make_core(spec).name == spec


@pytest.mark.parametrize("spec", ["anthropic", "openai:", "nobody:x", ""])
def test_what_is_no_core_is_told_all_kinds(spec: str) -> None:
    with pytest.raises(UserError, match=r"playbook.*claude-3.7-sonnet.*anthropic:.*openai:.*scripted:"):
        make_core(spec)


def test_an_agent_loads_no_sdk_before_it_asks_a_model() -> None:
    code = (
        "import sys; from shared.models import make_core; make_core('anthropic:m'); make_core('openai:m'); "
        "print(sorted({'anthropic', 'openai', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
