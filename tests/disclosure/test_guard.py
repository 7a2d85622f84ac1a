"""Words, numbers and dates as they leave and come back."""

import json
import re
import urllib.parse
from base64 import b64encode

import pytest

from shared.contracts.profile import Candidate, Column, FileGroup, Profile, TableFacts
from shared.contracts.values import Source
from shared.disclosure.guard import Guard
from shared.disclosure.public import public_words

ONE, OTHER = "5e" * 32, "a7" * 32

SECRET = {
    "a path": "/data/Zebulon Quackenbush/MRN7788123/scan_quackenbush_1957.nii.gz",
    "a name that is words": 'row 3: {"name": "Grace Young", "other": "Young, Mark"}',
    "lower case": "patient grace young, file grace_young.png",
    "upper case": "GRACE^YOUNG",
    "two path parts": "/data/zebulon/quackenbush/1.dcm",
    "an escape of JSON": json.dumps({"name": "Käthe Brückner"}),
    "an escape of Python": ascii("Käthe Brückner"),
    "an escape of URLs": urllib.parse.quote("Käthe Brückner"),
    "camel case": "ScanOfZebulonQuackenbush",
    "base64 of a cell": b64encode(b"Zebulon Quackenbush").decode(),
    "backwards": "Zebulon Quackenbush"[::-1],
    "a date": "born 1957-02-03, 03.02.1957 or 19570203",
    "a number": "MRN 7788123, \"48213\", '0176-5551234'",
    "a UID": "1.2.826.0.1.3680043.8.498.424242",
    "a traceback": "KeyError: 'Zebulon'\nFileNotFoundError: [Errno 2] No such file or directory: '/data/Quackenbush.x'",
    "a report": "The beekeeper fell from a ladder. The lungs are clear. No pleural effusion is seen.",
    "a card": "contact: Dr. Ulysse Quackenbush, brueckner@klinik-quistorp.de",
    "letters": f"{list('quackenbush')} {' '.join('Grace')}",
    "a date with its month first": "born 2/13/1957",
    "a date of two digits a year": "born 03.02.57, 57-02-03 or 02/13/57",
    "a number in groups": "SSN 219-09-9999",
    "a number with spaces": "NHS 943 476 5919, SSN 219 09 9999\n0  943 476 5919   61\n+48 601 234 567, 06 12 34 56",
    "a cell with spaces": "id,phone,age\n7,601 234 567,61\n8,'601 234 567',70",
    "behind a line's end": json.dumps("notes\nZebulon\nQuackenbush"),
}
CANARIES = re.compile(
    "zebulon|quackenbush|grace|young|mark|käthe|brückner|brueckner|quistorp|ulysse|noluez|hsubnekcauq|7788123|48213"
    "|5551234|1957|424242|ladder|beekeeper|lungs|pleural|219|9999|3.02.57|57-02|13/57|'q', 'u|g r a"
    "|476|5919|601|234|34 56|u00e4|xe4|%c3|k.the|br.{1,6}ckner|wlyd|zmvi",
    re.IGNORECASE,
)


@pytest.mark.parametrize("text", SECRET.values(), ids=SECRET)
def test_what_may_not_leave_leaves_as_surrogates_and_comes_back(text: str) -> None:
    guard = Guard(ONE)
    left = guard.hide(text)
    assert not CANARIES.search(left), left
    assert len(left) > len(text) / 3, "its form is kept"
    real, hidden = guard.back(left)
    assert guard.said(real, hidden) == left, "what the model said is told it as it said it"
    if "\\" not in text and "%" not in text:
        assert real == text


OURS = (
    "12 cases (3D) of 40 of 48,213 image files; 7 patients, stated: column 'patient' of labels.csv",
    "a.png 512 512 133, shape (128 256 1024), [943 476 5919], 0 0 120 256 1024, 12 40 18\n601 234 567",
    "NIfTI, 512 x 512 x 40, int16, spacing 0.7 x 0.7 x 5 mm, RAS, -1024 to 3071, mean -12.5, Hounsfield units",
    "counts: NCP 12, melanoma 30",
    'images: [{files: "imagesTr/{case}_{part2}.nii.gz"}]\npatient: {field: case, part: "^(\\d+)_"}\n',
    "Traceback (most recent call last):\n  ValueError: could not convert string to float",
    "build a model for covid-19 and pneumonia on chest CT",
)


@pytest.mark.parametrize("text", OURS)
def test_classes_columns_figures_and_code_pass(text: str) -> None:
    assert Guard(ONE, public=("NCP", "melanoma"), written=(text,)).hide(text) == text


def test_a_word_has_one_surrogate_in_a_run_and_another_in_another_run() -> None:
    one = Guard(ONE)
    first, again = one.hide("Quackenbush, quackenbush"), one.hide("/data/QUACKENBUSH/1957-02-03.csv")
    name = first.split(",")[0]
    assert first == f"{name}, {name.lower()}" and f"/{name.upper()}/" in again
    assert Guard(ONE).hide("/data/QUACKENBUSH/1957-02-03.csv") == again
    assert name.upper() not in Guard(OTHER).hide("/data/QUACKENBUSH/1957-02-03.csv")


def test_the_model_may_take_surrogates_apart_and_its_own_words_stay() -> None:
    guard = Guard(ONE)
    path = guard.hide("ct/quackenbush_0031_1957.nii.gz").removeprefix("ct/").removesuffix(".nii.gz")
    name, number, _ = path.split("_")
    said = f'for zqx in range(31): open(f"/data/ct/{name}_{number}.dcm"); print("{name.upper()}", 1957, "{path}")'
    real, hidden = guard.back(said)
    assert real == (
        'for zqx in range(31): open(f"/data/ct/quackenbush_0031.dcm"); '
        'print("QUACKENBUSH", 1957, "quackenbush_0031_1957")'
    )
    assert guard.said(real, hidden) == said
    assert guard.hide("NameError: name 'zqx' is not defined").count("zqx") == 1, "the endpoint knows it already"


def test_only_what_many_cases_have_is_a_class() -> None:
    def label(column: str, values: dict[str, int]) -> Candidate:
        return Candidate(
            source=Source(table="t", column=column), where="", distinct=len(values), share=1, values=values
        )

    names = {"Grace Young": 30, "Mark Field": 30}
    profile = Profile(
        digest="d", files=90, size=1, images=90,
        groups=(FileGroup(pattern="{part1}.npz", files=90, suffix=".npz", kind="picture", example="a.npz",
                          arrays={"pixels": "f4"}),),
        tables=(TableFacts(file="t.csv", rows=90, columns=(
            Column(name="diagnose_code", kind="category", filled=1, distinct=3),
            Column(name="MRN7788123", kind="number", filled=1, distinct=90))),),
        patients=(Candidate(source=Source(field="part1"), where="", distinct=90, share=1),),
        labels=(label("diagnose_code", {"akiec": 40, "Nevus": 48, "rarest": 2}), label("physician", names),
                label("team", names)),
    )  # fmt: skip
    assert public_words(profile) == {"diagnose_code", "pixels", "akiec", "Nevus"}


def test_only_what_was_measured_passes_as_a_long_number() -> None:
    text = "48213 images; MRN 7788123, phone 5551234"
    left = Guard(ONE).hide(text, measured={"48213"})
    assert left.startswith("48213 images") and "7788123" not in left and "5551234" not in left


def test_what_was_hidden_stays_so_behind_the_lock_however_it_is_written() -> None:
    guard = Guard(ONE, raw=False)
    guard.hide("Data of Quistorpklinik, MRN 7788123", measured=set())
    for text in ("quistorpklinik", "QUISTORPKLINIK", "Quistorpk [cut]", "QuistorpklinikNet", "no 7788123"):
        left = guard.hide(text, raw=False)
        assert not re.search("quistorp|7788123", left, re.IGNORECASE), left
    told = "epoch 10 of 7788, loss 0.12: DenseNet121, x = y + 1"
    assert guard.hide(told, raw=False) == told


def test_numbers_come_back_as_they_were() -> None:
    guard = Guard(ONE)
    for text in (
        "scan_003.png, 007.png, 013.png at 0.003, 0.0031 and 0.013",
        "2.25.19051141928825926440726862279578845.dcm and 2.25.135069791539",
        "born 03.02.1957, in 03/scan.dcm",
    ):
        assert guard.back(guard.hide(text))[0] == text


RECKONING = """half = a / 2; a/2; n*(n+1)/2; 14/2; 9/3
scaled = image/255
share = total/100 if total else 10/5
window = f"{low/100}"
print(sum(found)/731, pct99, loss/1000, 2048/1024)
"""


@pytest.mark.parametrize("raw", [True, False])
def test_code_that_divides_comes_back_as_it_was_written(raw: bool) -> None:
    guard = Guard(ONE, raw=raw)
    shown = [guard.hide("\n".join(f"/data/CD {number}/{number}_x.png" for number in range(1, 1500)))]
    guard.said(RECKONING, ())
    assert guard.back(RECKONING) == (RECKONING, set())
    real = "/data/CD 1031/1031_x.png"
    there = next(line for line, number in zip(shown[0].splitlines(), range(1, 1500), strict=True) if number == 1031)
    for way in ('open("%s")', "files: %s", "%s", 'f"{root}%s"', "a = '%s'\nb = 1/2"):
        assert guard.back(way % there)[0] == way % real


def test_our_small_words_are_nobody_s_after_a_report_was_hidden() -> None:
    guard = Guard(ONE)
    guard.hide("The tip of the beekeeper is in the wrong place for a ladder of this kind, and was left there.")
    told = "Used 5 % of the run's budget, 60 epochs of 1.4 s"
    assert guard.hide(told) == told and guard.hide(told, raw=False) == told


def test_what_a_clinician_asks_for_is_read_as_it_was_asked() -> None:
    asked = "I would like a tool that looks at a picture of the breast and tells whether it is benign, for Zebulon."
    left = Guard(ONE, written=[asked]).hide(asked)
    assert left.startswith("I would like a tool that looks at a picture of the breast and tells whether it is benign")
    assert "Zebulon" not in left
