"""Requests for some classes or structures only: by their words, and from the sentence over real files to the lock."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from shared.contracts.cases import CaseRecord
from shared.contracts.rules import Rules
from shared.dataset.intake.intake_records import Order
from shared.dataset.rules.resolve import resolve
from shared.dataset.tables.narrowing import called, narrowed
from shared.errors import GateFailed
from tests.agents.data_engineer_bench import Bench, End, brief
from tests.dataset.intake_shard import run
from tests.scorer.case_tables import locked, ref, table

ORGANS = ("left kidney", "liver", "liver tumour", "right kidney", "spleen")
CLASSES = ("benign", "malignant", "normal")
SPOTS = ("basal cell carcinoma", "melanoma", "naevus", "seborrhoeic keratosis")


@pytest.mark.parametrize(
    ("request_text", "names", "wanted"),
    [
        ("liver only, on CT", ORGANS, {"liver"}),
        ("just the kidneys, please", ORGANS, {"left kidney", "right kidney"}),
        ("segment only the left kidney", ORGANS, {"left kidney"}),
        ("nur Leber und Milz im CT", ORGANS, {"liver", "spleen"}),
        ("liver tumours only", ORGANS, {"liver tumour"}),
        ("abdominal organs without the tumours", ORGANS, set(ORGANS) - {"liver tumour"}),
        ("only the pancreas", ORGANS, set()),
        ("segment liver and spleen", ORGANS, set(ORGANS)),
        ("segment the liver, on portal venous CT only", ORGANS, set(ORGANS)),
        ("not only the liver", ORGANS, set(ORGANS)),
        ("benign against malignant (ignore normal)", CLASSES, {"benign", "malignant"}),
        ("benign or malignant, healthy ones excluded", ("benign", "malignant", "No Finding"), {"benign", "malignant"}),
        ("tell cancer from benign; the doctor only has to check", CLASSES, {"benign", "malignant"}),
        ("find cancer; the doctor only has to check", CLASSES, set(CLASSES)),
        ("Melanome von Muttermalen unterscheiden, alles andere interessiert nicht", SPOTS, {"melanoma", "naevus"}),
        ("distinguer un mélanome d'un nævus, rien d'autre", SPOTS, {"melanoma", "naevus"}),
        ("covid, other pneumonia, no pneumonia", ("COVID", "no pneumonia"), {"COVID", "no pneumonia"}),
        ("mélanome contre nævus uniquement", SPOTS, {"melanoma", "naevus"}),
        ("is it a melanoma or just a harmless mole?", SPOTS, {"melanoma", "naevus"}),
        ("vertebrae L1 to L3 only", ("L1", "L2", "L3", "L4", "T1"), {"L1", "L2", "L3"}),
        ("the spleen, other organs are not wanted", ORGANS, {"spleen"}),
        ("cancer or not, but we have only few of malignant ones", CLASSES, set(CLASSES)),
        ("grades 0 and 1 only", ("0", "1", "2"), {"0", "1"}),
        ("tell Parkinson's disease from healthy controls on SPECT", ("Control", "PD", "SWEDD"), {"Control", "PD"}),
        ("PD versus control", ("Control", "PD", "SWEDD"), {"Control", "PD"}),
        ("distinguish between melanoma and moles", SPOTS, {"melanoma", "naevus"}),
        ("tell from one picture whether it is benign or malignant", CLASSES, set(CLASSES)),
        ("melanoma versus everything else", SPOTS, set(SPOTS)),
    ],
)  # fmt: skip
def test_what_a_request_limits_itself_to(request_text: str, names: tuple[str, ...], wanted: set[str]) -> None:
    assert set(narrowed(request_text, names)) == wanted


CARDIAC = ("aorta", "left ventricle", "myocardium", "right ventricle")
NECK = ("Brainstem", "Mandible", "Parotid_L", "Parotid_R", "SpinalCord")


@pytest.mark.parametrize(
    ("request_text", "names", "wanted"),
    [
        ("segment liver and spleen", ORGANS, {"liver", "spleen"}),
        ("outline both kidneys on CT for the transplant team", ORGANS, {"left kidney", "right kidney"}),
        ("die linke Niere einzeichnen", ORGANS, {"left kidney"}),
        ("Vorrei delimitare il fegato e la milza in TC", ORGANS, {"liver", "spleen"}),
        ("spleen, liver, kidneys and the other organs", ORGANS, set(ORGANS)),
        ("contours of abdominal organs such as the liver", ORGANS, set(ORGANS)),
        ("everything but the spleen", ORGANS, set(ORGANS) - {"spleen"}),
        ("liver, spleen and right kidney only please", ORGANS, {"liver", "spleen", "right kidney"}),
        ("segment the pancreas", ORGANS, set(ORGANS)),
        ("draw the heart in cine MRI", CARDIAC, set(CARDIAC)),
        ("only the LV cavity and the myocardium", ("MYO", "LV", "RV"), {"MYO", "LV"}),
        ("parotids and spinal cord in head and neck patients", NECK, {"Parotid_L", "Parotid_R", "SpinalCord"}),
        ("both hippocampi", ("L-Hippocampus", "L-Thalamus", "R-Hippocampus"), {"L-Hippocampus", "R-Hippocampus"}),
        ("aorta and IVC", ("aorta", "inferior_vena_cava", "liver"), {"aorta", "inferior_vena_cava"}),
        ("Leber und Nieren einzeichnen", ("Leber", "Milz", "Niere_L", "Niere_R"), {"Leber", "Niere_L", "Niere_R"}),
        ("Leber und Milz abgrenzen, ohne Nieren", ORGANS, {"liver", "spleen"}),
        ("segment all ribs and the liver", ("liver", "rib 1", "rib 2", "spleen"), {"liver", "rib 1", "rib 2"}),
        ("organs at risk (brain stem, both parotids)", NECK, {"Brainstem", "Parotid_L", "Parotid_R"}),
        ("organs at risk wanted: mandible, brainstem", NECK, {"Brainstem", "Mandible"}),
        ("everything that is drawn: brainstem, mandible, lenses", NECK, set(NECK)),
        ("all organs at risk (e.g. mandible, brainstem)", NECK, set(NECK)),
        ("alle Organe (z.B. mandible und brainstem)", NECK, set(NECK)),
        ("outline renal tumours and cysts", ("Niere", "Tumor", "Zyste"), {"Tumor", "Zyste"}),
        ("lumbar spine, L1 through L3", ("L1", "L2", "L3", "L4", "T12"), {"L1", "L2", "L3"}),
    ],
)  # fmt: skip
def test_structures_that_are_named_are_those_that_are_wanted(
    request_text: str, names: tuple[str, ...], wanted: set[str]
) -> None:
    assert set(narrowed(request_text, names, masks=True)) == wanted


def test_where_lesions_are_wanted_an_organ_says_where_they_lie() -> None:
    names = ("pancreas", "tumour")
    assert narrowed("anomaly detection in CT of the pancreas", names, masks=True, lesions=True) == names
    assert narrowed("draw the tumours in CT", names, masks=True, lesions=True) == ("tumour",)
    assert narrowed("mark every polyp", ("instrument", "polyp"), masks=True, lesions=True) == ("polyp",)


def test_names_hold_any_sign() -> None:
    names = ("AMD (dry)", "C++", "RV", "[x", "a|b")
    assert narrowed("the right ventricle only", names) == ("RV",)
    assert narrowed("densità A, B, C, D", ("A", "B", "C")) == ("A", "B", "C")
    assert narrowed("肝臓・脾臓をセグメンテーション", ("肝臓", "脾臓"), masks=True) == ("肝臓", "脾臓")


def test_what_is_left_out_by_name_is_left_out_though_its_kind_is_wanted() -> None:
    names = ("AD", "CN", "MCI")
    assert narrowed("tell Alzheimer's disease from normal ageing, leave out the MCI group", names) == ("AD", "CN")


def test_an_answer_calls_names_as_people_write_them() -> None:
    assert called("Spleen, both kidneys", ORGANS) == ("left kidney", "right kidney", "spleen")
    assert called("none of them", ORGANS) == ()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def noise(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(number).integers(0, 255, (48, 48), dtype=np.uint8)).save(path)


def abdomens(data: Path) -> None:
    names = {0: "background", 1: "liver", 2: "kidney_left", 3: "kidney_right", 4: "spleen"}
    for number in range(24):
        noise(data / "images" / f"p{number:03d}.png", number)
        mask = np.zeros((48, 48), np.uint8)
        for value in (1, 2, 3, 4):
            mask[10 * value - 8 : 10 * value, 5 + number : 15 + number] = value
        (data / "labels").mkdir(exist_ok=True)
        Image.fromarray(mask).save(data / "labels" / f"p{number:03d}.png")
    (data / "labels.json").write_text(json.dumps({"labels": names}))


def breasts(data: Path) -> None:
    for number in range(36):
        noise(data / CLASSES[number % 3] / f"p{number:03d}.png", number)


def label_names(bench: Bench, end: End) -> tuple[str, ...]:
    """What later roles learn: the rules that were submitted carried out, taken in and locked."""
    assert end.tool == "submit_dataset", end.refused
    rules = Rules.model_validate(yaml.safe_load((bench.work / "dataset.yaml").read_text()))
    found = resolve(rules, bench.data)
    taken = run(bench.data, bench.folder / "intake", found.cases, Order(dimensions=2, masks=bool(rules.masks))).taken
    cases = [
        CaseRecord(key=spec.key, patient=spec.patient, label=spec.label, images=(ref(spec.key),),
                   mask=ref((spec.key, "mask")) if spec.masks else None, values=taken[spec.key].values)
        for spec in found.cases
    ]  # fmt: skip
    given = table(cases, rules.task).model_copy(update={"coverage": found.coverage})
    return locked(given).sealed.facts.label_names


def test_structures_that_were_not_asked_for_are_in_no_case(bench: Bench) -> None:
    abdomens(bench.data)
    end = bench.run(brief(requirement="just the kidneys", task="organ_segmentation", metric="dice"))
    assert label_names(bench, end) == ("kidney_left", "kidney_right")
    assert end.answer.notes[-1] == (
        "limited to kidney_left, kidney_right, as was asked; the dataset also has liver, spleen"
    )


def test_classes_that_were_not_asked_for_are_in_no_case(bench: Bench) -> None:
    breasts(bench.data)
    assert label_names(bench, bench.run(brief(requirement="benign against malignant (ignore normal)"))) == CLASSES[:2]


@pytest.mark.parametrize("names", [("LDGCB", "LF", "LH"), ("4A", "4B", "5")])
def test_classes_that_nobody_can_read_are_asked_about_where_the_request_names_a_finding(
    bench: Bench, names: tuple[str, ...]
) -> None:
    for number in range(36):
        noise(bench.data / names[number % 3] / f"{number:02d}.png", number)
    requirement = "does a lymphoma respond to treatment?"
    asked = bench.run(brief(requirement=requirement))
    assert (asked.tool, asked.answer.key, asked.answer.default) == ("ask_person", "classes", "yes")
    assert "about lymphoma" in asked.answer.text and ", ".join(names) in asked.answer.text
    for plain in ("tell the three groups apart", f"lymphoma: {names[0]}, {names[1]} or {names[2]}"):
        assert bench.run(brief(requirement=plain)).tool == "submit_dataset"
    assert bench.run(brief(requirement=requirement, answers={"classes": "yes"})).tool == "submit_dataset"
    with pytest.raises(GateFailed, match="name the column or folder"):
        bench.run(brief(requirement=requirement, answers={"classes": "no"}))


@pytest.mark.parametrize(
    ("requirement", "says"),
    [("only cysts", "nothing"), pytest.param("malignant only", "malignant alone", marks=pytest.mark.slow)],
)
def test_a_limit_that_leaves_too_little_is_a_question(bench: Bench, requirement: str, says: str) -> None:
    breasts(bench.data)
    end = bench.run(brief(requirement=requirement))
    assert (end.tool, end.answer.key, end.answer.default) == ("ask_person", "only", None)
    assert says in end.answer.text and end.answer.values == (*CLASSES, "all")
    again = bench.run(brief(requirement=requirement, answers={"only": "stones"}))
    assert (again.tool, again.answer.key) == ("ask_person", "only-2")
    answered = bench.run(brief(requirement=requirement, answers={"only": "stones", "only-2": "malignant, normal"}))
    assert label_names(bench, answered) == CLASSES[1:]
    assert bench.run(brief(requirement=requirement, answers={"only": "all"})).facts["coverage"]["cases"] == 36
