"""From files to an index: real previews, the layout read off them, the real script run on the files."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from data_engineer_bench import brief, picture, table

from services.data_engineer.check import check_dataset
from services.data_engineer.layout import Layout
from services.data_engineer.playbook import layouts
from services.data_engineer.scripts import index_call
from services.tool_runner.mounts import PROBES, REPOSITORY
from shared.trainkit.collect import CONTRADICTION, COPY, UNREADABLE
from shared.trainkit.listings import DANGLING


class Dataset:
    """A folder of files and what is done with it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.work = folder / "work"
        self.data.mkdir()
        self.work.mkdir()

    def run(self, script: Path, *arguments: str) -> dict[str, Any]:
        env = {**os.environ, "M3_DATA": str(self.data), "M3_WORKSPACE": str(self.work), "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=self.work,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def layouts(self, dimensions: int, card: str = "") -> list[Layout]:
        tree = self.run(PROBES / "preview_dirs.py", "/data")["data"]
        tables = {}
        if tree["tables"]:
            paths = [f"/data/{name}" for name in tree["tables"]]
            files = self.run(PROBES / "preview_files.py", "--rows", "5", *paths)["data"]["files"]
            tables = {path.removeprefix("/data/"): facts for path, facts in files.items() if facts.get("columns")}
        return layouts(tree, tables, dimensions, card)

    def index(self, layout: Layout, **plan: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        script = self.work / "make_index.py"
        script.write_text(str(index_call(layout, brief(**plan)).arguments["script"]))
        self.run(script)
        rows = [json.loads(line) for line in (self.work / "index.jsonl").read_text().splitlines()]
        facts = self.run(PROBES / "verify_index.py", "--index", "index.jsonl", "--meta", "index_meta.json")
        assert check_dataset(None, facts, brief(**plan)) == []  # type: ignore[arg-type]
        return rows, json.loads((self.work / "index_meta.json").read_text())


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset(tmp_path)


def test_scans_of_slices_below_class_and_patient(dataset: Dataset) -> None:
    number = 0
    for label in ("ill", "well"):
        for patient in range(8):
            number += 1
            for scan in range(1 + patient % 2):
                for part in range(3):
                    picture(dataset.data / label / f"p{number}" / f"s{scan}" / f"{part + 9}.png")
    (dataset.data / "ill" / "p1" / "s0" / "10.png").write_bytes(b"no image")
    for part in range(4):  # long enough to survive one damaged slice
        picture(dataset.data / "ill" / "p1" / "s0" / f"{part + 20}.png")
    layout = dataset.layouts(3)[0]
    assert (layout.layout, layout.sample, layout.grouping, layout.patient_level) == ("folders", "folder", "derived", 0)
    rows, meta = dataset.index(layout, dimensions=3)
    assert Counter(row["label"] for row in rows) == {"ill": 12, "well": 12}
    first = next(row for row in rows if row["sample_id"] == "ill/p1/s0")
    names = [Path(name).name for name in first["files"]]
    assert names == ["9.png", "11.png", "20.png", "21.png", "22.png", "23.png"], (
        "natural order, without the damaged one"
    )
    assert meta["excluded_counts"] == {UNREADABLE: 1}


def test_images_in_class_folders_below_wrappers_and_a_useless_table(dataset: Dataset) -> None:
    base = dataset.data / "SET" / "SET"
    for label in ("Cyst", "Stone"):
        for number in range(12):
            picture(base / label / f"{label}- ({number}).jpg")
    table(
        dataset.data / "SET" / "meta.csv",
        [{"": n, "image_id": f"Cyst- ({n})", "path": f"/elsewhere/Cyst/{n}.jpg", "Class": "Cyst"} for n in range(4)],
    )
    layout = dataset.layouts(2)[0]
    assert (layout.layout, layout.root, layout.sample, layout.grouping) == ("folders", "SET/SET", "file", "inferred")
    rows, _ = dataset.index(layout)
    assert len(rows) == 24 and {row["split"] for row in rows} == {"train", "val", "test"}


def test_a_split_that_the_dataset_brings_is_kept(dataset: Dataset) -> None:
    for part, count in (("train", 12), ("test", 5)):
        for label in ("a", "b"):
            for number in range(count):
                picture(dataset.data / part / label / f"{part}{label}{number}.png")
    layout = dataset.layouts(2)[0]
    assert (layout.split_level, layout.class_level) == (0, 1)
    rows, meta = dataset.index(layout)
    assert meta["split_from"] == "dataset"
    assert {row["sample_id"].split("/")[0] for row in rows if row["split"] == "test"} == {"test"}
    assert {row["split"] for row in rows if row["sample_id"].startswith("train/")} == {"train", "val"}


def test_a_table_that_the_card_names_columns_of(dataset: Dataset) -> None:
    rows = []
    for number in range(20):
        picture(dataset.data / "images" / f"I{number:03}.png")
        rows.append(
            {
                "Image ID": f"I{number:03}",
                "Subject": f"S{number // 2}",
                "Group": ("AD", "CN", "EMCI")[(number // 2) % 3],
            }
        )
    rows.append({"Image ID": "I999", "Subject": "S99", "Group": "AD"})
    table(dataset.data / "list.csv", rows)
    card = "focus on 2 columns: 'Image ID' and 'Group'(which is the class label). only samples with these labels"
    layout = dataset.layouts(2, card)[0]
    assert (layout.layout, layout.label_column, layout.file_column, layout.patient_column) == (
        "table", "Group", "Image ID", "Subject",
    )  # fmt: skip
    assert layout.grouping == "stated"
    found, meta = dataset.index(layout, labels=("AD", "CN"))
    assert {row["label"] for row in found} == {"AD", "CN"}
    assert meta["excluded_counts"][DANGLING] == 1
    sides = {row["patient"]: row["split"] for row in found}
    assert all(sides[row["patient"]] == row["split"] for row in found)


def test_copies_are_kept_once_and_dropped_when_they_disagree(dataset: Dataset) -> None:
    for label in ("a", "b"):
        for number in range(8):
            picture(dataset.data / label / f"{label}{number}.png")
    (dataset.data / "a" / "again.png").write_bytes((dataset.data / "a" / "a0.png").read_bytes())
    (dataset.data / "b" / "wrong.png").write_bytes((dataset.data / "a" / "a1.png").read_bytes())
    rows, meta = dataset.index(dataset.layouts(2)[0])
    assert meta["excluded_counts"] == {COPY: 1, CONTRADICTION: 2}
    assert len(rows) == 15
