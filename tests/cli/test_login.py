"""Logging in at a real OpenID provider from the command, as a person with a browser elsewhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.gateway.client import Gateway
from services.gateway.login import Credentials
from shared.errors import UserError
from shared.settings import Settings
from tests.cli.conftest import call
from tests.gateway import provider
from tests.gateway.provider import Provider


@pytest.fixture(scope="module")
def idp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    people = {"ana": ["m3builder-ask"], "otto": ["m3builder-operate"]}
    running = provider.start(tmp_path_factory.mktemp("idp"), people)
    yield running
    running.stop()


@pytest.fixture
def environment(environment: dict[str, str], idp: Provider) -> dict[str, str]:
    """The gateway's, without a token of its own."""
    return environment | {"M3_GATEWAY_TOKEN": "", "M3_OIDC_ISSUER": idp.issuer}


@pytest.fixture
def person(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Of somebody on another machine, who knows the gateway's address and nothing else."""
    kept = {key: value for key, value in environment.items() if not key.startswith("M3_")}
    return kept | {"M3_GATEWAY_URL": environment["M3_GATEWAY_URL"], "M3_HOME": str(tmp_path / "person")}


def log_in(person: dict[str, str], idp: Provider, name: str, action: str = "authorize") -> tuple[int, str]:
    argv = [sys.executable, "-u", "-m", "services.command.cli", "login"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=person, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        told = process.stdout.readline()
        code = re.search(r"the code (\S+)\.", told)
        assert code and idp.issuer in told, told + process.stdout.read()
        idp.agree(code[1], name, action)
        told += process.stdout.read()
    return process.returncode, told


@pytest.mark.usefixtures("gateway")
def test_a_person_logs_in_asks_and_is_refreshed(person: dict[str, str], idp: Provider) -> None:
    assert "m3builder login" in call(person, "runs", code=2)
    code, told = log_in(person, idp, "ana")
    assert code == 0 and "logged in as ana; you may: ask" in told
    kept = Path(person["M3_HOME"]) / "login.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    run_id = call(person, "run", "classify chest CT", "--detach").strip()
    assert run_id in call(person, "runs")
    refused = call(person, "audit", code=2)
    assert "'operate'" in refused and "m3builder-operate" in refused

    before = json.loads(kept.read_text())
    kept.write_text(json.dumps(before | {"expires_at": 0}))
    assert run_id in call(person, "runs")
    after = json.loads(kept.read_text())
    assert after["access_token"] != before["access_token"] and after["expires_at"] > before["expires_at"] - 60
    assert kept.stat().st_mode & 0o777 == 0o600

    kept.write_text(json.dumps(after | {"expires_at": 0, "refresh_token": "spent"}))
    assert "m3builder login" in call(person, "runs", code=2)
    call(person, "logout")
    assert not kept.exists()


@pytest.mark.usefixtures("gateway")
def test_a_no_in_the_browser_is_a_no(person: dict[str, str], idp: Provider) -> None:
    code, told = log_in(person, idp, "ana", "deny")
    assert code == 2 and "not logged in" in told
    assert not (Path(person["M3_HOME"]) / "login.json").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("gateway")
def test_an_operator_sees_the_run_and_the_audit_with_a_token_from_a_file(
    person: dict[str, str], idp: Provider, tmp_path: Path
) -> None:
    ana = person | {"M3_GATEWAY_TOKEN": idp.token("ana")}
    run_id = call(ana, "run", "x", "--detach").strip()
    token = tmp_path / "token"
    otto = person | {"M3_GATEWAY_TOKEN_FILE": str(token)}
    assert "M3_GATEWAY_TOKEN_FILE" in call(otto, "runs", code=2)
    token.write_text(idp.token("otto") + "\n")
    assert run_id in call(otto, "runs")
    told = call(otto, "audit")
    assert re.search(rf"ana POST /runs 201 /runs/{run_id}", told) and "otto GET /runs 200" in told
    token.write_text(idp.token("otto", minutes=-5))
    assert "expired" in call(otto, "runs", code=2)


def test_a_login_is_shown_to_its_own_gateway_only(tmp_path: Path) -> None:
    kept = {"gateway": "https://one.example", "token_endpoint": "https://idp.example/token", "client_id": "m3builder"}
    (tmp_path / "login.json").write_text(json.dumps(kept | {"access_token": "secret", "expires_at": 1e12}))
    for address, shown in (("https://one.example", "Bearer secret"), ("https://two.example", None)):
        with Gateway(Settings(home=tmp_path, gateway_url=address)) as gateway:
            request = gateway._http.build_request("GET", "/runs")
        sent = next(Credentials(Settings(home=tmp_path, gateway_url=address)).sync_auth_flow(request))
        assert sent.headers.get("Authorization") == shown
    (tmp_path / "login.json").write_text("{")
    with pytest.raises(UserError, match="m3builder login"):
        next(Credentials(Settings(home=tmp_path)).sync_auth_flow(request))


def test_no_login_over_a_wire_that_others_hear(environment: dict[str, str], tmp_path: Path) -> None:
    from services.gateway.bodies import Login
    from services.gateway.login import log_in as ask

    offer = Login(issuer=environment["M3_OIDC_ISSUER"], client_id="m3builder", scope="openid")
    with pytest.raises(UserError, match="no https address"):
        ask(Settings(home=tmp_path, gateway_url="http://gateway.example"), offer, lambda *_: None)
