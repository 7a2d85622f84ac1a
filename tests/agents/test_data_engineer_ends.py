"""Data that support no index: claims that hold or are refused, sentences for all else; work that is handed back."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from data_engineer_bench import Bench, End, brief, picture, table, truncate, volume

from services.data_engineer.role import ROLE
from shared.contracts.runs import Infeasibility
from shared.errors import UserError
from shared.trainkit.handback import join_patients
from shared.trainkit.index import read_index, write_index
from shared.trainkit.split import split_by_patient

SEGMENT = {"task": "organ_segmentation", "dimensions": 3, "metric": "dice", "card": "3D CT, images and masks"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def classes(bench: Bench, *labels: str, patients: int = 4) -> None:
    for label in labels:
        for number in range(patients):
            picture(bench.data / label / f"p{number}{label[0]}" / "1.png")


def cases(bench: Bench, count: int) -> None:
    for number in range(count):
        volume(bench.data / f"images/{number:03}.nii.gz")
        volume(bench.data / f"masks/{number:03}.nii.gz", (1, 2))


def ends(bench: Bench, claim: str, **plan: Any) -> End:
    end = bench.run(brief(**plan))
    assert (end.tool, end.answer.claim, end.refused) == ("declare_infeasible", claim, [])
    assert end.answer.evidence["tried"] and end.answer.reason
    return end


def test_no_images(bench: Bench) -> None:
    (bench.data / "readme.txt").write_text("nothing here")
    (bench.data / "._1.png").write_bytes(b"\0\5\26\7")
    assert "no images" in ends(bench, "no_images").answer.reason
    ends(bench, "no_images", **SEGMENT)


def test_nothing_readable(bench: Bench) -> None:
    classes(bench, "ill", "well")
    for path in bench.data.rglob("*.png"):
        path.write_bytes(path.read_bytes()[:60])
    assert "none of the 8 image files" in ends(bench, "nothing_readable").answer.reason


def test_no_labels(bench: Bench) -> None:
    for number in range(6):
        picture(bench.data / f"images/{number}.png")
    truncate(bench.data / "images/3.png")
    ends(bench, "no_labels")
    accounts = json.loads((bench.work / "accounts.json").read_text())
    assert len(accounts["rows"]) == 5 and list(accounts["excluded"].values()) == [["images/3.png"]]


def test_no_masks(bench: Bench) -> None:
    for number in range(4):
        volume(bench.data / f"scans/{number:03}.nii.gz")
    ends(bench, "no_labels", **SEGMENT)


def test_one_class_in_folders_and_in_a_table(bench: Bench) -> None:
    classes(bench, "ill", patients=6)
    end = ends(bench, "one_class", card="CT of patients, the folder ill holds one folder a patient")
    assert "'ill'" in end.answer.reason
    shutil.rmtree(bench.data)
    rows = [{"file": f"{number}.png", "group": "ill"} for number in range(4)]
    for row in rows:
        picture(bench.data / row["file"])
    table(bench.data / "list.csv", rows)
    ends(bench, "one_class", card="columns 'file' and 'group' (which is the class label)")


def test_one_patient(bench: Bench) -> None:
    for label in ("ill", "well"):
        for number in range(4):
            picture(bench.data / label / "p1" / f"{label}{number}.png")
    ends(bench, "one_patient")


def test_one_patient_of_a_segmentation(bench: Bench) -> None:
    cases(bench, 1)
    ends(bench, "one_patient", **SEGMENT)


@pytest.mark.parametrize(
    ("claim", "rows", "said"),
    [
        ("no_images", None, "the dataset holds 8 images"),
        ("nothing_readable", None, "images can be opened"),
        ("no_labels", "none", "the folders ill, well stand at one level and could be classes"),
        ("one_class", "one label", "the folders ill, well stand at one level and could be classes"),
        ("one_class", "left out", "4 images that were left out can be opened"),
        ("one_class", "half", "4 images are not accounted for"),
        ("one_patient", "one patient", "nothing in the dataset says that"),
        ("one_patient", None, "this claim needs accounts"),
    ],
)
def test_a_claim_that_does_not_hold_is_refused(bench: Bench, claim: Any, rows: str | None, said: str) -> None:
    classes(bench, "ill", "well")
    files = sorted(path.relative_to(bench.data).as_posix() for path in bench.data.rglob("*.png"))
    accounts: dict[str, Any] = {"rows": [], "excluded": {}}
    for file in files:
        label, patient, _ = file.split("/")
        if label == "well" and rows in ("left out", "half"):
            accounts["excluded"].setdefault("truncated file", []).extend([file] if rows == "left out" else [])
            continue
        label = {"none": None, "one label": "ill", "one patient": label}.get(str(rows), label)
        patient = "p0" if rows == "one patient" else patient
        accounts["rows"].append({"files": [file], "patient": patient, "label": label, "target": None})
    (bench.work / "accounts.json").write_text(json.dumps(accounts))
    finding = Infeasibility(claim=claim, reason="r", evidence={"seen": 1}, accounts="accounts.json" if rows else None)
    submission = ROLE.submission("declare_infeasible")
    assert submission is not None
    probe = submission.probe(finding, brief())
    assert probe is not None
    problems = submission.check(finding, bench.probe(f"{probe.name}.py", *probe.arguments), brief())
    assert any(said in problem for problem in problems), problems


def test_a_table_or_a_mask_speaks_against_no_labels(bench: Bench) -> None:
    cases(bench, 3)
    table(bench.data / "list.csv", [{"image": f"{n:03}.nii.gz", "grade": n % 2} for n in range(3)])
    rows = [
        {"files": [path.relative_to(bench.data).as_posix()], "patient": path.name, "label": None, "target": None}
        for path in sorted(bench.data.rglob("*.nii.gz"))
    ]
    (bench.work / "a.json").write_text(json.dumps({"rows": rows, "excluded": {}}))
    (bench.data / "train.json").write_text(json.dumps({f"images/{n:03}.nii.gz": [str(n % 2)] for n in range(3)}))
    for task, said in (
        ("diagnosis", "column 'grade' of list.csv"),
        ("diagnosis", "column 'value' of train.json"),
        ("organ_segmentation", "3 files look like masks"),
    ):
        facts = bench.probe("verify_infeasible.py", "--claim", "no_labels", "--task", task, "--accounts", "a.json")
        assert facts["holds"] is False and any(said in error for error in facts["errors"]), facts
    for path in ("../data/list.csv", "gone.json", "/etc/passwd"):
        facts = bench.probe("verify_infeasible.py", "--claim", "no_labels", "--task", "diagnosis", "--accounts", path)
        assert facts["errors"] == [f"{path} is no file of the workspace"]


def test_what_is_no_claim_ends_in_a_sentence(bench: Bench) -> None:
    for number in range(3):
        picture(bench.data / "images" / f"{number}.png")
    table(bench.data / "list.csv", [{"file": f"gone{n}.png", "label": "ab"[n % 2]} for n in range(6)])
    with pytest.raises(UserError, match=r"no readable image has a label.*6 x listed file that does not exist.*gone0"):
        bench.run(brief(card="columns 'file' and 'label' (which is the class label)"))


def test_masks_that_fit_no_image_end_in_a_sentence(bench: Bench) -> None:
    cases(bench, 3)
    for number in range(3):
        volume(bench.data / f"masks/{number:03}.nii.gz", (1,), shape=(5, 5, 5))
    with pytest.raises(UserError, match=r"no pair of image and mask can be used.*another grid.*resample.*5x5x5"):
        bench.run(brief(**SEGMENT))


def test_samples_that_are_handed_back_are_left_out_and_nothing_else_moves(bench: Bench) -> None:
    cases(bench, 10)
    bench.run(brief(**SEGMENT))
    before = {row["sample_id"]: row["split"] for row in bench.rows()}
    bad = next(name for name, split in before.items() if split == "train")
    end = bench.run(brief({"samples": {bad: "NaN voxels", "unknown": "?"}}, **SEGMENT))
    assert end.tool == "submit_dataset"
    after = {row["sample_id"]: row["split"] for row in bench.rows()}
    assert after == {name: split for name, split in before.items() if name != bad}
    assert bench.meta()["excluded"] == {"handed back: NaN voxels": [bad]}
    assert (
        "handed back: NaN voxels" in str(end.answer.handoff.oddities) and "structures from" in end.answer.handoff.layout
    )
    kept = next(name for name, split in after.items() if split == "train")
    tested = next(name for name, split in after.items() if split == "test")
    leak = {
        "gates": {"no_same_content": "1 pair"},
        "leakage": {"checks": {}, "pairs": [["same_content", kept, tested]]},
    }
    bench.run(brief(leak, **SEGMENT))
    last = {row["sample_id"]: row["split"] for row in bench.rows()}
    assert last == {name: split for name, split in after.items() if name != kept}
    assert bench.meta()["excluded_counts"] == {
        "handed back: NaN voxels": 1,
        f"handed back: same content as {tested} on another side of the split": 1,
    }


def test_patients_who_show_the_same_image_are_kept_on_one_side(bench: Bench) -> None:
    cases(bench, 10)
    bench.run(brief(**SEGMENT))
    before = {row["sample_id"]: row["split"] for row in bench.rows()}
    trained = [name for name, split in before.items() if split == "train"]
    tested = next(name for name, split in before.items() if split == "test")
    merge = [[trained[0], tested], [trained[0], trained[1]]]
    leakage = {"checks": {"near_duplicate": 1}, "pairs": [["near_duplicate", trained[0], tested]]}
    end = bench.run(brief({"leakage": leakage, "merge": merge}, **SEGMENT))
    assert end.tool == "submit_dataset"
    after = {row["sample_id"]: row["split"] for row in bench.rows()}
    assert after.keys() == before.keys() and set(after.values()) == {"train", "val", "test"}
    assert len({after[name] for name in (trained[0], trained[1], tested)}) == 1
    assert "2 pairs of patients who show the same image" in bench.meta()["grouping_from"]


def test_where_nothing_is_left_to_divide_the_split_stays_and_that_is_said(bench: Bench) -> None:
    cases(bench, 10)
    bench.run(brief(**SEGMENT))
    before = {row["sample_id"]: row["split"] for row in bench.rows()}
    end = bench.run(brief({"merge": [[one, other] for one in before for other in before]}, **SEGMENT))
    assert end.tool == "submit_dataset"
    assert {row["sample_id"]: row["split"] for row in bench.rows()} == before
    told = json.loads((bench.work / "report.json").read_text())
    (said,) = [text for text in told["warnings"] if "stay on two sides" in text]
    assert "patient" in said


def test_a_class_is_not_lost_by_joining_patients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # as in a workspace
    rows = [
        {"sample_id": f"{label}{n}", "patient": f"{label}{n}", "label": label, "files": [f"{label}{n}.png"]}
        for label in "ab"
        for n in range(10)
    ]
    split = split_by_patient(rows, seed=1)
    meta = {"task": "diagnosis", "dimensions": 2, "label_names": ["a", "b"], "grouping": "inferred"}
    write_index(tmp_path, split, meta | {"grouping_from": "files", "split_from": "made"})
    told = {"found": 20, "layout": "", "warnings": [], "oddities": []}
    (tmp_path / "report.json").write_text(json.dumps(told))
    join_patients([("a0", f"a{n}") for n in range(1, 10)], tmp_path, seed=1)
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "a has no sample in test" in said["warnings"][0] or "a has no sample in train" in said["warnings"][0]
    assert [row["split"] for row in read_index(tmp_path / "index.jsonl")] == [row["split"] for row in split]


def test_work_handed_back_without_a_way_out(bench: Bench) -> None:
    with pytest.raises(UserError, match=r"model_trainer handed the dataset back: unusable samples. No sample is named"):
        bench.run(brief({"gates": {"test_patients": "1 patient"}}))
    with pytest.raises(UserError, match="the earlier index is gone"):
        bench.run(brief({"samples": {"a": "NaN"}}))
    cases(bench, 4)
    bench.run(brief(**SEGMENT))
    samples = {row["sample_id"]: "NaN" for row in bench.rows() if row["split"] == "test"}
    with pytest.raises(UserError, match="all samples of test were handed back"):
        bench.run(brief({"samples": samples}, **SEGMENT))
