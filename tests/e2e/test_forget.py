"""Erasing: canaries in a dataset, a run on it, and afterwards a search of every stream, object and file."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from services.command.upload import upload
from shared.bus import Bus
from shared.contracts.erasure import Tombstone
from shared.contracts.runs import Budget
from shared.errors import M3Error, NotFound, UserError
from shared.store import BUCKETS, Store
from tests.e2e import canaries
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch, apart, eventually, kill, start_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CARD = {"dataset name": "Qxkidneys", "dataset description": f"2D abdomen CT of kidneys, {canaries.WORDS['sidecar']}"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with apart(tmp_path_factory.mktemp("forget")) as running:
        yield running


def ask(running: Running, dataset: str) -> str:
    return running.gateway.request_run(
        "Diagnose kidney stones in 2D CT.", budget=Budget(train_seconds=10), dataset=dataset
    )


def messages(running: Running) -> Iterator[tuple[str, bytes]]:
    """Subject and content of every message that any stream holds."""

    async def read() -> list[tuple[str, bytes]]:
        bus = await Bus.connect(running.system.settings, "gateway")
        try:
            streams = [str(one.config.name) for one in await bus.connection.js.streams_info()]
            return [
                (message.subject, message.data or b"")
                for stream in streams
                for message in [one async for one in bus.connection.read(stream, ">")]
            ]
        finally:
            await bus.close()

    yield from asyncio.run(read())


def objects(running: Running) -> Iterator[tuple[str, bytes]]:
    store = Store.connect(running.system.settings)
    for bucket in BUCKETS:
        for key, _ in store.listed(bucket):
            yield f"{bucket}/{key}", store._minio().get_object(store._bucket(bucket), key).read()


def files(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in home.rglob("*"):
        with suppress(OSError):  # sockets, and what a server has just put away
            yield path.relative_to(home).as_posix(), path.read_bytes() if path.is_file() else b""


def holding(found: Iterator[tuple[str, bytes]], *words: str) -> list[str]:
    """Names of those in whose name or content a canary or a word stands."""

    def has(part: bytes) -> bool:
        return bool(canaries.found_in(part)) or any(word.encode() in part for word in words)

    return sorted({name for name, content in found if has(name.encode()) or has(content)})


def test_a_forgotten_run_and_dataset_leave_a_tombstone_and_audit_lines(alone: Running, tmp_path: Path) -> None:
    home, gateway = alone.system.home.root, alone.gateway
    folder = tmp_path / "kidneys"
    folder.mkdir()
    canaries.pictures(folder)
    archive = upload(gateway, folder, lambda *_: None)
    [dataset] = gateway.add_dataset(json.dumps(CARD), archive=archive)["dataset_ids"]
    first = ask(alone, dataset)
    assert '"succeeded"' in alone.follow(first)[-1].data
    watch = Watch(alone, second := ask(alone, dataset))
    watch.until("DatasetLocked")
    with pytest.raises(UserError, match=f"m3builder cancel {second}"):
        gateway.erase([second], None, dry_run=False)
    with pytest.raises(UserError, match="at work"):
        gateway.erase([first], None, dry_run=False)
    gateway.cancel(second)
    watch.end()

    def told(ids: list[str]):  # jobs of a cancelled run take a moment to stop
        with suppress(UserError):
            return gateway.erase(ids, None, dry_run=True)

    eventually(lambda: told([first]))
    before = {name for name, _ in objects(alone)}
    # An index of cases that a longer one has replaced goes with the next erasure.
    images = {name for name, one in objects(alone) if name.startswith("cases/") and b'"segments"' not in one[:100]}
    assert images
    plan = told([first])
    assert plan.dry_run and plan.erased["events"].count and before <= {name for name, _ in objects(alone)}
    assert any("other runs or datasets name" in sentence for sentence in plan.left)
    assert holding(messages(alone), first) and holding(objects(alone)) and holding(files(home / "runner"), first)

    # Of two runs on one dataset the first goes, and the other's cases stay.
    gone = gateway.erase([first], None, dry_run=False)
    assert gone.erased.keys() == plan.erased.keys() >= {"store: packages", "store: data", "store: sealed"} and gone.by
    assert images <= {name for name, _ in objects(alone)}
    assert [run.run_id for run in gateway.runs()] == [second]
    with pytest.raises(NotFound):
        gateway.run(first)
    assert [name for name, content in messages(alone) if first.encode() in name.encode() + content] == [
        f"$KV.ERASED.{first}"
    ]

    # Cut off in the middle, where the bus is clean and the store is not: the same call finishes it.
    kill(alone, "tool_runner")
    cut: list[M3Error] = []

    def cut_off() -> None:
        try:
            gateway.erase([second, dataset], None, dry_run=False)
        except M3Error as error:
            cut.append(error)

    thread = threading.Thread(target=cut_off)
    thread.start()
    eventually(lambda: not holding(iter([one for one in messages(alone) if one[0].startswith("evt.")]), second))
    kill(alone, "gateway")
    thread.join()
    assert cut and holding(objects(alone))
    start_again(alone)
    assert {stone.id: stone.done for stone in stones(alone)} == {first: True, second: False, dataset: False}
    assert command(alone, "forget", second, dataset, given="n", code=1).count(dataset) > 1
    assert not all(stone.done for stone in stones(alone))
    told_by_command = command(alone, "forget", second, dataset, "--yes")
    assert f"erased: {second}, {dataset}" in told_by_command and "tombstone" in told_by_command
    assert all(stone.done and stone.by for stone in stones(alone))

    # An archive that no dataset takes goes by its age.
    orphan = upload(gateway, folder, lambda *_: None)
    mark = home / "gateway" / "archives" / orphan.sha256
    os.utime(mark, (0, 0))
    aged = json.loads(command(alone, "forget", "--older-than", "1", "--yes", "--json"))
    assert aged["archives"] == 1 and aged["erased"]["store: data"]["bytes"] >= orphan.size and not mark.exists()

    ids = (first, second, dataset)
    assert holding(messages(alone), *ids) == sorted(f"$KV.ERASED.{one}" for one in ids)
    assert list(objects(alone)) == []
    # The files of the servers, too; a stream's index names subjects until the server stops.
    alone.system.down()
    left = [name for name in holding(files(home), *ids) if "KV_ERASED" not in name]
    assert left == ["gateway/audit.jsonl"], left
    lines = (home / "gateway" / "audit.jsonl").read_text()
    assert not canaries.found_in(lines.encode()) and f"erased {first}" in lines


def command(running: Running, *words: str, given: str = "", code: int = 0) -> str:
    environment = dict(os.environ) | {"M3_HOME": str(running.system.home.root), "COLUMNS": "200"}
    argv = [sys.executable, "-m", "services.command.cli", *words]
    done = subprocess.run(argv, env=environment, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def stones(running: Running) -> list[Tombstone]:
    found = running.gateway._http.get("/erasures").raise_for_status()
    return [Tombstone.model_validate(one) for one in found.json()]
