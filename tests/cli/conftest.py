"""A real gateway process over a real bus and store, and the command that talks to it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.bus import Bus
from shared.embedded.ports import free_port
from shared.settings import Settings


@pytest.fixture
def own(settings: Settings, tmp_path: Path) -> Settings:
    root = tmp_path / "data"
    (root / "chest").mkdir(parents=True)
    (root / "chest" / "slice.png").write_bytes(b"x")
    return settings.model_copy(update={"gateway_url": f"http://127.0.0.1:{free_port()}", "data_roots": (root,)})


@pytest.fixture
def environment(own: Settings) -> dict[str, str]:
    return dict(os.environ) | {
        "M3_HOME": str(own.home),
        "M3_NATS_URL": own.nats_url,
        "M3_PROFILE_SECONDS": "0",
        "M3_S3_ENDPOINT": own.s3_endpoint,
        "M3_S3_ACCESS_KEY": own.s3_access_key,
        "M3_S3_SECRET_KEY": own.s3_secret_key.get_secret_value(),
        "M3_GATEWAY_URL": own.gateway_url,
        "M3_GATEWAY_TOKEN": "secret",
        "M3_DATA_ROOTS": json.dumps([str(root) for root in own.data_roots]),
        "M3_READY_FILE": str(own.home / "gateway.ready"),
        "M3_ACK_WAIT_SECONDS": "3",
        "COLUMNS": "160",
    }


@pytest.fixture
def gateway(own: Settings, environment: dict[str, str]) -> Iterator[None]:
    with (own.home / "gateway.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "services.gateway"], env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while not (own.home / "gateway.ready").exists():
            assert process.poll() is None and time.monotonic() < deadline, (own.home / "gateway.log").read_text()
            time.sleep(0.05)
        yield
        process.terminate()
        assert process.wait(20) == 0, (own.home / "gateway.log").read_text()
    finally:
        process.kill()


def call(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "services.command.cli", *arguments],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "Traceback" not in told
    return told


def on_bus(settings: Settings, what):
    """As the Task Manager, whom nobody else plays here."""

    async def inner():
        bus = await Bus.connect(settings, "task_manager")
        try:
            return await what(bus)
        finally:
            await bus.close()

    return asyncio.run(inner())
