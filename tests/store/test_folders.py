"""Folders through the store: everything back in place, nothing anywhere else."""

import os
from pathlib import Path

import pytest

from shared.errors import ToolBroken, UserError
from shared.store import FileEntry, FolderManifest, Store
from shared.store.folders import scan
from shared.store.paths import UnsafePath, open_inside


def _tree(folder: Path) -> dict[str, str | bytes]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "deep.txt").write_text("deep")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "grüße.txt").write_text("name with more than ASCII")
    (root / "empty").write_bytes(b"")
    return root


def test_a_folder_comes_back_with_modes_and_inner_links(store: Store, folder: Path, tmp_path: Path) -> None:
    (folder / "a" / "latest").symlink_to("b")
    (folder / "up").symlink_to(folder / "a" / "b" / "deep.txt")
    os.mkfifo(folder / "pipe")
    ref = store.put_folder("packages", folder)
    manifest = store.get_folder(ref, tmp_path / "out")
    assert set(manifest.files) == {"a/b/deep.txt", "run.sh", "grüße.txt", "empty"}
    assert (tmp_path / "out" / "up").readlink() == Path("a/b/deep.txt")
    assert (tmp_path / "out" / "a" / "latest" / "deep.txt").read_text() == "deep"
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    assert store.put_folder("packages", tmp_path / "out").sha256 == ref.sha256


def test_names_can_be_left_out(store: Store, folder: Path) -> None:
    assert set(store.get_manifest(store.put_folder("work", folder, ("b", "empty"))).files) == {"run.sh", "grüße.txt"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "b/../../../outside"])
def test_links_that_leave_are_refused_by_name(store: Store, folder: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("secret")
    (folder / "a" / "innocent").symlink_to(target)
    with pytest.raises(UserError, match="a/innocent"):
        store.put_folder("packages", folder)


def test_a_file_swapped_for_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    found = scan(folder).files
    (folder / "empty").unlink()
    (folder / "empty").symlink_to(tmp_path / "secret")
    (folder / "a" / "b").rename(tmp_path / "moved")
    (folder / "a" / "b").symlink_to(tmp_path / "moved")
    for path in ("empty", "a/b/deep.txt"):
        assert path in found
        with pytest.raises(UnsafePath), open_inside(folder, path):
            pass


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//x", "./x", "", "a/", "x\0y"])
def test_a_manifest_that_leaves_its_folder_writes_nothing(store: Store, tmp_path: Path, path: str) -> None:
    ref = store.put_bytes("work", b"payload")
    good = FileEntry(ref=ref, mode=0o644)
    for manifest in (
        FolderManifest(files={"fine": good, path: good}),
        FolderManifest(files={"fine": good}, links={path: "fine"}),
    ):
        with pytest.raises(UnsafePath):
            store.get_folder(store.put_manifest("work", manifest), tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("links", "files"),
    [
        ({"door": "/etc"}, ()),
        ({"door": "../.."}, ()),
        ({"a/door": "../../x"}, ()),
        ({"a/up": "..", "door": "a/up/../../x"}, ()),
        ({"door": "."}, ("door/planted",)),
        ({}, ("plain", "plain/below")),
        ({"plain": "other"}, ("plain", "other")),
    ],
)
def test_link_games_in_a_manifest_are_refused(
    store: Store, tmp_path: Path, links: dict[str, str], files: tuple[str, ...]
) -> None:
    entry = FileEntry(ref=store.put_bytes("work", b"payload"), mode=0o644)
    ref = store.put_manifest("work", FolderManifest(files=dict.fromkeys(files, entry), links=links))
    with pytest.raises(UnsafePath):
        store.get_folder(ref, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_that_waits_in_the_folder_is_not_written_through(store: Store, folder: Path, tmp_path: Path) -> None:
    ref = store.put_folder("work", folder)
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        store.get_folder(ref, tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_set_uid_bits_do_not_come_back(store: Store, tmp_path: Path) -> None:
    entry = FileEntry(ref=store.put_bytes("work", b"x"), mode=0o6777)
    store.get_folder(store.put_manifest("work", FolderManifest(files={"x": entry})), tmp_path / "out")
    assert (tmp_path / "out" / "x").stat().st_mode & 0o7777 == 0o755


def test_what_is_no_manifest_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ToolBroken, match="no folder manifest"):
        store.get_folder(store.put_bytes("work", b"[]"), tmp_path / "out")


def test_equal_folders_have_one_reference(store: Store, folder: Path, tmp_path: Path) -> None:
    ref = store.put_folder("work", folder)
    store.get_folder(ref, tmp_path / "copy")
    assert _tree(tmp_path / "copy") == _tree(folder)
    assert store.put_folder("work", tmp_path / "copy") == ref


def test_a_manifest_names_objects_of_its_own_bucket_only(store: Store, tmp_path: Path) -> None:
    sealed = FileEntry(ref=store.put_bytes("sealed", b"the answers"), mode=0o644)
    ref = store.put_manifest("packages", FolderManifest(files={"predict.py": sealed}))
    with pytest.raises(ToolBroken, match="bucket packages names objects of sealed"):
        store.get_folder(ref, tmp_path / "out")
    assert not (tmp_path / "out").exists()
