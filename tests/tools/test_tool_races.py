"""A script swaps what a path stands for while a tool is at work on it, as often as the machine can."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner.paths import Roots
from services.tool_runner.tools.staging import Staging

ROUNDS = 300
"""At the most; a test is over once the swap was met in both states."""
SWAPS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda at, outside: at.symlink_to(outside / "secret.txt"),
    "link to a folder": lambda at, outside: at.symlink_to(outside),
    "pipe": lambda at, _: os.mkfifo(at),
    "folder": lambda at, _: at.mkdir(),
}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read_files", {"paths": ["f.txt"]}),
    "edit": ("edit_files", {"path": "f.txt", "old": "harmless", "new": "harmless"}),
    "copy": ("copy_files", {"source": "f.txt", "destination": "copies/{}.txt"}),
    "write": ("write_files", {"files": {"f.txt": "harmless {}"}, "overwrite": True}),
}


@contextmanager
def swapping(path: Path, other: Path) -> Iterator[None]:
    """The two names stand for each other's files in turn; there is no moment at which one is missing."""
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            libc.renameat2(-100, bytes(path), -100, bytes(other), 2)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def filled(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {key: filled(item, number) for key, item in value.items()}
    return value.replace("{}", str(number)) if isinstance(value, str) else value


def replaced(path: Path, other: Path) -> bool:
    """A file that is put in place of the link itself takes it away, which is as good as a refusal."""
    return not any(one.is_symlink() or not one.is_file() for one in (path, other))


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("swap", SWAPS)
async def test_a_file_that_is_swapped_never_leads_out(bench, tool: str, swap: str) -> None:
    path, other = bench.workspace / "f.txt", bench.workspace / "other"
    path.write_text("harmless\n")
    SWAPS[swap](other, bench.outside)
    name, arguments = TOOLS[tool]
    arguments = arguments if tool != "edit" else arguments | {"new": "harmless indeed"}
    seen: dict[bool, int] = {True: 0, False: 0}
    with swapping(path, other):
        # A busy machine may let the swapping thread wait, so that there are more rounds until it was met.
        for number in range(10 * ROUNDS):
            done = await bench(name, **filled(arguments, number))
            assert "the secret" not in done.model_dump_json()
            seen[done.ok] += 1
            if (number >= 40 and min(seen.values()) > 1) or (
                number >= ROUNDS and (seen[False] or replaced(path, other))
            ):
                break
    assert (bench.outside / "secret.txt").read_text() == "the secret\n"
    assert [one.name for one in bench.outside.iterdir()] == ["secret.txt"]
    left = [one for one in bench.workspace.rglob("*") if one.is_file() and not one.is_symlink()]
    assert not any("the secret" in one.read_text() for one in left)
    assert seen[False] or replaced(path, other), "the swap was never met"


async def test_a_listing_of_what_is_swapped_tells_nothing_of_outside(bench) -> None:
    here, other = bench.workspace / "here", bench.workspace / "other"
    here.mkdir()
    (here / "own.txt").write_text("harmless\n")
    other.symlink_to(bench.outside)
    with swapping(here, other):
        for _ in range(100):
            for path in ("here", "/workspace"):
                assert "secret" not in (await bench("list_files", path=path)).model_dump_json()


def test_a_write_that_fails_half_way_puts_back_what_it_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    roots = Roots(tmp_path)
    with pytest.raises(OSError), Staging() as staging:
        for name in ("a.txt", "b.txt", "new.txt"):
            staging.add(roots.locate(f"/workspace/{name}", for_write=True), b"new")
        (tmp_path / "new.txt" / "in the way").mkdir(parents=True)
        staging.commit()
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "new.txt"}
    assert (tmp_path / "a.txt").read_text() == "old"
