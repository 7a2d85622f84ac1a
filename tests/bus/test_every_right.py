"""Every subject of the system tried by every service on a real server: the table of rights holds, and only it."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.bus import Bus
from shared.bus.connection import inbox_of
from shared.bus.rights import rights, users
from shared.bus.streams import BUCKETS, DURABLES, kv_subject, stream_configs
from shared.contracts.base import SERVICES, Service
from shared.contracts.flow import SAYS
from shared.embedded.nats import NatsHandle, start_nats
from shared.settings import Settings

PASSWORDS: dict[Service, str] = {name: secrets.token_hex(12) for name in SERVICES}
VERBS = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "PURGE",
    "INFO",
    "SNAPSHOT",
    "RESTORE",
    "MSG.GET",
    "MSG.DELETE",
    "LEADER.STEPDOWN",
)
STREAMS = [str(config.name) for config in stream_configs()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsHandle]:
    """Nothing is made on it: what is allowed reaches no stream."""
    server = start_nats(tmp_path_factory.mktemp("guarded"), extra=users(("m3builder", "x" * 20), PASSWORDS))
    yield server
    server.stop()


def spoken() -> set[str]:
    """A subject of each kind that anybody could wish to say."""
    everybodys = {pattern for name in SERVICES for pattern in rights(name).publish}
    subjects = {".".join("x" if token in "*>" else token for token in pattern.split(".")) for pattern in everybodys}
    subjects |= {f"evt.x.{name}.{kind}.all" for name in SERVICES for said in SAYS.values() for kind in said}
    subjects |= {f"$JS.API.STREAM.{verb}.{stream}" for verb in VERBS for stream in STREAMS}
    subjects |= {f"$JS.API.DIRECT.GET.{stream}" for stream in STREAMS}
    subjects |= {f"$JS.API.CONSUMER.{verb}.{one.stream}.{one.name}" for verb in ("DELETE", "INFO") for one in DURABLES}
    subjects |= {f"$JS.API.CONSUMER.CREATE.{stream}" for stream in STREAMS}
    subjects |= {kv_subject(bucket, "x") for bucket in BUCKETS} | {f"{inbox_of(name)}.x" for name in SERVICES}
    return subjects | {"$SYS.REQ.SERVER.PING", "$JS.API.INFO", "$JS.API.STREAM.LIST", "dlq.x", "log.x.x"}


def allows(patterns: tuple[str, ...], subject: str) -> bool:
    return any(matches(pattern.split("."), subject.split(".")) for pattern in patterns)


def matches(pattern: list[str], subject: list[str]) -> bool:
    if pattern[-1] == ">":
        pattern, subject = pattern[:-1], subject[: len(pattern) - 1] if len(subject) >= len(pattern) else []
    return len(pattern) == len(subject) and all(
        one in ("*", token) for one, token in zip(pattern, subject, strict=True)
    )


async def told(bus: Bus, count: int) -> set[str]:
    """What the server has refused since the last look, once it is so much and no more came."""
    denied = bus.connection.denied
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while len(denied) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    found = set(denied)
    denied.clear()
    return found


@pytest.mark.parametrize("service", SERVICES)
async def test_what_is_not_in_the_table_is_refused(guarded: NatsHandle, tmp_path: Path, service: Service) -> None:
    password = SecretStr(PASSWORDS[service])
    bus = await Bus.connect(
        Settings(home=tmp_path, nats_url=guarded.url, nats_user=service, nats_password=password), service
    )
    client, own = bus.connection.client, rights(service)
    try:
        subjects = spoken()
        for subject in subjects:
            await client.publish(subject, b"")
        forbidden = {subject.lower() for subject in subjects if not allows(own.publish, subject)}
        assert len(forbidden) > len(subjects) / 2
        assert await told(bus, len(forbidden)) == forbidden
        heard = {"evt.>", "turns.>", "tool.>", "log.>", "$KV.>", "$JS.>", "dlq.>", ">", "$KV.DESIRED.x"}
        heard |= {f"{inbox_of(name)}.>" for name in SERVICES}
        for subject in heard:
            await client.subscribe(subject)
        allowed = {*own.subscribe, *(["$KV.DESIRED.x"] if service == "tool_runner" else [])}
        assert await told(bus, len(heard - allowed)) == {subject.lower() for subject in heard - allowed}
    finally:
        await bus.close()
