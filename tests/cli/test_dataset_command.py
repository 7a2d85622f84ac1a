"""`m3builder dataset add`: folders and archives that are sent, and paths that cannot work, each in one sentence."""

import asyncio
import os
import zipfile
from pathlib import Path

import pytest

from services.tool_runner.archives import unpacked
from shared.bus import Bus
from shared.contracts.runs import DataCard
from shared.settings import Settings
from shared.store import Store
from tests.asked import for_dataset
from tests.cli.conftest import call, on_bus

pytestmark = pytest.mark.usefixtures("gateway")


@pytest.fixture
def card(tmp_path: Path) -> str:
    path = tmp_path / "card.json"
    path.write_text('{"dataset name": "Sent Chest", "dataset description": "CT", "dataset path": "/placeholder"}')
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    for name in ("sick/p1/a.png", "well/größe.png", "notes.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(name.encode() * 1000)
    (made / "empty").mkdir()
    return made


def registered(settings: Settings) -> DataCard | None:
    cards = on_bus(settings, lambda bus: bus.cards())
    return next((card for card in cards if card.dataset_id == "sent-chest"), None)


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_folder_or_archive_of_this_machine_arrives_whole(
    environment: dict[str, str], own: Settings, folder: Path, card: str, kind: str
) -> None:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    source = folder if kind == "folder" else folder.with_name("archive")
    if kind == "zip":
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in files:
                archive.write(folder / name, name)
    assert "registered: sent-chest" in call(environment, "dataset", "add", str(source), "--card", card, "--upload")
    assert "(uploaded, " in call(environment, "dataset", "list")
    found = registered(own)
    assert found and found.archive and found.path is None
    there = asyncio.run(unpacked(found.archive, Store.connect(own), own))
    assert {str(path.relative_to(there)): path.read_bytes() for path in there.rglob("*") if path.is_file()} == files


def test_what_cannot_be_sent_is_told_before_anything_is_sent(
    environment: dict[str, str], own: Settings, folder: Path, card: str, tmp_path: Path
) -> None:
    def told(source: Path) -> str:
        return call(environment, "dataset", "add", str(source), "--card", card, "--upload", code=2)

    before = registered(own)
    (folder / "sick" / "link").symlink_to("/etc/passwd")
    assert "'sick/link' is a symbolic link; replace it" in told(folder)
    (folder / "sick" / "link").unlink()
    os.mkfifo(folder / "pipe")
    assert "'pipe' is no plain file" in told(folder)
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../up", b"x")
    assert "evil.zip cannot be sent. The member '../up' has '..'" in told(tmp_path / "evil.zip")
    assert "nowhere does not exist on this machine" in told(tmp_path / "nowhere")
    (tmp_path / "none").mkdir()
    assert "none cannot be sent. There is no file in it" in told(tmp_path / "none")
    assert "no archive that can be read" in told(Path(card))
    assert "Name what to send" in call(environment, "dataset", "add", "--card", card, "--upload", code=2)
    assert registered(own) == before
    assert not (own.home / "uploads").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="as root the runner has another user, to whom a folder can be closed")
def test_a_folder_that_the_runner_cannot_read_is_told_with_the_remedy(
    environment: dict[str, str], own: Settings, card: str
) -> None:
    def told(path: Path, code: int = 2) -> str:
        return call(environment, "dataset", "add", str(path), "--card", card, code=code)

    root = own.data_roots[0]
    for name in ("closed", "inside"):
        (root / name / "deep").mkdir(parents=True)
        (root / name / "deep" / "a.png").write_bytes(b"x")
    (root / "closed").chmod(0o700)
    assert f"{root}/closed cannot be read" in told(root / "closed")
    assert f"chmod -R o+rX {root}/closed/deep" in told(root / "closed" / "deep")
    (root / "inside" / "deep" / "a.png").chmod(0o600)
    assert f"may not read {root}/inside/deep/a.png" in told(root / "inside")
    (root / "inside" / "deep" / "a.png").chmod(0o644)
    assert "registered" in told(root / "inside", code=0)


def test_paths_that_are_no_dataset_are_told(environment: dict[str, str], own: Settings, card: str) -> None:
    root = own.data_roots[0]
    (root / "hollow" / "inner").mkdir(parents=True)
    for path, says in (
        (root / "chest" / "slice.png", "is a file. Give the folder"),
        (root / "hollow", "hollow is empty: there is no file in it"),
        (root / "typo", "does not exist"),
    ):
        assert says in call(environment, "dataset", "add", str(path), "--card", card, code=2)


def test_a_waiting_run_shows_why_and_how_to_help(environment: dict[str, str], own: Settings) -> None:
    run_id = call(environment, "run", "grade skin lesions", "--detach").strip()

    async def need(bus: Bus) -> None:
        asked = for_dataset(
            run_id, "Wanted: 2D photographs of the skin", chest_ct="modality is CT, wanted is photograph"
        )
        await bus.append(asked)

    on_bus(own, need)
    told = call(environment, "show", run_id)
    assert f"{run_id}: waiting_for_answer" in told
    assert "chest-ct  modality is CT, wanted is photograph" in told
    assert "m3builder dataset add DIR_OR_ARCHIVE --card FILE" in told
    assert "QuestionAsked: task_manager -> person" in call(environment, "trace", run_id)
    call(environment, "cancel", run_id)
    assert "no run" in call(environment, "show", "nope", code=2)
