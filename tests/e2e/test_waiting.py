"""No card fits, and the run waits: over a stop of the whole system, past a card that does not fit, to one that does."""

import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageFilter
from rich.console import Console

from services.command.live import follow
from services.command.upload import upload
from services.gateway.items import Item
from shared.contracts.questions import QuestionAsked
from shared.contracts.runs import RunFinished
from shared.embedded.system import up
from shared.settings import Settings
from tests.e2e.conftest import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SENTENCE = "Grade skin lesions in dermatoscopy photographs."
UNFITTING = {
    "dataset name": "Fundus Photos",
    "dataset description": "2D colour photographs of the retina for disease diagnosis, in class folders",
}
FITTING = {
    "dataset name": "Skin Photos",
    "dataset description": (
        "Skin Photos is a 2D dermatoscopy dataset for disease diagnosis: colour photographs of skin lesions in folders "
        "named after their grade. A file is named after its patient and a running number."
    ),
}
PATIENTS = 24


def photographs(folder: Path) -> Path:
    """Two photographs of each patient: a low grade is a round spot, a high grade a jagged one, on skin of its own."""
    chance = random.Random(5)
    for patient in range(PATIENTS):
        grade = ("low_grade", "high_grade")[patient % 2]
        (folder / grade).mkdir(parents=True, exist_ok=True)
        for number in (1, 2):
            skin = tuple(chance.randint(*bounds) for bounds in ((200, 240), (160, 190), (140, 170)))
            image = Image.new("RGB", (96, 96), skin)
            x, y, size = chance.randint(34, 62), chance.randint(34, 62), chance.randint(18, 28)
            draw, colour = ImageDraw.Draw(image), tuple(chance.randint(40, 90) for _ in range(3))
            if patient % 2:
                draw.regular_polygon((x, y, size), 3, rotation=chance.randint(0, 119), fill=colour)
            else:
                draw.ellipse((x - size, y - size, x + size, y + size), fill=colour)
            # No two patches of skin, and no two spots, have the same pattern.
            pattern = Image.frombytes("L", (24, 24), chance.randbytes(24 * 24)).resize(
                (96, 96), Image.Resampling.BICUBIC
            )
            image = ImageChops.add(image, Image.merge("RGB", [pattern] * 3), scale=1, offset=-128)
            image = image.filter(ImageFilter.GaussianBlur(1))
            image.save(folder / grade / f"P{patient:03}_{number}.{'png' if number == 1 else 'jpg'}")
    return folder


def until(items: Iterator[Item], kind: str) -> Item:
    for item in items:
        if item.kind == kind:
            return item
        assert item.kind != "RunFinished", item.data
    raise AssertionError(f"no {kind} came")


def needed(items: Iterator[Item]) -> dict[str, str]:
    """Dataset -> why it does not fit."""
    question = QuestionAsked.model_validate_json(until(items, "QuestionAsked").data).question
    assert question.wants == "dataset"
    return {option.value: option.says for option in question.options}


def test_a_run_waits_until_a_dataset_fits(running: Running, tmp_path: Path) -> None:
    gateway = running.gateway
    run_id = running.ask(SENTENCE, train_seconds=40)
    items = gateway.follow(run_id)
    reasons = needed(items)
    assert reasons.keys() == {card.dataset_id for card in gateway.datasets()} and all(reasons.values())
    assert "CT" in reasons["cc-ccii"]

    running.system.down()
    up(Settings(home=running.system.home.root), running.system.settings.data_roots)
    assert gateway.run(run_id).status == "waiting_for_answer"

    added = gateway.add_dataset(json.dumps(UNFITTING), running.replica)
    assert added["resumed"] == [run_id]
    later = needed(items)
    assert later.keys() - reasons.keys() == {"fundus-photos"}
    # Its card speaks of photographs of the eye; its files are volumes, which counts for more.
    assert "3D" in later["fundus-photos"]
    assert gateway.run(run_id).status == "waiting_for_answer"

    archive = upload(gateway, photographs(tmp_path / "photos"), lambda done, total: None)
    try:
        assert gateway.add_dataset(json.dumps(FITTING), archive=archive)["resumed"] == [run_id]
        finished = RunFinished.model_validate_json(until(items, "RunFinished").data)
    finally:
        # Other tests of the session look at the cards, too.
        for card in (UNFITTING, FITTING):
            gateway.add_dataset(json.dumps(card), here=False)
    assert finished.end == "succeeded", finished.reason
    assert (running.system.home.runner / "datasets" / archive.sha256 / "low_grade" / "P000_1.png").is_file()

    shown = io.StringIO()
    view = follow(gateway.follow(run_id), Console(file=shown))
    told = shown.getvalue()
    oneline = " ".join(told.split())
    # Cards that do not fit for one reason share its line.
    assert re.search(rf"cc-ccii {re.escape(reasons['cc-ccii'])}|{re.escape(reasons['cc-ccii'])}: .*cc-ccii", oneline)
    assert "m3builder dataset add DIR_OR_ARCHIVE --card FILE" in told
    assert view.state and view.state.planned and view.state.planned.plan.dataset_id == "skin-photos"
    assert view.state.locked and sum(view.state.locked.patients.values()) == PATIENTS
