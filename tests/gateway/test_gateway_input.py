"""Wrong input is refused with a sentence that says what to do, before anything is written."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.gateway import folders
from shared.bus import Bus
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store
from tests.models.model_endpoints import Endpoint, playing, serving
from tests.models.protocols import Anthropic, OpenAI, Protocol, Reply

CARD = {"dataset name": "Chest Set", "dataset description": "CT of the chest", "dataset path": "/placeholder"}


def problem(answer: httpx.Response, status: int = 422) -> str:
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    return str(answer.json()["error"])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"requirement": "   "}, "Say in a sentence"),
        ({"requirement": "x" * 4001}, "at most 4000"),
        ({"requirement": "x", "core": "gpt"}, "no core 'gpt'"),
        ({"requirement": "x", "core": "playbook,nurse=playbook"}, "task_manager, data_engineer"),
        ({"requirement": "x", "core": "scorer=playbook"}, "no role of ours"),
        ({"requirement": "x", "core": "scripted:/etc/passwd"}, "on the machine"),
        ({"requirement": "x", "budget": {"actions": 0}}, "budget.actions"),
        ({"requirement": "x", "colour": "red"}, "colour"),
        ({}, "requirement"),
    ],
)
async def test_a_request_that_cannot_work_starts_no_run(
    http: httpx.AsyncClient, bus: Bus, body: dict[str, Any], says: str
) -> None:
    before = len(await bus.runs())
    assert says in problem(await http.post("/runs", json=body))
    assert len(await bus.runs()) == before


@pytest.mark.parametrize("protocol", [Anthropic(), OpenAI()], ids=["anthropic", "openai"])
async def test_a_model_without_key_names_the_variable(
    http: httpx.AsyncClient, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, variable = f"{protocol.name}:m", protocol.name.upper()
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL"):
        monkeypatch.delenv(f"{variable}_{name}", raising=False)
    text = problem(await http.post("/runs", json={"requirement": "x", "core": core}))
    assert f"{variable}_API_KEY" in text and "playbook" in text
    monkeypatch.setenv(f"{variable}_API_KEY", "key")
    with playing(protocol) as endpoint:
        monkeypatch.setenv(f"{variable}_BASE_URL", endpoint.url)
        for spec in (core, f"playbook,model_trainer={core}"):
            created = await http.post("/runs", json={"requirement": "x", "core": spec})
            assert created.status_code == 201 and f"{core} is not listed" in created.json()["notes"][0]
        priceless = {"requirement": "x", "core": core, "budget": {"usd": 1}}
        assert "M3_MODELS_FILE" in problem(await http.post("/runs", json=priceless))


@pytest.mark.parametrize("protocol", [Anthropic(), OpenAI()], ids=["anthropic", "openai"])
@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (lambda protocol: protocol.error(401, "authentication_error", "secret-key is wrong"), "_API_KEY"),
        (lambda protocol: protocol.error(404, "not_found_error", "no m"), "knows no model 'm'"),
        (lambda protocol: protocol.error(503, "api_error", "closed"), "HTTP 503: closed"),
        (lambda protocol: Reply(200, "<html>welcome</html>"), "_BASE_URL"),
        (None, "could not be reached"),
    ],
)
async def test_a_model_that_is_not_there_starts_no_run(
    http: httpx.AsyncClient,
    bus: Bus,
    protocol: Protocol,
    reply: Callable[[Protocol], Reply] | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{protocol.name.upper()}_API_KEY", "secret-key")
    body = {"requirement": "x", "core": f"playbook,task_manager={protocol.name}:m"}
    before = len(await bus.runs())
    endpoint = Endpoint(protocol, [reply(protocol)] if reply else [])
    endpoint.models = reply(protocol) if reply else None
    with serving(endpoint):
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url if reply else "http://127.0.0.1:9")
        told = problem(await http.post("/runs", json=body))
    assert says in told and "secret-key" not in told and "\n" not in told
    assert len(await bus.runs()) == before


@pytest.mark.parametrize(
    ("card", "says"),
    [
        ("{not json", "is not JSON"),
        ("[]", "empty list"),
        (json.dumps({"dataset name": "x", "dataset description": "y"}), "'dataset path'"),
        ({"dataset name": "x", "dataset description": "y", "dataset path": "/does/not/exist"}, "does not exist"),
        ({"dataset name": "x", "dataset description": "y", "dataset path": "relative"}, "not absolute"),
        ({"dataset name": "x", "dataset description": "y", "dataset path": "/usr"}, "outside the data roots"),
        ({"dataset name": "x", "dataset description": "y", "dataset path": "/dev/null"}, "is a file"),
    ],
)
async def test_a_card_that_cannot_work_is_not_registered(
    http: httpx.AsyncClient, bus: Bus, card: object, says: str
) -> None:
    before = await bus.cards()
    assert says in problem(await http.post("/datasets", json={"card": card}))
    assert await bus.cards() == before


async def test_links_and_dots_do_not_lead_out_of_the_data_roots(http: httpx.AsyncClient, data_root: Path) -> None:
    outside = data_root.parent / "data-secret"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (data_root / "link").symlink_to(outside)
    for path in (data_root / "link", data_root / ".." / "data-secret"):
        body = {"card": CARD, "path": str(path)}
        assert "outside the data roots" in problem(await http.post("/datasets", json=body))


async def test_an_empty_folder_is_no_dataset(http: httpx.AsyncClient, data_root: Path) -> None:
    (data_root / "empty").mkdir()
    assert "is empty" in problem(await http.post("/datasets", json={"card": CARD, "path": str(data_root / "empty")}))


async def test_one_folder_is_not_for_two_cards(http: httpx.AsyncClient, data_root: Path) -> None:
    cards = [CARD, CARD | {"dataset name": "Other"}]
    assert "one by one" in problem(await http.post("/datasets", json={"card": cards, "path": str(data_root / "chest")}))


async def test_unknown_names_are_404(http: httpx.AsyncClient) -> None:
    for path in ("/runs/nope", "/runs/nope/events", "/runs/nope/artifacts", "/runs/%3E", "/runs/a.b"):
        assert "There is no run" in problem(await http.get(path), 404)
    assert "There is no run" in problem(await http.post("/runs/nope/cancel"), 404)
    problem(await http.get("/no/such/path"), 404)


async def test_a_page_of_a_stranger_cannot_reach_the_loopback(http: httpx.AsyncClient) -> None:
    assert (await http.get("/runs", headers={"Host": "evil.example"})).status_code == 400


async def test_health_and_description(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"ready": True, "unhealthy": {}}
    paths = (await http.get("/openapi.json")).json()["paths"]
    undescribed = [path for path, ways in paths.items() for way in ways.values() if not way.get("description")]
    assert paths and not undescribed


async def test_without_the_store_the_gateway_says_so(
    bus: Bus, settings: Settings, unused_s3: str, data_root: Path
) -> None:
    from services.gateway.app import create_app

    broken = settings.model_copy(update={"s3_endpoint": unused_s3, "data_roots": (data_root,)})
    transport = httpx.ASGITransport(create_app(bus, Store.connect(broken), broken), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=20) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert list(answer.json()["unhealthy"]) == ["store"]
        assert (await client.get("/runs")).status_code == 200


async def test_without_the_bus_every_answer_is_503(settings: Settings, store: Store, tmp_path: Path) -> None:
    from services.gateway.app import create_app
    from shared.embedded.nats import start_nats

    server = start_nats(tmp_path / "own-nats")
    own = settings.model_copy(update={"nats_url": server.url})
    lonely = await Bus.connect(own, "gateway")
    try:
        await lonely.provision()
        server.kill()
        transport = httpx.ASGITransport(create_app(lonely, store, own), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=40) as client:
            answer = await client.post("/runs", json={"requirement": "x"})
            assert "does not answer" in problem(answer, 503)
            assert (await client.get("/readyz")).json()["ready"] is False
            assert (await client.get("/healthz")).status_code == 200
    finally:
        server.stop()
        with contextlib.suppress(ConnectionError):
            await lonely.close()


def test_of_a_root_that_only_runners_see_the_spelling_is_checked(tmp_path: Path) -> None:
    """In a cluster the raw data are mounted where the runner is, and not here."""
    settings = Settings(data_roots=(tmp_path / "elsewhere", tmp_path))
    assert folders.check(f"{tmp_path}/elsewhere/./chest", settings) == tmp_path / "elsewhere" / "chest"
    for outside in (f"{tmp_path}/elsewhere/../other", "/elsewhere/chest"):
        with pytest.raises(UserError, match="does not exist"):
            folders.check(outside, settings)
