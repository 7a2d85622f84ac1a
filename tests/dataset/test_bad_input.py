"""Datasets and rules that are wrong: nothing half done, and all that is left out has a reason and a remedy."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from intake_shard import case, run
from PIL import Image
from resolve_files import carried_out, picture, text

from shared.contracts.cases import MaskSpec
from shared.dataset.intake.intake_records import Order
from shared.dataset.rules.resolve import Resolution, RulesError


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """Ten pictures in two folders, a table of classes, and what lies beside them in any dataset."""
    for number in range(10):
        picture(tmp_path / "data" / "ab"[number % 2] / f"{number}.png", number + 1)
    text(tmp_path / "data/labels.csv", "id,label,who\n" + "".join(f"{n},{'xy'[n % 2]},P{n}\n" for n in range(10)))
    for name in ("readme.txt", ".DS_Store", "a/._0.png", "a/notes.docx"):
        text(tmp_path / "data" / name, "x")
    return tmp_path / "data"


def by_table(root: Path, table: str, **rules: object) -> Resolution:
    label = {"source": {"table": "t", "column": "label"}}
    return carried_out(root, images="{c}/{n}.png", label=label, tables={"t": {"file": table, "key": "id"}}, **rules)


def explained(reasons: Iterable[str]) -> bool:
    return all(": " in reason or "; " in reason for reason in reasons)


def test_a_table_that_names_nothing_that_exists(films: Path) -> None:
    text(films / "other.csv", "id,label\n" + "".join(f"scan_{n}.dcm,x\n" for n in range(700, 720)))
    done = by_table(films, "other.csv")
    assert not done.cases and done.coverage.cases == 0 and "no case" in done.coverage.problems[0]
    assert explained(done.left_out) and sorted(map(len, done.left_out.values())) == [10, 20]
    assert any("names no image" in reason for reason in done.left_out)


def test_two_ids_for_one_file(films: Path) -> None:
    text(films / "twice.csv", "id,label,who\n0.png,x,P1\n0.png,x,P2\n1.png,y,P3\n2.png,x,P4\n")
    done = by_table(films, "twice.csv", patient={"table": "t", "column": "who"})
    assert [(one.key, one.patient) for one in done.cases] == [("a/2.png", "P4"), ("b/1.png", "P3")]
    assert any("P1" in conflict and "P2" in conflict for conflict in done.coverage.conflicts), done.coverage.conflicts
    assert explained(done.left_out)


def test_rules_that_take_everything_take_images_only(films: Path) -> None:
    done = carried_out(films, images="**", label={"source": {"value": "x"}})
    assert [one.key for one in done.cases] == [f"{'ab'[n % 2]}/{n}.png" for n in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)]
    assert explained(done.left_out) and any("one class" in problem for problem in done.coverage.problems)


def test_rules_that_take_nothing_leave_out_everything(films: Path) -> None:
    done = carried_out(films, images="none/{c}.png", label={"source": {"field": "c"}})
    assert not done.cases and "no case" in done.coverage.problems[0]
    assert explained(done.left_out) and sum(map(len, done.left_out.values())) == 10
    with pytest.raises(RulesError, match="no file"):
        by_table(films, "none.csv")


def test_one_file_in_ten_is_unreadable_and_masks_that_do_not_fit(films: Path, tmp_path: Path) -> None:
    Image.fromarray(np.arange(4000, dtype=np.uint16).reshape(50, 80)).save(films / "whole.png")
    (films / "b" / "3.png").write_bytes((films / "whole.png").read_bytes()[:200])
    Image.fromarray(np.ones((6, 8), np.uint8)).save(films / "twice.png")
    Image.fromarray(np.full((3, 4, 3), (200, 0, 0), np.uint8)).save(films / "red.png")
    specs = [case(f"{n}", f"{'ab'[n % 2]}/{n}.png") for n in range(10)]
    legend = MaskSpec(kind="palette", files=("red.png",), values={"#00ff00": 1})
    specs.append(case("colour", "a/0.png", masks=[legend]))
    specs.append(case("twice", "a/0.png", masks=[MaskSpec(kind="file", files=("twice.png",), values={"1": 1})]))
    ran = run(films, tmp_path / "out", specs, Order(dimensions=2, memory_mb=2000))
    left = {key: taken.left_out for key, taken in ran.taken.items() if taken.left_out}
    assert set(left) == {"3", "colour", "twice"} and explained(left.values()), left
    assert "#c80000" in left["colour"] and not any(ran.files(key) for key in left)
    assert all(ran.files(str(number)) for number in range(10) if number != 3)
