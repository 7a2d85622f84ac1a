"""Datasets that cannot support a request: a typed end in words that a person can act on, and services that go on."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from PIL import Image

from services.gateway.summary import summary
from shared.contracts.data import DatasetPrepared
from shared.contracts.events import decode_event
from shared.contracts.runs import Infeasible, RunFinished
from shared.errors import UserError
from tests.e2e.conftest import Running

pytestmark = pytest.mark.timeout(600)


def pictures(folder: Path, count: int, seed: int = 0, names: str = "p{:03d}_1") -> list[Path]:
    """So many different grey pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(f"{folder}{seed}")
    paths = []
    for number in range(count):
        path = folder / f"{names.format(number)}.png"
        Image.frombytes("L", (48, 48), chance.randbytes(48 * 48)).save(path)
        paths.append(path)
    return paths


def no_targets(folder: Path) -> None:
    pictures(folder / "images", 12)


def one_class(folder: Path) -> None:
    pictures(folder / "Cyst", 12)


def one_patient(folder: Path) -> None:
    for label in ("Cyst", "Stone"):
        pictures(folder / label / "patient7", 6)


def nothing_readable(folder: Path) -> None:
    for label in ("Cyst", "Stone"):
        for path in pictures(folder / label, 6):
            path.write_bytes(path.read_bytes()[:60])


def no_images(folder: Path) -> None:
    folder.mkdir()
    (folder / "readme.txt").write_text("The images are sent on request.")


CLAIMS = {
    no_targets: "no_targets",
    # One folder that holds everything tells nothing apart: that it is called after a class is known to nobody.
    one_class: "no_targets",
    one_patient: "one_patient",
    nothing_readable: "nothing_readable",
    no_images: "no_images",
}


FOLDERS = "Its sub-folders are named after the class, Cyst or Stone, and hold the images of the class."


def add(running: Running, name: str, folder: Path, more: str = "") -> str:
    """Register the dataset; returns a sentence that asks for it by name."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    description = f"{name} is a 2D abdomen CT disease diagnosis dataset of kidney slices. {more or FOLDERS}"
    running.gateway.add_dataset(json.dumps({"dataset name": name, "dataset description": description}), folder)
    return f"With the dataset {name}, classify 2D kidney CT slices."


@pytest.mark.parametrize(
    "make",
    [make if make is one_patient else pytest.param(make, marks=pytest.mark.slow) for make in CLAIMS],
    ids=lambda make: make.__name__,
)
def test_an_honest_end_that_a_probe_has_confirmed(running: Running, make: Callable[[Path], None]) -> None:
    name = f"Bad {make.__name__.replace('_', ' ')}"
    folder = running.replica.parent / make.__name__
    make(folder)
    run_id = running.ask(add(running, name, folder))
    events = [decode_event(item.data.encode()) for item in running.follow(run_id) if item.kind[0].isupper()]
    running.gateway.add_dataset(
        json.dumps({"dataset name": name, "dataset description": "2D kidney CT slices"}), here=False
    )
    end = events[-1]
    assert isinstance(end, RunFinished) and end.end == "infeasible", end
    finding = next(event for event in events if isinstance(event, Infeasible)).finding
    assert finding.claim == CLAIMS[make]
    told = summary(list(enumerate(events, 1)), 110)
    print(f"\n{name}:\n{told}")
    assert "infeasible" in told and "Traceback" not in told and finding.reason.split()[0] in told


def test_rows_of_a_table_whose_files_are_missing_are_named(running: Running) -> None:
    folder = running.replica.parent / "table"
    rows = ["file,label,patient"]
    for number, path in enumerate(pictures(folder / "images", 30)):
        rows.append(f"{path.name},{('Cyst', 'Stone')[number % 2]},P{number:02d}")
    rows += ["gone_1.png,Cyst,P90", "gone_2.png,Stone,P91"]
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    more = "The csv file labels.csv has the columns 'file' and 'label' (which is the class label)."
    run_id = running.ask(add(running, "Bad table", folder, more))
    prepared = None
    for item in running.gateway.follow(run_id):
        if item.kind == "DatasetPrepared":
            prepared = DatasetPrepared.model_validate_json(item.data)
            running.gateway.cancel(run_id, "enough")
        assert item.kind != "RunFinished" or prepared is not None, item.data
    assert prepared is not None
    assert sum(prepared.coverage.left_out.values()) == 2, prepared.coverage.left_out
    assert prepared.coverage.cases == 30 and prepared.coverage.patients == 30


def test_a_folder_that_is_closed_is_refused_with_the_remedy(running: Running, tmp_path: Path) -> None:
    folder = running.replica.parent / "closed"
    pictures(folder / "Cyst", 2)
    folder.chmod(0o700)
    card = json.dumps({"dataset name": "Closed", "dataset description": "2D kidney CT slices for disease diagnosis"})
    before = running.gateway.datasets()
    with pytest.raises(UserError, match="closed") as refused:
        running.gateway.add_dataset(card, folder)
    print(f"\n{refused.value}")
    assert "chmod" in str(refused.value) or "permission" in str(refused.value)
    assert running.gateway.datasets() == before
    assert httpx.get(running.system.settings.gateway_url + "/readyz").status_code == 200
