"""Tables with several rows of one examination, of which a column says which is final."""

from pathlib import Path

import pytest
from propose_files import dicom_series, picture, table

from shared.dataset.propose import propose


def test_reports_are_those_of_the_examination_and_the_released_ones(tmp_path: Path) -> None:
    """Folders are called by the patient, who has two examinations; their numbers stand in the headers alone."""
    rows = []
    for n in range(24):
        patient = f"NR{n // 2 + 100}"
        study = dicom_series(tmp_path / f"PACS/{patient}/{n % 2}A", patient)[0].StudyInstanceUID
        text = f"Befund: Blutung links von {n} mm, sonst nichts. Beurteilung: Blutung."
        for state, said in (("V", f"Vorab: {text}"), ("F", text), ("N", "telefonisch mitgeteilt")):
            rows.append({"Untersuchung": study, "PatNr": patient, "Status": state, "Text": said})
    table(tmp_path / "Befunde.csv", rows)
    best = propose(tmp_path, "report_generation", target="Befundtext zum CT")[0]
    (made,) = best.rules["tables"].values()
    assert made["key"] == "Untersuchung" and made["only"] == {"Status": ["F"]}
    assert (best.coverage.cases, best.coverage.patients) == (24, 12)


@pytest.mark.parametrize(
    ("states", "final"),
    [(("voorlopig", "definitief"), "definitief"), (("draft", "not released"), None), (("a", "b"), None)],
)
def test_final_rows_count(tmp_path: Path, states: tuple[str, str], final: str | None) -> None:
    rows = []
    for n in range(40):
        picture(tmp_path / f"images/P{n + 100}.png")
        kinds = ("IPF", "EAA")
        rows += [
            {"nr": f"P{n + 100}", "status": state, "diagnosis": kinds[(n + at) % 2]} for at, state in enumerate(states)
        ]
    table(tmp_path / "register.csv", rows)
    found = propose(tmp_path, "diagnosis", target="IPF or EAA")
    if final is None:
        assert all(one.coverage.cases < 40 or "diagnosis" not in one.says for one in found)
    else:
        assert found[0].rules["tables"]["register"]["only"] == {"status": [final]} and found[0].coverage.cases == 40
