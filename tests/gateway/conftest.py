"""The real app over a real bus and store, reached through its ASGI door."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.gateway.app import create_app
from shared.bus import Bus
from shared.settings import Settings
from shared.store import Store


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    root = tmp_path / "roots" / "data"
    (root / "chest").mkdir(parents=True)
    (root / "chest" / "a.txt").write_text("a")
    return root


@pytest.fixture
async def http(bus: Bus, store: Store, settings: Settings, data_root: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(bus, store, settings.model_copy(update={"data_roots": (data_root,)}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=20) as client:
        yield client


@pytest.fixture
def unused_s3() -> str:
    """An address at which nobody listens."""
    from shared.embedded.ports import free_port

    return f"http://127.0.0.1:{free_port()}"
