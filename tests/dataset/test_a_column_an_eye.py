"""Lists of patients with a column for each eye, several visits of one, and names that say the eye and the day."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from propose_files import picture, table

from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve

GRADES = ("keine", "mild", "schwer")
SPELLED = {"keine": "Keine", "mild": "MILD ", "schwer": "schwer"}


def clinic(root: Path, name: str, written: str, eyes: tuple[str, str], columns: tuple[str, str]) -> dict[str, str]:
    """A row a visit, every second patient with two of them; file of a picture -> its class."""
    rows, truth = [], {}
    for number in range(24):
        for visit in range(1 + number % 2):
            day, patient = date(2021, 1, 5) + timedelta(days=number * 11 + visit * 187), 4107 + number * 31
            row: dict[str, object] = {"Patient": patient, "geb.": f"{date(1950 + number, 3, 4):{written}}"}
            row["Datum"] = f"{day:{written}}"
            for place, (eye, column) in enumerate(zip(eyes, columns, strict=True)):
                grade = GRADES[(number + place + 2 * visit) % 3]
                row[column] = SPELLED[grade] if number % 5 == 0 else grade
                file = f"bilder/{name.format(patient=patient, eye=eye, day=day)}.png"
                picture(root / file)
                truth[file] = grade
            rows.append(row)
    table(root / "liste.csv", rows, ";")
    return truth


@pytest.mark.parametrize(
    ("name", "written", "eyes", "columns"),
    [
        ("{patient}_{eye}_{day:%Y%m%d}", "%Y-%m-%d", ("RA", "LA"), ("Stadium RA", "Stadium LA")),
        ("{eye}/{patient}_{day:%y%m%d}", "%d.%m.%Y", ("OD", "OG"), ("stade_droite", "stade_gauche")),
        ("{patient}/{eye}_{day:%d-%m-%Y}_{patient}", "%d/%m/%Y", ("R", "L"), ("right eye grade", "left eye grade")),
        ("{patient}_{day:%Y-%m-%d}_{eye}1", "%Y-%m-%d", ("d", "s"), ("Grado OD", "Grado OS")),
    ],
)
def test_names_say_the_eye_and_the_day(
    tmp_path: Path, name: str, written: str, eyes: tuple[str, str], columns: tuple[str, str]
) -> None:
    truth = clinic(tmp_path, name, written, eyes, columns)
    some = sorted(truth)[4]  # downloaded twice, and two that nobody has named
    (tmp_path / some.replace(".png", " (1).png")).write_bytes((tmp_path / some).read_bytes())
    for number in (8, 9) if "{eye}/" not in name else ():
        picture(tmp_path / f"bilder/neu/IMG_{number:04d}.png")
    best = propose(tmp_path, "diagnosis", target="the stage (keine, mild, schwer) of one eye")[0]
    done = resolve(Rules.model_validate(best.rules), tmp_path)
    assert {case.key: str(case.label).casefold() for case in done.cases} == truth, best.rules
    assert best.key == "" and best.coverage.patients == 24


def test_a_row_an_image_of_which_the_column_of_the_other_side_is_empty(tmp_path: Path) -> None:
    """The test part has a list of its own, without people; a folder is a person in both."""
    rows, more, truth = [], [], {}
    for number in range(30):
        for side, view in (("l", 1), ("l", 2), ("r", 1)):
            name, grade = f"{number + 11}_{side}{view}", (number + (side == "r")) % 4
            file = f"{'films_b' if number > 23 else 'films_a'}/{number + 11}/{name}.jpg"
            picture(tmp_path / file)
            truth[file] = str(grade)
            if number > 23:
                more.append({"film": name, "Grade": grade})
                continue
            both = {"KL Grade Left": grade if side == "l" else "", "KL Grade Right": grade if side == "r" else ""}
            rows.append({"person": number + 11, "film": name, **both})
    table(tmp_path / "readings_a.csv", rows)
    table(tmp_path / "readings_b.csv", more)
    best = propose(tmp_path, "diagnosis", target="Kellgren-Lawrence grade (0 to 3) of a knee film")[0]
    done = resolve(Rules.model_validate(best.rules), tmp_path)
    assert {case.key: case.label for case in done.cases} == truth, best.rules
    assert best.coverage.patients == 30 and best.key == ""


def test_a_person_is_asked_where_no_name_says_the_side(tmp_path: Path) -> None:
    rows = []
    for number in range(36):
        picture(tmp_path / f"scans/{number + 300}/scan.png")
        left = GRADES[number % 3] if number % 4 else ""
        rows.append({"ID": number + 300, "Katarakt links": left, "Katarakt rechts": GRADES[number * 7 % 5 % 3]})
    table(tmp_path / "befunde.csv", rows)
    first, second = propose(tmp_path, "diagnosis", target="the stage of cataract (Katarakt)")[:2]
    assert (first.key, second.key) == ("label", "label")
    assert {"links" in first.choice, "links" in second.choice} == {True, False}
    named = propose(tmp_path, "diagnosis", target="the stage of Katarakt rechts")[0]
    assert named.key == "" and named.rules["label"]["source"]["column"] == "Katarakt rechts"
