"""Reports and other documents as tables and records: XML, YAML, and texts as people write them."""

from pathlib import Path

import pytest

from shared.dataset.tables.tables import TableError, read_record, read_table


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


REPORT = """<?xml version="1.0"?><eCitation xmlns:x="http://x"><uId id="CXR1"/><Article><Abstract>
<AbstractText Label="FINDINGS">Lungs are <b>clear</b> now.</AbstractText><AbstractText Label="IMPRESSION">Normal.
</AbstractText></Abstract></Article><MeSH><major>normal</major><major>old</major></MeSH>
<parentImage id="CXR1_1_IM-0001-3001"><panel/></parentImage><parentImage id="CXR1_1_IM-0001-4001"/></eCitation>"""


def test_a_report_as_xml(tmp_path: Path) -> None:
    path = write(tmp_path / "1.xml", REPORT)
    record = read_record(path)
    assert record["Article/Abstract/AbstractText/FINDINGS"] == "Lungs are clear now."
    assert record["Article/Abstract/AbstractText/IMPRESSION"] == "Normal."
    assert record["MeSH/major"] == "normal\nold" and record["uId/@id"] == "CXR1"
    assert record["parentImage/@id"].split() == ["CXR1_1_IM-0001-3001", "CXR1_1_IM-0001-4001"]
    table = read_table(path)
    assert table.rows == [record]
    for name in (
        "AbstractText/FINDINGS",
        "abstracttext/findings",
        "FINDINGS",
        "article/Abstract/abstracttext/FINDINGS",
    ):
        assert table.column(name) == "Article/Abstract/AbstractText/FINDINGS"


def test_an_xml_list_of_records(tmp_path: Path) -> None:
    text = "<all><p><id>1</id><d>a</d></p><p><id>2</id></p></all>"
    assert read_table(write(tmp_path / "t.xml", text)).rows == [{"id": "1", "d": "a"}, {"id": "2", "d": ""}]


def test_xml_with_entities_is_not_read(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><a>&y;</a>'
    with pytest.raises(TableError, match="entities"):
        read_table(write(tmp_path / "t.xml", bomb))


def test_a_report_as_text(tmp_path: Path) -> None:
    text = "EXAM: CT chest\nFINDINGS: Lungs are clear.\nNo effusion.\n\nIMPRESSION\nNormal.\n"
    record = read_record(write(tmp_path / "r.txt", text))
    assert record["findings"] == "Lungs are clear.\nNo effusion." and record["impression"] == "Normal."
    assert record["text"] == text.strip() and record["exam"] == "CT chest"


def test_a_record_as_yaml(tmp_path: Path) -> None:
    text = "study: 007\nfracture: no\nreport:\n  findings: >-\n    Lungs are\n    clear.\n"
    record = read_record(write(tmp_path / "r.yaml", text))
    assert record == {"study": "007", "fracture": "no", "report/findings": "Lungs are clear."}
    with pytest.raises(TableError, match="no sound YAML"):
        read_record(write(tmp_path / "x.yml", "a: [1"))


def test_headings_have_accents_and_capitals_of_any_alphabet(tmp_path: Path) -> None:
    text = "RÉSULTAT :\nCœur normal.\n\nSYNTHÈSE\nRien à signaler.\n"
    record = read_record(write(tmp_path / "r.txt", text))
    assert record["résultat"] == "Cœur normal." and record["synthèse"] == "Rien à signaler."


def test_a_document_without_suffix_is_told_by_its_content(tmp_path: Path) -> None:
    assert read_record(write(tmp_path / "ISIC_0000012", '{"meta": {"kind": "nevus"}}')) == {"meta/kind": "nevus"}
    assert read_record(write(tmp_path / "12", '<?xml version="1.0"?><r><kind>nevus</kind></r>')) == {"kind": "nevus"}
    with pytest.raises(TableError, match="convert it to CSV"):
        read_record(write(tmp_path / "notes", "kind nevus"))


def test_the_head_of_a_letter_has_numbers(tmp_path: Path) -> None:
    head = "Klinik\nFall-Nr.: 0004711\nPat.-ID: 88200\n\nThorax vom 03.03.2022\n\n"
    text = f"{head}Befund:\nHerz groß.\nErguss: 2 cm rechts.\n"
    record = read_record(write(tmp_path / "r.txt", text))
    assert (record["fall-nr."], record["pat.-id"]) == ("0004711", "88200")
    assert record["befund"] == "Herz groß." and record["erguss"] == "2 cm rechts."


def test_a_text_with_commas_is_no_table(tmp_path: Path) -> None:
    text = "The heart is normal in size, shape and position.\nThe lungs are clear of consolidation, no edema.\n"
    assert read_table(write(tmp_path / "r.txt", text)).columns == ("text",)
    assert read_table(write(tmp_path / "t.txt", "id,label\n1,a\n2,b\n")).columns == ("id", "label")


REPORTS = """\ufeff#### 7001 / PAT 31 / 17.01.16 / XR CHEST / PRELIM ####
The heart is enlarged.

signed K. L.

#### 7002 / PAT 32 / 18.01.16 / XR CHEST / FINAL ####
Both lungs are clear.
No effusion.

Dr. Be / transcribed 1

#### 7001 / PAT 31 / 17.01.16 / XR CHEST / FINAL ####
The heart is not enlarged after all.

#### 7003 / PAT 31 / 19.01.16 / XR CHEST / FINAL ####
Small effusion on the left.

#### 7003 / PAT 31 / 19.01.16 / XR CHEST / FINAL ####
Small effusion on the right.

#### 7004-A / PAT 34 / 20.01.16 / XR CHEST / FINAL ####
No nodule.

12 mm drain on the left.

#### 7005 / PAT 34 / 20.01.16 / XR CHEST / FINAL ####
Report see old system.

signed K. L.
"""


def test_one_text_with_many_reports_is_a_row_each_and_the_final_one_counts(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "dump.txt", REPORTS))
    assert table.columns[:2] == ("number", "pat") and [row["pat"] for row in table.rows] == [
        "31",
        "32",
        "31",
        "34",
        "34",
    ]
    assert {row["number"]: row["text"] for row in table.rows} == {
        "7001": "The heart is not enlarged after all.",
        "7002": "Both lungs are clear.\nNo effusion.",
        "7003": "",  # two final ones that differ: nobody knows which counts
        "7004-A": "No nodule.\n\n12 mm drain on the left.",
        "7005": "",
    }


@pytest.mark.parametrize(
    "content",
    [
        REPORTS.partition("#### 7003")[0],  # too few
        "Report 7001\nThe heart is enlarged.\n" + "No effusion is seen here.\n" * 9,
        "".join(f"{n}. The finding number {n} is small.\nIt is seen on the left.\n" for n in range(1, 9)),
        "".join(f"#### 700{n} ####\n" for n in range(9)),
    ],
)
def test_other_texts_are_one_record(tmp_path: Path, content: str) -> None:
    assert len(read_table(write(tmp_path / "letter.txt", content)).rows) == 1
