import csv
import gzip
import json
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dataset.tables import cells
from shared.dataset.tables.tables import TableError, is_table, read_table, sheets


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_encoding_and_separator(tmp_path: Path, encoding: str, separator: str) -> None:
    text = f" Befund {separator}id\r\n'Müller, Größe: normal'{separator}007\r\nWärme{separator}12\r\n"
    table = read_table(write(tmp_path / "t.csv", text.replace("'", '"'), encoding))
    assert table.columns == ("Befund", "id")
    assert table.rows == [{"Befund": "Müller, Größe: normal", "id": "007"}, {"Befund": "Wärme", "id": "12"}]


@pytest.mark.parametrize(
    ("text", "encoding"), [("患者,诊断\n1,肺炎患者\n2,正常\n", "gb18030"), ("номер,диагноз\n1,пневмония\n", "cp1251")]
)
def test_other_scripts(tmp_path: Path, text: str, encoding: str) -> None:
    table = read_table(write(tmp_path / "t.csv", text, encoding))
    assert ",".join(table.columns) == text.split("\n")[0]


def test_line_breaks_and_quotes_in_cells(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "r.csv", 'id,report\n1,"Lungs ""clear"",\nno effusion."\n\n2,Normal\n'))
    assert table.rows == [{"id": "1", "report": 'Lungs "clear",\nno effusion.'}, {"id": "2", "report": "Normal"}]


@pytest.mark.parametrize("word", ["", " ", "n/a", "NaN", "None", "NULL", "-", "NA"])
def test_words_for_nothing_are_empty(tmp_path: Path, word: str) -> None:
    table = read_table(write(tmp_path / "t.csv", f"id,label\n1,{word}\n2,None.\n"))
    assert [row["label"] for row in table.rows] == ["", "None."]


def test_none_is_a_word_where_a_column_has_no_other_way_to_say_nothing(tmp_path: Path) -> None:
    content = "id,finding,note\n1,effusion,none\n2,none,\n3,None,x\n4,effusion,none\n"
    rows = read_table(write(tmp_path / "t.csv", content)).rows
    assert [row["finding"] for row in rows] == ["effusion", "none", "none", "effusion"]
    assert [row["note"] for row in rows] == ["", "", "x", ""]


def test_decimal_commas_are_no_separator(tmp_path: Path) -> None:
    content = "Nr;Größe;Befund\n" + "".join(f"{n};{n},5;ja\n" for n in range(9))
    assert read_table(write(tmp_path / "t.csv", content)).columns == ("Nr", "Größe", "Befund")


def test_json_lines_may_end_in_half_a_line(tmp_path: Path) -> None:
    lines = "".join(f'{{"n": {n}}}\n' for n in range(5))
    assert len(read_table(write(tmp_path / "t.jsonl", lines + '{"n": ')).rows) == 5
    with pytest.raises(TableError):
        read_table(write(tmp_path / "u.jsonl", "no\n" * 3 + lines))
    with pytest.raises(TableError):
        read_table(write(tmp_path / "v.jsonl", "{"))


def test_headers_without_a_name_or_with_a_taken_one_are_numbered(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "id,,id,x\n1,2,3,4,5\n6,7,8\n"))
    assert table.columns == ("id", "column_2", "column_3", "x", "column_5")
    assert table.rows[1] == {"id": "6", "column_2": "7", "column_3": "8", "x": "", "column_5": ""}


def test_titles_above_the_header_are_passed_over(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "Study of lungs,,\n,,\nid,age,label\n1,50,a\n2,60,b\n3,61,a\n"))
    assert table.columns == ("id", "age", "label") and len(table.rows) == 3


def test_a_list_of_files_needs_no_header(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "a/1.png,COVID\na/2.png,normal\n"))
    assert table.columns == ("column_1", "column_2") and len(table.rows) == 2
    spaced = read_table(write(tmp_path / "train.txt", "16747 1.jpg COVID\n39 2.png normal\n"))
    assert [row["column_3"] for row in spaced.rows] == ["COVID", "normal"]


def test_a_text_table_may_have_notes_around_it(tmp_path: Path) -> None:
    rows = "".join(f"  {n} | {'NKE'[n % 3]} | amb.\n" for n in range(20332000, 20332009))
    noted = f"Stand: Mai\nAuftrag | Bef. | Status\n{rows}\nN = frei   K = Erguß\n".encode("cp1252")
    (tmp_path / "liste.txt").write_bytes(noted)
    table = read_table(tmp_path / "liste.txt")
    assert table.columns == ("Auftrag", "Bef.", "Status") and len(table.rows) == 9
    assert table.rows[0] == {"Auftrag": "20332000", "Bef.": "K", "Status": "amb."}
    letter = "A | B\nThe heart; the lungs; all clear.\nNo effusion.\nNothing else.\nx | y\n"
    assert read_table(write(tmp_path / "letter.txt", letter)).columns == ("text",)


def test_a_header_of_digits_is_a_header(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "image,0,1\na.png,1,0\nb.png,0,1\n"))
    assert table.columns == ("image", "0", "1")


def test_row_names_of_r_get_a_column(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", '"id","label"\n"1","a","x"\n"2","b","y"\n'))
    assert table.columns == ("column_1", "id", "label")


def test_gzipped(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,label\n1,a\n"))
    assert read_table(tmp_path / "t.csv.gz").rows == [{"id": "1", "label": "a"}]
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(b"id,label\n1,a\n" * 1000)[:-20])
    with pytest.raises(TableError, match="get it again"):
        read_table(tmp_path / "broken.csv.gz")


def test_long_cells_are_kept_whole_and_open_quotes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = " ".join(["12345 6"] * 40_000)
    assert read_table(write(tmp_path / "rle.csv", f"id,rle\n1,{code}\n")).rows[0]["rle"] == code
    monkeypatch.setattr(cells, "MAX_CELL", 100)
    with pytest.raises(TableError, match="open quote"):
        read_table(write(tmp_path / "open.csv", 'id,text\n1,"open\n' + "2,x\n" * 50))


def test_too_many_rows_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MAX_ROWS", 3)
    with pytest.raises(TableError, match="too large"):
        read_table(write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 5))


def workbook(path: Path) -> Path:
    book = openpyxl.Workbook()
    first = book.active
    assert first is not None
    first.title = "Data"
    first.append(["Patients of 2020"])
    first.append(["id", "age", "date", "label", "code"])
    first.append([7.0, 50.5, datetime(2020, 1, 31), True, 7])
    first.append([8, None, datetime(2020, 2, 1, 12, 30), "n/a", 12])
    first["E3"].number_format = first["E4"].number_format = "000"
    book.create_sheet("Legend").append(["value", "name"])
    book["Legend"].append([1, "liver"])
    book.save(path)
    return path


def test_excel(tmp_path: Path) -> None:
    path = workbook(tmp_path / "t.xlsx")
    table = read_table(path)
    assert table.rows == [
        {"id": "7", "age": "50.5", "date": "2020-01-31", "label": "1", "code": "007"},
        {"id": "8", "age": "", "date": "2020-02-01 12:30:00", "label": "", "code": "012"},
    ]
    assert sheets(path) == ("Data", "Legend")
    assert read_table(path, "legend").rows == [{"value": "1", "name": "liver"}]
    with pytest.raises(TableError, match="did you mean 'Legend'"):
        read_table(path, "Legends")


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ([{"id": 1, "x": {"y": "a"}}, {"id": 2.0, "z": ["p", "q"]}], [("1", "a", ""), ("2", "", "p\nq")]),
        ({"7": {"x": {"y": "a"}}, "8": {"z": True}}, [("7", "a", ""), ("8", "", "1")]),
    ],
)
def test_json_tables(tmp_path: Path, content: object, rows: list[tuple[str, ...]]) -> None:
    table = read_table(write(tmp_path / "t.json", json.dumps(content)))
    assert table.columns[1:] == ("x/y", "z")
    assert [tuple(row.values()) for row in table.rows] == rows
    lines = "\n".join(json.dumps(one) for one in ([{"x": {"y": "a"}}, {"z": None}]))
    assert read_table(write(tmp_path / "t.jsonl", lines)).rows == [{"x/y": "a", "z": ""}, {"x/y": "", "z": ""}]


def test_json_objects_of_values_and_of_lists(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.json", json.dumps({"img_1.png": "a", "img_2.png": "b"})))
    assert table.rows == [{"key": "img_1.png", "value": "a"}, {"key": "img_2.png", "value": "b"}]
    parts = {"labels": {"1": "x"}, "train": [{"id": 1}], "test": [{"id": 2}]}
    table = read_table(write(tmp_path / "s.json", json.dumps(parts)))
    assert table.rows == [{"id": "1", "list": "train"}, {"id": "2", "list": "test"}]
    sides = read_table(write(tmp_path / "sides.json", json.dumps({"train": ["a1", "a2"], "test": ["a3"]})))
    assert [tuple(row.values()) for row in sides.rows] == [("a1", "train"), ("a2", "train"), ("a3", "test")]
    listed = read_table(write(tmp_path / "index.json", json.dumps({"x/1.png": ["a", "b"], "x/2.png": ["c"]})))
    assert listed.rows[0] == {"key": "x/1.png", "value": "a\nb"}
    one = read_table(write(tmp_path / "one.json", json.dumps({"findings": "Clear.", "impression": "Normal."})))
    assert one.rows == [{"findings": "Clear.", "impression": "Normal."}]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.json", r'[{"id": "1", "text": "a \ud83d b \ud83d\ude00"}]'))
    assert table.rows[0]["text"] == "a ? b \U0001f600"


def test_coco_is_no_table(tmp_path: Path) -> None:
    content = {"images": [{"id": 1}], "annotations": [{"image_id": 1, "bbox": [1, 2, 3, 4]}], "categories": []}
    with pytest.raises(TableError, match="mask rule of kind coco"):
        read_table(write(tmp_path / "t.json", json.dumps(content)))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("['mass', ' nodule']", "mass\nnodule"),
        ('["mass", "mass"]', "mass"),
        ("['mass' 'nodule']", "mass\nnodule"),
        ("[['loc basal'], ['loc right']]", "loc basal\nloc right"),
        ("[1, 2, 30, 40]", "[1, 2, 30, 40]"),
        ("{'mass': 3}", "{'mass': 3}"),
        ("(not 'sure' yet)", "(not 'sure' yet)"),
    ],
)
def test_a_list_in_a_cell_stands_in_lines(tmp_path: Path, written: str, read: str) -> None:
    quoted = written.replace('"', '""')
    assert read_table(write(tmp_path / "t.csv", f'id,labels\n1,"{quoted}"\n')).rows[0]["labels"] == read


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        ("7;m;Naevus\n8;w;Melanom\n9;m;Naevus\n6;w;Naevus\n", 3),
        ("0000,1\n0001,0\n0002,1\n0003,1\n", 2),
        ("x/study1/,1\nx/study2/,0\nx/study3/,1\nx/study4/,1\n", 2),
    ],
)
def test_a_table_of_values_alone_has_no_header(tmp_path: Path, lines: str, columns: int) -> None:
    table = read_table(write(tmp_path / "t.csv", lines))
    assert table.columns == tuple(f"column_{place + 1}" for place in range(columns))
    assert len(table.rows) == lines.count("\n")


@pytest.mark.parametrize("header", ["id,2019,2020", "0,1,2", "1,2,3", "id,mean,grade", "grade,id,3"])
def test_a_header_may_hold_numbers(tmp_path: Path, header: str) -> None:
    table = read_table(write(tmp_path / "t.csv", header + "\n4,5,1\n5,9,2\n6,7,1\n7,7,2\n"))
    assert table.columns == tuple(header.split(",")) and len(table.rows) == 4


def test_a_table_without_suffix_is_told_by_its_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "metadata", "id,dx,age\nL1,nevus,40\nL2,melanoma,\n"))
    assert table.rows[1] == {"id": "L2", "dx": "melanoma", "age": ""}
    for text in ("Heart, lungs, bones: normal.\nNo mass, no effusion, no air.\n", "a,b,c\n1,2\n", "one line, of, text"):
        with pytest.raises(TableError):
            read_table(write(tmp_path / "notes", text))


@pytest.mark.parametrize("name", ["t.xls", "t.ods", "t.parquet", "t.pdf", "t.abc"])
def test_what_is_not_read_says_what_to_do(tmp_path: Path, name: str) -> None:
    assert not is_table(name)
    with pytest.raises(TableError, match=r"save it as|convert it to CSV"):
        read_table(write(tmp_path / name, "x"))


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t.jsonl", "t.xml", "t.csv", "t.txt", "t.csv.gz"])
@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe\x00", b"PK\x03\x04 broken", b"{[<a>", b'"\n"'])
def test_damaged_files_raise_nothing_else(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    try:
        table = read_table(tmp_path / name)
    except TableError as error:
        assert name in str(error)
    else:
        assert all(set(row) == set(table.columns) for row in table.rows)


CELL = st.text("abc ,;\"'\nä7", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8))
def test_what_csv_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([("one", "two", "three"), *rows])
    assert [tuple(row.values()) for row in read_table(path).rows] == rows


def test_an_unknown_column_names_those_there_are(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "id,Diagnosis\n1,a\n"))
    with pytest.raises(TableError, match=r"did you mean 'Diagnosis'\? There are: id, Diagnosis"):
        table.column("diagnoses")
    assert table.column("diagnosis") == "Diagnosis"


def test_names_in_two_rows_are_one_each(tmp_path: Path) -> None:
    """As of cells that were merged: the upper one stands above the first of its columns only."""
    rows = "".join(f"{n},19{n},1.0,{n % 3},0.8,{n % 2},\n" for n in range(40, 60))
    above = "Eye clinic,,,,,,\n,,Right eye,,Left eye,,\nPatient,Born,Visus,Stage,Visus,Stage,Remark\n"
    table = read_table(write(tmp_path / "t.csv", above + rows))
    names = ("Right eye Visus", "Right eye Stage", "Left eye Visus", "Left eye Stage")
    assert table.columns == ("Patient", "Born", *names, "Remark") and len(table.rows) == 20
    assert table.rows[1]["Right eye Stage"] == "2" and table.rows[1]["Left eye Stage"] == "1"


def test_a_row_of_few_cells_above_the_header_is_passed_over(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'OD' if n % 2 else 'OS'},2019-0{n},6{n},{n % 4}\n" for n in range(1, 9))
    above = "Eye clinic,,,,\ngraders: KB,,,,ICDR 0-4\n,,,,\n"
    table = read_table(write(tmp_path / "t.csv", f"{above}Patient,Eye,Visit,Age,ICDR\n{rows}"))
    assert table.columns == ("Patient", "Eye", "Visit", "Age", "ICDR") and len(table.rows) == 8
    # A header of few names is one where values follow it.
    table = read_table(write(tmp_path / "u.csv", f"Patient,,,,ICDR\n{rows}"))
    assert table.columns == ("Patient", "column_2", "column_3", "column_4", "ICDR") and len(table.rows) == 8
