"""TLS towards a real bus and a real store: the right authority works, all else is refused with the setting to mend."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from shared.bus import Bus
from shared.embedded.nats import NatsHandle, start_nats
from shared.embedded.s3 import S3Keys, S3Ports, S3Server, s3_command
from shared.errors import M3Error, ServerUnfit, ToolBroken, Unavailable, UserError
from shared.settings import Settings
from shared.store import Store
from tests.tls.certificates import Authority

PASSWORD = secrets.token_hex(8)
USERS = f"authorization {{ user: m3, password: {PASSWORD} }}\n"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("others"))


def nats_tls(authority: Authority, address: str = "127.0.0.1", **more: object) -> str:
    certificate, key = authority.issue(f"nats-{secrets.token_hex(4)}", address)
    block = {"cert_file": str(certificate), "key_file": str(key)} | more
    return f"tls {json.dumps(block)}\n{USERS}"


@pytest.fixture(scope="module")
def bus_server(tmp_path_factory: pytest.TempPathFactory, ours: Authority) -> Iterator[NatsHandle]:
    """It wants a certificate of ours, too."""
    server = start_nats(tmp_path_factory.mktemp("nats"), extra=nats_tls(ours, verify=True, ca_file=str(ours.file)))
    yield server
    server.stop()


@pytest.fixture
def bus_tls(bus_server: NatsHandle, ours: Authority, tmp_path: Path) -> Settings:
    certificate, key = ours.issue("client", "127.0.0.1")
    return Settings(
        home=tmp_path,
        nats_url=f"tls://127.0.0.1:{bus_server.port}",
        nats_user="m3",
        nats_password=SecretStr(PASSWORD),
        tls_ca_file=ours.file,
        tls_certificate=certificate,
        tls_key=key,
    )


async def refused(settings: Settings, kind: type[M3Error] = ServerUnfit) -> str:
    with pytest.raises(kind) as caught:
        await (await Bus.connect(settings, "gateway", seconds=2)).close()
    return str(caught.value)


async def test_the_bus_over_tls(bus_tls: Settings) -> None:
    bus = await Bus.connect(bus_tls, "gateway")
    await bus.provision()
    await bus.prove_fence()
    await bus.close()


async def test_a_bus_that_cannot_be_trusted_is_refused(
    bus_tls: Settings, others: Authority, ours: Authority, tmp_path: Path
) -> None:
    assert "M3_TLS_CA_FILE" in await refused(bus_tls.model_copy(update={"tls_ca_file": others.file}))
    assert "M3_TLS_CA_FILE" in await refused(bus_tls.model_copy(update={"tls_ca_file": None}))
    without = bus_tls.model_copy(update={"tls_certificate": None, "tls_key": None})
    assert "M3_TLS_CERTIFICATE" in await refused(without)
    elsewhere = start_nats(tmp_path / "elsewhere", extra=nats_tls(ours, address="127.0.0.2"))
    try:
        named = bus_tls.model_copy(update={"nats_url": f"tls://127.0.0.1:{elsewhere.port}"})
        assert "127.0.0.1" in await refused(named)
    finally:
        elsewhere.stop()


async def test_no_plain_text_goes_to_a_bus_that_was_to_speak_tls(
    bus_tls: Settings, bus_server: NatsHandle, tmp_path: Path
) -> None:
    plain = start_nats(tmp_path / "plain", extra=USERS)
    try:
        update = {"nats_url": f"tls://127.0.0.1:{plain.port}"}
        assert "plain text" in await refused(bus_tls.model_copy(update=update))
        # Without authorities of its own, the address alone says so.
        assert "plain text" in await refused(bus_tls.model_copy(update=update | {"tls_ca_file": None}))
    finally:
        plain.stop()
    told = await refused(bus_tls.model_copy(update={"nats_url": bus_server.url}), UserError)
    assert "M3_NATS_URL" in told and "tls://" in told
    told = await refused(bus_tls.model_copy(update={"nats_url": bus_server.url, "tls_ca_file": None}))
    assert "M3_TLS_CA_FILE" in told


@pytest.mark.parametrize("broken", ["tls_ca_file", "tls_certificate"])
async def test_a_file_that_is_no_certificate_is_named(bus_tls: Settings, broken: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for path in (tmp_path / "text", tmp_path / "missing"):
        assert f"M3_{broken.upper()}" in await refused(bus_tls.model_copy(update={broken: path}), UserError)


@pytest.fixture(scope="module")
def store_server(tmp_path_factory: pytest.TempPathFactory, ours: Authority) -> Iterator[S3Server]:
    """It wants a certificate of ours, too."""
    folder, ports = tmp_path_factory.mktemp("s3"), S3Ports.free()
    keys = S3Keys.of(folder)
    certificate, key = ours.issue("s3", "127.0.0.1")
    argv = [*s3_command(folder, ports, keys), f"-s3.cert.file={certificate}", f"-s3.key.file={key}"]
    argv += [f"-s3.cacert.file={ours.file}", "-s3.tlsVerifyClientCert"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    server = S3Server(f"https://127.0.0.1:{ports.s3}", keys.access_key, SecretStr(keys.secret_key), ports, process)
    yield server
    server.stop()


@pytest.fixture
def store_tls(store_server: S3Server, ours: Authority, tmp_path: Path) -> Settings:
    certificate, key = ours.issue("client", "127.0.0.1")
    settings = Settings(
        home=tmp_path,
        s3_endpoint=store_server.endpoint,
        s3_access_key=store_server.access_key,
        s3_secret_key=store_server.secret_key,
        tls_ca_file=ours.file,
        tls_certificate=certificate,
        tls_key=key,
    )
    Store.connect(settings).ensure_buckets()  # waits for the server
    return settings


def impatient(settings: Settings) -> Store:
    store = Store.connect(settings)
    store.patience = 0
    return store


def test_the_store_over_tls(store_tls: Settings, others: Authority) -> None:
    store = Store.connect(store_tls)
    assert store.get_bytes(store.put_bytes("work", b"seen")) == b"seen"
    for authority in (others.file, None):
        stranger: dict[str, Any] = {"tls_ca_file": authority}
        with pytest.raises(Unavailable, match="M3_TLS_CA_FILE"):
            impatient(store_tls.model_copy(update=stranger)).ensure_buckets()
    with pytest.raises(Unavailable, match="M3_TLS_CERTIFICATE"):
        impatient(store_tls.model_copy(update={"tls_certificate": None, "tls_key": None})).ensure_buckets()


def test_no_plain_text_goes_to_a_store_that_was_to_speak_tls(store_tls: Settings, settings: Settings) -> None:
    plain = store_tls.s3_endpoint.replace("https", "http")
    with pytest.raises(UserError, match="M3_S3_ENDPOINT"):
        Store.connect(store_tls.model_copy(update={"s3_endpoint": plain}))
    with pytest.raises(ToolBroken, match="must say https"):
        impatient(store_tls.model_copy(update={"s3_endpoint": plain, "tls_ca_file": None})).ensure_buckets()
    without_tls = settings.s3_endpoint.replace("http", "https")
    with pytest.raises(Unavailable, match="M3_S3_ENDPOINT"):
        impatient(store_tls.model_copy(update={"s3_endpoint": without_tls})).ensure_buckets()
