"""A server with one user a service, and connections of each of them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.bus import Bus
from shared.bus.rights import users
from shared.contracts.base import SERVICES, Service
from shared.embedded.nats import NatsHandle, start_nats
from shared.settings import Settings

PASSWORDS: dict[Service, str] = {name: f"only-{name}-knows-it" for name in SERVICES}
OPERATOR = ("m3builder", "only-the-operator-knows-it")
SECONDS = 30.0
Connect = Callable[[str], Awaitable[Bus]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsHandle]:
    server = start_nats(tmp_path_factory.mktemp("guarded"), extra=users(OPERATOR, PASSWORDS))
    yield server
    server.stop()


@pytest.fixture
async def connect(guarded: NatsHandle, tmp_path: Path) -> AsyncIterator[Callable[[str], Awaitable[Bus]]]:
    async with AsyncExitStack() as stack:

        async def one(name: str) -> Bus:
            user, password = OPERATOR if name == "operator" else (name, PASSWORDS[name])  # type: ignore[index]
            settings = Settings(
                home=tmp_path,
                nats_url=guarded.url,
                nats_user=user,
                nats_password=SecretStr(password),
                ack_wait_seconds=3,
            )
            bus = await Bus.connect(settings, name)
            stack.push_async_callback(bus.close)
            return bus

        await (await one("operator")).provision()
        yield one
