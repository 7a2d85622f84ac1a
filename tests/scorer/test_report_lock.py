"""An index of reports: what keeps it from being locked, and what nobody sees of its test texts."""

import hashlib

import pytest

from services.scorer.lock.seal import Sealed, check_and_seal
from services.scorer.texts.controls import report_controls
from services.scorer.texts.figures import figures
from services.scorer.texts.reports import read_reports
from services.scorer.texts.tokens import words
from shared.contracts.base import Ref
from shared.contracts.data import Handoff, IndexMeta, IndexRow, PackedSample, PackList
from shared.reporttext import MAX_CHARACTERS, clean

META = IndexMeta(
    task="report_generation", dimensions=2, grouping="stated", grouping_from="column uid", split_from="made"
)
NORMAL = "Normal."


def rows(**changes: dict[str, object]) -> list[IndexRow]:
    """Four rows of train, two of val, four of test; `s8` is the last but one of test."""
    splits = ["train"] * 4 + ["val"] * 2 + ["test"] * 4
    found = []
    for number, split in enumerate(splits):
        fields: dict[str, object] = {
            "sample_id": f"s{number}",
            "patient": f"patient-{number}",
            # Files without a suffix, as DICOM has them, that a report may name by chance.
            "files": (f"scans/{number}", f"scans/{number}b"),
            "target": NORMAL
            if number % 5 == 0
            else f"A nodule of {number} mm in the left lobe. It is number {number}.",
            "attributes": {"view": "frontal", "indication": "chest pain and cough"},
            "split": split,
        }
        found.append(IndexRow(**fields | changes.get(f"s{number}", {})))
    return found


def pack(row: IndexRow, **changes: object) -> PackedSample:
    digest = hashlib.sha256(row.sample_id.encode()).hexdigest()
    bucket = "sealed" if row.split == "test" else "data"
    ref = Ref(bucket=bucket, key=digest, sha256=digest, size=10240)
    return PackedSample(**{"sample_id": row.sample_id, "pack": ref, "files": row.files} | changes)


def seal(found: list[IndexRow], handoff: Handoff | None = None) -> Sealed:
    return check_and_seal(found, META, PackList(samples=tuple(map(pack, found))), handoff)


def test_equal_reports_are_no_leak_but_are_counted() -> None:
    sealed = seal(rows())
    assert not sealed.problems
    assert "1 of 10 reports repeat another one word for word; 0 of 4 test reports" in sealed.leakage.notes[-1]
    again = seal(rows(s8={"target": "normal"}, s9={"target": "Normal!"}))
    assert not again.problems
    assert "3 of 10 reports repeat another one word for word; 2 of 4 test reports" in again.leakage.notes[-1]
    assert sealed.counts["test"] == {"all": 4} and sealed.view.rows[0].target == NORMAL


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"target": None}, "reports_given"),
        ({"target": " -- . "}, "reports_given"),
        ({"target": "word " * MAX_CHARACTERS}, "reports_bounded"),
        ({"target": "reports/8.txt"}, "reports_are_texts"),
        ({"target": "CXR8_report.xml "}, "reports_are_texts"),
        ({"target": "scans/8"}, "reports_are_texts"),
        ({"attributes": {"text": "a NODULE of 8 mm in the left lobe - it is number 8"}}, "reports_apart"),
        ({"attributes": {"row": {"all": ["x", "8; A nodule of 8 mm in the left lobe."]}}}, None),
        ({"attributes": {"row": {"impression": ["a nodule of 8 mm in"]}}}, "reports_apart"),
        ({"attributes": {"note": "the left lobe"}}, None),
        ({"target": NORMAL, "attributes": {"note": "Normal kidneys."}}, None),
        ({"target": NORMAL, "attributes": {"impression": "normal"}}, "reports_apart"),
        ({"patient": "patient-1"}, "no_same_patient"),
        ({"files": ("scans/1",)}, "no_same_file"),
    ],
)
def test_each_fault_has_its_gate(changes: dict[str, object], gate: str | None) -> None:
    assert set(seal(rows(s8=changes)).problems) == ({gate} if gate else set())


def test_packs_hold_nothing_but_images() -> None:
    found = rows()
    packs = [pack(row) for row in found]
    packs[8] = pack(found[8], files=("000", "001", "002"))
    assert set(check_and_seal(found, META, PackList(samples=tuple(packs))).problems) == {"packs_complete"}
    packs[8] = pack(found[8], target=packs[8].pack)
    assert set(check_and_seal(found, META, PackList(samples=tuple(packs))).problems) == {"packs_complete"}


def test_what_a_test_report_says_is_masked_in_the_hand_off() -> None:
    handoff = Handoff(
        layout="first: A nodule of 8 mm in the left lobe. It is number 8.; last: A nodule of 1 mm in the left lobe.",
        geometry={"example": ["A nodule of 9 mm in the left lobe", "Normal."]},
    )
    told = seal(rows(), handoff).view.handoff
    assert told.layout == "first: [sealed]; last: A nodule of 1 mm in the left lobe."
    assert told.geometry == {"example": ["[sealed]", "Normal."]}


def test_controls_take_the_usual_report_or_the_most_typical_one() -> None:
    truth = [words(f"a nodule of {n} mm in the left lobe") for n in range(6)]
    rouge = figures(truth)["rouge_l"]
    odd = [words(text) for text in ("fracture", "a mass of 3 mm in the left lobe", "a nodule of 9 mm in the lobe")]

    def controls(train: list[tuple[str, ...]]):
        found, p, said = report_controls("rouge_l", rouge, train, truth, truth, range_of(6), 500, 0)
        assert p == pytest.approx(1 / 501)
        return {one.name: one for one in found}, said

    common, said = controls([*odd, words("Fracture!")])
    assert "2 training rows" in common["majority"].detail and said["majority"] == "fracture"
    assert common["majority"].value == 0 and common["constant"].value > 0.8
    assert said["constant"] == "a nodule of 9 mm in the lobe"
    differing, said = controls(odd)
    assert "most like 3 of them" in differing["majority"].detail and said["majority"] != "fracture"


def range_of(count: int):
    import numpy as np

    return np.arange(count, dtype=np.int64)


def test_answers_are_read_as_a_strangers() -> None:
    read = read_reports(
        b'{"cases": {"a": {"report": "Clear\\u202e lungs\\u0000.\\n\\tOK"}, "c": {"report": 3}}}', ["a", "b"]
    )
    assert read.texts == ("Clear lungs .\n OK", "")
    assert dict(read.failed) == {"b": "no prediction"}
    assert {gate.name for gate in read.gates if not gate.passed} == {"all_cases_predicted", "no_unknown_cases"}
    for data in (b"", b"[]", b"\xff", b'{"cases": {"a": {"report": NaN}}}', b"[" * 100_000):
        read = read_reports(data, ["a"])
        assert [gate.passed for gate in read.gates] == [False] and read.texts == ("",)


def test_clean_keeps_the_text_and_nothing_that_hides() -> None:
    assert clean("a\r\nb \ud800\u200b c\t\tdé") == "a \nb c dé"
