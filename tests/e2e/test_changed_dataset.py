"""Files that change after their dataset was registered: what a run is planned on is what they are now."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from services.command.live import RunView
from services.gateway.summary import summary
from shared.contracts.runs import DataCard, TaskPlanned
from shared.contracts.state import fold
from shared.errors import UserError
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch

pytestmark = pytest.mark.timeout(600)
SAYS = {
    "dataset name": "Shoreline Skin",
    "dataset description": "2D photographs of skin lesions for disease diagnosis.",
}
AGAIN = "its files had changed; they were looked at again"


def photographs(folder: Path, grade: str, count: int) -> None:
    chance = random.Random(grade)
    (folder / grade).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.frombytes("L", (32, 32), chance.randbytes(1024)).save(folder / grade / f"p{number:02d}_1.png")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def planned(running: Running) -> tuple[TaskPlanned, str]:
    """The plan of a new run that names the dataset, and what a person reads of it at the terminal and afterwards."""
    watch = Watch(running, run_id := running.ask("Diagnose photographs of the dataset Shoreline Skin."))
    plan = TaskPlanned.model_validate_json(watch.until("TaskPlanned").data)
    with suppress(UserError):  # it may have come to its end
        running.gateway.cancel(run_id)
    view = RunView()
    lines = [line for item in watch.seen if (line := view.feed(item))]
    events = list(enumerate(watch.events, 1))
    assert fold(run_id, events).planned == plan
    return plan, "\n".join([*lines, summary(events)])


def registered(running: Running) -> DataCard:
    return next(card for card in running.gateway.datasets() if card.dataset_id == "shoreline-skin")


def test_a_dataset_that_changed_is_looked_at_again_before_it_is_planned(running: Running) -> None:
    folder = running.replica.parent / "shoreline"
    photographs(folder, "mild", 6)
    photographs(folder, "severe", 6)
    running.gateway.add_dataset(json.dumps(SAYS), folder)
    added = registered(running)
    assert added.profile and added.profile.files == 12 and added.looked_at
    plan, told = planned(running)
    assert registered(running) == added and AGAIN not in told
    photographs(folder, "worst", 9)
    plan, told = planned(running)
    now = registered(running)
    assert now.profile and now.profile.files == 21 and now.looked_at and now.looked_at > added.looked_at
    assert plan.card == now.for_planning() and told.count(AGAIN) == 2
    shutil.rmtree(folder)
    plan, _ = planned(running)
    assert plan.card.profile is None and registered(running).profile is None, "nothing rests on what is gone"
    # Other tests of the session look at the cards, too.
    running.gateway.add_dataset(json.dumps(SAYS), here=False)
