"""No tool reads or writes outside of its roots, whatever stands in the workspace."""

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

READING: list[tuple[str, dict[str, Any]]] = [
    ("list_files", {"path": "{}"}),
    ("read_files", {"paths": ["{}/secret.txt"]}),
    ("copy_files", {"source": "{}", "destination": "stolen"}),
    ("copy_files", {"source": "{}/secret.txt", "destination": "stolen"}),
    ("preview_dirs", {"path": "{}"}),
    ("preview_files", {"paths": ["{}/secret.txt"]}),
    ("view_image", {"paths": ["{}/secret.txt"]}),
    ("view_image", {"paths": ["/data/flat.png"], "overlays": ["{}/secret.txt"]}),
]
WRITING: list[tuple[str, dict[str, Any]]] = [
    ("write_files", {"files": {"{}/new.txt": "x"}}),
    ("write_files", {"files": {"{}/secret.txt": "x"}, "overwrite": True}),
    ("edit_files", {"path": "{}/secret.txt", "old": "secret", "new": "x"}),
    ("copy_files", {"source": "/data/flat.png", "destination": "{}/new.txt"}),
    ("run_script", {"script": "print(1)", "save_as": "{}/new.py"}),
]


def filled(value: Any, path: str) -> Any:
    match value:
        case str():
            return value.replace("{}", path)
        case list():
            return [filled(item, path) for item in value]
        case dict():
            return {filled(key, path): filled(item, path) for key, item in value.items()}
        case _:
            return value


@pytest.fixture(autouse=True)
def flat(bench) -> None:
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(bench.data / "flat.png")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("tool", "arguments"), READING + WRITING)
@pytest.mark.parametrize("way", ["absolute", "dots", "sibling", "link", "relative link", "link below a folder"])
async def test_every_way_out_is_refused(bench, tool: str, arguments: dict[str, Any], way: str) -> None:
    outside = bench.outside
    match way:
        case "absolute":
            path = str(outside)
        case "dots":
            path = "/workspace/../outside"
        case "sibling":
            path = str(bench.workspace) + "2"
        case "link":
            path = "out"
            (bench.workspace / path).symlink_to(outside)
        case "relative link":
            path = "/workspace/out"
            (bench.workspace / "out").symlink_to("../outside")
        case _:
            path = "deep/out"
            (bench.workspace / "deep").mkdir()
            (bench.workspace / path).symlink_to(outside)
    before = snapshot(outside), snapshot(Path(f"{bench.workspace}2"))
    result = await bench(tool, **filled(arguments, path))
    assert not result.ok
    assert "the secret" not in result.model_dump_json()
    assert before == (snapshot(outside), snapshot(Path(f"{bench.workspace}2")))
    assert not (bench.workspace / "stolen").exists()
    assert not bench.execute.runs


@pytest.mark.parametrize(("tool", "arguments"), READING[:2] + READING[3:7])
async def test_a_file_that_is_a_link_is_not_followed(bench, tool: str, arguments: dict[str, Any]) -> None:
    (bench.workspace / "secret.txt").symlink_to(bench.outside / "secret.txt")
    result = await bench(tool, **filled(arguments, "/workspace"))
    assert "the secret" not in result.model_dump_json()
    assert str(bench.outside) not in result.model_dump_json()
    if tool not in ("list_files", "preview_dirs"):
        assert not result.ok
        assert "symbolic link" in result.summary


@pytest.mark.parametrize("tool", ["list_files", "preview_dirs"])
async def test_walks_name_links_and_do_not_enter_them(bench, tool: str) -> None:
    (bench.workspace / "out").symlink_to(bench.outside)
    (bench.workspace / "train.py").write_text("pass\n")
    result = await bench(tool, path="/workspace")
    assert result.ok
    assert "secret" not in result.summary
    assert "link" in result.summary


async def test_a_copied_folder_leaves_links_out_and_says_so(bench) -> None:
    (bench.workspace / "kit").mkdir()
    (bench.workspace / "kit" / "a.txt").write_text("a")
    (bench.workspace / "kit" / "leak.txt").symlink_to(bench.outside / "secret.txt")
    result = await bench("copy_files", source="kit", destination="copy")
    assert result.ok
    assert "leak.txt" in result.summary
    assert [path.name for path in (bench.workspace / "copy").iterdir()] == ["a.txt"]


async def test_writing_over_a_link_does_not_write_through_it(bench) -> None:
    (bench.workspace / "config.yaml").symlink_to(bench.outside / "secret.txt")
    result = await bench("write_files", files={"config.yaml": "a: 1\n"}, overwrite=True)
    assert not result.ok
    assert (bench.outside / "secret.txt").read_text() == "the secret\n"


@pytest.mark.parametrize("path", ["/data/x.txt", "/templates/x.txt"])
async def test_only_the_workspace_is_written(bench, path: str) -> None:
    result = await bench("write_files", files={path: "x"})
    assert not result.ok
    assert "read-only" in result.summary


async def test_pipes_and_devices_are_not_opened(bench) -> None:
    os.mkfifo(bench.workspace / "pipe")
    result = await bench("read_files", paths=["pipe"])
    assert not result.ok
    assert "no regular file" in result.summary


async def test_real_paths_of_a_root_are_taken_for_virtual_ones(bench) -> None:
    (bench.workspace / "a.txt").write_text("hello")
    result = await bench("read_files", paths=[str(bench.workspace / "a.txt")])
    assert result.ok
    assert list(result.data["files"]) == ["/workspace/a.txt"]


async def test_a_role_without_data_is_told_so(bench) -> None:
    bench.roots = type(bench.roots)(bench.workspace)
    result = await bench("list_files", path="/data")
    assert "no /data for this role" in result.summary


async def test_swapping_a_folder_for_a_link_never_wins(bench) -> None:
    """A script in the sandbox may rename things at any moment; a checked path must not be trusted afterwards."""
    here, link, spare = bench.workspace / "here", bench.workspace / "link", bench.workspace / "spare"
    here.mkdir()
    (here / "secret.txt").write_text("harmless\n")
    link.symlink_to(bench.outside)
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            # renameat2 with RENAME_EXCHANGE: at every moment `here` is either the folder or the link.
            assert libc.renameat2(-100, bytes(here), -100, bytes(link), 2) == 0, os.strerror(ctypes.get_errno())

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for number in range(150):
            read = await bench("read_files", paths=["here/secret.txt"])
            assert "the secret" not in read.model_dump_json()
            seen.add(read.ok)
            await bench("write_files", files={f"here/w{number}.txt": "x"})
            await bench("copy_files", source="here", destination=f"spare/{number}")
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in bench.outside.iterdir()] == ["secret.txt"]
    assert not any("the secret" in path.read_text() for path in spare.rglob("*.txt"))
    assert seen == {True, False}
