"""What the Task Manager's core is told of files, which may lie outside of the hospital: no name of a person."""

import asyncio
import json
import random
from pathlib import Path

import numpy as np
import pytest

from services.task_manager.role import ROLE
from shared.agent.brief import Brief
from shared.agent.prompt import opening
from shared.bus import Bus
from shared.contracts.runs import DataCard
from shared.contracts.transcript import Observation, Turn
from shared.settings import Settings
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch
from tests.families.dicom import blank, pixels, uid

pytestmark = pytest.mark.timeout(600)
PEOPLE = ("Quagmore", "Zebrinski", "Okonkwolu", "Fitzmarrow")


def films(folder: Path) -> None:
    """Five films of each person, and the names wherever names stand: folders, files, headers, table, reports."""
    chance = random.Random(3)
    rows = ["file,patient name,referred by,finding"]
    for person in PEOPLE:
        (folder / person).mkdir(parents=True)
        for number in range(5):
            name = f"{person}/{person.lower()}_{number}.dcm"
            film = blank("DX", f"{person}^Ada", uid(person, "study"), uid(person, "series"), uid(person, number))
            film.PatientName = f"{person}^Ada"
            pixels(film, np.frombuffer(chance.randbytes(64 * 64 * 2), np.uint16).reshape(64, 64) % 4096)
            film.save_as(folder / name, enforce_file_format=True)
            rows.append(f"{name},{person},Dr. {chance.choice(PEOPLE)},{('effusion', 'normal')[number % 2]}")
            (folder / f"{person.lower()}_{number}.txt").write_text(f"{person}, Ada: no effusion is seen.")
        (folder / person / f"broken {person}.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"x" * 40)
    (folder / f"patients of Dr {PEOPLE[0]}.csv").write_text("\n".join(rows))


async def told(settings: Settings, run_id: str) -> tuple[DataCard, list[Turn | Observation], str]:
    """The registered card, the Task Manager's transcript, and what a language model would be opened with."""
    bus = await Bus.connect(settings, "gateway")
    try:
        card = await bus.card("northern-films")
        entries, _ = await bus.entries(run_id, ROLE.name)
    finally:
        await bus.close()
    assert card
    brief = next(entry.event for entry in entries if isinstance(entry, Observation) and entry.event)
    return card, entries, opening(Brief.model_validate(brief))


def test_no_name_of_a_person_reaches_the_task_manager(running: Running) -> None:
    folder = running.replica.parent / "northern"
    films(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    card = {"dataset name": "Northern Films", "dataset description": "2D chest X-ray films for disease diagnosis."}
    running.gateway.add_dataset(json.dumps(card), folder)
    run_id = running.ask("Diagnose effusion on the Northern Films.")
    Watch(running, run_id).until("TaskPlanned", "northern-films")
    running.gateway.cancel(run_id)
    registered, entries, first = asyncio.run(told(running.system.settings, run_id))
    assert registered.profile and registered.profile.tables and registered.profile.warnings
    whole = registered.model_dump_json().lower()
    assert all(person.lower() in whole for person in PEOPLE), "the profile itself keeps what the Data Engineer needs"
    seen = "".join(entry.model_dump_json() for entry in entries).lower() + first.lower()
    assert '"dx":' in seen.replace("\\", "") and "diagnosis" in seen, "it is told what the files are"
    assert [word for word in (*PEOPLE, "broken", "referred", "canary") if word.lower() in seen] == []
