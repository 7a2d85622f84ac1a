"""Views show training and validation files and nothing else; cases show nothing of where they came from."""

import asyncio
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner.views import materialise_cases, materialise_view, write_build_seed
from shared.contracts.base import Ref
from shared.contracts.data import CaseList, IndexRow, StoredCase, ViewManifest
from shared.errors import ToolBroken
from shared.store import Store
from shared.store.paths import UnsafePath
from tests.cases import dataset_facts, row, store_cases, write_files

SIDES = {"xa": "train", "xb": "train", "xc": "val", "xd": "test", "xe": "test"}


@pytest.fixture
def rows(tmp_path: Path) -> list[IndexRow]:
    made = [
        row(name, f"{name}/image.png", f"{name}/image_1.png", split=side, label="sick" if number % 2 else "well")
        for number, (name, side) in enumerate(SIDES.items())
    ]
    write_files(tmp_path / "made", {path: f"pixels of {path}" for one in made for path in one.files})
    return made


@pytest.fixture
def stored(store: Store, rows: list[IndexRow], tmp_path: Path) -> tuple[StoredCase, ...]:
    return store_cases(store, tmp_path / "made", rows)


def _view(rows: Sequence[IndexRow], stored: Sequence[StoredCase], **facts: Any) -> ViewManifest:
    known = {"label_names": ("sick", "well"), "dimensions": 2}
    return ViewManifest(rows=tuple(rows), stored=tuple(stored), facts=dataset_facts(**(known | facts)))


def _put(store: Store, view: ViewManifest) -> Ref:
    return store.put_bytes("data", view.model_dump_json().encode(), "application/json")


def _texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_a_view_holds_no_test_file_and_is_made_once(
    store: Store, rows: list[IndexRow], stored: tuple[StoredCase, ...], tmp_path: Path
) -> None:
    manifest = _put(store, _view(rows[:3], stored[:3]))
    folders = await asyncio.gather(*(materialise_view(manifest, store, tmp_path / "home") for _ in range(4)))
    assert set(folders) == {tmp_path / "home" / "runner" / "views" / manifest.sha256}
    folder = folders[0]
    assert _texts(folder) == {path: f"pixels of {path}" for one in rows[:3] for path in one.files}
    for path in (folder, *folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222
    made = folder.stat()
    assert await materialise_view(manifest, store, tmp_path / "home") == folder
    assert (folder.stat().st_ino, folder.stat().st_ctime_ns) == (made.st_ino, made.st_ctime_ns)
    assert {path.name for path in folder.parent.iterdir()} == {manifest.sha256, f"{manifest.sha256}.lock"}


async def test_what_a_killed_runner_left_is_made_anew(
    store: Store, rows: list[IndexRow], stored: tuple[StoredCase, ...], tmp_path: Path
) -> None:
    manifest = _put(store, _view(rows[:1], stored[:1]))
    left = tmp_path / "runner" / "views" / f"{manifest.sha256}.part" / "xa"
    left.mkdir(parents=True)
    (left / "leftover.png").write_text("half")
    left.chmod(0o555)
    folder = await materialise_view(manifest, store, tmp_path)
    assert sorted(path.name for path in folder.rglob("*.png")) == ["image.png", "image_1.png"]


async def test_a_view_that_names_what_it_must_not_is_refused(
    store: Store, rows: list[IndexRow], stored: tuple[StoredCase, ...], tmp_path: Path
) -> None:
    elsewhere = stored[0].images[0].model_copy(update={"bucket": "sealed"})
    moved = stored[0].model_copy(update={"images": (elsewhere, stored[0].images[1])})
    masked = stored[0].model_copy(update={"mask": stored[0].images[0]})
    outside = rows[0].model_copy(update={"files": ("../image.png", "image_1.png")})
    forged = [
        _view(rows, stored),
        _view(rows[:2], stored[:1]),
        _view(rows[:2], stored[1::-1]),
        _view(rows[:1], [moved]),
        _view(rows[:1], [masked]),
        _view(rows[:1], [stored[0].model_copy(update={"images": stored[0].images[:1]})]),
    ]
    for view in forged:
        with pytest.raises(ToolBroken):
            await materialise_view(_put(store, view), store, tmp_path)
    with pytest.raises(ToolBroken, match="no view"):
        await materialise_view(store.put_bytes("data", b"{}"), store, tmp_path)
    with pytest.raises(UnsafePath):
        await materialise_view(_put(store, _view([outside], stored[:1])), store, tmp_path)
    assert not [path for path in (tmp_path / "runner" / "views").iterdir() if path.is_dir() and path.suffix != ".part"]


def test_the_build_seed_is_an_allow_list(rows: list[IndexRow], stored: tuple[StoredCase, ...], tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    write_build_seed(_view(rows[:3], stored[:3]), tmp_path / "seed")
    names = {"train_index.jsonl", "label_map.json", "counts.json", "facts.json", "train.json", "label_dict.json"}
    assert {path.name for path in (tmp_path / "seed").iterdir()} == names
    lines = (tmp_path / "seed" / "train_index.jsonl").read_text().splitlines()
    assert [IndexRow.model_validate_json(line) for line in lines] == rows[:3]
    found = {name: json.loads((tmp_path / "seed" / name).read_text()) for name in names if name.endswith(".json")}
    assert found["label_map.json"] == {"names": ["sick", "well"]}
    assert found["counts.json"] == {
        "samples": {"train": {"sick": 1, "well": 1}, "val": {"well": 1}},
        "patients": {"train": 2, "val": 1},
    }
    assert found["label_dict.json"] == {"sick": 0, "well": 1}
    assert found["train.json"]["xa/image.png"] == ["well"]
    write_build_seed(_view(rows[:3], stored[:3], ordered=True), tmp_path / "seed")
    assert json.loads((tmp_path / "seed" / "label_map.json").read_text()) == {
        "names": ["sick", "well"],
        "ordered": True,
    }


async def test_a_view_holds_the_masks_of_its_cases(store: Store, rows: list[IndexRow], tmp_path: Path) -> None:
    masked = [one.model_copy(update={"label": None, "target": f"{one.sample_id}/mask.png"}) for one in rows]
    write_files(tmp_path / "made", {str(one.target): f"mask of {one.sample_id}" for one in masked})
    stored = store_cases(store, tmp_path / "made", masked, masks=True)
    values = {"liver": 6, "spleen": 28}
    known = {"task": "organ_segmentation", "label_names": tuple(values), "label_values": values}
    view = _view(masked[:3], stored[:3], **known)
    texts = _texts(await materialise_view(_put(store, view), store, tmp_path / "home"))
    wanted = {f"{name}/mask.png": f"mask of {name}" for name in ("xa", "xb", "xc")}
    assert {path: text for path, text in texts.items() if "mask" in path} == wanted
    (tmp_path / "seed").mkdir()
    write_build_seed(view, tmp_path / "seed")
    assert json.loads((tmp_path / "seed" / "label_map.json").read_text()) == {
        "names": ["liver", "spleen"],
        "values": values,
    }
    names = materialise_cases(CaseList(samples=stored[3:]), store, tmp_path / "cases")
    assert len(names) == 2
    assert not [path for path in (tmp_path / "cases").rglob("*.png") if b"mask" in path.read_bytes()]


def test_cases_say_nothing_of_their_samples(
    store: Store, rows: list[IndexRow], stored: tuple[StoredCase, ...], tmp_path: Path
) -> None:
    single = [one.model_copy(update={"sample_id": f"one{one.sample_id}", "images": one.images[:1]}) for one in stored]
    both = CaseList(samples=(*stored, *single))
    names = materialise_cases(both, store, tmp_path / "cases")
    assert sorted(names.values()) == sorted(one.sample_id for one in both.samples)
    assert {path.name for path in (tmp_path / "cases").iterdir()} == set(names)
    for path in (tmp_path / "cases", *(tmp_path / "cases").rglob("*")):
        assert path.stat().st_mtime == 0
    content = {sample: tmp_path / "cases" / name for name, sample in names.items()}
    listing = " ".join(str(path.relative_to(tmp_path / "cases")) for path in (tmp_path / "cases").rglob("*"))
    for one in rows:
        assert one.sample_id not in listing and one.patient not in listing
        assert (content[one.sample_id] / "000.png").read_text() == f"pixels of {one.files[0]}"
        assert (content[one.sample_id] / "001.png").read_text() == f"pixels of {one.files[1]}"
    assert content["onexa"].suffix == ".png"
    assert content["onexa"].read_text() == "pixels of xa/image.png"


def test_the_order_of_cases_is_shuffled(store: Store, stored: tuple[StoredCase, ...], tmp_path: Path) -> None:
    orders = {
        tuple(materialise_cases(CaseList(samples=stored), store, tmp_path / str(number)).values())
        for number in range(8)
    }
    assert len(orders) > 1
