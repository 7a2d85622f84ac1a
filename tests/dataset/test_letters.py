"""Letters beside films: headings and numbers in their heads, names with other zeros, sections by what was asked for."""

from pathlib import Path

import openpyxl
from propose_files import picture, text

from shared.contracts.cases import Proposal
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.survey.survey import survey
from shared.dataset.tables.documents import headed

HEADS = (
    "Estudio n.º {study:06d}\nHistoria: H{person:04d}\n",
    "SERVICIO DE RADIOLOGÍA\nEstudio {study:06d} - Historia H-{person:06d}\n",
    "Historia: H-{person:04d}    Estudio: {study:06d}\n",
)
FOUND = ("Derrame pleural en el lado derecho.", "Sin hallazgos de interés en ambos pulmones.", "Nódulo de {n} mm.")


def letters(root: Path) -> None:
    """30 examinations of 15 people, two films each, a letter each."""
    for n in range(30):
        study = 7 + 61 * n
        for view in (1, 2):
            picture(root / f"placas/RX{study:04d}_{view}.png")
        head = HEADS[n % 3].format(study=study, person=10 + n // 2)
        told = f"DATOS CLÍNICOS: Control.\nHALLAZGOS: {FOUND[n % 3].format(n=n)}\nIMPRESIÓN: Ver arriba, control {n}.\n"
        text(root / f"informes/inf_{study}.txt", f"{head}\n{told}")


def columns(proposal: Proposal) -> list[str | None]:
    rules = Rules.model_validate(proposal.rules)
    return [one.column for one in rules.text.sources] if rules.text else []


def test_numbers_in_the_head_of_a_letter() -> None:
    assert headed("Estudio 000012 - Historia H2015\nHallazgos: Nada.") == {
        "hallazgos": "Nada.", "estudio": "000012", "historia": "H2015",
    }  # fmt: skip
    assert headed("Historia: H-0907    Estudio: 001018\n\nx") == {"historia": "H-0907", "estudio": "001018"}
    # A sentence with a number is none.
    assert headed("Nodule of 12 mm - stable\nand more") == {}


def test_a_heading_of_two_words_in_capitals_is_one() -> None:
    assert headed("CLINICAL HISTORY: Pain. FINDINGS: Clear lungs. IMPRESSION: None") == {
        "clinical history": "Pain.", "findings": "Clear lungs.", "impression": "None",
    }  # fmt: skip


def test_letters_find_films_and_people_whatever_zeros_are_before_numbers(tmp_path: Path) -> None:
    letters(tmp_path)
    best = propose(tmp_path, "report_generation", target="write the findings of a chest film")[0]
    assert (best.coverage.cases, best.coverage.patients, best.coverage.grouping) == (30, 15, "stated")
    assert not best.coverage.lost
    assert columns(best) == ["hallazgos"]
    whole = propose(tmp_path, "report_generation", target="write the report of a chest film")[0]
    assert columns(whole) == ["hallazgos", "impresión"]


def test_a_sheet_that_lists_codes_names_the_classes(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Liste"
    sheet.append(["Bild", "Bef.", "Sonde"])
    for n in range(24):
        picture(tmp_path / f"export/IMG_{n:04d}.png")
        sheet.append([f"IMG_{n:04d}.png", ("B2", "B5", "b5")[n % 3], "LK"[n // 2 % 2]])
    key = book.create_sheet("Schlüssel")
    meanings = [("Bef.", "B2", "Zyste: echofrei"), ("Bef.", "B5", "Verkalkung"), ("Bef.", "B9", "nicht vergeben")]
    probes = [("Sonde", "L", "Linearsonde"), ("Sonde", "K", "Konvexsonde")]
    for row in (("Spalte", "Kürzel", "Bedeutung"), *meanings, *probes):
        key.append(row)
    book.save(tmp_path / "liste.xlsx")
    columns = {one.name: one for table in survey(tmp_path).tables for one in table.columns}
    assert columns["Sonde"].codes == {"L": "Linearsonde", "K": "Konvexsonde"}
    best = propose(tmp_path, "diagnosis", target="type of lesion")[0]
    assert best.coverage.counts == {"Zyste: echofrei": 8, "Verkalkung": 16}


def test_a_list_of_columns_without_meanings_is_no_list_of_codes(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    text(tmp_path / "t.csv", "image,grade,side\na.png,1,l\n")
    text(tmp_path / "columns.csv", "column\nimage\ngrade\nside\n")
    text(tmp_path / "more.csv", "column,unit\nimage,-\ngrade,-\nside,-\ngrade,-\n")
    assert not any(one.codes for table in survey(tmp_path).tables for one in table.columns)
