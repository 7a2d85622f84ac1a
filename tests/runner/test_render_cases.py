"""Pictures of test cases in a report: drawn by the real runner in its sandbox from real files; what is in them."""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from services.gateway.app import create_app
from shared.bus import Bus
from shared.contracts.data import IndexRow
from shared.contracts.pictures import RenderCases
from shared.contracts.tools import ToolCall
from shared.embedded.nats import start_nats
from shared.settings import Settings
from shared.store import Store
from tests.conftest import RETRY_DELAYS
from tests.runner.drawn import rgb, tiles
from tests.runner.scored_run import told

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
LIVER, TUMOUR = "#ff4040", "#40dc40"
VALUES = {"liver": 6, "tumour": 28}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, s3_server: Any) -> Iterator[Settings]:
    """A bus of its own with the real runner service at it: at a shared one it would take the work of other tests."""
    folder = tmp_path_factory.mktemp("pictures")
    nats = start_nats(folder / "nats")
    settings = Settings(
        home=folder, nats_url=nats.url, s3_endpoint=s3_server.endpoint, s3_access_key=s3_server.access_key,
        s3_secret_key=s3_server.secret_key, ready_file=folder / "run" / "ready",
    )  # fmt: skip
    for name in ("runner", "run"):
        (folder / name).mkdir()
        if os.geteuid() == 0:
            os.chown(folder / name, settings.runner_uid, settings.runner_uid)
    folder.chmod(0o755)
    given = {
        "M3_HOME": str(folder), "M3_NATS_URL": nats.url, "M3_S3_ENDPOINT": s3_server.endpoint,
        "M3_S3_ACCESS_KEY": s3_server.access_key, "M3_S3_SECRET_KEY": settings.s3_secret_key.get_secret_value(),
        "M3_READY_FILE": str(settings.ready_file), "M3_RUNNER_CLASSES": '["data"]',
    }  # fmt: skip
    rest = {name: value for name, value in os.environ.items() if not name.startswith("M3_")}
    log, runner = folder / "runner.log", None
    try:
        with log.open("wb") as output:
            argv = [sys.executable, "-m", "services.tool_runner"]
            runner = subprocess.Popen(argv, env=rest | given, stdout=output, stderr=output, cwd=ROOT)
        until = time.monotonic() + 120
        while not (folder / "run" / "ready").exists():
            assert runner.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.1)
        yield settings
    finally:
        if runner:
            runner.terminate()
            runner.wait(30)
        nats.stop()


@dataclass
class World:
    bus: Bus
    store: Store
    http: httpx.AsyncClient

    async def report(self, run_id: str, form: str = "html") -> str:
        answer = await self.http.get(f"/runs/{run_id}/report", params={"format": form, "wait": 200})
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture
async def world(served: Settings) -> AsyncIterator[World]:
    bus = await Bus.connect(served, "gateway", retry_delays=RETRY_DELAYS)
    store = Store.connect(served)
    store.ensure_buckets()
    transport = httpx.ASGITransport(create_app(bus, store, served))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=250) as client:
        yield World(bus, store, client)
    await bus.close()


def row(name: str, *files: str, target: str | None = None, label: str | None = None) -> IndexRow:
    return IndexRow(sample_id=name, patient=f"of {name}", files=files, target=target, label=label, split="test")


def volume(path: Path, array: np.ndarray, affine: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, affine), path)


async def test_planes_show_truth_and_prediction_in_place_and_in_true_proportions(world: World, tmp_path: Path) -> None:
    """A volume of 40 x 30 x 40 mm in 5 mm slices, stored with its axes against the patient's (LPS)."""
    affine = np.diag([-1.0, -1.0, 5.0, 1.0])
    scan = np.random.default_rng(0).normal(40, 5, (40, 30, 8)).astype(np.int16)
    truth, answer = np.zeros(scan.shape, np.uint8), np.zeros(scan.shape, np.uint8)
    truth[4:24, 10:20, 2:6] = 6  # 20 x 10 x 20 mm, towards the patient's right, as x runs to the left
    answer[4:14, 10:20, 2:6] = 6
    answer[30:36, 10:20, 2:6] = 28
    data = tmp_path / "data"
    for name in ("a", "b", "c"):
        volume(data / f"{name}.nii.gz", scan, affine)
        volume(data / f"{name}-mask.nii.gz", truth, affine)
    (data / "b.nii.gz").write_bytes((data / "b.nii.gz").read_bytes()[:3000])
    volume(tmp_path / "answer.nii.gz", answer, affine)
    volume(tmp_path / "small.nii.gz", answer[1:], affine)
    given = {
        name: {"mask": world.store.put_file("packages", tmp_path / file).model_dump(mode="json"), "suffix": ".nii.gz"}
        for name, file in (("a", "answer.nii.gz"), ("c", "small.nii.gz"))
    }
    cases: list[dict[str, Any]] = [
        {"sample_id": "a", "patient": "p", "dice": 0.4, "structures": {"liver": 0.667, "tumour": 0.0}},
        {"sample_id": "b", "patient": "p", "dice": 0.0, "failed": "unreadable"},
        {"sample_id": "c", "patient": "p", "dice": 0.5, "structures": {"liver": 0.5, "tumour": None}},
    ]
    rows = [row(name, f"{name}.nii.gz", target=f"{name}-mask.nii.gz") for name in ("a", "b", "c")]
    run_id = await told(
        world.bus, world.store, data, rows, task="organ_segmentation", dimensions=3, values=VALUES,
        answers=given | {"b": {"error": "unreadable"}}, cases=cases,
    )  # fmt: skip
    page = await world.report(run_id)
    found = tiles(page)
    assert list(found) == ["2", "3", "1"], "the worst, the best, and one more"
    assert "Case 2 worst dice 0.000; no usable answer: unreadable" in found["2"].words
    assert (
        found["2"].picture is None
        and "No picture: 000.nii.gz cannot be read (Compressed file ended" in found["2"].words
    )
    assert "Case 1 random dice 0.400 tumour 0.000 liver 0.667" in found["1"].words
    assert f'<i style="background:{LIVER}"></i>liver 0.667' in page

    tile = found["1"]
    assert tile.picture is not None
    height, width = tile.picture.shape[:2]
    scale = (width - 8) / (40 + 40 + 30)
    assert height == pytest.approx(40 * scale, abs=2), "one scale for all planes: the coronal one is 40 mm high"
    edges = [0, round(40 * scale) + 2, round(80 * scale) + 6, width]
    for (left, right), size in zip(itertools.pairwise(edges), ((20, 10), (20, 20), (10, 20)), strict=True):
        assert tile.box(LIVER, left, right) == pytest.approx([one * scale for one in size], abs=3)

    def at(x: float, y: float) -> np.ndarray:
        """The axial plane's mean colour around a place in mm from its left and upper border."""
        assert tile.picture is not None
        top = (height - 30 * scale) / 2
        column, line = round(x * scale), round(top + y * scale)
        return tile.picture[line - 8 : line + 9, column - 8 : column + 9].reshape(-1, 3).mean(axis=0)

    # The first voxels lie to the patient's right and in front, which is the left and the top of the picture.
    red, green, grey = at(9, 15), at(33, 15), at(19, 15)
    assert red[0] > red[1] + 40 and red[0] > red[2] + 40, "predicted and true: filled with the colour of the liver"
    assert green[1] > green[0] + 40, "predicted only: the colour of the tumour"
    assert np.ptp(grey) < 5, "true only: no fill"
    assert tile.box(LIVER)[0] > 0 and not (tile.picture == rgb(TUMOUR)).all(axis=2).any(), "lines are the truth's"

    other = found["3"]
    assert other.picture is not None and other.box(LIVER, 0, edges[1]) == tile.box(LIVER, 0, edges[1])
    assert "the answer cannot be drawn: the mask answer.nii.gz has 39 x 30 x 8 voxels where the image" in other.words

    told_text = await world.report(run_id, "text")
    assert re.search(r"^2 +worst +0\.000 +b +p$", told_text, re.MULTILINE), told_text
    assert (await world.bus.state(run_id)).finished is not None
    assert tiles(await world.report(run_id))["1"].words == tile.words, "asked again, the same pictures come"


async def test_a_flat_picture_is_shown_itself(world: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    picture, mask, answer = (np.zeros((40, 60), np.uint8) for _ in range(3))
    picture[:] = 90
    mask[10:30, 10:40] = 6
    answer[10:30, 30:50] = 6
    Image.fromarray(picture).save(data / "x.png")
    Image.fromarray(mask).save(data / "m.png")
    Image.fromarray(answer).save(tmp_path / "a.png")
    ref = world.store.put_file("packages", tmp_path / "a.png").model_dump(mode="json")
    run_id = await told(
        world.bus, world.store, data, [row("x", "x.png", target="m.png")], task="anomaly_detection", dimensions=2,
        values={"lesion": 6}, answers={"x": {"mask": ref, "suffix": ".png"}},
        cases=[{"sample_id": "x", "patient": "p", "dice": 0.4, "structures": {"lesion": 0.4}}],
    )  # fmt: skip
    tile = tiles(await world.report(run_id))["1"]
    assert tile.picture is not None
    height, width = tile.picture.shape[:2]
    scale = height / 40
    assert width == pytest.approx(60 * scale, abs=1)
    assert tile.box(LIVER) == pytest.approx((30 * scale, 20 * scale), abs=2)

    def at(x: float, y: float) -> list[int]:
        assert tile.picture is not None
        return [int(one) for one in tile.picture[round(y * scale), round(x * scale)]]

    assert at(20, 20) == [90, 90, 90] == at(5, 5)
    assert at(45, 20) == [round(90 * 0.6 + one * 0.4 - 0.5) for one in rgb(LIVER)] == at(35, 20)


async def test_only_the_gateway_and_only_after_the_score(world: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(data / "x.png")
    rows = [row("x", "x.png", label="ill")]
    early = await told(
        world.bus, world.store, data, rows, task="diagnosis", dimensions=2, labels=("ill",), scored=False
    )
    done = await told(
        world.bus, world.store, data, rows, task="diagnosis", dimensions=2, labels=("ill",),
        cases=[{"sample_id": "x", "label": "ill", "predicted": "ill", "probabilities": {"ill": 1.0}}],
    )  # fmt: skip

    async def ask(run_id: str, role: Any, *samples: str) -> Any:
        arguments: dict[str, Any] = {"samples": list(samples)}
        call = ToolCall(
            call_id=f"{run_id}-{role}-{len(samples)}", run_id=run_id, role=role, tool=RenderCases.tool,
            arguments=arguments, reply="",
        )  # fmt: skip
        return await world.bus.call("data", call, 120)

    refused = await ask(early, "gateway", "x")
    assert not refused.ok and "has no score yet" in refused.summary
    assert tiles(await world.report(early)) == {}
    for role in ("task_manager", "data_engineer"):
        refused = await ask(done, role, "x")
        assert not refused.ok and f"{role} may not call render_cases" in refused.summary and refused.data == {}
    answer = await ask(done, "gateway", "x", "y")
    assert answer.ok and answer.isolation in ("bwrap", "landlock")
    shown, strange = answer.data["pictures"]
    assert shown["png"]["bucket"] == "pictures" and strange["problem"] == "is no test sample of this run"
