"""What is wrong where a service is started is said in a sentence that names the setting, with an exit code."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.bus.rights import users
from shared.contracts.base import SERVICES, Service
from shared.embedded.nats import start_nats
from shared.embedded.ports import free_port
from shared.embedded.s3 import S3Server, identities, start_s3
from shared.settings import Settings
from tests.processes import environment, start

PASSWORDS: dict[Service, str] = {name: secrets.token_hex(12) for name in SERVICES}
OPERATOR = ("m3builder", secrets.token_hex(12))


@pytest.fixture(scope="module")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = start_s3(tmp_path_factory.mktemp("s3"), others=identities("m3-", lambda name: PASSWORDS[name]))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory, store_server: S3Server) -> Iterator[Settings]:
    """Settings with the operator's users, at servers where everything was made by `python -m shared.bus`."""
    server = start_nats(tmp_path_factory.mktemp("nats"), extra=users(OPERATOR, PASSWORDS))
    settings = Settings(
        home=tmp_path_factory.mktemp("home"), start_seconds=5, nats_url=server.url, nats_user=OPERATOR[0],
        nats_password=SecretStr(OPERATOR[1]), s3_endpoint=store_server.endpoint,
        s3_access_key=store_server.access_key, s3_secret_key=store_server.secret_key,
    )  # fmt: skip
    made = start("shared.bus", environment(settings))
    assert made.wait(60) == 0, made.communicate()
    yield settings
    server.stop()


def of_service(name: Service) -> dict[str, str]:
    return {
        "nats_user": name, "nats_password": PASSWORDS[name], "s3_access_key": name, "s3_secret_key": PASSWORDS[name],
    }  # fmt: skip


NOBODY = f"127.0.0.1:{free_port()}"
FAULTS: dict[str, tuple[str, dict[str, object], str]] = {
    "no bus": ("scorer", {"nats_url": f"nats://{NOBODY}"}, "no NATS server answers at"),
    "another's user": ("scorer", {"nats_user": "gateway"}, "check M3_NATS_USER and M3_NATS_PASSWORD"),
    "no store": ("gateway", {"s3_endpoint": f"http://{NOBODY}"}, "correct M3_S3_ENDPOINT"),
    "wrong secret": ("gateway", {"s3_secret_key": "x" * 20}, "Set M3_S3_ACCESS_KEY and M3_S3_SECRET_KEY"),
    "no bucket": ("operator", {"s3_bucket_prefix": "no-"}, "correct M3_S3_BUCKET_PREFIX"),
    "too few rights": (
        "scorer", {"s3_access_key": "gateway", "s3_secret_key": PASSWORDS["gateway"]},
        "does not let the user 'gateway' read the bucket m3-cases: give this user what `python -m shared.bus --rights`",
    ),
    "no GPU": ("tool_runner", {"min_gpus": 9}, "set M3_MIN_GPUS=0 to train on the CPU"),
    "no such GPU": ("tool_runner", {"gpus": ["GPU-1234"]}, "M3_GPUS names"),
    "no such isolation": ("tool_runner", {"isolation": "jail"}, "set M3_ISOLATION to"),
    "no authority": ("scorer", {"nats_url": f"tls://{NOBODY}", "tls_ca_file": "/none.pem"}, "M3_TLS_CA_FILE is /none"),
    "no number": ("task_manager", {"concurrency": "many"}, "M3_CONCURRENCY cannot be used"),
    "no list": ("tool_runner", {"data_roots": "/data"}, "lists and tables are JSON"),
    "three copies": ("shared.bus", {"nats_replicas": 3}, "is a single server, so it cannot keep 3 copies"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_said_in_a_sentence(operator: Settings, tmp_path: Path, fault: str) -> None:
    name, wrong, sentence = FAULTS[fault]
    who: dict[str, object] = {} if name in ("shared.bus", "operator") else dict(of_service(name))  # type: ignore[arg-type]
    module = {"shared.bus": name, "operator": "services.tool_runner"}.get(name, f"services.{name}")
    tmp_path.chmod(0o777)
    (tmp_path / "runner").mkdir(mode=0o777)
    process = start(module, environment(operator, **who | {"home": str(tmp_path)} | wrong))
    _, errors = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert sentence in errors and "Traceback" not in errors, errors
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert not any("traceback" in line for line in lines)
    assert len([line for line in lines if line["level"] == "ERROR"]) <= 1, errors


def test_a_bus_where_nothing_was_made_says_what_makes_it(operator: Settings, tmp_path: Path) -> None:
    server = start_nats(tmp_path, extra=users(OPERATOR, PASSWORDS))
    try:
        process = start("services.scorer", environment(operator, nats_url=server.url, **of_service("scorer")))
        _, errors = process.communicate(timeout=120)
    finally:
        server.stop()
    assert process.returncode == 1 and "run `python -m shared.bus`" in errors and "Traceback" not in errors
