"""Tables with a row or a column for each visit or side, and dictionaries of their columns, as REDCap exports them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from propose_files import picture, table

from shared.contracts.cases import Proposal
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve
from shared.dataset.survey.sides import sign


def found(root: Path, best: Proposal) -> dict[str, tuple[object, str]]:
    """Key of each case -> label or text, and patient."""
    done = resolve(Rules.model_validate(best.rules), root)
    return {case.key: (case.text if case.label is None else case.label, case.patient) for case in done.cases}


EVENTS = {"baseline_arm_1": "BL", "month_24_arm_1": "M24"}


def redcap(root: Path, sides: Mapping[str, str], folders: bool = False) -> dict[str, str]:
    """A row an event, a column a side; what the fields mean stands in a dictionary. Name of a picture -> its class,
    where the form that tells it is complete."""
    rows, truth = [], {}
    for number in range(16):
        for event, visit in EVENTS.items() if number % 3 == 0 else [("baseline_arm_1", "BL")]:
            grades = {side: (number + at + (visit == "M24")) % 3 for at, side in enumerate(sides)}
            for side, named in sides.items():
                place = (
                    f"{visit}/KOA{1003 + 4 * number}_{named}.png"
                    if folders
                    else f"KOA{1003 + 4 * number}_{visit}_{named}.png"
                )
                picture(root / "images" / place)
                if number % 5:
                    truth[f"images/{place}"] = ("none", "mild", "severe")[grades[side]]
            rows.append({"record_id": 1003 + 4 * number, "redcap_event_name": event, "sex": number % 2,
                         "mutation": number % 2 if visit == "BL" else "",
                         **{f"pain_{side}": number * 7 % 5 for side in sides},
                         **{f"xr_kl_{side}": grades[side] for side in sides},
                         "radiograph_reading_complete": 2 * (number % 5 > 0)})  # fmt: skip
    table(root / "Cohort_DATA_2023-05-11.csv", rows)
    choices = "0, none | 1, mild | 2, severe"
    table(root / "Cohort_DataDictionary_2023-05-11.csv", [
        {"Variable / Field Name": name, "Form Name": "form", "Field Label": label, "Choices, Calculations": codes}
        for name, label, codes in (
            ("record_id", "Record ID", ""), ("sex", "Sex", "0, male | 1, female"),
            ("mutation", "Mutation", "0, none | 1, present"),
            *((f"pain_{side}", f"WOMAC pain of the {side} side", "") for side in sides),
            *((f"xr_kl_{side}", f"Kellgren-Lawrence grade, {side} side", choices) for side in sides))])  # fmt: skip
    return truth


@pytest.mark.parametrize(
    ("sides", "folders"),
    [({"r": "R", "l": "L"}, False), ({"right": "R", "left": "L"}, True), ({"od": "right", "os": "left"}, False)],
)
def test_a_row_an_event_and_a_column_a_side(tmp_path: Path, sides: dict[str, str], folders: bool) -> None:
    truth = redcap(tmp_path, sides, folders)
    best = propose(tmp_path, "diagnosis", target="the Kellgren-Lawrence grade of a knee radiograph")[0]
    told = found(tmp_path, best)
    assert {key: label for key, (label, _) in told.items()} == truth and best.key == ""
    assert best.coverage.patients == 12


def test_what_only_the_first_event_asks_counts_for_all_pictures(tmp_path: Path) -> None:
    redcap(tmp_path, {"r": "R", "l": "L"})
    best = propose(tmp_path, "diagnosis", target="tell the mutation of the patient")[0]
    assert best.coverage.cases == 32 and best.coverage.label_names == ("none", "present")
    assert all(label == ("none", "present")[(int(key[10:14]) - 1003) // 4 % 2]
               for key, (label, _) in found(tmp_path, best).items())  # fmt: skip


def test_a_row_a_side_and_visit(tmp_path: Path) -> None:
    rows, truth = [], {}
    for number in range(14):
        for visit in (1, 2) if number % 2 else (1,):
            for side, named in (("OD", "R"), ("OS", "L")):
                name = f"eyes/P{number:03d}_V{visit}_{named}.png"
                picture(tmp_path / name)
                truth[name] = ("clear", "oedema")[(number // 2 + visit + (side == "OD")) % 2]
                rows.append({"patient": f"P{number:03d}", "eye": side, "visit": visit, "macula": truth[name]})
    table(tmp_path / "findings.csv", rows)
    best = propose(tmp_path, "diagnosis", target="the macula")[0]
    assert {key: label for key, (label, _) in found(tmp_path, best).items()} == truth
    assert best.coverage.patients == 14


def test_columns_of_findings_for_each_side(tmp_path: Path) -> None:
    rows, truth = [], {}
    for number in range(16):
        row: dict[str, object] = {"mrn": 700100 + number * 3, "age": 40 + number}
        for side, named in (("left", "L"), ("right", "R")):
            name = f"knees/{row['mrn']}/{named}/ap_{number:02d}.png"
            picture(tmp_path / name)
            held = {sign: (number + (side == "left")) % every == 0 for sign, every in (("spur", 2), ("cyst", 3))}
            row |= {f"{sign}_{side}": int(one) for sign, one in held.items()}
            truth[name] = tuple(sorted(sign for sign, one in held.items() if one))
        rows.append(row)
    table(tmp_path / "reading.csv", rows)
    best = propose(tmp_path, "diagnosis", target="which of spurs and cysts a knee has")[0]
    assert {key: label for key, (label, _) in found(tmp_path, best).items()} == truth
    assert best.coverage.patients == 16 and best.coverage.label_names == ("cyst", "spur")


@pytest.mark.parametrize(
    ("first", "second"),
    [("baseline_arm_1", "BL"), ("Month 24 (Arm 1: Cohort)", "M24"), ("year_2", "24 months"), ("V02", "visit2"),
     ("OD", "right"), ("izq", "L"), ("followUp1", "fu_1")],
)  # fmt: skip
def test_one_visit_or_side_in_two_ways(first: str, second: str) -> None:
    assert sign(first) == sign(second) != sign("M36")
