"""The S3 server of the embedded default."""

import http.client
import io
import os
import socket
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from minio import Minio

from shared.embedded.s3 import S3Keys, S3Ports, S3Server, start_s3, vacuum, wait_ready
from shared.errors import ServerUnfit
from shared.settings import Settings
from shared.store import Store


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = start_s3(tmp_path_factory.mktemp("embedded"))
    yield server
    server.stop()


def _store(server: S3Server) -> Store:
    return Store.connect(
        Settings(s3_endpoint=server.endpoint, s3_access_key=server.access_key, s3_secret_key=server.secret_key)
    )


def test_what_was_acknowledged_survives_stop_and_kill(tmp_path: Path) -> None:
    ports = S3Ports.free()
    first = start_s3(tmp_path / "s3", ports)
    try:
        store = _store(first)
        store.ensure_buckets()
        refs = [store.put_bytes("work", os.urandom(50_000)) for _ in range(30)]
        first.process.kill()
        first.process.wait()
    finally:
        first.stop()
    for chosen in (ports, None):
        again = start_s3(tmp_path / "s3", chosen)
        try:
            assert again.secret_key == first.secret_key
            store = _store(again)
            assert all(len(store.get_bytes(ref)) == 50_000 for ref in refs)
            refs.append(store.put_bytes("work", os.urandom(50_000)))
        finally:
            again.stop()
            again.stop()
    assert not list(Path("/tmp").glob(f"seaweedfs-*-grpc-{ports.filer_grpc}.sock"))


def test_credentials_are_private_and_telemetry_is_off(tmp_path: Path) -> None:
    from shared.embedded.s3 import s3_command

    keys = S3Keys.of(tmp_path)
    command = s3_command(tmp_path, S3Ports.free(), keys)
    assert "-master.telemetry=false" in command
    assert not any(keys.secret_key in part for part in command)
    assert stat.S_IMODE((tmp_path / "s3.json").stat().st_mode) == 0o600
    assert S3Keys.of(tmp_path) == keys


def test_every_listening_port_is_loopback_and_wants_a_signature(s3_server: S3Server) -> None:
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{s3_server.process.pid}/fd").iterdir()}
    listening = set()
    for line in (
        Path("/proc/net/tcp").read_text().splitlines()[1:] + Path("/proc/net/tcp6").read_text().splitlines()[1:]
    ):
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            address, port = fields[1].split(":")
            assert address == "0100007F"
            listening.add(int(port, 16))
    ports = s3_server.ports
    assert listening == {getattr(ports, name) for name in ports.__dataclass_fields__}
    for port in (ports.s3, ports.filer, ports.volume):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/buckets/x", timeout=5)
        assert refused.value.code in (400, 401, 403)


def test_wait_ready_says_who_did_not_answer() -> None:
    ports = S3Ports.free()
    with pytest.raises(ServerUnfit, match=str(ports.s3)):
        wait_ready(ports.endpoint, S3Keys("a", "b" * 16), 0.3)


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises((ServerUnfit, FileExistsError)):
        start_s3(tmp_path, seconds=5)


def test_the_admin_sockets_want_the_servers_own_certificate(s3_server: S3Server) -> None:
    ports = s3_server.ports
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
    for name in ("master", "volume", "filer", "s3"):
        port = getattr(ports, f"{name}_grpc")
        unix = socket.socket(socket.AF_UNIX)
        unix.connect(f"/tmp/seaweedfs-{name}-grpc-{port}.sock")
        for link in (unix, socket.create_connection(("127.0.0.1", port))):
            link.settimeout(10)
            link.sendall(preface)
            # A server without TLS would answer with its settings.
            assert b"\x04" not in _answer(link)[:4]
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        stranger.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port))
        plain.settimeout(10)
        with pytest.raises(ssl.SSLError, match=r"(?i)(certificate.required|bad.certificate)"):
            link = stranger.wrap_socket(plain)
            link.sendall(preface)
            while link.recv(1024):
                pass


def test_nobody_without_the_servers_certificate_removes_a_bucket(tmp_path: Path) -> None:
    server = start_s3(tmp_path)
    try:
        store = Minio(
            server.endpoint.removeprefix("http://"), server.access_key, server.secret_key.get_secret_value(),
            secure=False, region="us-east-1",
        )  # fmt: skip
        store.make_bucket("kept")
        store.put_object("kept", "a", io.BytesIO(b"a" * 10_000), 10_000)
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        for scheme in ("http", "https"):
            with pytest.raises((OSError, http.client.HTTPException)):
                address = f"{scheme}://127.0.0.1:{server.ports.master}/col/delete?collection=kept"
                urllib.request.urlopen(address, timeout=10, context=stranger if scheme == "https" else None)
        assert store.get_object("kept", "a").read() == b"a" * 10_000
        assert vacuum(tmp_path, server.ports.master, 20)
        assert store.get_object("kept", "a").read() == b"a" * 10_000
    finally:
        server.stop()


def _answer(link: socket.socket) -> bytes:
    with link:
        try:
            return link.recv(1024)
        except ConnectionError:
            return b""
