"""Days that names and tables write apart."""

from pathlib import Path

import pytest
from propose_files import picture, table

from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve
from shared.dataset.tables.forms import same


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("2020-01-08", "20200108", True),
        ("2020-01-08 00:00:00", "20200108", True),
        ("411/2020_01_08", "411/20200108", True),
        ("2020-01-08", "20200109", False),
        ("120200108", "12020-01-08", False),
        ("2020-81-08", "20208108", False),
    ],
)
def test_days_are_alike_however_they_are_written(one: str, other: str, alike: bool) -> None:
    assert (same(one) == same(other)) == alike


@pytest.mark.parametrize("way", ["rows", "key"])
def test_rows_of_a_visit_are_told_by_its_day(tmp_path: Path, way: str) -> None:
    rows = []
    for n in range(24):
        patient, day = f"{n // 2 + 100:06d}", f"2020{n % 12 + 1:02d}08"
        picture(tmp_path / f"{patient}/{day}/{patient}_{day}.png")
        written = f"{day[:4]}-{day[4:6]}-{day[6:]}"
        rows.append({"Pat": str(n // 2 + 100), "seen": written, "stage": n % 3})
    table(tmp_path / "list.csv", rows)
    told = {"key": "Pat", "names": "patient", "rows": {"seen": "day"}}
    if way == "key":
        told = {"key": "{Pat}/{seen}", "names": "{patient}/{day}"}
    rules = {
        "task": "diagnosis", "dimensions": 2, "images": [{"files": ["{patient}/{day}/{patient}_{day}.png"]}],
        "tables": {"list": {"file": "list.csv", **told}}, "patient": {"field": "patient"},
        "label": {"source": {"table": "list", "column": "stage"}},
    }  # fmt: skip
    done = resolve(Rules.model_validate(rules), tmp_path)
    assert [case.label for case in done.cases] == [str(n % 3) for n in range(24)] and not done.coverage.conflicts


def test_the_search_tells_visits_by_their_days(tmp_path: Path) -> None:
    rows = []
    for n in range(40):
        patient, day = f"{n // 2 + 100:06d}", f"20{20 + n % 2}{n % 12 + 1:02d}{n % 28 + 1:02d}"
        picture(tmp_path / f"{patient}/{patient}_{day}.png")
        stage = ("0", "1", "2", "n.b.")[n % 4 if n < 8 else n % 3]
        rows.append({"Pat-Nr": str(n // 2 + 100), "seen": f"{day[:4]}-{day[4:6]}-{day[6:]}", "stage": stage})
    table(tmp_path / "list.csv", rows)
    best = propose(tmp_path, "diagnosis", target="the stage of retinopathy, 0 to 2")[0]
    assert best.coverage.label_names == ("0", "1", "2") and best.coverage.cases == 38
    assert not best.coverage.conflicts and best.coverage.patients == 20
