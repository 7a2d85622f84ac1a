import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from resolve_files import picture, text

from shared.contracts.cases import CaseSpec, Coverage
from shared.contracts.rules import Rules
from shared.dataset.rules.resolve import RulesError, main, resolve

RULES: dict[str, Any] = {
    "task": "diagnosis", "dimensions": 2, "images": [{"files": "{class}/*.png"}],
    "label": {"source": {"field": "class"}},
}  # fmt: skip


def run(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "shared.dataset.rules.resolve", *words], cwd=folder, capture_output=True, text=True,
        timeout=60, env={**os.environ, "PYTHONPATH": str(Path.cwd()), **environment},
    )  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a/1.png", "b/2.png", "b/3.png"):
        picture(tmp_path / "data" / name)
    (tmp_path / "work").mkdir()
    return tmp_path


def test_the_program_writes_cases_and_coverage(data: Path) -> None:
    text(data / "work/rules.yaml", yaml.safe_dump(RULES))
    done = run(data / "work", "rules.yaml", M3_DATA=str(data / "data"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    cases = [CaseSpec.model_validate_json(line) for line in (data / "work/specs.jsonl").read_text().splitlines()]
    coverage = Coverage.model_validate_json((data / "work/coverage.json").read_text())
    assert coverage == Coverage.model_validate(told["coverage"]) and coverage.cases == len(cases) == 3
    assert told["left_out"] == {}
    other = run(data, "work/rules.yaml", "--root", "data", "--out", "work/other.jsonl")
    assert (
        other.returncode == 0 and (data / "work/other.jsonl").read_bytes() == (data / "work/specs.jsonl").read_bytes()
    )


@pytest.mark.parametrize("rules", [RULES | {"task": "x"}, RULES | {"images": [{"files": "{c"}]}, "a: [", "", None])
def test_wrong_rules_end_the_program_in_words(data: Path, rules: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if rules is not None:
        text(data / "work/rules.yaml", rules if isinstance(rules, str) else yaml.safe_dump(rules))
    assert main([str(data / "work/rules.yaml"), "--root", str(data / "data")]) == 2
    said = capsys.readouterr().err
    assert "rules.yaml" in said or "{c" in said


def listed(root: Path, *lines: str) -> Any:
    text(root / "work/cases.jsonl", "\n".join(lines))
    rules = Rules.model_validate({"task": "diagnosis", "dimensions": 2, "listed": "cases.jsonl"})
    return resolve(rules, root / "data", workspace=root / "work")


def line(key: str, file: str, label: str = "a") -> str:
    case = {"key": key, "patient": key, "label": label, "images": [[{"files": [file]}]]}
    return json.dumps(case)


def test_a_list_of_cases_is_taken_and_checked(data: Path) -> None:
    done = listed(data, line("10", "b/3.png", "b"), line("2", "a/1.png"), line("3", "a/gone.png"), "")
    assert [case.key for case in done.cases] == ["2", "10"] and done.coverage.counts == {"a": 1, "b": 1}
    assert done.coverage.grouping == "inferred" and list(done.left_out.values()) == [["3: a/gone.png"]]
    twice = listed(data, line("1", "b/3.png", "b"), line("2", "b/3.png"))
    assert twice.coverage.conflicts == ("b/3.png is in several cases: 1, 2",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{}"], "line 1 is no case: key: Field required"),
        (["x"], "line 1 is no case"),
        ([line("1", "a/1.png"), line("1", "b/2.png")], "stands twice"),
        ([], "lists no case"),
    ],
)
def test_a_wrong_list_is_told(data: Path, lines: list[str], said: str) -> None:
    with pytest.raises(RulesError, match=said):
        listed(data, *lines)


def test_no_file_outside_of_dataset_or_workspace_is_taken(data: Path) -> None:
    text(data / "secret.png", "x")
    done = listed(data, line("1", "../secret.png"), line("2", str(data / "secret.png")), line("3", "a/1.png"))
    assert [case.key for case in done.cases] == ["3"]
    text(data / "cases.jsonl", line("1", "a/1.png"))
    rules = Rules.model_validate({"task": "diagnosis", "dimensions": 2, "listed": "../cases.jsonl"})
    with pytest.raises(RulesError, match="no file of the workspace"):
        resolve(rules, data / "data", workspace=data / "data")
    with pytest.raises(RulesError, match="none here"):
        resolve(rules, data / "data")
