"""Reports over HTTP and by command, of a run whose facts lie on a real bus and whose cases lie in a real store."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from PIL import Image
from typer.testing import CliRunner

from services.command import cli, report
from services.gateway.app import create_app
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.data import IndexRow
from shared.contracts.training import JobProgress
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store
from tests.gateway import reported
from tests.runner.scored_run import told


async def tell(bus: Bus, details: Ref | None) -> str:
    run_id = new_run_id()
    for _, event in reported.events(run_id, details=details):
        await bus.append(event)
    for line in reported.progress(3):
        await bus.progress(line.model_copy(update={"run_id": run_id}))
    await bus.progress(JobProgress(run_id=run_id, job_id="another-job", epoch=99, loss=7.0))
    return run_id


async def ask(http: httpx.AsyncClient, run_id: str, form: str) -> httpx.Response:
    answer = await http.get(f"/runs/{run_id}/report", params={"format": form, "wait": 0})
    assert answer.status_code == 200, answer.text
    return answer


async def test_the_report_gathers_all_there_is(http: httpx.AsyncClient, bus: Bus, store: Store) -> None:
    table = reported.diagnosis().details.model_dump_json().encode()
    details = await asyncio.to_thread(store.put_bytes, "packages", table, "application/json")
    run_id = await tell(bus, details)
    told = (await ask(http, run_id, "text")).text
    assert "30 test cases, 1 without a usable answer." in told and "held-out-29" in told
    html = await ask(http, run_id, "html")
    assert html.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in html.headers["content-security-policy"]
    assert "Training loss 1.2 at epoch 1, 0.4 at epoch 3." in html.text and "From 6 messages" in html.text
    card = await ask(http, run_id, "card")
    assert card.headers["content-type"].startswith("text/markdown") and "held-out" not in card.text


async def test_what_cannot_be_read_is_said(http: httpx.AsyncClient, bus: Bus, store: Store) -> None:
    gone = Ref(bucket="packages", key="sha256/00/nothing", sha256="0" * 64, size=1)
    run_id = await tell(bus, gone)
    assert "table of cases cannot be read" in (await ask(http, run_id, "text")).text
    assert (await http.get("/runs/nowhere/report")).status_code == 404
    assert (await http.get(f"/runs/{run_id}/report", params={"format": "pdf"})).status_code == 422


@pytest.fixture
async def door(bus: Bus, store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The app on a port of its own, where the command looks for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(bus, store, settings)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve([listener]))
        monkeypatch.setenv("M3_GATEWAY_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield
        server.should_exit = True
        await serving


async def test_the_command_prints_or_writes(door: None, bus: Bus, tmp_path: Path) -> None:
    run_id = await tell(bus, None)

    async def command(*words: str) -> tuple[int, str]:
        done = await asyncio.to_thread(CliRunner().invoke, cli.app, ["report", run_id, *words])
        return done.exit_code, done.output

    code, printed = await command()
    assert code == 0 and printed.startswith(f"Run {run_id}: succeeded\n"), printed
    assert "auc_macro" in printed and "partial" not in printed
    code, printed = await command("--format", "card")
    assert code == 0 and printed.startswith(f"# Model of run {run_id}")
    code, _ = await command("--output", str(tmp_path / "new" / "told"))
    assert code == 0
    assert {file.name for file in (tmp_path / "new" / "told").iterdir()} == set(report.FILES.values())
    refused = await asyncio.to_thread(CliRunner().invoke, cli.app, ["report", run_id, "--format", "all"])
    assert isinstance(refused.exception, UserError) and "--output DIR" in str(refused.exception)


def test_the_gateway_reads_no_image_itself() -> None:
    code = "import services.gateway.app, sys; print({'nibabel', 'PIL', 'pydicom', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "set()"


async def test_without_a_runner_the_rest_of_the_report_is_there(bus: Bus, settings: Settings, tmp_path: Path) -> None:
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    data = tmp_path / "data"
    data.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(data / "x.png")
    rows = [IndexRow(sample_id="x", patient="p", files=("x.png",), label="ill", split="test")]
    run_id = await told(
        bus, store, data, rows, task="diagnosis", dimensions=2, labels=("ill",),
        cases=[{"sample_id": "x", "label": "ill", "predicted": "ill", "probabilities": {"ill": 1.0}}],
    )  # fmt: skip
    transport = httpx.ASGITransport(create_app(bus, store, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
        for wait, words in ((1, "No tool runner drew them within 1 s"), (0, "They were not asked for")):
            answer = await client.get(f"/runs/{run_id}/report", params={"format": "html", "wait": wait})
            assert answer.status_code == 200
            assert words in answer.text and "1 test cases, 0 without a usable answer." in answer.text
