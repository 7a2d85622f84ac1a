"""What a killed runner leaves is removed at the next start and nothing else; no folder is too odd to be removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.tool_runner.sandbox import homes, remove_tree, sweep_homes
from shared.store.folders import MAX_DEPTH, scan

REPOSITORY = Path(__file__).resolve().parents[2]
MAKE = """
import time
from services.tool_runner.sandbox.homes import PrivateHome
home = PrivateHome()
(home.path / "left").write_text("x")
print(home.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def another() -> tuple[subprocess.Popen[str], Path]:
    """A runner with a private home, and that home."""
    process = subprocess.Popen([sys.executable, "-c", MAKE], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_only_homes_of_dead_runners_are_swept(temporary: Path) -> None:
    (dead, left), (living, used), mine = another(), another(), homes.PrivateHome()
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    unlocked = temporary / "m3-run-without"
    unlocked.mkdir()
    try:
        assert (left / "left").read_text() == "x"
        assert sweep_homes() == [left]
        assert not left.exists() and not left.with_suffix(".lock").exists()
        assert used.is_dir() and mine.path.is_dir() and unlocked.is_dir()
    finally:
        living.kill()
        living.communicate()
    mine.remove()
    assert sweep_homes() == [used]
    assert [path.name for path in temporary.iterdir()] == ["m3-run-without"]


def test_what_another_user_left_is_not_touched(temporary: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    for name, theirs in (("lock", "m3-run-a.lock"), ("home", "m3-run-b")):
        home = temporary / f"m3-run-{'a' if name == 'lock' else 'b'}"
        home.mkdir()
        home.with_suffix(".lock").touch()
        os.chown(temporary / theirs, 64333, 64333)
    assert sweep_homes() == []
    assert len(list(temporary.iterdir())) == 4


def test_a_lock_that_is_a_link_leads_nowhere(temporary: Path) -> None:
    (temporary / "mine").mkdir()
    (temporary / "mine" / "file").write_text("x")
    (temporary / "m3-run-c.lock").symlink_to(temporary / "mine" / "file")
    (temporary / "m3-run-c").symlink_to(temporary / "mine")
    assert sweep_homes() == []
    assert (temporary / "mine" / "file").read_text() == "x"


DEEP, NAME = 1100, "folder" * 2
"""Deeper than Python may call itself, and a path longer than the kernel takes one."""


def nested(folder: Path) -> None:
    """Folders in each other with a file at the bottom."""
    folder.mkdir()
    current = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir(NAME, dir_fd=current)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=current))
    os.close(current)


def test_endlessly_nested_folders_are_removed(temporary: Path) -> None:
    nested(temporary / "deep")
    remove_tree(temporary / "deep")
    assert not (temporary / "deep").exists()


def test_closed_folders_are_removed_and_links_not_followed(temporary: Path) -> None:
    (temporary / "kept").mkdir()
    (temporary / "kept" / "file").write_text("x")
    (temporary / "kept").chmod(0o500)
    gone = temporary / "gone"
    (gone / "a" / "b").mkdir(parents=True)
    for name, target in (("file", "../kept/file"), ("folder", "../kept"), ("a/b/folder", "../../../kept")):
        (gone / name).symlink_to(target)
    os.mkfifo(gone / "a" / "pipe")
    for folder in (gone / "a" / "b", gone / "a", gone):
        folder.chmod(0)
    remove_tree(gone)
    assert not gone.exists()
    assert (temporary / "kept" / "file").read_text() == "x" and (temporary / "kept").stat().st_mode & 0o777 == 0o500


def test_a_link_is_removed_and_not_what_it_leads_to(temporary: Path) -> None:
    (temporary / "kept").mkdir()
    (temporary / "link").symlink_to(temporary / "kept")
    remove_tree(temporary / "link")
    assert [path.name for path in temporary.iterdir()] == ["kept"]


def test_a_workspace_is_stored_without_what_is_nested_too_deeply(temporary: Path) -> None:
    nested(temporary / "work")
    (temporary / "work" / "train.py").write_text("pass")
    found = scan(temporary / "work")
    assert set(found.files) == {"train.py"}
    assert list(found.refused) == ["/".join([NAME] * MAX_DEPTH)]
    remove_tree(temporary / "work")
