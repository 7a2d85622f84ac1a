"""Tables and page from results that are written down here; the file that they stand in."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from m3bench import page, results, tables
from m3bench.results import Part, Result, Setting
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
        "patients": 12, "no_image": 0.5, "greys": 0.55, "network": 0.8, "seconds": 60.0, "commit": "c", "machine": "m",
        "at": datetime(2026, 11, 23, tzinfo=UTC),
        "parts": {
            role: Part(done=scored, turns=2, actions=4, iterations=0 if scored else 1, tokens=1000) for role in ROLES
        },
    }  # fmt: skip
    return Result.model_validate({"setting": setting, "kind": kind, "level": level, **fields, **more})


def test_the_tables_count_levels_actions_iterations_and_tokens_by_core_task_and_role() -> None:
    found = [
        *(result("CC-CCII", number, level) for number, level in enumerate(("useful", "useful", "valid", "none"))),
        result("BTCV", 0, "useful", "organ_segmentation", core="strong"),
        result("CC-CCII", 0, "ran", without=("debugging",)),
        result("unserved 1", 0, "none", None, right=True, end="needs_answer"),
        result("unserved 2", 0, "useful", None, right=False),
    ]
    told = tables.told(found)
    rows = {line.split()[1]: line for line in told.splitlines() if line.startswith(("Diag.  CC", "Seg.   BT"))}
    assert "3/3/2 of 4" in rows["CC-CCII"] and "1/0/0 of 1" in rows["CC-CCII"] and "1/1/1 of 1" in rows["BTCV"]
    assert "50 % [15, 85]" in told  # Wilson for 2 of 4, as in any table of it
    two = told[told.index("Table 2") :].splitlines()
    mine = next(line for line in two if line.startswith("playbook  "))
    assert "2(4)" in mine and "16.0(1.0)" in mine and "4k" in mine
    assert any(line.startswith("playbook w/o debugging") for line in two)
    three = told[told.index("Table 3. Roles: playbook\n") :].splitlines()
    assert three[2].split()[:5] == ["Diag.", "3/4", "4.0", "0.2", "1.0k"]
    assert "CC-CCII round 3 playbook: crashed, none, no score" in told
    assert "50 % [9, 91] asked or said so" in told and "WRONG" in told


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
