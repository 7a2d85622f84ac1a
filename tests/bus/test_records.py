"""Transcripts and the small facts that are kept by key."""

import asyncio
from datetime import UTC, datetime

import pytest

from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.runs import DataCard
from shared.contracts.training import JobProgress
from shared.contracts.transcript import Call, Observation, Turn
from shared.errors import StaleTranscript
from shared.settings import Settings


def turn(run_id: str, number: int, text: str = "") -> Turn:
    return Turn(
        run_id=run_id,
        role="data_engineer",
        number=number,
        at=datetime.now(UTC),
        core="playbook",
        text=text,
        calls=(Call(name="list_files"),),
    )


async def test_a_stale_replica_stops_at_its_next_entry(bus: Bus, bus_settings: Settings) -> None:
    run_id = new_run_id()
    other = await Bus.connect(bus_settings, "data_engineer")
    last = await bus.append_entry(turn(run_id, 1), 0)
    _, seen_by_other = await other.entries(run_id, "data_engineer")
    assert seen_by_other == last

    observation = Observation(run_id=run_id, role="data_engineer", number=1)
    newest = await other.append_entry(observation, seen_by_other)
    with pytest.raises(StaleTranscript):
        await bus.append_entry(turn(run_id, 2, "mine"), last)
    # The same words from a replica that is behind are stale as well.
    with pytest.raises(StaleTranscript):
        await bus.append_entry(observation, last)
    await other.close()

    entries, end = await bus.entries(run_id, "data_engineer")
    assert [entry.type for entry in entries] == ["turn", "observation"]
    assert end == newest


async def test_transcripts_of_roles_are_apart(bus: Bus) -> None:
    run_id = new_run_id()
    await bus.append_entry(turn(run_id, 1), 0)
    await bus.append_entry(turn(run_id, 1).model_copy(update={"role": "module_architect"}), 0)
    assert len((await bus.entries(run_id, "data_engineer"))[0]) == 1
    assert await bus.entries(run_id, "model_trainer") == ([], 0)


async def test_cards_are_replaced_by_id(bus: Bus) -> None:
    card = DataCard(dataset_id=f"z-{new_run_id()}", name="Z", description="first")
    await bus.put_card(card)
    await bus.put_card(card.model_copy(update={"description": "second"}))
    assert [one.description for one in await bus.cards() if one.dataset_id == card.dataset_id] == ["second"]


async def test_workspace_heads(bus: Bus) -> None:
    run_id = new_run_id()
    assert await bus.workspace_head(run_id, "build") is None
    for digit in "ab":
        await bus.set_workspace_head(run_id, "build", Ref(bucket="w", key="k", sha256=digit * 64, size=1))
    head = await bus.workspace_head(run_id, "build")
    assert head and head.sha256 == "b" * 64
    assert await bus.workspace_head(run_id, "data") is None


async def test_a_wish_is_seen_before_and_after_it_is_watched(bus: Bus) -> None:
    job_id = new_run_id()
    await bus.desire(job_id, "run")
    seen: list[str] = []

    async def watch() -> None:
        async for wish in bus.watch_desired(job_id):
            seen.append(wish)
            if wish == "cancel":
                return
            await bus.desire(job_id, "cancel")

    await asyncio.wait_for(watch(), 10)
    assert seen == ["run", "cancel"]


async def test_progress_is_kept_and_followed(bus: Bus) -> None:
    run_id = new_run_id()
    await bus.progress(JobProgress(run_id=run_id, job_id="j", epoch=1, loss=0.7))
    seen: list[float | None] = []

    async def follow() -> None:
        async for progress in bus.follow_log(run_id, "j"):
            seen.append(progress.epoch)
            if len(seen) == 2:
                return
            await bus.progress(JobProgress(run_id=run_id, job_id="j", epoch=2, loss=0.6))

    await asyncio.wait_for(follow(), 10)
    assert seen == [1, 2]
