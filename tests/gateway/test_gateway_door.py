"""Who may come in, from where, with how much; and what is remembered of each visit."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from services.gateway.app import create_app
from services.gateway.audit_log import Audit
from services.gateway.door import BODY_BYTES
from services.gateway.identity import user
from shared.bus import Bus
from shared.errors import UserError
from shared.models.scripted import read_transcript
from shared.settings import Settings
from shared.store import Store

KNOWN = {"Authorization": "Bearer the-token"}


@pytest.fixture
async def door(bus: Bus, store: Store, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    guarded = settings.model_copy(update={"gateway_token": SecretStr("the-token")})
    transport = httpx.ASGITransport(create_app(bus, store, guarded), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", timeout=20) as client:
        yield client


def visits(settings: Settings) -> list[dict[str, object]]:
    path = Audit(settings).path
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": "Basic the-token"}])
async def test_a_stranger_sees_nothing_but_health(
    door: httpx.AsyncClient, bus: Bus, settings: Settings, headers: dict[str, str]
) -> None:
    before = len(await bus.runs())
    for method, path in (("POST", "/runs"), ("GET", "/runs"), ("POST", "/archives"), ("GET", "/openapi.json")):
        answer = await door.request(method, path, headers=headers, json={"requirement": "x"})
        assert answer.status_code == 401, path
        assert "m3builder token" in answer.json()["hint"]
    assert len(await bus.runs()) == before
    assert (await door.get("/healthz")).status_code == 200
    assert [(visit["who"], visit["status"]) for visit in visits(settings)] == [("", 401)] * 4


async def test_who_asked_stands_in_the_run_and_every_visit_in_the_audit(
    door: httpx.AsyncClient, bus: Bus, settings: Settings
) -> None:
    made = (await door.post("/runs", headers=KNOWN, json={"requirement": "classify chest CT"})).json()["run_id"]
    state = await bus.state(made)
    assert state.requested and state.requested.asked_by == user() != ""
    assert (await door.get(f"/runs/{made}/report", headers=KNOWN)).status_code == 200
    assert (await door.get(f"/runs/{made}/artifacts/package.tar", headers=KNOWN)).status_code == 404
    asked, looked, downloaded = visits(settings)
    assert (asked["who"], asked["did"], asked["status"], asked["made"]) == (user(), "POST /runs", 201, f"/runs/{made}")
    assert (looked["did"], downloaded["status"]) == (f"GET /runs/{made}/report", 404)
    told = (await door.get("/audit", headers=KNOWN)).text.splitlines()
    assert [json.loads(line) for line in told][:3] == [asked, looked, downloaded]
    assert Audit(settings).path.stat().st_mode & 0o777 == 0o600


async def test_the_audit_goes_on_in_parts_of_which_none_is_lost(bus: Bus, store: Store, settings: Settings) -> None:
    guarded = settings.model_copy(update={"gateway_token": SecretStr("the-token"), "audit_bytes": 300})
    transport = httpx.ASGITransport(create_app(bus, store, guarded), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        for number in range(12):
            await client.get(f"/{number}", headers=KNOWN)
        audit = Audit(guarded)
        assert len(audit.parts) > 1
        assert all(part.stat().st_size < 600 and part.stat().st_mode & 0o777 == 0o400 for part in audit.parts)
        told = (await client.get("/audit", headers=KNOWN)).text.splitlines()
        assert [json.loads(line)["did"] for line in told[:12]] == [f"GET /{number}" for number in range(12)]
        # What is read while a part becomes full is there once.
        reading = audit.lines()
        first = next(reading)
        for number in range(12, 24):
            await client.get(f"/{number}", headers=KNOWN)
        seen = [first, *reading]
        assert len(seen) == len(set(seen))
        assert [json.loads(line)["did"] for line in seen[:12]] == [f"GET /{number}" for number in range(12)]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_pages_of_other_sites_send_nothing(
    door: httpx.AsyncClient, settings: Settings, headers: dict[str, str]
) -> None:
    answer = await door.post("/archives", headers=KNOWN | headers, content=b"an archive")
    assert answer.status_code == 403
    assert not (settings.home / "uploads").exists()
    assert (await door.get("/runs", headers=KNOWN | {"Origin": settings.gateway_url})).status_code == 200


async def test_a_body_is_bounded_whatever_length_it_states(door: httpx.AsyncClient) -> None:
    received = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal received
        while received < 10 * BODY_BYTES:
            received += 1 << 20
            yield bytes(1 << 20)

    assert (await door.post("/runs", headers=KNOWN, content=endless())).status_code == 413
    assert received <= BODY_BYTES + (1 << 20)
    lying = KNOWN | {"Content-Length": str(BODY_BYTES + 1)}
    assert (await door.post("/runs", headers=lying, content=b"{}")).status_code == 413


async def test_no_page_runs_scripts_of_a_foreign_address(door: httpx.AsyncClient) -> None:
    for path in ("/docs", "/redoc"):
        assert (await door.get(path, headers=KNOWN)).status_code == 404


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/mem", "pipe", "huge"])
def test_a_transcript_is_a_regular_file_of_a_bounded_size(tmp_path: Path, path: str) -> None:
    if path == "pipe":
        import os

        os.mkfifo(tmp_path / path)
    elif path == "huge":
        with (tmp_path / path).open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(UserError):
        read_transcript(tmp_path / path)
