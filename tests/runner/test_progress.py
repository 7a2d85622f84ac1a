"""The progress file of a training lies in a folder that untrusted code writes to."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from services.tool_runner.training import follow
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.training import JobProgress, JobSpec


async def told(bus: Bus, path: Path, change: object, last: float | None = None) -> list[JobProgress]:
    """What is published of the file once `change` has been made to it."""
    run_id = new_run_id()
    spec = JobSpec(job_id=f"{run_id}-job", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="e")
    seen: list[JobProgress] = []
    sub = await bus.connection.client.subscribe(f"log.{run_id}.*")
    task = asyncio.create_task(follow(bus, spec, path))
    await asyncio.sleep(0.1)
    change()  # type: ignore[operator]
    # What is told later would be told within this time; a busy machine may want longer for the `last`.
    for _ in range(20):
        await asyncio.sleep(1.5)
        while sub.pending_msgs:
            seen.append(JobProgress.model_validate_json((await sub.next_msg(1)).data))
        if last is None or (seen and seen[-1].loss == last):
            break
    assert not task.done()
    task.cancel()
    return seen


def lines(path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"epoch": 1, "loss": 0.5}) + "\n")


async def test_lines_are_published(bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    (one,) = await told(bus, path, lambda: lines(path))
    assert one.loss == 0.5


async def test_of_a_flood_the_end_is_told(bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    flood = b'{"loss": 0.5}\n' * 2_000_000 + b"[" * 50_000 + b'\n{"loss": 0.25}\n'
    seen = await told(bus, path, lambda: path.write_bytes(flood), last=0.25)
    assert seen[-1].loss == 0.25 and len(seen) <= 101


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
async def test_what_is_no_file_of_the_training_is_not_read(bus: Bus, tmp_path: Path, kind: str) -> None:
    other, path = tmp_path / "other.jsonl", tmp_path / "progress.jsonl"
    lines(other)
    make = {"link": lambda: path.symlink_to(other), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]
    assert await told(bus, path, make) == []
