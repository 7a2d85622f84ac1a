"""Views show training and validation files and nothing else; cases show nothing of where they came from."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from services.tool_runner.packs import pack_samples
from services.tool_runner.views import materialise_cases, materialise_view, write_build_seed
from shared.contracts.base import Ref
from shared.contracts.data import IndexRow, PackList, Split, ViewManifest
from shared.errors import ToolBroken
from shared.store import Store


def _rows(splits: dict[str, Split]) -> list[IndexRow]:
    return [
        IndexRow(
            sample_id=f"s{patient}",
            patient=patient,
            label="sick" if number % 2 else "well",
            files=(f"{patient}/1.png", f"{patient}/2.png"),
            split=split,
        )
        for number, (patient, split) in enumerate(splits.items())
    ]


@pytest.fixture
def rows() -> list[IndexRow]:
    return _rows({"Ada": "train", "Bob": "train", "Cid": "val", "Dan": "test", "Eve": "test"})


@pytest.fixture
def packs(store: Store, rows: list[IndexRow], tmp_path: Path) -> PackList:
    for row in rows:
        for path in row.files:
            (tmp_path / "dataset" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "dataset" / path).write_text(f"pixels of {path}")
    return pack_samples(tmp_path / "dataset", rows, store, lambda row: "sealed" if row.split == "test" else "data")


def _view(rows: list[IndexRow], packs: PackList) -> ViewManifest:
    seen = {row.sample_id for row in rows}
    return ViewManifest(
        rows=tuple(rows),
        packs=tuple(pack for pack in packs.samples if pack.sample_id in seen),
        label_names=("sick", "well"),
        task="diagnosis",
        dimensions=2,
    )


def _put(store: Store, view: ViewManifest) -> Ref:
    return store.put_bytes("data", view.model_dump_json().encode(), "application/json")


async def test_a_view_holds_no_test_file_and_is_made_once(
    store: Store, rows: list[IndexRow], packs: PackList, tmp_path: Path
) -> None:
    manifest = _put(store, _view([row for row in rows if row.split != "test"], packs))
    folders = await asyncio.gather(*(materialise_view(manifest, store, tmp_path / "home") for _ in range(4)))
    assert set(folders) == {tmp_path / "home" / "runner" / "views" / manifest.sha256}
    folder = folders[0]
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    wanted = [path for row in rows if row.split != "test" for path in row.files]
    assert files == {path: f"pixels of {path}" for path in wanted}
    for path in (folder, *folder.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222
    made = folder.stat()
    assert await materialise_view(manifest, store, tmp_path / "home") == folder
    assert (folder.stat().st_ino, folder.stat().st_ctime_ns) == (made.st_ino, made.st_ctime_ns)
    assert {path.name for path in folder.parent.iterdir()} == {manifest.sha256, f"{manifest.sha256}.lock"}


async def test_what_a_killed_runner_left_is_made_anew(
    store: Store, rows: list[IndexRow], packs: PackList, tmp_path: Path
) -> None:
    manifest = _put(store, _view(rows[:1], packs))
    left = tmp_path / "runner" / "views" / f"{manifest.sha256}.part" / "Ada"
    left.mkdir(parents=True)
    (left / "leftover.png").write_text("half")
    left.chmod(0o555)
    folder = await materialise_view(manifest, store, tmp_path)
    assert sorted(path.name for path in folder.rglob("*.png")) == ["1.png", "2.png"]


async def test_a_view_that_names_what_it_must_not_is_refused(
    store: Store, rows: list[IndexRow], packs: PackList, tmp_path: Path
) -> None:
    honest = _view(rows[:2], packs)
    foreign = packs.samples[0].model_copy(update={"files": ("Dan/1.png", "Dan/2.png")})
    unveiled = [row.model_copy(update={"split": "train"}) for row in rows]
    named = pack_samples(tmp_path / "dataset", unveiled, store, lambda _: "data")
    forged = [
        _view(rows, named),
        honest.model_copy(update={"packs": packs.samples[:1]}),
        honest.model_copy(update={"packs": packs.samples[:3]}),
        honest.model_copy(update={"packs": (foreign, packs.samples[1])}),
    ]
    for view in forged:
        with pytest.raises(ToolBroken):
            await materialise_view(_put(store, view), store, tmp_path)
    with pytest.raises(ToolBroken, match="no view"):
        await materialise_view(store.put_bytes("data", b"{}"), store, tmp_path)
    assert not [path for path in (tmp_path / "runner" / "views").iterdir() if path.is_dir()]


def test_the_build_seed_is_an_allow_list(rows: list[IndexRow], packs: PackList, tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    write_build_seed(_view(rows[:3], packs), tmp_path / "seed")
    assert {path.name for path in (tmp_path / "seed").iterdir()} == {
        "train_index.jsonl",
        "label_map.json",
        "counts.json",
    }
    lines = (tmp_path / "seed" / "train_index.jsonl").read_text().splitlines()
    assert [IndexRow.model_validate_json(line) for line in lines] == rows[:3]
    assert json.loads((tmp_path / "seed" / "label_map.json").read_text()) == {"names": ["sick", "well"]}
    assert json.loads((tmp_path / "seed" / "counts.json").read_text()) == {
        "samples": {"train": {"sick": 1, "well": 1}, "val": {"well": 1}},
        "patients": {"train": 2, "val": 1},
    }


@pytest.fixture
def masked(store: Store, rows: list[IndexRow], packs: PackList, tmp_path: Path) -> tuple[list[IndexRow], PackList]:
    found = [row.model_copy(update={"label": None, "target": f"{row.patient}/mask.png"}) for row in rows]
    for row in found:
        (tmp_path / "dataset" / str(row.target)).write_text(f"mask of {row.patient}")
    bucket = {"test": "sealed"}
    return found, pack_samples(tmp_path / "dataset", found, store, lambda row: bucket.get(row.split, "data"), True)


async def test_a_view_holds_masks_of_training_and_none_of_test(
    store: Store, masked: tuple[list[IndexRow], PackList], tmp_path: Path
) -> None:
    rows, packs = masked
    values = {"liver": 6, "spleen": 28}
    view = _view(rows[:3], packs).model_copy(update={"label_names": tuple(values), "label_values": values})
    folder = await materialise_view(_put(store, view), store, tmp_path / "home")
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert {path: text for path, text in texts.items() if "mask" in path} == {
        f"{name}/mask.png": f"mask of {name}" for name in ("Ada", "Bob", "Cid")
    }
    (tmp_path / "seed").mkdir()
    write_build_seed(view, tmp_path / "seed")
    assert json.loads((tmp_path / "seed" / "label_map.json").read_text()) == {
        "names": ["liver", "spleen"],
        "values": values,
    }
    assert json.loads((tmp_path / "seed" / "counts.json").read_text())["samples"] == {
        "train": {"all": 2},
        "val": {"all": 1},
    }
    sealed = view.packs[0].model_copy(update={"target": packs.samples[-1].target})
    moved = view.packs[0].model_copy(update={"pack": packs.samples[-1].pack.model_copy(update={"bucket": "sealed"})})
    for forged in (sealed, moved):
        with pytest.raises(ToolBroken, match="sealed"):
            await materialise_view(
                _put(store, view.model_copy(update={"packs": (forged, *view.packs[1:])})), store, tmp_path
            )


def test_cases_hold_no_mask(store: Store, masked: tuple[list[IndexRow], PackList], tmp_path: Path) -> None:
    test = [pack for row, pack in zip(*[masked[0], masked[1].samples], strict=True) if row.split == "test"]
    assert all(pack.target for pack in test)
    names = materialise_cases(PackList(samples=tuple(test)), {}, store, tmp_path / "cases")
    assert len(names) == 2
    for path in (tmp_path / "cases").rglob("*"):
        assert path.is_dir() or b"mask" not in path.read_bytes()
    assert {path.name for path in (tmp_path / "cases").rglob("*.png")} == {"000.png", "001.png"}


def test_cases_say_nothing_of_their_samples(
    store: Store, rows: list[IndexRow], packs: PackList, tmp_path: Path
) -> None:
    alone = [row.model_copy(update={"sample_id": f"one{row.sample_id}", "files": row.files[:1]}) for row in rows]
    single = pack_samples(tmp_path / "dataset", alone, store, lambda _: "sealed")
    both = PackList(samples=packs.samples + single.samples)
    attributes = {"sEve": {"rescale": 2.0}, "onesDan": {"rescale": 3.0}, "sAda": {}}
    names = materialise_cases(both, attributes, store, tmp_path / "cases")
    assert sorted(names.values()) == sorted(sample.sample_id for sample in both.samples)
    assert {path.name for path in (tmp_path / "cases").iterdir()} == set(names)
    listing = {str(path.relative_to(tmp_path / "cases")) for path in (tmp_path / "cases").rglob("*")}
    for path in (tmp_path / "cases", *(tmp_path / "cases").rglob("*")):
        assert path.stat().st_mtime == 0
    content = {sample: tmp_path / "cases" / name for name, sample in names.items()}
    for row in rows:
        assert row.patient not in " ".join(listing)
        assert (content[row.sample_id] / "000.png").read_text() == f"pixels of {row.files[0]}"
        assert (content[row.sample_id] / "001.png").read_text() == f"pixels of {row.files[1]}"
    assert json.loads((content["sEve"] / "attributes.json").read_text()) == {"rescale": 2.0}
    assert not (content["sAda"] / "attributes.json").exists()
    assert content["onesAda"].suffix == ".png"
    assert content["onesAda"].read_text() == "pixels of Ada/1.png"
    assert sorted(path.name for path in content["onesDan"].iterdir()) == ["000.png", "attributes.json"]


def test_the_order_of_cases_is_shuffled(store: Store, packs: PackList, tmp_path: Path) -> None:
    orders = {tuple(materialise_cases(packs, {}, store, tmp_path / str(number)).values()) for number in range(8)}
    assert len(orders) > 1
