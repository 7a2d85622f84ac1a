"""What an erasure refuses, and what is refused while one is at work; `tests/e2e/test_forget.py` has whole ones."""

from pathlib import Path

import httpx
import pytest

from services.gateway.app import create_app
from services.gateway.parts import Parts
from services.gateway.quiet import Quiet
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store


async def test_what_is_not_there_or_has_not_ended_is_not_erased(http: httpx.AsyncClient) -> None:
    assert (await http.post("/erasures", json={})).status_code == 422
    assert (await http.post("/erasures", json={"ids": ["a b"]})).status_code == 422
    unknown = await http.post("/erasures", json={"ids": [new_run_id()], "dry_run": False})
    assert unknown.status_code == 404 and "There is no run or dataset" in unknown.json()["error"]
    made = (await http.post("/runs", json={"requirement": "classify chest CT"})).json()["run_id"]
    live = await http.post("/erasures", json={"ids": [made], "dry_run": False})
    assert live.status_code == 422 and f"m3builder cancel {made}" in live.json()["error"]
    assert made in [run["run_id"] for run in (await http.get("/runs")).json()]
    stones = (await http.get("/erasures")).json()
    assert made not in [stone["id"] for stone in stones]


async def test_nothing_is_asked_for_while_something_is_erased(bus: Bus, store: Store, settings: Settings) -> None:
    app = create_app(bus, store, settings)
    parts: Parts = app.state.parts
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        with parts.quiet.alone():
            busy = await http.post("/runs", json={"requirement": "classify chest CT"})
            assert busy.status_code == 503 and "being erased" in busy.json()["error"]
            assert (await http.get("/runs")).status_code == 200
            assert (await http.post("/erasures", json={"older_than_days": 1})).status_code == 422
        with parts.quiet.asking():
            told = await http.post("/erasures", json={"older_than_days": 1})
            assert told.status_code == 422 and "such as an upload" in told.json()["error"]
        assert (await http.post("/runs", json={"requirement": "classify chest CT"})).status_code == 201


def test_quiet_ends_also_after_an_error_and_holds_for_other_replicas(tmp_path: Path) -> None:
    quiet, other = Quiet(tmp_path), Quiet(tmp_path)
    for held in (quiet.alone, quiet.asking):
        with pytest.raises(ZeroDivisionError), held():
            raise ZeroDivisionError
    with quiet.asking(), other.asking(), pytest.raises(UserError), other.alone():
        raise AssertionError
    with quiet.alone(), pytest.raises(UserError), other.asking():
        raise AssertionError
