"""What goes back and forth between a role and a model: real SDK, real HTTP, real bus."""

import subprocess
import sys
from typing import Any

import pytest

from shared.agent.desk import Desk
from shared.agent.dialogue import SHOWN
from shared.agent.loop import run_agent
from shared.agent.prompt import opening
from shared.agent.showing import fenced
from shared.bus import Bus
from shared.contracts.training import JobFinished
from shared.contracts.transcript import Observation
from shared.errors import UserError
from shared.models import make_core
from tests.models.at_work import ANSWER, READ_A, READ_B, SUBMIT, Runner, core_for, endpoint_of, picture
from tests.models.model_endpoints import Forgetful, serving
from tests.models.protocols import OpenAI, Protocol, Reply
from tests.serving import serving as serving_runner


async def test_parallel_calls_of_a_turn_come_back_together(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = protocol.reply(("c1", "read_files", READ_A), ("c2", "read_files", READ_B), text="I look first.")
    with endpoint_of(monkeypatch, protocol, first, protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and accepted.answer["reason"] == ANSWER["reason"]
    opened, spoke, told = endpoint.heard
    assert opened.words == opening(desk.brief)
    assert spoke.words == "I look first."
    assert spoke.calls == {"c1": ("read_files", READ_A), "c2": ("read_files", READ_B)}
    assert told.results == {"c1": (True, fenced("seen ['a.txt']")), "c2": (True, fenced("seen ['b.txt']"))}
    assert told.words == "Used of the run's budget: 2 of 100 tool calls."
    assert "You prepare datasets – carefully." in str(endpoint.bodies[0])
    assert endpoint.bodies[0]["model"] == "a-model"
    assert endpoint.keys[0] == "Bearer secret-key"


async def test_a_refused_submission_is_told_once_and_mended(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = protocol.reply(("s1", "declare_infeasible", ANSWER)), protocol.reply(SUBMIT)
    with endpoint_of(monkeypatch, protocol, *replies) as endpoint:
        async with serving_runner(bus, Runner({"ok": False, "why": "two patients cross"}, {"ok": True})):
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
        async with serving_runner(bus, runner):
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
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert "asked for no tool" in endpoint.heard[2].words


async def test_arguments_that_cannot_be_read_are_refused_and_not_run(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner()
    with endpoint_of(monkeypatch, protocol, protocol.garbled(), protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, runner):
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
        async with serving_runner(bus, Runner()):
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
        async with serving_runner(bus, Runner()):
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
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None
    assert (accepted.spent.input_tokens, accepted.spent.output_tokens) == (2100, 50)
    assert accepted.spent.cached_tokens == 900
    assert accepted.spent.usd == pytest.approx((150 * 3 + 900 * 0.3 + 1050 * 3.75 + 50 * 15) / 1e6)
    assert (accepted.spent.turns, accepted.spent.actions) == (2, 2)
    assert not accepted.spent.tokens_estimated


async def test_the_cache_of_deepseek_counts_in_a_field_of_its_own(
    bus: Bus, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    protocol = OpenAI()
    reply = protocol.reply(SUBMIT, read=1000)
    reply.body["usage"] = {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005}
    reply.body["usage"]["prompt_cache_hit_tokens"] = 900
    with endpoint_of(monkeypatch, protocol, reply):
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and (accepted.spent.input_tokens, accepted.spent.cached_tokens) == (1000, 900)


async def test_an_endpoint_that_does_not_count_is_estimated_and_said_so(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint_of(monkeypatch, protocol, protocol.uncounted(SUBMIT)):
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and accepted.spent.tokens_estimated
    assert accepted.spent.input_tokens > 500 and accepted.spent.output_tokens > 10


async def test_what_a_model_thought_goes_back_as_it_was_given(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, thought = protocol.thoughtful(("c1", "read_files", READ_A))
    with endpoint_of(monkeypatch, protocol, first, protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    spoke = endpoint.heard[1]
    assert (spoke.thought, list(spoke.calls)) == (thought, ["c1"])


async def test_a_cut_call_is_not_made_even_if_it_looks_whole(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = ("c1", "read_files", READ_A), ("c2", "run_script", {"command": "rm -r"})
    runner = Runner()
    cut = protocol.stopped(protocol.reply(*uses), "length"), protocol.stopped(protocol.reply(*uses[1:]), "refusal")
    with endpoint_of(monkeypatch, protocol, *cut, protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert [made.tool for made in runner.calls] == ["read_files", "resolve_rules"]
    assert endpoint.heard[2].results["c1"][0] and not endpoint.heard[2].results["c2"][0]


async def test_a_submission_waits_for_the_calls_beside_it_wherever_they_stand(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turn(name: str) -> Reply:
        behind = (f"{name}r", "run_script", {"command": "ls"})
        return protocol.reply((f"{name}1", "declare_infeasible", ANSWER), behind, (f"{name}2", *SUBMIT[1:]))

    runner = Runner({"ok": False, "why": "two patients cross"}, {"ok": True})
    with endpoint_of(monkeypatch, protocol, turn("a"), turn("b")) as endpoint:
        async with serving_runner(bus, runner):
            assert await run_agent(desk, core_for(protocol)) is not None
            # Killed before it said its answer: the next replica is not told anything else by the model.
            assert await run_agent(Desk(bus, desk.role, desk.brief), core_for(protocol)) is not None
    assert [made.tool for made in runner.calls[:4]] == ["run_script", "resolve_rules"] * 2
    results = endpoint.heard[2].results
    assert [results[name][0] for name in ("a1", "ar", "a2")] == [False, True, False]
    assert "one ends a turn" in results["a2"][1]
    last = desk.entries[-1]
    assert isinstance(last, Observation)
    assert [result.ok for result in last.results] == [True, True, False], "what came of the calls beside it is kept"


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        ({"vision": True}, ""),
        ({"vision": True, "inside": False, "pixels": True}, ""),
        ({"vision": True, "inside": False}, "is outside"),
        ({"vision": False}, "reads no pictures"),
        ({}, "not known to read pictures"),
    ],
)
async def test_a_core_that_sees_is_shown_pictures_and_others_are_told_why_not(
    bus: Bus, desk: Desk, protocol: Protocol, allowed: dict[str, bool], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = (
        ("c1", "view_image", {"paths": ["a", "b"]}),
        ("c2", "view_image", {"paths": ["c"]}),
    )
    desk.brief = desk.brief.model_copy(update={"secret": "0" * 32})
    with endpoint_of(
        monkeypatch, protocol, protocol.reply(*look, text="I look."), protocol.uncounted(SUBMIT)
    ) as endpoint:
        async with serving_runner(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol, **allowed))
    told = endpoint.heard[2]
    assert list(told.results) == ["c1", "c2"]
    if says:
        assert not told.pictures and all(says in text for _, text in told.results.values())
    else:
        assert told.pictures == [picture(name) for name in "abc"]
        assert accepted is not None and 3 * 1500 < accepted.spent.input_tokens < 3 * 1500 + 4000


async def test_pictures_of_long_ago_become_a_line_for_several_turns_at_once(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [protocol.reply((f"c{n}", "view_image", {"paths": [f"p{n}"]})) for n in range(2 * SHOWN)]
    with serving(Forgetful(protocol, [*replies, protocol.reply(SUBMIT)])) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol, vision=True)) is not None
    seen = [sum(len(one.pictures) for one in protocol.said(body)) for body in endpoint.asked]
    assert seen == [*range(2 * SHOWN), SHOWN]
    texts = [text for one in endpoint.heard for _, text in one.results.values()]
    assert "shown at turn 1;" in texts[0] and "shown at" not in texts[SHOWN]


async def test_what_is_too_much_for_a_message_is_said_to_be_gone(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = [(f"c{n}", "view_image", {"paths": ["60000"]}) for n in range(6)]
    with endpoint_of(monkeypatch, protocol, protocol.reply(*look), protocol.reply(SUBMIT)) as endpoint:
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, core_for(protocol, vision=True)) is not None
    told = endpoint.heard[2]
    lost = [call for call, (_, text) in told.results.items() if "no room for more pictures" in text]
    assert len(told.pictures) + len(lost) == 6 and lost == [f"c{n}" for n in range(len(told.pictures), 6)] and lost


@pytest.mark.parametrize("tool", ["read_files", "view_image"])
async def test_the_oldest_results_make_room_in_a_small_context(
    bus: Bus, desk: Desk, protocol: Protocol, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(number: int) -> dict[str, Any]:
        return {"paths": [f"{number}-{'x' * (3000 if tool == 'read_files' else 800)}"]}

    replies = [protocol.reply((f"c{number}", tool, long(number))) for number in range(6)]
    small = core_for(protocol, context=12_000, output=1_000, vision=True, pixels=True)
    with serving(Forgetful(protocol, [*replies, protocol.reply(SUBMIT)])) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        async with serving_runner(bus, Runner()):
            assert await run_agent(desk, small) is not None
        results = {call: text for one in endpoint.heard for call, (_, text) in one.results.items()}
    assert "left out" in results["c0"] and "left out" not in results["c5"]
    assert "call again" in results["c0"]
    if tool == "view_image":
        assert 0 < sum(len(one.pictures) for one in endpoint.heard) < 6
    assert max(len(str(body["messages"])) for body in endpoint.asked) < 3 * 12_000


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
