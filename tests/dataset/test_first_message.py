"""What the Data Engineer's core is told of a dataset before it looks itself."""

from pathlib import Path

from propose_files import picture, table
from resolve_files import dicom

from shared.dataset.profile.profile import profile


def test_documents_and_mails_are_quoted_and_headers_that_differ_are_told(tmp_path: Path) -> None:
    for number in range(4):
        kernel = ("SHARP", "SOFT")[number % 2]
        dicom(tmp_path / f"ct/{number}.dcm", f"P{number}", f"s{number}", ConvolutionKernel=kernel)
    (tmp_path / "README.txt").write_text("Use the sharp kernel alone.\n", encoding="utf-8")
    (tmp_path / "LICENSE.txt").write_text("MIT", encoding="utf-8")
    head = "Subject: exchanged\nDate: Mon, 15 Mar 2021 09:12:40 +0100\n"
    mail = f"{head}Content-Type: text/plain; charset=utf-8\n\nP1 is P2.\n"
    (tmp_path / "notes.eml").write_text(mail, encoding="utf-8")
    told = profile(tmp_path).for_rules()
    assert told["documents"] == {
        "README.txt": "Use the sharp kernel alone.",
        "notes.eml": f"{head}\nP1 is P2.",
    }
    headers = told["headers of those looked at"]
    assert isinstance(headers, dict) and set(str(headers["ConvolutionKernel"]).replace(",", "").split()) >= {
        "SHARP",
        "SOFT",
    }


def test_columns_tell_their_values_and_constant_ones_only_their_number(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / f"{number}.png")
    grades = ("low", "high", "mid")
    rows = [{"image": f"{n}.png", "grade": grades[n % 3], "site": "x", "mark": "x" * (n % 2)} for n in range(6)]
    table(tmp_path / "t.csv", rows)
    (said,) = profile(tmp_path).for_rules()["tables"]
    assert "image (names the images)" in str(said) and "grade (low, high, mid)" in str(said)
    assert "mark" in str(said) and str(said).endswith("and 1 more")
