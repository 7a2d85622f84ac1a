"""A connected store with buckets of its own, and the raw client for those who tamper; on SeaweedFS and on MinIO."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from minio import Minio

from shared.embedded.s3 import start_s3
from shared.settings import Settings
from shared.store import Store
from tests.minio_server import start_minio


@pytest.fixture(scope="session", params=["seaweedfs", pytest.param("minio", marks=pytest.mark.slow)])
def s3_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    start = {"seaweedfs": start_s3, "minio": start_minio}[request.param]
    server = start(tmp_path_factory.mktemp(request.param))
    yield server
    server.stop()


@pytest.fixture
def store_settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"s3_bucket_prefix": f"t{secrets.token_hex(4)}-"})


@pytest.fixture
def store(store_settings: Settings) -> Store:
    connected = Store.connect(store_settings)
    connected.ensure_buckets()
    return connected


@pytest.fixture
def raw(store_settings: Settings) -> Any:
    """minio-py on the same server, past everything that Store checks."""
    return Minio(
        store_settings.s3_endpoint.removeprefix("http://"),
        store_settings.s3_access_key,
        store_settings.s3_secret_key.get_secret_value(),
        secure=False,
        region="us-east-1",
    )
