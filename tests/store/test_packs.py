"""Packs: the same sample gives the same bytes, and no index reaches a file outside of its dataset."""

import io
import os
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from plain_looks import plain_looks

from services.tool_runner.looking import Looks
from services.tool_runner.packs import opaque_names, pack_samples, unpack
from shared.contracts.data import IndexRow, PackedSample, Split
from shared.errors import ToolBroken, ToolRefused
from shared.looks import FLAT, NOTHING, RECORD
from shared.store import Store
from shared.store.paths import UnsafePath


def _row(sample: str, *files: str, split: Split = "train", target: str | None = None) -> IndexRow:
    return IndexRow(sample_id=sample, patient=f"p-{sample}", label="x", files=files, split=split, target=target)


def _bucket(row: IndexRow) -> str:
    return "sealed" if row.split == "test" else "data"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "dataset"
    (root / "Smith_John" / "CT").mkdir(parents=True)
    for number in (1, 2, 10):
        (root / "Smith_John" / "CT" / f"slice {number}.PNG").write_bytes(random.Random(number).randbytes(3000 * number))
    (root / "Doe-19600101.nii.gz").write_bytes(b"scan")
    (root / "mask.nii.gz").write_bytes(b"mask")
    return root


SLICES = tuple(f"Smith_John/CT/slice {number}.PNG" for number in (1, 2, 10))


def test_packs_are_deterministic_and_keep_the_order(store: Store, dataset: Path, tmp_path: Path) -> None:
    rows = [_row("a", *SLICES), _row("b", *reversed(SLICES)), _row("c", "Doe-19600101.nii.gz", split="val")]
    first = pack_samples(dataset, rows, store, _bucket)
    for path in dataset.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    second = pack_samples(dataset, rows, store, _bucket)
    assert first == second
    assert [sample.sample_id for sample in first.samples] == ["a", "b", "c"]
    assert first.samples[1].files == tuple(reversed(SLICES))
    assert first.samples[0].pack.bucket == "data"
    with tarfile.open(fileobj=io.BytesIO(store.get_bytes(first.samples[0].pack)), mode="r:") as tar:
        for member in tar:
            assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (0, 0, 0, "", "")
            assert member.mode == 0o644
    (tmp_path / "out").mkdir()
    for sample in first.samples[:2]:
        unpack(sample, store, tmp_path / "out")
    assert _files(tmp_path / "out") == {path: (dataset / path).read_bytes() for path in SLICES}


def test_every_sample_has_its_record_in_order(store: Store, dataset: Path) -> None:
    Image.fromarray(np.arange(900, dtype=np.uint8).reshape(30, 30)).save(dataset / "real.png")
    (dataset / "copy.png").write_bytes((dataset / "real.png").read_bytes())
    rows = [
        _row("a", "real.png"),
        _row("b", *SLICES),
        _row("c", *reversed(SLICES), split="test"),
        _row("d", "copy.png", split="test", target="mask.nii.gz"),
    ]
    looks = plain_looks(dataset, [row.files for row in rows])
    packs = pack_samples(dataset, rows, store, _bucket, with_targets=True, looks=looks)
    assert packs.looks is not None and packs.looks.bucket == "sealed"
    records = np.frombuffer(store.get_bytes(packs.looks), RECORD)
    # The same contents have one digest, whatever they are called, in whatever order, and with a mask or without.
    assert [len({tuple(records["content"][n]) for n in pair}) for pair in ((0, 3), (1, 2), (0, 1))] == [1, 1, 2]
    assert records["kind"].tolist() == [FLAT, NOTHING, NOTHING, FLAT]
    assert (records["look"][0] == records["look"][3]).all() and len(np.unique(records["look"][0])) > 20


def test_looks_are_read_back_as_data(store: Store, dataset: Path, tmp_path: Path) -> None:
    """The sandbox hands back whatever it likes: too little, too much, kinds that there are not."""
    rows = [_row("a", SLICES[0]), _row("b", SLICES[1]), _row("c", SLICES[2])]
    size = RECORD.itemsize
    for given in (b"", bytes([9]) * size * 3, b"\xff" * (2 * size + 100), bytes([NOTHING]) * size + b"x" * size * 90):
        (tmp_path / "looks").write_bytes(given)
        with (tmp_path / "looks").open("rb") as left:
            packs = pack_samples(dataset, rows, store, _bucket, looks=Looks(left))
        assert packs.looks is not None and packs.looks.size == 3 * size
        records = np.frombuffer(store.get_bytes(packs.looks), RECORD)
        assert records["kind"].tolist() == [NOTHING] * 3 and not records["look"].any()
        assert len({tuple(content) for content in records["content"]}) == 3


def test_test_samples_carry_nothing_of_their_names(store: Store, dataset: Path) -> None:
    [sample] = pack_samples(dataset, [_row("Smith", *SLICES, split="test")], store, _bucket).samples
    assert sample.files == ("000.png", "001.png", "002.png")
    assert sample.pack.bucket == "sealed"
    raw = store.get_bytes(sample.pack)
    for word in (b"Smith", b"slice", b"CT", b"PNG"):
        assert word not in raw[:512]


def test_opaque_names_keep_known_suffixes_only() -> None:
    assert opaque_names(["a/x.NII.GZ", "b.Dcm", "1.2.840.113619", "IM0001", "x.SmithJohn", "p.tar.gz", ".png"]) == (
        "000.nii.gz",
        "001.dcm",
        "002",
        "003",
        "004",
        "005",
        "006",
    )
    many = opaque_names(f"{number}.png" for number in range(1200))
    assert list(many) == sorted(many)


def test_targets_travel_with_training_rows_and_are_objects_apart_for_test_rows(store: Store, dataset: Path) -> None:
    rows = [
        _row("a", "Doe-19600101.nii.gz", target="mask.nii.gz"),
        _row("b", "Doe-19600101.nii.gz", target="mask.nii.gz", split="test"),
        _row("c", "Doe-19600101.nii.gz", split="test"),
    ]
    train, test, bare = pack_samples(dataset, rows, store, _bucket, with_targets=True).samples
    assert (train.files, train.target) == (("Doe-19600101.nii.gz", "mask.nii.gz"), None)
    assert test.files == bare.files == ("000.nii.gz",) and bare.target is None
    assert test.target is not None and test.target.bucket == "sealed"
    assert store.get_bytes(test.target) == b"mask"
    assert b"mask" not in store.get_bytes(test.pack)
    without = pack_samples(dataset, rows, store, _bucket).samples
    assert without[0].files == ("Doe-19600101.nii.gz",) and without[1].target is None


def test_masks_are_held_to_the_same_rules_as_images(store: Store, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.nii.gz").write_text("secret")
    (dataset / "link.nii.gz").symlink_to(tmp_path / "outside.nii.gz")
    for split in ("train", "test"):
        for bad in ("absent.nii.gz", "link.nii.gz", "../outside.nii.gz"):
            with pytest.raises(ToolRefused, match=bad):
                pack_samples(dataset, [_row("a", SLICES[0], target=bad, split=split)], store, _bucket, True)


def test_every_file_that_leaves_or_is_missing_is_named(store: Store, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_text("secret")
    (dataset / "link.png").symlink_to(tmp_path / "outside.png")
    (dataset / "door").symlink_to(tmp_path)
    os.mkfifo(dataset / "pipe.png")
    bad = ["../outside.png", "/etc/passwd", "link.png", "door/outside.png", "pipe.png", "Smith_John", "absent.png"]
    rows = [_row("good", SLICES[0]), *(_row(f"bad{number}", path) for number, path in enumerate(bad))]
    with pytest.raises(ToolRefused) as refused:
        pack_samples(dataset, rows, store, _bucket)
    for number, path in enumerate(bad):
        assert f"bad{number}: {path}" in str(refused.value)
    assert "good" not in str(refused.value)


def test_links_within_a_dataset_are_followed(store: Store, dataset: Path, tmp_path: Path) -> None:
    (dataset / "patient-1").symlink_to("Smith_John")
    (tmp_path / "mounted").symlink_to(dataset)
    rows = [_row("a", SLICES[0].replace("Smith_John", "patient-1"))]
    [sample] = pack_samples(tmp_path / "mounted", rows, store, _bucket).samples
    (tmp_path / "out").mkdir()
    unpack(sample, store, tmp_path / "out")
    assert (tmp_path / "out" / "patient-1" / "CT" / "slice 1.PNG").read_bytes() == (dataset / SLICES[0]).read_bytes()


def test_a_sample_larger_than_the_spool_comes_back(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "big.npy").open("wb") as file:
        file.truncate(70 << 20)
    [sample] = pack_samples(tmp_path / "in", [_row("a", "big.npy")], store, _bucket).samples
    (tmp_path / "out").mkdir()
    unpack(sample, store, tmp_path / "out")
    assert (tmp_path / "out" / "big.npy").stat().st_size == 70 << 20


def _forged(store: Store, members: list[tarfile.TarInfo], files: tuple[str, ...], data: bytes = b"") -> PackedSample:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return PackedSample(sample_id="forged", pack=store.put_bytes("data", buffer.getvalue()), files=files)


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def test_forged_packs_are_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    forgeries = [
        _forged(store, [_member("x", tarfile.SYMTYPE, "/etc/passwd")], ("x",)),
        _forged(store, [_member("x", tarfile.LNKTYPE, "/etc/passwd")], ("x",)),
        _forged(store, [_member("x", tarfile.CHRTYPE)], ("x",)),
        _forged(store, [_member("x", tarfile.DIRTYPE)], ("x",)),
        _forged(store, [_member("y")], ("x",)),
        _forged(store, [_member("x"), _member("y")], ("x",)),
        _forged(store, [_member("x")], ("x", "y")),
        _forged(store, [], ("x",)),
        PackedSample(sample_id="forged", pack=store.put_bytes("data", b"no tar" * 200), files=("x",)),
    ]
    for sample in forgeries:
        with pytest.raises(ToolBroken, match="forged"):
            unpack(sample, store, tmp_path / "out")
    for name in ("../x", "/x", "a/../x"):
        with pytest.raises(UnsafePath):
            unpack(_forged(store, [_member(name)], (name,)), store, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {"x"}
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "out" / "x").is_symlink()
