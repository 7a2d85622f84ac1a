"""Personal data end at intake: whole runs on datasets with canaries everywhere, and none of them behind the lock."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from services.gateway.items import Item
from shared.bus import Bus
from shared.contracts.runs import Budget
from shared.settings import Settings
from shared.store import BUCKETS, Store
from tests.e2e import canaries
from tests.e2e.conftest import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STREAMS = "nats/jetstream/jetstream/$G/streams"
EARLY = ("task_manager", "data_engineer")
BEFORE = (
    "runner/logs/canaries-*", "runner/ws/*/plan/*", "runner/ws/*/data/*", "s3/data/m3-sealed_*",
    *(f"{STREAMS}/{name}/*" for name in ("EVENTS", "KV_CARDS", "KV_RESULTS_gateway")),
    *(f"{STREAMS}/{kind}_{role}/*" for kind in ("TURNS", "KV_RESULTS") for role in EARLY),
    *(f"runner/logs/*/*-{role}-*" for role in EARLY),
)  # fmt: skip
"""Where names may stand: profiles, the roles before the lock, and what the scorer alone reads. Events are looked at one
by one."""


@dataclass(frozen=True)
class Job:
    run_id: str
    data: Path
    items: list[Item]


@pytest.fixture(scope="module", params=[canaries.pictures, canaries.scans], ids=lambda make: make.__name__)
def job(request: pytest.FixtureRequest, running: Running) -> Iterator[Job]:
    make: Callable[[Path], None] = request.param
    folder = running.replica.parent / f"canaries-{make.__name__}"
    folder.mkdir()
    make(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    dimensions = "2D" if make is canaries.pictures else "3D"
    about = f"{dimensions} abdomen CT of kidneys for disease diagnosis, healthy or with a stone"
    card = json.dumps({"dataset name": folder.name, "dataset description": about})
    [dataset] = running.gateway.add_dataset(card, folder)["dataset_ids"]
    sentence = f"Diagnose kidney stones in {dimensions} CT."
    run_id = running.gateway.request_run(sentence, budget=Budget(train_seconds=20), dataset=dataset)
    yield Job(run_id, folder, running.follow(run_id))
    running.gateway.add_dataset(card, here=False)


def test_the_search_finds_what_is_there(running: Running, job: Job) -> None:
    names = "\n".join(str(path) for path in job.data.rglob("*")).encode()
    files = [path.read_bytes() for path in job.data.rglob("*") if path.is_file()]
    found = set().union(*map(canaries.found_in, [names, *files]))
    assert found == canaries.PLANTED[job.data.name.partition("-")[2]]
    rules = running.system.home.runner / "ws" / job.run_id / "data" / "dataset.yaml"
    assert canaries.found_in(rules.read_bytes())


def test_no_object_behind_intake_holds_a_canary(running: Running, job: Job) -> None:
    """All objects of the store, unpacked, but the bucket `sealed` and the Data Engineer's workspace."""
    own = running.system.home.runner.glob("ws/*/data/**/*")
    known = {hashlib.sha256(path.read_bytes()).hexdigest() for path in own if path.is_file()}
    store = Store.connect(running.system.settings)
    client, seen = store._minio(), dict.fromkeys(BUCKETS, 0)
    for role in set(BUCKETS) - {"sealed"}:
        for item in client.list_objects(store._bucket(role), recursive=True):
            if item.object_name.rpartition("/")[2] not in known:
                content = client.get_object(store._bucket(role), item.object_name).read()
                assert not canaries.found_in(content), (role, item.object_name, content[:200])
                seen[role] += 1
    assert seen["cases"] >= canaries.PATIENTS and seen["packages"] > 10 and seen["work"] > 10, seen


def test_no_file_or_message_behind_intake_holds_a_canary(running: Running, job: Job) -> None:
    """Every file of the system, its name too: workspaces, views, logs, streams with transcripts and progress."""
    home, seen = running.system.home.root, 0
    for path in home.rglob("*"):
        name = path.relative_to(home).as_posix()
        if not any(fnmatch(name, place) for place in BEFORE):
            assert not canaries.found_in(name.encode()), name
            if path.is_file():
                assert not canaries.found_in(path.read_bytes()), name
                seen += "/views/" in name or "/build/" in name
    assert seen > canaries.PATIENTS / 2


def test_nothing_that_is_told_or_addressed_holds_a_canary(running: Running, job: Job) -> None:
    """Spans and metrics; every subject and header on the bus, keys of its buckets among them; every name in the store.
    Before the lock, too."""
    assert running.spans is not None
    assert any(job.run_id.encode() in body for body in running.spans.bodies), "the search would find what is there"
    for body in running.spans.bodies:
        assert not canaries.found_in(body)
    addressed = asyncio.run(_addressed(running.system.settings))
    assert any(job.run_id in line for line in addressed) and not canaries.found_in("\n".join(addressed).encode())
    store = Store.connect(running.system.settings)
    for role in BUCKETS:
        for item in store._minio().list_objects(store._bucket(role), recursive=True, include_user_meta=True):
            assert not canaries.found_in(f"{item.object_name} {item.metadata}".encode())


async def _addressed(settings: Settings) -> list[str]:
    """Subject and headers of every message that the bus holds."""
    bus, found = await Bus.connect(settings, "gateway"), []
    try:
        for stream in await bus.connection.js.streams_info():
            name = str(stream.config.name)
            async for message in bus.connection.read(name, ">"):
                found.append(f"{message.subject} {message.headers}")
    finally:
        await bus.close()
    return found


def test_after_the_answer_of_the_data_engineer_no_event_says_a_name(job: Job) -> None:
    assert job.items[-1].kind == "RunFinished" and '"succeeded"' in job.items[-1].data, job.items[-1].data
    named = [item.kind for item in job.items if canaries.found_in(item.data.encode()) and item.kind[0].isupper()]
    assert named[-1] == "DatasetPrepared" and set(named) <= {"TaskPlanned", "DatasetPrepared"}, named
