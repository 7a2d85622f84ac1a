"""`m3builder doctor --core NAME`: what a model can do, tried against real endpoints on loopback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.command.cli import app
from services.command.doctor import Finding, try_cores
from tests.models.model_endpoints import Endpoint, Forgetful, serving
from tests.models.protocols import OpenAI, Protocol, Reply, Use

PING: Use = ("p1", "ping", {"word": "here"})


async def tried(protocol: Protocol, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> dict[str, Finding]:
    name = protocol.name.upper()
    monkeypatch.setenv(f"{name}_API_KEY", "secret-key")
    monkeypatch.setenv(f"{name}_BASE_URL", endpoint.url)
    found = {one.what: one for one in await try_cores(f"playbook,model_trainer={protocol.name}:m", None)}
    assert found["playbook"].verdict == "ok"
    assert not any("secret-key" in one.found or "\n" in one.found for one in found.values())
    return found


async def test_a_model_that_can_all(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Forgetful(protocol, [protocol.reply(PING), protocol.reply(text="Red.")])) as endpoint:
        found = await tried(protocol, endpoint, monkeypatch)
    verdicts = {what: one.verdict for what, one in found.items()}
    assert verdicts[f"{protocol.name}:m"] == verdicts["tools"] == verdicts["vision"] == "ok"
    assert verdicts["size"] == verdicts["price"] == "note", "it is not listed"
    assert found["endpoint"].found.startswith("outside the hospital") and "no picture" in found["endpoint"].found
    assert "image" in str(endpoint.bodies[-1]["messages"])


async def test_a_model_that_only_talks_and_sees_nothing(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = protocol.error(400, "invalid_request_error", "no images here")
    with serving(Forgetful(protocol, [protocol.reply(text="ping(here)"), blind])) as endpoint:
        found = await tried(protocol, endpoint, monkeypatch)
    assert found["tools"].verdict == "bad" and "--enable-auto-tool-choice" in found["tools"].found
    assert found["vision"].verdict == "note"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (lambda protocol: protocol.error(401, "authentication_error", "secret-key is wrong"), "_API_KEY"),
        (lambda protocol: protocol.error(404, "not_found_error", "no m"), "knows no model 'm'"),
        (lambda protocol: protocol.error(500, "api_error", "secret-key"), "HTTP 500"),
        (lambda protocol: protocol.error(429, "rate_limit_error", "later", retry_after="3000"), "HTTP 429: later"),
        (lambda protocol: protocol.error(400, "invalid_request_error", "does not support tools"), "calls tools?"),
        (lambda protocol: Reply(200, "<html>welcome</html>"), "_BASE_URL"),
    ],
)
async def test_each_fault_is_one_line_that_says_what_to_set(
    protocol: Protocol, reply: Callable[[Protocol], Reply], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint(protocol, [reply(protocol)])
    endpoint.models = reply(protocol)
    with serving(endpoint):
        found = await tried(protocol, endpoint, monkeypatch)
    assert found[f"{protocol.name}:m"].verdict == "bad" and says in found[f"{protocol.name}:m"].found
    assert "tools" not in found, "the first fault ends it"


async def test_a_server_that_tells_no_models_is_asked(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Forgetful(protocol, [protocol.reply(PING), protocol.reply(PING), protocol.reply(text="red")])
    endpoint.models = protocol.error(404, "not_found_error", "no such page")
    with serving(endpoint):
        found = await tried(protocol, endpoint, monkeypatch)
    assert found[f"{protocol.name}:m"].verdict == found["tools"].verdict == "ok"


@pytest.mark.parametrize(("word", "verdict"), [("Heron.", "ok"), ("This.", "bad")])
async def test_a_server_of_ones_own_that_cuts_long_requests_is_found_out(
    word: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = OpenAI()
    replies = [protocol.reply(PING), protocol.reply(text=word), protocol.reply(text="red")]
    with serving(Forgetful(protocol, replies)) as endpoint:
        monkeypatch.setenv("VLLM_BASE_URL", endpoint.url)
        found = {one.what: one for one in await try_cores("playbook,model_trainer=vllm:m", None)}
    assert found["long requests"].verdict == verdict
    assert (verdict == "ok") != ("OLLAMA_CONTEXT_LENGTH" in found["long requests"].found)
    assert "vision: true" in found["vision"].found, "it is not listed, so runs show it no pictures"
    assert len(str(endpoint.asked[-2]["messages"])) > 50_000


def test_the_command_ends_with_one_where_something_is_wrong(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("M3_HOME", str(tmp_path))
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY")
    done = CliRunner().invoke(app, ["doctor", "--core", f"{protocol.name}:m"])
    assert done.exit_code == 1 and f"{protocol.name.upper()}_API_KEY" in done.output
    assert CliRunner().invoke(app, ["doctor", "--core", "playbook"]).exit_code == 0
