"""When the search asks a person, what it says where it finds nothing, and what it does on a part of the files."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from propose_files import mask_picture, mask_volume, picture, table, text, volume
from propose_worlds_classes import public_film_names, two_diagnoses
from propose_worlds_masks import two_raters

from shared.dataset.propose import explain, propose, sample
from shared.dataset.propose.__main__ import main
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.questions import with_questions


def diseases(root: Path, many: int = 24) -> None:
    """A column of diseases, one of sex, one of the hospital."""
    rows = []
    for number in range(many):
        picture(root / "img" / f"{number:04d}.png")
        rows.append(
            {
                "image": f"{number:04d}.png",
                "sex": "MF"[number % 2],
                "hospital": ("north", "south", "west")[number % 3],
                "disease": ("asthma", "healthy", "pneumonia", "tuberculosis")[number // 2 % 4],
            }
        )
    table(root / "cases.csv", rows)


def test_the_column_of_diseases_needs_no_question(tmp_path: Path) -> None:
    diseases(tmp_path)
    best = propose(tmp_path, "diagnosis")[0]
    assert best.key == "" and best.coverage.label_names == ("asthma", "healthy", "pneumonia", "tuberculosis")


def test_what_is_asked_for_decides(tmp_path: Path) -> None:
    diseases(tmp_path)
    assert propose(tmp_path, "diagnosis", target="the patient's sex", only=("M", "F"))[0].coverage.label_names == (
        "F",
        "M",
    )
    best = propose(tmp_path, "diagnosis", only=("pneumonia", "asthma"))[0]
    assert best.coverage.label_names == ("asthma", "pneumonia") and best.coverage.cases == 12
    gone = {reason: many for reason, many in best.coverage.left_out.items() if "was not asked for" in reason}
    assert sorted(gone.values()) == [6, 6] and any("'healthy'" in reason for reason in gone)


def test_a_class_that_is_not_there_is_said_and_not_invented(tmp_path: Path) -> None:
    diseases(tmp_path)
    best = propose(tmp_path, "diagnosis", only=("covid", "asthma"))[0]
    assert "covid" in best.says and len(best.coverage.label_names) == 4


def test_an_answer_settles_a_question(tmp_path: Path) -> None:
    two_raters(tmp_path)
    asked = [one for one in propose(tmp_path, "anomaly_detection") if one.key == "mask"]
    assert len(asked) == 2
    for one in asked:
        best = propose(tmp_path, "anomaly_detection", answers={"mask": one.choice})[0]
        assert best.key == "" and best.rules == one.rules


def test_a_word_of_the_request_that_one_alternative_has_settles_a_question(tmp_path: Path) -> None:
    two_raters(tmp_path)
    first, second = (one.choice for one in propose(tmp_path, "anomaly_detection") if one.key == "mask")
    best = propose(tmp_path, "anomaly_detection", target="lesions as expert 2 drew them")[0]
    assert "expert1" in first and best.key == "" and second in best.says
    assert propose(tmp_path, "anomaly_detection", target="lesions, ignore those of expert 2")[0].key == "mask"


def test_masks_by_two_observers_are_no_two_structures(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / "eyes" / f"Image_{number:02d}.jpg")
        for observer in ("1stHO", "2ndHO"):
            mask_picture(tmp_path / "eyes" / f"Image_{number:02d}_{observer}.png")
    found = propose(tmp_path, "organ_segmentation", target="segment the vessels")
    assert [one.key for one in found[:2]] == ["mask", "mask"] and len(found[0].coverage.label_names) == 1
    best = propose(tmp_path, "organ_segmentation", target="the vessels as drawn by the 2ndHO")[0]
    assert best.key == "" and "2ndHO" in best.says


def test_the_section_that_is_asked_for_needs_no_question(tmp_path: Path) -> None:
    rows = []
    for number in range(12):
        picture(tmp_path / "films" / f"{number:03d}.png")
        said = f"The heart is normal in size and the lungs are clear in film {number}."
        rows.append({"image": f"{number:03d}", "findings": said, "impression": f"No acute disease in film {number}."})
    table(tmp_path / "reports.csv", rows)
    best = propose(tmp_path, "report_generation", target="write the findings")[0]
    assert best.key == "" and [one["column"] for one in best.rules["text"]["sources"]] == ["findings"]


def test_equal_columns_are_asked_about_once_each(tmp_path: Path) -> None:
    two_diagnoses(tmp_path)
    choices = {one.choice for one in propose(tmp_path, "diagnosis") if one.key == "label"}
    assert choices == {"column pathology_label of labels.csv", "column radiologist_label of labels.csv"}


def test_two_columns_of_people_that_contradict_are_asked_about(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        picture(tmp_path / "img" / f"{number:04d}.png")
        rows.append(
            {"image": f"{number:04d}.png", "patient_id": f"A{number % 8}", "subject": f"S{number // 3}"}
            | {"label": "ab"[number % 2]}
        )
    table(tmp_path / "t.csv", rows)
    asked = [one for one in propose(tmp_path, "diagnosis") if one.key == "patient"]
    assert {one.choice for one in asked} == {"column patient_id of t.csv", "column subject of t.csv"}


def test_a_split_that_tears_patients_is_not_used_and_that_is_said(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        picture(tmp_path / "img" / f"{number:04d}.png")
        rows.append(
            {"image": f"{number:04d}.png", "patient_id": number // 2, "label": "ab"[number // 2 % 2]}
            | {"split": ("train", "test")[number % 2]}
        )
    table(tmp_path / "t.csv", rows)
    best = propose(tmp_path, "diagnosis")[0]
    assert best.coverage.patients == 12 and not best.coverage.splits and "split is not used" in best.says


def test_hints_name_the_values_of_masks(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / "images" / f"{number}.png")
        mask_picture(tmp_path / "labels" / f"{number}.png", (1, 2))
    best = propose(tmp_path, "organ_segmentation", hints={"1": "lung", "2": "heart"}, only=("heart",))[0]
    assert best.coverage.label_values == {"heart": 2}


def test_files_win_over_the_wish_for_dimensions(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(6):
            volume(tmp_path / name / f"{number}.nii.gz")
    assert propose(tmp_path, "diagnosis", dimensions=2)[0].coverage.dimensions == 3


@pytest.mark.parametrize("task", ["diagnosis", "organ_segmentation", "anomaly_detection", "report_generation"])
def test_pictures_alone_are_explained(task: str, tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / f"{number:03d}.png")
    text(tmp_path / "README.md", "pictures")
    assert propose(tmp_path, task) == []  # type: ignore[arg-type]
    said = explain(tmp_path, task)  # type: ignore[arg-type]
    assert "12 pictures" in said and ("Missing" in said or "Nothing was found" in said)


def test_numbers_in_a_form_of_its_own_are_called_not_supported(tmp_path: Path) -> None:
    rows = []
    for number in range(8):
        picture(tmp_path / f"{number:03d}.png")
        rows.append({"file_name": f"{number:03d}.png", "ellipses": [[9, 8, 3, 4, number]], "syms": ["Mass"]})
    (tmp_path / "train.json").write_text(json.dumps(rows))
    assert propose(tmp_path, "anomaly_detection") == []
    assert "not supported yet" in explain(tmp_path, "anomaly_detection")


def test_all_images_of_one_person_are_no_dataset(tmp_path: Path) -> None:
    for number in range(14):
        picture(tmp_path / "patient07" / f"slice_{number:03d}.png")
        mask_picture(tmp_path / "patient07_masks" / f"slice_{number:03d}.png")
    assert propose(tmp_path, "organ_segmentation") == []
    assert "one patient" in explain(tmp_path, "organ_segmentation")


def test_an_empty_folder_is_explained(tmp_path: Path) -> None:
    assert propose(tmp_path, "diagnosis") == [] and "No file" in explain(tmp_path, "diagnosis")


def test_a_part_of_the_files_leads_to_the_same_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diseases(tmp_path, 400)
    whole = propose(tmp_path, "diagnosis")[0]
    monkeypatch.setattr(sample, "LARGE", 100)
    monkeypatch.setattr(sample, "KEPT", 150)
    part = propose(tmp_path, "diagnosis")[0]
    assert part.rules == whole.rules and part.coverage == whole.coverage and part.coverage.cases == 400


def test_the_program_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public_film_names(tmp_path)
    assert main([str(tmp_path), "--task", "diagnosis", "--only", "Effusion,No Finding"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["proposals"][0]["coverage"]["patients"] == 12 and said["explain"] == ""
    assert main([str(tmp_path), "--task", "report_generation"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["proposals"] == [] and "Missing: reports" in said["explain"]


@dataclass(frozen=True)
class Scored:
    draft: Draft
    score: float = 1.0


def test_what_leaves_a_decision_open_is_no_choice_to_ask_for() -> None:
    plain = Draft("diagnosis", 2, ())
    chest, head = (plain.decided("image", f"series {name}") for name in ("chest", "head"))
    found = with_questions([Scored(chest), Scored(plain), Scored(head)], {})
    assert [choice for _, _, choice in found] == ["series chest", "series head", ""]
    assert [key for _, key, _ in with_questions([Scored(chest), Scored(plain)], {})] == ["", ""]


def test_a_choice_is_offered_once_with_the_better_of_its_drafts() -> None:
    a, b = (Draft("diagnosis", 2, ()).decided("text", name) for name in ("findings", "impression"))
    found = with_questions([Scored(a, 1.0), Scored(b, 0.99), Scored(b, 0.98)], {})
    assert [(one.score, choice) for one, _, choice in found] == [(1.0, "findings"), (0.99, "impression"), (0.98, "")]


def test_masks_are_told_where_classes_were_asked_for(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / "images" / f"{number}.png")
        mask_picture(tmp_path / "labels" / f"{number}.png")
    said = explain(tmp_path, "diagnosis")
    assert "Missing: classes" in said and "a request to outline what they mark" in said


def test_a_request_for_masks_does_not_mean_the_folder_called_masks(tmp_path: Path) -> None:
    for number in range(8):
        volume(tmp_path / "imagesTr" / f"{number:03d}.nii.gz")
        mask_volume(tmp_path / "labelsTr" / f"{number:03d}.nii.gz", (1, 2, 3, 4, 5))
        mask_volume(tmp_path / "masksTr" / f"{number:03d}.nii.gz", (1,))
    for target in ("we need masks of the hippocampus and the cortex", "parcellation of the brain"):
        (best, *_) = propose(tmp_path, "organ_segmentation", target=target)
        assert "labelsTr" in str(best.rules["masks"]) and "masksTr" not in str(best.rules["masks"]), target
