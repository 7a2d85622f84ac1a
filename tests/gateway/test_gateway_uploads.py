"""Archives over HTTP: stored under their hash, bounded, and registered only when their bytes are there."""

import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.gateway.app import create_app
from shared.bus import Bus
from shared.contracts.base import Ref
from shared.settings import Settings
from shared.store import Store

CARD = json.dumps({"dataset name": "Sent Set", "dataset description": "CT"})


@pytest.fixture
def bounded(settings: Settings) -> Settings:
    return settings.model_copy(update={"archive_bytes": 1 << 20})


@pytest.fixture
async def http(bus: Bus, store: Store, bounded: Settings) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(bus, store, bounded), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=20) as client:
        yield client


def packed(content: bytes) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        info = tarfile.TarInfo("a.png")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return held.getvalue()


async def test_an_archive_is_stored_under_its_hash_and_is_the_data_of_a_card(
    http: httpx.AsyncClient, bus: Bus, store: Store, bounded: Settings
) -> None:
    content = packed(b"pixels" * 9999)
    answer = await http.post("/archives", content=content)
    assert answer.status_code == 201, answer.text
    stored = Ref.model_validate(answer.json())
    assert (stored.sha256, stored.size) == (hashlib.sha256(content).hexdigest(), len(content))
    assert store.get_bytes(stored) == content
    assert list((bounded.home / "uploads").iterdir()) == []
    added = await http.post("/datasets", json={"card": CARD, "archive": answer.json()})
    assert added.status_code == 201, added.text
    card = next(one for one in await bus.cards() if one.dataset_id == "sent-set")
    assert card.path is None and card.archive == stored and card.here


@pytest.mark.parametrize("stated", [True, False])
async def test_more_than_the_bound_is_refused_and_leaves_nothing(
    http: httpx.AsyncClient, bounded: Settings, stated: bool
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(400_000)

    answer = await http.post("/archives", content=bytes(1_200_000) if stated else chunks())
    assert answer.status_code == 422 and "M3_ARCHIVE_BYTES" in answer.json()["error"]
    folder = bounded.home / "uploads"
    assert not folder.exists() or list(folder.iterdir()) == []


async def test_what_nobody_registers_is_bounded_and_what_is_registered_makes_room(
    bus: Bus, store: Store, bounded: Settings
) -> None:
    tight = bounded.model_copy(update={"uploads_bytes": 25_000})
    for restart in range(2):
        transport = httpx.ASGITransport(create_app(bus, store, tight), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=20) as http:
            if not restart:
                first = await http.post("/archives", content=packed(b"first"))
                assert first.status_code == (await http.post("/archives", content=packed(b"second"))).status_code == 201
            refused = await http.post("/archives", content=packed(b"third"))
            assert refused.status_code == 422 and "POST /datasets" in refused.json()["error"]
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=20) as http:
        assert (await http.post("/datasets", json={"card": CARD, "archive": first.json()})).status_code == 201
        assert (await http.post("/archives", content=packed(b"third"))).status_code == 201


async def test_nothing_is_no_archive(http: httpx.AsyncClient) -> None:
    answer = await http.post("/archives", content=b"")
    assert answer.status_code == 422 and "is empty" in answer.json()["error"]


async def test_a_card_cannot_name_bytes_that_are_not_there_or_not_an_archive(
    http: httpx.AsyncClient, bus: Bus, store: Store
) -> None:
    before = await bus.cards()
    sealed = store.put_bytes("sealed", b"the test set's own sample")
    absent = Ref(bucket="data", key="sha256/00/x", sha256="0" * 64, size=3)
    for ref in (sealed, absent):
        answer = await http.post("/datasets", json={"card": CARD, "archive": ref.model_dump(mode="json")})
        assert answer.status_code == 404 and "Send it again" in answer.json()["error"]
    there = (await http.post("/archives", content=packed(b"x"))).json()
    for body in ({"path": "/data"}, {"card": f"[{CARD}, {CARD}]"}):
        answer = await http.post("/datasets", json={"card": CARD, "archive": there} | body)
        assert answer.status_code == 422 and "one by one" in answer.json()["error"]
    assert await bus.cards() == before


async def test_the_limits_are_told(http: httpx.AsyncClient, bounded: Settings) -> None:
    told = (await http.get("/archives/limits")).json()
    assert told == {"sent": 1 << 20, "unpacked": bounded.unpacked_bytes, "files": bounded.unpacked_files}


def test_what_changes_while_it_is_sent_is_an_error(tmp_path: Path) -> None:
    from services.command.upload import look
    from shared.errors import UserError
    from shared.store.archive_rules import Limits

    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"12345")
    parcel = look(folder, Limits(1 << 20, 1 << 20, 10))
    assert sum(map(len, parcel.read())) == parcel.size
    for content in (b"123456", b"1234"):
        (folder / "a.png").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.png changed while"):
            list(parcel.read())
