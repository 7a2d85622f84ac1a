"""A connected store with buckets of its own, and the raw client for those who tamper."""

import secrets
from typing import Any

import pytest
from minio import Minio

from shared.settings import Settings
from shared.store import Store


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
