import os
from pathlib import Path

import pytest

from shared.dataset.files import listing
from shared.dataset.files.listing import list_files


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_files_with_sizes_and_without_junk(tmp_path: Path) -> None:
    put(tmp_path, "b/x.png", "a.png", "b.png", ".hidden/x.png", "b/._x.png", "__MACOSX/x.png", "b/Thumbs.db", "c/t.csv")
    found = list_files(tmp_path)
    assert [*found.files] == ["a.png", "b.png", "b/x.png", "c/t.csv"]
    assert list(found.sizes) == [5, 5, 7, 7] and len(found.mtimes) == 4 and [*found.folders] == ["", "b/", "c/"]
    assert found.skipped == {listing.HIDDEN: 2, listing.SYSTEM: 2} and found.complete
    assert found.images == ["a.png", "b.png", "b/x.png"]
    assert "b/x.png" in found and "b/y.png" not in found and found.place("b.png") == 1


def test_links_count_inside_and_are_left_outside(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(root, "store/1.png", "far/deep/2.png")
    put(tmp_path, "secret.png", "data2/x.png")
    (root / "in.png").symlink_to("store/1.png")
    (root / "abs.png").symlink_to(root / "store" / "1.png")
    (root / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "beside.png").symlink_to(tmp_path / "data2" / "x.png")
    (root / "gone.png").symlink_to("nothing.png")
    (root / "loop.png").symlink_to("loop.png")
    (root / "folder").symlink_to("far")
    (root / "up").symlink_to("..")
    found = list_files(root)
    assert [*found.files] == ["abs.png", "far/deep/2.png", "in.png", "store/1.png"]
    assert found.skipped == {
        listing.OUTSIDE: 3,
        listing.DANGLING: 2,
        listing.LINKED_FOLDER: 1,
    }
    (tmp_path / "door").symlink_to(root)
    assert [*list_files(tmp_path / "door").files] == [*found.files]


def test_what_is_no_file_is_counted(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "closed/b.png")
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.png")).write_text("x")
    found = list_files(tmp_path)
    assert [*found.files] == ["a.png", "closed/b.png"]
    assert found.skipped == {listing.SPECIAL: 1, listing.BAD_NAME: 1}
    assert all(text.encode() for text in found.skipped_examples.values())


@pytest.mark.skipif(os.geteuid() == 0, reason="root opens every folder")
def test_a_closed_folder_is_counted(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "closed/b.png")
    (tmp_path / "closed").chmod(0)
    found = list_files(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert [*found.files] == ["a.png"] and found.skipped == {listing.CLOSED: 1}


def test_the_digest_says_whether_anything_changed(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "b/c.png")
    first = list_files(tmp_path).digest
    assert list_files(tmp_path).digest == first and len(first) == 64
    os.utime(tmp_path / "a.png", ns=(1, 1))
    touched = list_files(tmp_path).digest
    put(tmp_path, "d.png")
    assert len({first, touched, list_files(tmp_path).digest}) == 3


def test_a_limit_ends_the_walk(tmp_path: Path) -> None:
    put(tmp_path, *(f"{folder}/{number}.png" for folder in "ab" for number in range(5)))
    found = list_files(tmp_path, limit=3)
    assert len(found.files) == 3 and not found.complete and found.skipped == {listing.MORE: 1}
    assert list_files(tmp_path, limit=10).complete


def test_dicom_files_without_suffix_are_images(tmp_path: Path) -> None:
    head = b"\0" * 128 + b"DICM" + b"\0" * 300
    for name in ("IM0001", "1.2.840.113619", "DICOMDIR", "notes.log"):
        (tmp_path / name).write_bytes(head)
    put(tmp_path, "LICENSE", "VERSION.2")
    assert list_files(tmp_path).images == ["1.2.840.113619", "IM0001"]


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        list_files(tmp_path / "x")
