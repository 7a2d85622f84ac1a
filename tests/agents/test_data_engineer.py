"""The Data Engineer's expert over real folders, with the real tools and probes: rules, questions and honest ends."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
import yaml
from PIL import Image
from pydantic import JsonValue

from services.data_engineer.check import unread
from shared.contracts.rules import Rules
from shared.contracts.tools import ToolResult
from shared.dataset.rules.resolve import resolve
from tests.agents.data_engineer_bench import Bench, brief

RANDOM = np.random.default_rng(0)


def picture(path: Path, side: int = 24) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(0, 255, (side, side), dtype=np.uint8)).save(path)


def table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def films(bench: Bench, columns: Callable[[int], dict[str, object]], count: int = 24) -> None:
    for number in range(count):
        picture(bench.data / "films" / f"{number:03d}.png")
    table(
        bench.data / "labels.csv",
        [{"image": f"{n:03d}.png", "patient": f"P{n // 2}"} | columns(n) for n in range(count)],
    )


def test_rules_are_found_tried_and_submitted(bench: Bench) -> None:
    films(bench, lambda n: {"diagnosis": ("benign", "malignant", "normal")[n % 3]})
    end = bench.run(brief())
    assert end.tool == "submit_dataset" and end.refused == []
    rules = Rules.model_validate(yaml.safe_load((bench.work / "dataset.yaml").read_text()))
    found = resolve(rules, bench.data)
    assert len(found.cases) == 24 and found.coverage.patients == 12
    assert found.coverage.label_names == ("benign", "malignant", "normal")
    assert len(end.calls) <= 4


def test_what_rules_tried_beside_a_submission_tell_is_read_first(bench: Bench) -> None:
    films(bench, lambda n: {"diagnosis": ("ill", "well", "unsure")[n % 3]})

    def covered(**classes: str) -> dict[str, JsonValue]:
        label = {"source": {"table": "t", "column": "diagnosis"}, "classes": classes}
        rules = Rules(task="diagnosis", dimensions=2, images=[{"files": "films/{n}.png"}], label=label,
                      tables={"t": {"file": "labels.csv", "key": "image"}})  # fmt: skip
        return resolve(rules, bench.data).coverage.model_dump(mode="json")

    def result(tool: str, ok: bool = True, **data: JsonValue) -> ToolResult:
        return ToolResult(call_id="c", tool=tool, ok=ok, summary="told", data=data)

    part, whole = covered(ill="ill", well="well"), covered(ill="ill", well="well", unsure="unsure")
    tried = result("try_rules", coverage=part)
    (told,) = unread({"coverage": part}, [tried], [])
    assert "leaves out 8 files, rows or cases" in told
    proposal = {"rules": {}, "coverage": part, "share": 1, "score": 1, "says": ""}
    for before in (tried, result("propose_rules", proposals=[proposal])):
        assert unread({"coverage": part}, [tried], [before]) == [], "told before"
    more = part | {"left_out": {why: 2 * many for why, many in part["left_out"].items()} | {"another reason": 3}}
    assert unread({"coverage": part}, [tried], [result("try_rules", coverage=more)]) == [], (
        "fewer than were told before"
    )
    assert unread({"coverage": more}, [result("try_rules", coverage=more)], [tried]), "more, for another reason, too"
    assert unread({"coverage": whole}, [result("try_rules", coverage=whole)], []) == [], "nothing is lost"
    assert "other rules" in unread({"coverage": whole}, [tried], [tried])[0]
    assert unread({"coverage": whole}, [tried, result("try_rules", coverage=whole)], [tried]) == [], "one of them is it"
    assert "failed" in unread({"coverage": whole}, [result("try_rules", ok=False)], [])[0]


def test_two_label_columns_are_a_question_and_the_answer_decides(bench: Bench) -> None:
    """Two readers, who agree mostly: nothing in the files says whom to believe."""
    films(bench, lambda n: {"reader_a": ("ill", "well")[n % 2], "reader_b": ("ill", "well")[(n + (n % 8 == 0)) % 2]})
    end = bench.run(brief())
    assert end.tool == "ask_person"
    options = end.answer.values
    assert len(options) == 2 and {"reader_a", "reader_b"} == {
        name for name in ("reader_a", "reader_b") if name in str(options)
    }
    chosen = next(option for option in options if "reader_b" in option)
    (again := bench.folder / "again").mkdir()
    bench.work = again
    bench.env["M3_WORKSPACE"] = str(again)
    end = bench.run(brief(answers={end.answer.key: chosen}))
    assert end.tool == "submit_dataset"
    assert "reader_b" in (again / "dataset.yaml").read_text() and "reader_a" not in (again / "dataset.yaml").read_text()


def test_classes_of_a_column_that_is_not_called_so_are_never_guessed(bench: Bench) -> None:
    """Facts in files that two people read the images are no answer to the request."""
    films(bench, lambda n: {"reader": ("Dr. Sommer", "Dr. Yildiz")[n % 2]})
    asked = bench.run(brief(requirement="is the macula healthy, or which disease is it?"))
    assert (asked.tool, asked.answer.key, asked.answer.default) == ("ask_person", "classes", "no")
    films(bench, lambda n: {"pictures": n % 2 + 1})
    counted = bench.run(brief(requirement="fracture or not", labels=("fracture", "no fracture")))
    assert (counted.tool, counted.answer.key, counted.answer.default) == ("ask_person", "classes", "no")
    films(bench, lambda n: {"diagnosis": ("DR1", "DR2")[n % 2]})
    assert bench.run(brief(requirement="tell the two groups apart")).tool == "submit_dataset"


def no_images(data: Path) -> None:
    (data / "readme.txt").write_text("The images are sent on request.")


def nothing_readable(data: Path) -> None:
    for number in range(8):
        picture(data / ("a", "b")[number % 2] / f"{number}.png")
        path = data / ("a", "b")[number % 2] / f"{number}.png"
        path.write_bytes(path.read_bytes()[:60])


def no_targets(data: Path) -> None:
    for number in range(12):
        picture(data / "images" / f"{number:03d}.png")


def not_supported(data: Path) -> None:
    for number in range(6):
        (data / f"clip{number}.avi").write_bytes(b"RIFF\x00\x00\x00\x00AVI LIST" + bytes(2000))


def one_patient(data: Path) -> None:
    for number in range(12):
        picture(data / ("cyst", "stone")[number % 2] / "patient7" / f"{number:03d}.png")


ENDS = [no_images, nothing_readable, no_targets, not_supported, one_patient]


@pytest.mark.parametrize("make", ENDS, ids=lambda make: make.__name__)
def test_an_honest_end_is_the_claim_that_holds(bench: Bench, make: Callable[[Path], None]) -> None:
    make(bench.data)
    end = bench.run(brief(profile=bench.profile()))
    assert (end.tool, end.answer.claim) == ("declare_infeasible", make.__name__), end.refused


def test_a_claim_that_is_false_is_not_confirmed(bench: Bench) -> None:
    films(bench, lambda n: {"diagnosis": ("benign", "malignant")[n % 2]})
    for claim in ("no_images", "nothing_readable", "no_targets", "not_supported", "one_class", "one_patient"):
        facts = bench.probe("verify_infeasible.py", "--claim", claim, "--task", "diagnosis")
        assert facts["holds"] is False and facts["errors"], claim


def test_cases_that_come_back_are_left_out_by_their_ids(bench: Bench) -> None:
    films(bench, lambda n: {"diagnosis": ("benign", "malignant")[n % 2]})
    bench.run(brief())
    end = bench.run(brief(returned={"samples": {"case_0123456789abcdef": "holds NaN"}}))
    assert end.tool == "submit_dataset"
    assert yaml.safe_load((bench.work / "dataset.yaml").read_text())["leave_out"] == {
        "case_0123456789abcdef": "holds NaN"
    }


def test_files_say_that_it_is_3d_whatever_the_plan_says(bench: Bench) -> None:
    for number in range(10):
        for folder in ("images", "labels"):
            path = bench.data / folder / f"scan{number:02d}.nii.gz"
            path.parent.mkdir(exist_ok=True)
            array = RANDOM.normal(0, 1, (12, 10, 8)).astype(np.float32)
            values = array if folder == "images" else (array > 1).astype(np.uint8)
            nibabel.save(nibabel.Nifti1Image(values, np.diag([1.0, 1.0, 2.0, 1.0])), path)
    end = bench.run(brief(task="organ_segmentation", dimensions=2, metric="dice"))
    assert end.tool == "submit_dataset", end.refused
    coverage = end.facts["coverage"]
    assert coverage["dimensions"] == 3 and coverage["cases"] == 10, json.dumps(coverage)[:400]
