"""Real servers for all tests, started once a session on free ports."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from shared.bus import Bus
from shared.bus.streams import TOOLS
from shared.embedded.nats import NatsHandle, start_nats
from shared.settings import Settings
from shared.store import Store

# Not worth an hour's wait in a test: what fails is delivered again at once.
RETRY_DELAYS = (0.05, 0.05, 0.1, 0.1)


class ByFile(LoadScopeScheduling):
    """All tests of a file run in one worker, so that its set-up is done once; in `make test` also all of tests/e2e,
    which share one running system and its main job."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "e2e" if file.startswith("tests/e2e/") and self.config.option.markexpr == "not slow" else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False  # by the number of tests, the few that take minutes would come last
    return ByFile(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores in `make test`: a third of its time is waiting for servers and processes."""
    return (os.cpu_count() or 1) + (config.option.markexpr == "not slow")


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsHandle]:
    server = start_nats(tmp_path_factory.mktemp("nats"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from shared.embedded.s3 import start_s3

    server = start_s3(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def bus_settings(tmp_path: Path, nats_server: NatsHandle) -> Settings:
    """For tests that need no object store."""
    # No runner is up that could look at the files of a dataset.
    return Settings(home=tmp_path, nats_url=nats_server.url, ack_wait_seconds=3.0, profile_seconds=0)


@pytest.fixture
def settings(bus_settings: Settings, s3_server: Any) -> Settings:
    """A home of its own, both servers."""
    return Settings(
        home=bus_settings.home,
        nats_url=bus_settings.nats_url,
        ack_wait_seconds=bus_settings.ack_wait_seconds,
        profile_seconds=0,
        s3_endpoint=s3_server.endpoint,
        s3_access_key=s3_server.access_key,
        s3_secret_key=s3_server.secret_key,
    )


@pytest.fixture
def store(settings: Settings) -> Store:
    connected = Store.connect(settings)
    connected.ensure_buckets()
    return connected


@pytest.fixture
async def bus(bus_settings: Settings) -> AsyncIterator[Bus]:
    """Connected and provisioned. The server is shared by all tests: make a fresh run id in each."""
    connected = await Bus.connect(bus_settings, "gateway", retry_delays=RETRY_DELAYS)
    await connected.provision()
    # Calls that an earlier test left unanswered would be given to the next runner.
    await connected.connection.js.purge_stream(TOOLS)
    yield connected
    await connected.close()
