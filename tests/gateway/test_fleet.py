"""The system at one moment, and a run's timeline: what a person on call looks at first."""

import json
from html.parser import HTMLParser

import httpx
from rich.console import Console

from services.command.top import picture
from services.gateway.fleet import fleet
from services.gateway.fleet_model import Fleet
from services.gateway.timeline import page
from shared.bus import Bus
from shared.bus.streams import DURABLES
from shared.contracts.runs import RunRequested
from shared.contracts.training import JobProgress, JobStarted
from tests.gateway.story import Story


async def test_a_training_run_is_seen_with_its_job(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    order, job = await story.training()
    await story.fact(JobStarted, 36, "tool_runner", order, **job)
    told = {run.run_id: run for run in (await fleet(bus)).runs}[story.run_id]
    assert (told.stage, told.status) == ("model_trainer", "running") and told.doing.startswith("turn ")
    (begun,) = told.jobs
    assert (begun.kind, begun.attempt, begun.share) == ("train", 1, None)
    await bus.progress(JobProgress(run_id=story.run_id, job_id=job["job_id"], epoch=3, epochs=12, loss=0.5))

    seen = Fleet.model_validate((await http.get("/fleet")).json())
    now = {run.run_id: run for run in seen.runs}[story.run_id]
    assert (now.jobs[0].share, now.jobs[0].text) == (0.25, "epoch 3/12")
    assert now.silence < told.age, "progress is a sign of life"
    assert [queue.name for queue in seen.queues] == [durable.name for durable in DURABLES]
    assert seen.streams["EVENTS"] > 0
    assert list(seen.runs) == sorted(seen.runs, key=lambda run: -run.silence)

    console = Console(width=200)
    with console.capture() as capture:
        console.print(picture(seen))
    (line,) = [line for line in capture.get().splitlines() if line.startswith(story.run_id)]
    assert "model_trainer" in line and "train epoch 3/12" in line


async def test_a_queue_that_nobody_serves_shows_what_waits(bus: Bus) -> None:
    before = {queue.name: queue.pending for queue in await bus.queues()}
    await bus.append(RunRequested.make(run_id=Story(bus).run_id, sender="gateway", cause=None, requirement="x"))
    after = {queue.name: queue.pending for queue in await bus.queues()}
    assert after["task_manager"] == before["task_manager"] + 1
    assert {queue.idle for queue in await bus.queues()} == {0}


async def test_a_timeline_is_one_file_with_every_handoff(bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    trace = await story.trace(now=1e6)
    hostile = trace.model_copy(update={"requirement": "<script>alert(1)</script>"})
    html = page(hostile)
    tags: list[str] = []
    links: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            links.extend(value or "" for name, value in attributes if name in ("src", "href"))

    Reader().feed(html)
    assert "script" not in tags and not links and tags.count("svg") == 1
    assert tags.count("tr") == 1 + len(trace.handoffs)
    turns = [turn for one in trace.handoffs for turn in one.turns]
    jobs = [job for one in trace.handoffs for job in one.jobs]
    assert len(turns) > 5 and all(f"turn {turn.number}: " in html for turn in turns)
    assert len(jobs) == 2 and "2 attempts" in html and all(f"job {job.job}, {job.outcome}" in html for job in jobs)
    for one in trace.handoffs:
        assert f"{one.kind}: {one.sender} to {one.recipient}" in html
    assert json.loads(trace.model_dump_json())["run_id"] == story.run_id
