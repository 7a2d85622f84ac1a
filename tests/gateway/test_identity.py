"""People of an OpenID provider at the door: who they are, what they may do, and what is remembered of it."""

import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from services.gateway.app import create_app
from services.gateway.audit_log import Audit
from services.gateway.identity import Identities, TurnedAway, user
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.questions import Question, QuestionAsked, approve
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.errors import ServerUnfit, Unavailable
from shared.settings import Settings
from shared.store import Store
from tests.gateway import provider
from tests.gateway.provider import Provider

PEOPLE = {
    "asker": ["m3builder-ask"],
    "reader": ["m3builder-ask", "m3builder-data"],
    "approver": ["m3builder-ask", "m3builder-approve"],
    "operator": ["m3builder-operate"],
    "nobody": ["something-else"],
}


@pytest.fixture(scope="module")
def idp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    running = provider.start(tmp_path_factory.mktemp("idp"), PEOPLE)
    yield running
    running.stop()


@pytest.fixture
def guarded(settings: Settings, idp: Provider) -> Settings:
    return settings.model_copy(update={"gateway_token": SecretStr("the-token"), "oidc_issuer": idp.issuer})


@pytest.fixture
async def door(bus: Bus, store: Store, guarded: Settings) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(bus, store, guarded), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", timeout=20) as client:
        yield client


@pytest.fixture
def known(idp: Provider) -> Callable[[str], dict[str, str]]:
    tokens: dict[str, str] = {}

    def headers(name: str) -> dict[str, str]:
        tokens.setdefault(name, idp.token(name))
        return {"Authorization": f"Bearer {tokens[name]}"}

    return headers


Known = Callable[[str], dict[str, str]]


def visits(settings: Settings) -> list[dict[str, str]]:
    return [json.loads(line) for line in Audit(settings).path.read_text().splitlines()]


async def ask(door: httpx.AsyncClient, headers: dict[str, str], **more: object) -> str:
    answer = await door.post("/runs", headers=headers, json={"requirement": "classify chest CT"} | more)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


async def test_each_right_opens_its_own_doors(door: httpx.AsyncClient, known: Known, guarded: Settings) -> None:
    run_id = await ask(door, known("asker"))
    theirs = await ask(door, known("reader"))
    tried = {
        "asker": {f"/runs/{run_id}": 200, f"/runs/{run_id}/report?format=card": 200, f"/runs/{run_id}/report": 403},
        "reader": {f"/runs/{theirs}/report": 200, "/datasets": 200, f"/runs/{theirs}/artifacts/record": 200},
        "operator": {f"/runs/{run_id}": 200, f"/runs/{theirs}": 200, "/audit": 200, f"/runs/{theirs}/transcript": 403},
    }
    tried["asker"] |= {"/datasets": 403, "/audit": 403, f"/runs/{run_id}/artifacts/cases": 403}
    for name, paths in tried.items():
        for path, status in paths.items():
            answer = await door.get(path, headers=known(name))
            assert answer.status_code == status, (name, path, answer.text)
    refused = await door.post("/runs", headers=known("operator"), json={"requirement": "x"})
    assert refused.status_code == 403
    assert "'ask'" in refused.json()["error"] and "m3builder-ask" in refused.json()["hint"]
    nobody = await door.get("/runs", headers=known("nobody"))
    assert nobody.status_code == 403 and "none of the roles" in nobody.json()["error"]
    assert (await door.get("/me", headers=known("reader"))).json() == {"name": "reader", "rights": ["ask", "data"]}
    line, roleless = visits(guarded)[-3:-1]
    assert (line["who"], line["did"], line["status"]) == ("operator", "POST /runs", 403)
    assert "'ask'" in line["note"]
    assert (roleless["who"], roleless["did"], roleless["status"]) == ("nobody", "GET /runs", 403)


async def test_a_run_is_its_owners_and_the_operators(
    door: httpx.AsyncClient, known: Known, bus: Bus, guarded: Settings
) -> None:
    run_id = await ask(door, known("asker"))
    requested = (await bus.state(run_id)).requested
    assert requested and requested.asked_by == "asker"
    missing = (await door.get("/runs/no-such-run", headers=known("reader"))).json()
    for method, end in (("GET", ""), ("GET", "/events"), ("GET", "/trace"), ("POST", "/cancel"), ("GET", "/report")):
        answer = await door.request(method, f"/runs/{run_id}{end}", headers=known("reader"))
        assert answer.status_code == 404, end
        assert answer.json() == json.loads(json.dumps(missing).replace("no-such-run", run_id))
    assert visits(guarded)[-1]["note"] == "the run of somebody else"
    listed = {
        name: [run["run_id"] for run in (await door.get("/runs", headers=known(name))).json()]
        for name in ("asker", "reader", "operator")
    }
    assert run_id in listed["asker"] and run_id in listed["operator"] and run_id not in listed["reader"]
    for name in listed:
        now = (await door.get("/fleet", headers=known(name))).json()["runs"]
        assert (run_id in [run["run_id"] for run in now]) == (name != "reader")
    assert (await door.post(f"/runs/{run_id}/cancel", headers=known("operator"))).json()["status"] == "cancelling"


async def test_an_approval_wants_the_right_and_is_told(
    door: httpx.AsyncClient, known: Known, bus: Bus, guarded: Settings
) -> None:
    plan = TaskPlan(task="diagnosis", dataset_id="a", reason="fits", dimensions=3, modality="CT", metric="auc_macro")
    for name, value, status in (("asker", "yes", 403), ("asker", "unsaid", 200), ("approver", "yes", 200)):
        run_id = await ask(door, known(name), approvals=["plan"])
        requested = (await bus.state(run_id)).requested
        card = DataCard(dataset_id="a", name="A", description="B", path="/data")
        planned = TaskPlanned.make(run_id=run_id, sender="task_manager", cause=requested, plan=plan, card=card)
        await bus.append(planned)
        options = ({"value": "yes"}, {"value": "unsaid"}, {"value": "no"})
        question = Question(key=approve("plan"), text="Go on?", wants="approval", options=options, default="yes")
        await bus.append(QuestionAsked.make(run_id=run_id, sender="task_manager", cause=planned, question=question))
        said = {"key": approve("plan"), "value": value}
        answer = await door.post(f"/runs/{run_id}/answers", headers=known(name), json=said)
        assert answer.status_code == status, answer.text
        assert bool((await bus.state(run_id)).approved) == (status == 200)
    refused, _, _, asked, approved = [line for line in visits(guarded) if line["who"] in ("asker", "approver")][1:]
    assert (refused["status"], approved["status"], asked["did"]) == (403, 200, "POST /runs")
    assert "m3builder-approve" not in refused["note"] and "'approve'" in refused["note"]
    assert approved["note"] == "approve-plan: yes"


async def test_the_operators_token_still_opens_everything(door: httpx.AsyncClient, known: Known) -> None:
    run_id = await ask(door, known("asker"))
    mine = {"Authorization": "Bearer the-token"}
    assert (await door.get(f"/runs/{run_id}", headers=mine)).status_code == 200
    assert (await door.get("/me", headers=mine)).json()["name"] == user()


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


async def test_what_the_provider_did_not_sign_for_us_lets_nobody_in(
    door: httpx.AsyncClient, idp: Provider, guarded: Settings
) -> None:
    good = idp.token("operator")
    head, claims = jwt.get_unverified_header(good), jwt.decode(good, options={"verify_signature": False})
    other = rsa.generate_private_key(65537, 2048)
    public = jwt.PyJWKClient(f"{idp.issuer}/.well-known/jwks.json").get_signing_key(head["kid"]).key
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with_pem = f"{encoded({'alg': 'HS256', 'kid': head['kid']})}.{encoded(claims)}"
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(with_pem.encode(), pem)
    tokens = {
        "expired": idp.token("operator", minutes=-5),
        "another key": jwt.encode(claims, other, "RS256", {"kid": head["kid"]}),
        "unknown key": jwt.encode(claims, other, "RS256", {"kid": "mine"}),
        "alg none": f"{encoded({'alg': 'none', 'kid': head['kid']})}.{encoded(claims)}.",
        "the public key as a secret": f"{with_pem}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        "changed": f"{good.split('.')[0]}.{encoded(claims | {'sub': 'reader'})}.{good.split('.')[2]}",
        "no token": "x",
        "nested": f"{base64.urlsafe_b64encode(b'[' * 20_000).decode()}.e30.e30",
    }
    for what, token in tokens.items():
        answer = await door.get("/runs", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401, what
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    told = [line["note"] for line in visits(guarded)]
    assert "expired" in told[0] and all(line["who"] == "" for line in visits(guarded))
    assert (await door.get("/runs")).status_code == 401


async def test_a_token_for_others_or_for_another_use_is_refused(guarded: Settings, idp: Provider) -> None:
    elsewhere = Identities(guarded.model_copy(update={"oidc_audience": "another-service"}))
    with pytest.raises(TurnedAway, match="not meant for 'another-service'"):
        await elsewhere.visitor(f"Bearer {idp.token('asker')}")
    answer = idp.login("asker", "openid offline_access")
    assert (await Identities(guarded).visitor(f"Bearer {answer['access_token']}")).name == "asker"
    for kind in ("refresh_token", "id_token"):
        with pytest.raises(TurnedAway, match="ID or refresh token"):
            await Identities(guarded).visitor(f"Bearer {answer[kind]}")


async def test_claims_and_roles_are_the_operators_to_name(guarded: Settings, idp: Provider) -> None:
    named = guarded.model_copy(
        update={"oidc_user_claim": "client_id", "oidc_roles_claim": "scope", "oidc_roles": {"openid": ("ask", "data")}}
    )
    answer = idp.login("nobody", "openid")
    visitor = await Identities(named).visitor(f"Bearer {answer['access_token']}")
    assert (visitor.name, visitor.rights) == (provider.CLIENT, {"ask", "data"})
    with pytest.raises(TurnedAway, match="'email_verified' is no name"):
        await Identities(named.model_copy(update={"oidc_user_claim": "email_verified"})).visitor(
            f"Bearer {answer['access_token']}"
        )


async def test_the_operators_name_cannot_be_taken(
    guarded: Settings, idp: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.identity.user", lambda: "asker")
    with pytest.raises(TurnedAway, match="operator's own"):
        await Identities(guarded).visitor(f"Bearer {idp.token('asker')}")


async def test_keys_may_change_and_the_provider_may_be_away(
    guarded: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.identity.COOLDOWN_SECONDS", 0)
    running = provider.start(tmp_path / "idp", {"asker": ["m3builder-ask"]})
    try:
        mine = guarded.model_copy(update={"oidc_issuer": running.issuer})
        identities = Identities(mine)
        before = running.token("asker")
        assert (await identities.visitor(f"Bearer {before}")).name == "asker"
        running.rotate()
        after = running.token("asker")
        assert jwt.get_unverified_header(before)["kid"] != jwt.get_unverified_header(after)["kid"]
        assert (await identities.visitor(f"Bearer {after}")).name == "asker"
    finally:
        running.stop()
    # Keys that are known go on; who has none to compare with lets nobody in.
    assert (await identities.visitor(f"Bearer {before}")).name == "asker"
    with pytest.raises(Unavailable, match="does not answer"):
        await Identities(mine).visitor(f"Bearer {before}")


async def test_a_provider_that_is_away_or_none_lets_nobody_in(bus: Bus, store: Store, guarded: Settings) -> None:
    away = guarded.model_copy(update={"oidc_issuer": "http://127.0.0.1:1"})
    transport = httpx.ASGITransport(create_app(bus, store, away), raise_app_exceptions=False)
    token = jwt.encode({"sub": "x", "exp": time.time() + 60}, rsa.generate_private_key(65537, 2048), "RS256")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        answer = await client.get("/runs", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 503 and "M3_OIDC_ISSUER" in answer.json()["hint"]
        assert (await client.get("/login")).json()["issuer"] == "http://127.0.0.1:1"
    for issuer in ("http://idp.example", guarded.s3_endpoint):
        with pytest.raises((ServerUnfit, Unavailable)):
            await Identities(guarded.model_copy(update={"oidc_issuer": issuer})).visitor(f"Bearer {token}")


async def test_a_run_without_an_owner_is_the_operators(door: httpx.AsyncClient, known: Known, bus: Bus) -> None:
    run_id = new_run_id()
    await bus.append(RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="x"))
    assert (await door.get(f"/runs/{run_id}", headers=known("reader"))).status_code == 404
    assert (await door.get(f"/runs/{run_id}", headers=known("operator"))).status_code == 200
