"""Tables and page from results that are written down here; the file that they stand in."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from m3bench import page, results, tables
from m3bench.results import Part, Result, Setting
from m3bench.runs import answer_to, place_data, take_out
from m3bench.tasks import find, lacking
from shared.contracts.questions import Option, Question
from shared.errors import UserError

ROLES = ("task_manager", "data_engineer", "module_architect", "model_trainer")


def result(task: str, number: int, level: str, kind: str | None = "diagnosis", **more: Any) -> Result:
    setting = Setting(
        task=task, core=more.pop("core", "playbook"), round=number, size="tiny", layout="paper", train_seconds=60,
        without=more.pop("without", ()),
    )  # fmt: skip
    scored = level != "none"
    fields = {
        "request": "r", "right": True, "end": "succeeded" if scored else "crashed", "metric": "auc_macro",
        "value": 0.9 if scored else None, "low": 0.8 if scored else None, "high": 1.0 if scored else None,
        "patients": 12, "reached": 0.9 if scored else None, "floor": 0.85, "no_image": 0.5,
         "greys": 0.55, "network": 0.8, "seconds": 60.0, "commit": "c", "machine": "m",
        "at": datetime(2026, 11, 23, tzinfo=UTC),
        "parts": {
            role: Part(done=scored, turns=2, actions=4, iterations=1 if scored else 2, tokens=1000) for role in ROLES
        },
    }  # fmt: skip
    return Result.model_validate({"setting": setting, "kind": kind, "level": level, **fields, **more})


def test_the_tables_count_levels_actions_iterations_and_tokens_by_core_task_and_role() -> None:
    found = [
        result("CC-CCII", 0, "useful", reached=0.8),
        *(result("CC-CCII", number, level) for number, level in enumerate(("useful", "valid", "none"), 1)),
        result("BTCV", 0, "useful", "organ_segmentation", core="strong"),
        result("CC-CCII", 0, "ran", without=("debugging",)),
        result("unserved 1", 0, "none", None, right=True, end="needs_answer"),
        result("unserved 2", 0, "useful", None, right=False),
        result("lacking BTCV", 0, "none", None, end="infeasible", reason="no masks are there"),
    ]
    told = tables.told(found)
    rows = {line.split()[1]: line for line in told.splitlines() if line.startswith(("Diag.  CC", "Seg.   BT"))}
    assert "3/3/2/2 of 4" in rows["CC-CCII"] and "1/0/0/0 of 1" in rows["CC-CCII"] and "1/1/1/1 of 1" in rows["BTCV"]
    assert "50 % [15, 85]" in told  # Wilson for 2 of 4, as in any table of it
    two = told[told.index("Table 2") :].splitlines()
    mine = next(line for line in two if line.startswith("playbook  "))
    assert "2(4)" in mine and "16.0(2.0)" in mine and "4k" in mine
    assert any(line.startswith("playbook w/o debugging") for line in two)
    three = told[told.index("Table 3. Roles: playbook\n") :].splitlines()
    assert three[2].split()[:5] == ["Diag.", "3/4", "4.0", "1.2", "1.0k"]
    assert "CC-CCII round 3 playbook: crashed, none, no score" in told
    assert "50 % [9, 91] asked or said so" in told and "WRONG" in told
    assert "lacks what it is asked for" in told and "no masks are there" in told


@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_what_a_dataset_lacks_is_taken_out_of_any_layout(layout: str, tmp_path: Path) -> None:
    for one in lacking():
        if one.task in ("BTCV", "ChestX-Det10", "CT-Kidney", "KneeMRI"):
            folder = tmp_path / one.task
            place_data(find(one.task), folder, "tiny", layout, 0)
            before = {path for path in folder.rglob("*") if path.is_file()}
            take_out(folder, one.files)
            left = {path for path in folder.rglob("*") if path.is_file()}
            assert left < before and any(path.suffix in (".gz", ".png", ".jpg", ".pck") for path in left)
    with pytest.raises(ValueError, match=r"has no metadata.csv"):
        take_out(tmp_path / "KneeMRI", ("metadata.csv",))


def test_unlike_experiments_stand_apart_and_what_is_not_known_is_not_zero() -> None:
    export = result("BTCV", 0, "valid", "organ_segmentation", core="an editor", parts={})
    other = result("BTCV", 0, "useful", "organ_segmentation", right=False, dataset="chaos")
    small = other.model_copy(update={"setting": other.setting.model_copy(update={"size": "small"}), "right": True})
    told = tables.told([export, other, small])
    two = told[told.index("Table 2") :].splitlines()[2:5]
    assert two[0].split()[:3] == ["an", "editor", "(tiny)"] and "1(1)" in two[0] and "-(-)" in two[0]
    assert "playbook (tiny)" in two[1] and "0(1)" in two[1], "another dataset than the one that is meant"
    assert "playbook (small)" in two[2] and "1(1)" in two[2]
    assert "Roles: an editor" not in told and "1 wrong, of 2 runs" in told


def test_a_person_says_what_is_meant_and_grants_no_more_than_the_budget() -> None:
    masks = [
        Option(value=f"{name}/{{n}}.nii.gz") for name in ("Lung_Mask", "Lung_and_Infection_Mask", "Infection_Mask")
    ]
    question = Question(key="mask", text="which?", options=masks)
    assert answer_to(question, ("COVID-19 infection",)) == "Infection_Mask/{n}.nii.gz"
    assert answer_to(question, ()) == "Lung_Mask/{n}.nii.gz"


def test_the_page_shows_each_run_and_escapes_what_it_is_told() -> None:
    html = page.page(
        [
            result("CC-CCII", 0, "valid", reason="<b>why</b>", failed_gates=("blank",)),
            result("BTCV", 1, "none", "organ_segmentation"),
        ]
    )
    assert "<b>why" not in html and "round 0: valid, auc_macro 0.900 [0.800, 1.000]" in html and "crashed" in html
    assert "http" not in html.replace("http-equiv", "")


def test_results_are_added_whole_and_another_file_is_refused(tmp_path: Path) -> None:
    path, one, two = tmp_path / "results.jsonl", result("CC-CCII", 0, "useful"), result("CC-CCII", 1, "valid")
    assert results.read(path) == []
    results.append(path, one)
    results.append(path, two)
    assert results.read(path) == [one, two]
    assert [found.name for found in tmp_path.iterdir()] == ["results.jsonl"]
    path.write_text(path.read_text() + "other\n")
    with pytest.raises(UserError, match="line 3: no result of m3bench run"):
        results.read(path)
