"""Columns whose headers say little, but whose values tell people and sides apart."""

from pathlib import Path

import pytest
from propose_files import mask_picture, picture, table

from shared.dataset.propose import propose
from shared.dataset.survey.survey import survey


def test_a_column_in_blocks_joins_what_names_keep_apart(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        picture(tmp_path / "Images" / f"bus_{number:04d}-{'lr'[number % 2]}.png")
        mask_picture(tmp_path / "Masks" / f"mask_{number:04d}-{'lr'[number % 2]}.png")
        name = f"bus_{number:04d}-{'lr'[number % 2]}"
        rows.append({"ID": name, "Owner": 100 + number - number // 6 % 2, "fold": number % 5, "age": 40 + number})
    for number in (7, 13, 19):
        rows[number]["Owner"] = rows[number - 1]["Owner"]
    table(tmp_path / "data.csv", rows)
    best = propose(tmp_path, "anomaly_detection")[0]
    assert best.key == "" and best.coverage.patients == len({row["Owner"] for row in rows}) < 24


def test_a_patient_goes_up_to_the_side_and_view_behind_its_number(tmp_path: Path) -> None:
    rows = []
    for number in range(30):
        picture(tmp_path / "films" / f"{number * 37 % 101:03d}.png")
        view = f"{('LEFT', 'RIGHT')[number % 2]}_{('CC', 'MLO')[number % 3 % 2]}"
        who = f"{('Calc', 'Mass')[number % 2]}_P_{number // 3:05d}_{view}"
        label = ("benign", "malignant")[number // 3 % 2]
        rows.append({"image": f"{number * 37 % 101:03d}.png", "PatientID": who, "pathology": label})
    table(tmp_path / "cases.csv", rows)
    assert propose(tmp_path, "diagnosis")[0].coverage.patients == 10


def test_sites_with_a_table_each_are_one_dataset(tmp_path: Path) -> None:
    names = ("benign", "malignant")
    north, south, east = [], [], []
    for number in range(24):
        picture(tmp_path / "north" / f"NB{number:03d}.png")
        north.append({"image": f"NB{number:03d}.png", "patient": f"N{number // 2}", "biopsy": names[number // 2 % 2]})
        picture(tmp_path / "south" / f"scan-{700 + number}.png")
        south.append({"File": f"scan-{700 + number}", "Patient ID": f"S{number // 3}", "Pathology": number // 3 % 2})
        picture(tmp_path / "east" / f"e_{number}.png")
        east.append({"name": f"e_{number}.png", "patient_id": f"E{number}", "grade": names[number % 2], "age": 50})
    table(tmp_path / "north" / "list.csv", north)
    table(tmp_path / "south" / "reads.csv", south)
    table(tmp_path / "east.csv", east[:20])
    (tmp_path / "README.txt").write_text("In reads.csv 0 = benign, 1 = malignant.\n")
    best = propose(tmp_path, "diagnosis", target="Tell malignant from benign lesions in ultrasound pictures.")[0]
    assert best.coverage.counts == {"benign": 34, "malignant": 34} and best.coverage.patients == 12 + 8 + 20
    assert "else column" in best.says and best.key == ""
    # Numbers that nothing explains do not mean the same in two tables.
    (tmp_path / "README.txt").unlink()
    best = propose(tmp_path, "diagnosis", target="Tell malignant from benign lesions in ultrasound pictures.")[0]
    assert best.coverage.counts == {"benign": 22, "malignant": 22} and best.coverage.patients == 12 + 20


@pytest.mark.parametrize(("south", "together"), [(("benign", "malignant"), 48), (("malignant", "benign"), 24)])
def test_a_code_that_means_another_class_in_the_other_table_joins_nothing(
    tmp_path: Path, south: tuple[str, str], together: int
) -> None:
    for site in ("north", "south"):
        rows = []
        for number in range(24):
            picture(tmp_path / site / f"{site}{number:03d}.png")
            rows.append({"image": f"{site}{number:03d}.png", f"pathology_{site}": number % 2})
        table(tmp_path / f"{site}.csv", rows)
    seen = survey(tmp_path)
    meant = {"pathology_north": ("benign", "malignant"), "pathology_south": south}
    for column in (one for look in seen.tables for one in look.columns if one.name in meant):
        column.codes = dict(zip("01", meant[column.name], strict=True))  # as a data dictionary tells them
    best = propose(tmp_path, "diagnosis", target="Tell malignant from benign lesions.", seen=seen)[0]
    assert best.coverage.cases == together and best.coverage.label_names == ("benign", "malignant")


def test_a_column_called_train_of_zeros_and_ones_is_the_split(tmp_path: Path) -> None:
    rows = []
    for number in range(30):
        picture(tmp_path / "pictures" / f"{number:03d}.png")
        plane = ("femur", "brain", "abdomen")[number % 3]
        rows.append({"name": f"{number:03d}", "plane": plane, "Train ": int(number % 5 > 0)})
    table(tmp_path / "planes.csv", rows)
    best = propose(tmp_path, "diagnosis", target="classify the plane")[0]
    assert best.key == "" and best.coverage.splits == {"test": 6, "train": 24}
    assert set(best.coverage.label_names) == {"femur", "brain", "abdomen"}


def test_pictures_named_in_several_columns_are_cases_of_their_row(tmp_path: Path) -> None:
    rows, number = [], 0
    for row in range(24):
        names = []
        for _ in range(1 + row % 3):
            number += 1
            names.append(f"US_{number:05d}.png")
            picture(tmp_path / "pictures" / f"2021-{row % 12 + 1:02d}" / names[-1])
        names += [""] * (3 - len(names))
        grades = {"No.": row + 1, "Pat.-Nr.": 500 + row % 17, "TI-RADS": 2 + row // 2 % 4}
        rows.append(grades | {f"picture {place}": name for place, name in enumerate(names, 1)})
    table(tmp_path / "list.csv", rows)
    best = propose(tmp_path, "diagnosis", target="predict the TI-RADS")[0]
    assert (best.coverage.cases, best.coverage.patients) == (number, 17)


def test_a_table_may_name_the_beginning_of_folders_and_files(tmp_path: Path) -> None:
    rows = []
    for number in range(10):
        person, day = f"TCGA_{('CS', 'DU')[number % 2]}_{4941 + number}", f"1999{number + 1:02d}11"
        for place in range(4):
            name = f"{person}_{day}/{person}_{day}_{place}"
            picture(tmp_path / f"{name}.png")
            mask_picture(tmp_path / f"{name}_mask.png")
        rows.append({"Patient": person, "age": 30 + number})
    table(tmp_path / "data.csv", rows)
    best = propose(tmp_path, "anomaly_detection", dimensions=2)[0]
    assert (best.coverage.cases, best.coverage.patients) == (40, 10)


def test_numbers_at_the_end_of_names_are_classes_where_the_request_lists_them(tmp_path: Path) -> None:
    for number in range(30):
        picture(tmp_path / f"FILM_{number:04d}_{number // 15}.png")
    assert not propose(tmp_path, "diagnosis", target="tuberculosis?")
    best = propose(tmp_path, "diagnosis", target="normal (0) or tuberculosis (1)?")[0]
    assert best.coverage.counts == {"0": 15, "1": 15}
