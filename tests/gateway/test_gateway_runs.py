"""Runs over HTTP: events that can be resumed, datasets that wake a waiting run, artifacts that arrive whole."""

import asyncio
import contextlib
import io
import json
import tarfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from services.command.live import RunView
from services.gateway.feed import server_sent
from services.gateway.items import Item
from services.gateway.summary import summary
from shared.bus import Bus
from shared.contracts.base import Ref, Spent
from shared.contracts.runs import DataCard, RunFinished, TaskPlan, TaskPlanned, WorkReturned
from shared.contracts.state import order_for
from shared.contracts.training import JobFinished, JobProgress, JobStarted, TrainingFinished
from shared.contracts.transcript import Call, Turn, Waiting
from shared.store import Store
from tests.asked import for_dataset
from tests.cases import told_until

CARD = json.dumps({"dataset_name": "Chest Set", "dataset_description": "CT", "dataset_path": "/placeholder"})


async def new_run(http: httpx.AsyncClient, requirement: str = "classify chest CT") -> str:
    answer = await http.post("/runs", json={"requirement": requirement, "seed": 3})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


async def finish(bus: Bus, run_id: str, package: Ref | None = None) -> None:
    await bus.append(
        RunFinished.make(run_id=run_id, sender="task_manager", cause=None, end="cancelled", package=package)
    )


async def items(http: httpx.AsyncClient, run_id: str, last: int | None = None) -> list[Item]:
    """All of a finished run; ASGITransport hands the answer over when it is complete."""
    headers = {"Last-Event-ID": str(last)} if last is not None else {}
    answer = await http.get(f"/runs/{run_id}/events", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append(Item(fields["event"], fields["data"], int(fields["id"]) if "id" in fields else None))
    return found


def turn(run_id: str, number: int) -> Turn:
    return Turn(
        run_id=run_id,
        role="task_manager",
        number=number,
        at=datetime.now(UTC),
        core="playbook",
        calls=(Call(name="read_files", arguments={"paths": ["datacards.json"]}),),
        spent=Spent(turns=1, actions=1),
    )


async def test_a_request_becomes_a_run(http: httpx.AsyncClient, bus: Bus) -> None:
    run_id = await new_run(http)
    state = await bus.state(run_id)
    assert state.requested and state.requested.requirement == "classify chest CT" and state.requested.seed == 3
    assert run_id in [run["run_id"] for run in (await http.get("/runs")).json()]
    detail = (await http.get(f"/runs/{run_id}")).json()
    assert detail["summary"]["stage"] == "task_manager"
    assert detail["state"]["requested"]["core"] == "playbook"


async def test_events_turns_and_progress_come_in_the_order_in_which_they_happened(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    run_id = await new_run(http)
    await bus.append_entry(turn(run_id, 1), after=0)
    job = JobStarted.make(run_id=run_id, sender="tool_runner", cause=None, job_id=f"{run_id}-t", job="train")
    await bus.append(job)
    await bus.progress(JobProgress(run_id=run_id, job_id=job.job_id, epoch=2, epochs=8, loss=0.5, eta_seconds=12))
    following = asyncio.create_task(items(http, run_id))
    await asyncio.sleep(1.5)
    await bus.append(
        JobFinished.make(
            run_id=run_id, sender="tool_runner", cause=job, job_id=job.job_id, job="train",
            asked_by="model_trainer", outcome="ok",
        )
    )  # fmt: skip
    await finish(bus, run_id)
    found = await asyncio.wait_for(following, 20)
    kinds = [item.kind for item in found]
    assert kinds[0] == "RunRequested" and kinds[-1] == "RunFinished"
    assert kinds.count("turn") == 1 and kinds.count("progress") == 1
    assert kinds.index("JobStarted") < kinds.index("progress") < kinds.index("JobFinished")
    told = json.loads(next(item.data for item in found if item.kind == "turn"))
    assert (told["role"], told["number"], told["calls"]) == ("task_manager", 1, ["read_files"])
    ids = [item.id for item in found if item.id is not None]
    assert ids == [sequence for sequence, _ in await bus.events(run_id)]
    view = RunView()
    lines = [line for item in found if (line := view.feed(item))]
    assert any("epoch 2/8" in line and "12 s left" in line for line in lines)
    assert f"{run_id}: cancelled" in summary(view.events)


async def test_a_client_that_comes_back_misses_nothing_and_repeats_nothing(http: httpx.AsyncClient, bus: Bus) -> None:
    run_id = await new_run(http)
    for number in range(3):
        await bus.append(
            JobStarted.make(
                run_id=run_id, sender="tool_runner", cause=None, salt=str(number), job_id=f"j{number}", job="intake"
            )
        )
    await finish(bus, run_id)
    whole = [item for item in await items(http, run_id) if item.id is not None]
    for seen in range(len(whole) - 1):
        rest = [item for item in await items(http, run_id, last=whole[seen].id) if item.id is not None]
        assert rest == whole[seen + 1 :]
    over = await http.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": str(whole[-1].id)})
    assert over.status_code == 204


async def test_a_nonsense_last_event_id_is_refused(http: httpx.AsyncClient) -> None:
    run_id = await new_run(http)
    answer = await http.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "abc"})
    assert answer.status_code == 422 and "whole number" in answer.json()["error"]


async def test_cancelling_twice_is_one_fact_and_an_ended_run_cannot_be_cancelled(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    run_id = await new_run(http)
    await bus.append(
        JobStarted.make(run_id=run_id, sender="tool_runner", cause=None, job_id=f"{run_id}-t", job="train")
    )
    for _ in range(2):
        answer = await http.post(f"/runs/{run_id}/cancel", json={"reason": "enough"})
        assert answer.json() == {"run_id": run_id, "status": "cancelling"}
    assert [event.kind for _, event in await bus.events(run_id)].count("CancelRequested") == 1
    wishes: AsyncIterator[str] = bus.watch_desired(f"{run_id}-t")
    assert await asyncio.wait_for(anext(wishes), 5) == "cancel"
    await finish(bus, run_id)
    answer = await http.post(f"/runs/{run_id}/cancel")
    assert answer.status_code == 422 and "already ended" in answer.json()["error"]


async def test_a_dataset_wakes_the_runs_that_wait_for_one(http: httpx.AsyncClient, bus: Bus, data_root: Path) -> None:
    waiting, deciding, planned = await new_run(http), await new_run(http), await new_run(http)
    plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=3, modality="CT", metric="auc_macro")
    card = DataCard(dataset_id="d", name="d", description="d", path="/d")
    await bus.append(TaskPlanned.make(run_id=planned, sender="task_manager", cause=None, plan=plan, card=card))
    await bus.append(for_dataset(waiting, "chest CT with labels"))

    described = await http.post("/datasets", json={"card": CARD, "here": False})
    assert described.json() == {"dataset_ids": ["chest-set"], "resumed": []}
    assert next(card for card in await bus.cards() if card.dataset_id == "chest-set").path is None

    added = await http.post("/datasets", json={"card": CARD, "path": str(data_root / "chest")})
    assert added.status_code == 201 and added.json()["resumed"] == [waiting]
    assert (await bus.state(waiting)).status == "running"
    assert [event.kind for _, event in await bus.events(waiting)].count("DatasetAdded") == 1
    # Its Task Manager may have read the cards before there was this one.
    assert [event.kind for _, event in await bus.events(deciding)] == ["RunRequested", "DatasetAdded"]
    assert "DatasetAdded" not in [event.kind for _, event in await bus.events(planned)]
    listed = next(card for card in (await http.get("/datasets")).json() if card["dataset_id"] == "chest-set")
    assert listed["path"] == str((data_root / "chest").resolve())
    for run_id in (deciding, planned):
        await finish(bus, run_id)
    await finish(bus, waiting)


async def test_a_run_whose_plan_was_handed_back_is_woken_by_a_dataset(
    http: httpx.AsyncClient, bus: Bus, data_root: Path
) -> None:
    run_id = await new_run(http)
    for fact in told_until(run_id, "module_architect")[1:3]:
        await bus.append(fact)
    back = WorkReturned.make(run_id=run_id, sender="scorer", cause=None, target="task_manager", reason="no such metric")
    await bus.append(back)
    await bus.append(for_dataset(run_id, "chest CT", back))
    added = await http.post("/datasets", json={"card": CARD, "path": str(data_root / "chest")})
    assert added.json()["resumed"] == [run_id]
    state = await bus.state(run_id)
    added = next(event for _, event in await bus.events(run_id) if event.kind == "DatasetAdded")
    assert order_for("task_manager", state) == added.event_id
    await finish(bus, run_id)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_package_arrives_whole(
    http: httpx.AsyncClient, bus: Bus, store: Store, tmp_path: Path, ended: bool
) -> None:
    folder = tmp_path / "package"
    (folder / "deep" / ("long" * 30)).mkdir(parents=True)
    (folder / "predict.py").write_text("print('hello')\n")
    (folder / "deep" / ("long" * 30) / "weights.bin").write_bytes(bytes(range(256)) * 5000)
    (folder / "empty").write_bytes(b"")
    ref = await asyncio.to_thread(store.put_folder, "packages", folder)
    run_id = await new_run(http)
    answer = await http.get(f"/runs/{run_id}/artifacts/package.tar")
    assert answer.status_code == 404 and "It has: record." in answer.json()["error"]
    if ended:
        await finish(bus, run_id, ref)
    else:
        for fact in told_until(run_id, "model_trainer")[1:]:
            await bus.append(fact)
        await bus.append(
            TrainingFinished.make(
                run_id=run_id, sender="model_trainer", cause=None, package=ref, validation={}, attempts=1
            )
        )
    listed = (await http.get(f"/runs/{run_id}/artifacts")).json()
    kept = [] if ended else ["rules"]
    assert [artifact["name"] for artifact in listed] == ["package.tar", *kept, "record"]
    answer = await http.get(listed[0]["url"])
    assert int(answer.headers["content-length"]) == len(answer.content)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    unpacked = tmp_path / "unpacked"
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()} == {
        *files, Path("RUN_CARD.md"), Path("provenance.json"),
    }  # fmt: skip
    for file in files:
        assert (unpacked / file).read_bytes() == (folder / file).read_bytes()


async def test_a_run_that_waits_for_its_model_says_so_until_the_next_turn(http: httpx.AsyncClient, bus: Bus) -> None:
    run_id = await new_run(http)
    since = datetime(2026, 11, 23, 12, 4, tzinfo=UTC)
    waits = Waiting(run_id=run_id, role="task_manager", turn=1, endpoint="m:x", since=since, reason="HTTP 529: later")
    await bus.say_waiting(waits)
    shown = (await http.get(f"/runs/{run_id}")).json()["waiting"]
    assert Waiting.model_validate(shown) == waits
    assert (
        RunView()
        .feed(Item("waiting", waits.model_dump_json()))
        .endswith(  # type: ignore[union-attr]
            "task_manager     waiting for the endpoint m:x since 12:04 UTC: HTTP 529: later"
        )
    )
    async with contextlib.aclosing(server_sent(bus, run_id, 0)) as feed:  # type: ignore[type-var]
        told = [await anext(feed) for _ in range(2)]
    assert told[1] == Item("waiting", waits.model_dump_json()).encode()
    await bus.append_entry(turn(run_id, 1), after=0)
    assert (await http.get(f"/runs/{run_id}")).json()["waiting"] is None


async def test_a_transcript_holds_every_turn(http: httpx.AsyncClient, bus: Bus) -> None:
    run_id = await new_run(http)
    last = await bus.append_entry(turn(run_id, 1), after=0)
    await bus.append_entry(turn(run_id, 2), after=last)
    lines = (await http.get(f"/runs/{run_id}/transcript")).text.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]


async def test_forged_messages_take_no_view_of_a_finished_run_away(http: httpx.AsyncClient, bus: Bus) -> None:
    run_id = await new_run(http)
    await finish(bus, run_id)
    for subject in (f"evt.{run_id}.model_trainer.RoleFailed.all", f"turns.model_trainer.{run_id}"):
        await bus.connection.publish(subject, b'{"kind": "Nonsense"}', message_id=f"forged-{subject}")
    for path in (
        "",
        "/trace",
        "/report",
        "/report?format=html&wait=0",
        "/artifacts",
        "/artifacts/record",
        "/transcript",
    ):
        assert (await http.get(f"/runs/{run_id}{path}")).status_code == 200, path
