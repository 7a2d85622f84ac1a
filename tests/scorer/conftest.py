"""Scorer and tool runner at work, once for all tests that score packages by the real way, and a store for masks."""

from collections.abc import Iterator
from typing import Any

import pytest
from real_scoring import Scoring, scoring

from shared.settings import Settings
from shared.store import Store


@pytest.fixture(scope="session")
def real_scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoring]:
    with scoring(tmp_path_factory.mktemp("scoring")) as found:
        yield found


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, s3_server: Any) -> Store:
    """For cases that several tests look at."""
    settings = Settings(
        home=tmp_path_factory.mktemp("home"),
        s3_endpoint=s3_server.endpoint,
        s3_access_key=s3_server.access_key,
        s3_secret_key=s3_server.secret_key,
    )
    connected = Store.connect(settings)
    connected.ensure_buckets()
    return connected
