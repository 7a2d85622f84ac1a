"""Messages that nobody had the right to say when they came: every reader passes them over, and no run ends by them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from shared.contracts.base import SERVICES, Event, new_run_id
from shared.contracts.questions import Question, QuestionAsked
from shared.contracts.runs import CancelRequested, RoleFailed, RunFinished, RunRequested, WorkReturned
from shared.contracts.training import TrainingFinished
from shared.contracts.transcript import Turn
from tests.bus.conftest import SECONDS, Connect
from tests.cases import NOWHERE, told_until


async def test_a_message_that_is_forged_or_too_large_costs_no_run(connect: Connect) -> None:
    """On a subject that is its sender's own to use; on a run that goes on and on one that is over."""
    run_id = new_run_id()
    gateway, agent, keeper = await connect("gateway"), await connect("model_trainer"), await connect("task_manager")
    asked = RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x")
    before = await gateway.append(asked)
    # Words that are the scorer's, garbage, an honest kind of 500 KB, and the id of what the keeper will say.
    end = RunFinished.make(run_id=run_id, sender="task_manager", cause=asked, end="cancelled")
    forged = RoleFailed.make(run_id=run_id, sender="scorer", cause="x", end="crashed", reason="x")
    large = RoleFailed.make(run_id=run_id, sender="model_trainer", cause="x", end="crashed", reason="x" * 500_000)
    subject = f"evt.{run_id}.model_trainer.RoleFailed.all"
    for number, data in enumerate((forged.encode(), b"{", large.model_dump_json().encode())):
        await agent.connection.publish(subject, data, message_id=f"{run_id}-{number}", seconds=5)
    await agent.connection.publish(subject, b"", message_id=end.event_id, seconds=5)

    state = await gateway.state(run_id)
    assert state.failed is None and state.seen == before.seen and state.head == before.head + 4
    state = await keeper.append(end)
    assert state.finished == end == (await gateway.state(run_id)).finished
    await agent.connection.publish(subject, forged.encode(), message_id=f"{run_id}-late", seconds=5)
    assert (await gateway.state(run_id)).finished == end
    assert [event for _, event in await gateway.events(run_id)] == [asked, end]
    assert [event async for _, event in gateway.follow(run_id)] == [asked, end]
    assert run_id in [run.run_id for run in await gateway.runs()]


async def test_a_service_out_of_turn_is_passed_over_by_every_reader_and_told_once(connect: Connect) -> None:
    """Each with its own rights, on subjects and of kinds that are its own to say, but not at this point of the run."""
    run_id, stop = new_run_id(), asyncio.Event()
    buses = {name: await connect(name) for name in SERVICES}
    asked, planned, prepared, locked, assembled = told_until(run_id, "model_trainer")
    before = await buses["gateway"].append(asked)
    trained = TrainingFinished.make(
        run_id=run_id, sender="model_trainer", cause=assembled, package=NOWHERE, validation={}, attempts=1
    )
    returned = WorkReturned.make(run_id=run_id, sender="model_trainer", cause=asked, target="data_engineer", reason="r")
    question = Question(key="column", text="?", wants="text")
    early: list[Event] = [
        RunRequested.make(run_id=run_id, sender="gateway", cause=None, salt="2", requirement="x", asked_by="another"),
        prepared,
        locked,
        assembled,
        trained,
        returned,
        RoleFailed.make(run_id=run_id, sender="scorer", cause=asked, end="crashed", reason="r"),
        QuestionAsked.make(run_id=run_id, sender="module_architect", cause=asked, question=question),
        # The id of what the Task Manager will say, foretold.
        RoleFailed.make(run_id=run_id, sender="model_trainer", cause=asked, end="crashed", reason="r").model_copy(
            update={"event_id": planned.event_id}
        ),
    ]
    for event in early:
        state = await buses[event.sender].append(event)
    assert state.model_copy(update={"head": before.head, "passed_over": frozenset()}) == before
    assert len(state.passed_over) == len(early)

    heard: dict[str, list[Event]] = {"keeper": [], "data_engineer": []}
    listened = {name: asyncio.Event() for name in heard}

    def hears(durable: str) -> Callable[[Event], Awaitable[None]]:
        async def hear(event: Event) -> None:
            if event.run_id == run_id:
                heard[durable].append(event)
                if event == planned:
                    listened[durable].set()

        return hear

    await buses["task_manager"].append(planned)
    services = {"keeper": "task_manager", "data_engineer": "data_engineer"}
    listening = [
        asyncio.create_task(buses[service].listen(durable, hears(durable), 1, stop))
        for durable, service in services.items()
    ]
    for event_heard in listened.values():
        await asyncio.wait_for(event_heard.wait(), SECONDS)
    stop.set()
    await asyncio.wait_for(asyncio.gather(*listening), SECONDS)
    assert heard == {"keeper": [asked, planned], "data_engineer": [planned]}
    assert [event for _, event in await buses["gateway"].events(run_id)] == [asked, planned]
    assert [run.asked_by for run in await buses["gateway"].runs() if run.run_id == run_id] == [""]

    operator = await connect("operator")
    buried = operator.connection.read("DLQ", f"dlq.*.*.{run_id}")
    letters = [json.loads(message.data or b"") async for message in buried]
    assert [letter["subject"] for letter in letters] == [event.subject() for event in early]
    assert all("to say now" in letter["cause"] for letter in letters)

    # What came too early counts once it is its sender's turn.
    state = await buses["data_engineer"].append(prepared)
    assert state.prepared == prepared and state.stage == "scorer"
    cancelled = CancelRequested.make(run_id=run_id, sender="gateway", cause=asked)
    await buses["gateway"].append(cancelled)
    end = RunFinished.make(run_id=run_id, sender="task_manager", cause=cancelled, end="cancelled")
    await buses["task_manager"].append(end)
    for event in (locked, end.model_copy(update={"event_id": "another", "end": "succeeded"})):
        await buses[event.sender].append(event)
    told = [event async for _, event in buses["gateway"].follow(run_id)]
    assert told == [asked, planned, prepared, cancelled, end]


async def test_a_turn_that_cannot_be_read_costs_no_transcript(connect: Connect) -> None:
    run_id = new_run_id()
    gateway, agent = await connect("gateway"), await connect("model_trainer")
    await agent.connection.publish(f"turns.model_trainer.{run_id}", b"{", message_id=run_id, seconds=5)
    turn = Turn(run_id=run_id, role="model_trainer", number=1, at=datetime.now(UTC), core="x", calls=())
    _, last = await agent.entries(run_id, "model_trainer")
    await agent.append_entry(turn, last)
    assert (await gateway.entries(run_id, "model_trainer"))[0] == [turn]
