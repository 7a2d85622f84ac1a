"""Whose each case is by the files themselves, where rules take every image for a patient of its own."""

from pathlib import Path
from typing import Any

import pytest
from survey_files import picture, series

from shared.contracts.cases import Persons
from shared.contracts.rules import Rules
from shared.dataset.files.listing import list_files
from shared.dataset.rules.persons import persons
from shared.dataset.rules.resolve import resolve

Files = dict[str, str]
"""Path below the dataset -> person."""


def found(root: Path, files: Files, pattern: str = "**/*.png", **rules: Any) -> tuple[Persons, ...]:
    for number, file in enumerate(files):
        picture(root / file, number)
    told: dict[str, Any] = {"task": "diagnosis", "dimensions": 2, "images": [{"files": pattern}]} | rules
    told.setdefault("label", {"source": {"value": "a"}})
    cases = resolve(Rules.model_validate(told), root).cases
    assert len(cases) == len(files) and len({case.patient for case in cases}) == len(files)
    return tuple(persons(root, list_files(root), cases))


def groups(one: Persons) -> set[frozenset[str]]:
    return {frozenset(key for key, person in one.of.items() if person == number) for number in one.of.values()}


def test_a_column_that_names_patients_is_told_whatever_the_rules_say(tmp_path: Path) -> None:
    tmp_path.joinpath("cases.csv").write_text(
        "image,patient,scanner\n" + "".join(f"{n:03}.png,P{n // 3 + 1},S{n % 2 + 1}\n" for n in range(24))
    )
    (one,) = found(tmp_path, {f"images/{n:03}.png": "" for n in range(24)})
    assert one.stated and "column patient of cases.csv" in one.where
    assert groups(one) == {frozenset(f"images/{n + k:03}.png" for k in range(3)) for n in range(0, 24, 3)}
    assert "P1" not in one.model_dump_json()


def test_remarks_that_two_numbers_are_one_patient_make_one_of_them(tmp_path: Path) -> None:
    said = {3: "identisch mit Pat. 5 (neue Nr.)", 7: "same patient as no. 99", 9: "same as 12 months ago"}
    rows = [f"{n:03}.png,{n // 2 + 1},{said.get(n, '') if n % 2 else ''}\n" for n in range(24)]
    tmp_path.joinpath("cases.csv").write_text("image,patient,remark\n" + "".join(rows))
    (one,) = found(tmp_path, {f"images/{n:03}.png": "" for n in range(24)})
    both = [some for some in groups(one) if len(some) > 2]
    assert both == [{f"images/{n:03}.png" for n in (2, 3, 8, 9)}] and len(groups(one)) == 11


def test_names_are_told_also_where_other_files_have_none(tmp_path: Path) -> None:
    files = {f"images/patient{n // 2 + 1:02}_{n % 2}.png": "" for n in range(20)}
    files |= {f"images/scan-{n * 37 + 100}.png": "" for n in range(10)}
    (one,) = found(tmp_path, files)
    assert not one.stated and len(one.of) == 20 and len(set(one.of.values())) == 10


def test_visits_are_one_person_and_other_folders_are_not(tmp_path: Path) -> None:
    (one,) = found(tmp_path / "a", {f"visit{v}/patient{n:02}.png": "" for v in (1, 2) for n in range(1, 13)})
    assert {len(some) for some in groups(one)} == {2}
    assert found(tmp_path / "b", {f"{site}/patient{n:02}.png": "" for site in "ab" for n in range(1, 13)}) == ()


@pytest.mark.parametrize("name", ["{c}/patient{n:02}.png", "images/{c}_patient{n:02}.png"])
def test_numbers_that_begin_anew_in_each_class_tell_nobody_apart(tmp_path: Path, name: str) -> None:
    files = {name.format(c=c, n=n): "" for c in ("covid", "normal") for n in range(1, 13)}
    pattern = name.replace("{n:02}", "{n}")
    assert found(tmp_path, files, pattern, label={"source": {"field": "c"}}) == ()


@pytest.mark.parametrize(
    "column", [["ANON1"] * 24, [""] * 24, ["0"] * 24, ["7"] * 24, ["left", "right"] * 12, ["P1"] * 13 + [""] * 11]
)
def test_values_that_name_nobody_do_not_count(tmp_path: Path, column: list[str]) -> None:
    rows = "".join(f"{n:03}.png,{value}\n" for n, value in enumerate(column))
    tmp_path.joinpath("cases.csv").write_text("image,patient\n" + rows)
    assert found(tmp_path, {f"images/{n:03}.png": "" for n in range(24)}) == ()


def test_headers_tell_of_every_file(tmp_path: Path) -> None:
    for number in range(8):
        series(tmp_path / f"scan{number}", f"HOSP-{number // 2 + 1}", number, count=1)
    rules: dict[str, Any] = {"task": "diagnosis", "dimensions": 2, "images": [{"files": "*/*.dcm"}]}
    rules["label"] = {"source": {"value": "a"}}
    cases = resolve(Rules.model_validate(rules), tmp_path).cases
    (one,) = persons(tmp_path, list_files(tmp_path), cases)
    assert one.stated and {len(some) for some in groups(one)} == {2}
