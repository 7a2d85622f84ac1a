"""An index in which several labels may hold of a sample: what is written, what is refused, what the probes say."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shared
from shared.contracts.data import IndexRow
from shared.trainkit.checks import label_problems
from shared.trainkit.index import IndexInvalid, read_index, write_index
from shared.trainkit.split import split_by_patient

ROOT = Path(shared.__file__).parent.parent
PROBES = ROOT / "services/tool_runner/probes"
NAMES = ["effusion", "mass", "hernia"]
META: dict[str, Any] = {
    "task": "diagnosis",
    "dimensions": 2,
    "label_names": NAMES,
    "grouping": "stated",
    "grouping_from": "a column",
    "split_from": "made",
}
HELD: list[list[str]] = [["effusion"], [], ["effusion", "mass"], ["mass"], ["hernia", "mass"], []]


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """30 patients with a picture each, below data/."""
    random = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    found = []
    for number in range(30):
        Image.fromarray(random.integers(0, 200, (20, 24), dtype=np.uint8)).save(tmp_path / f"data/{number}.png")
        row = {"sample_id": f"s{number}", "patient": f"p{number}", "label": list(HELD[number % 6])}
        found.append({**row, "files": [f"{number}.png"], "attributes": {"kvp": 100 + number % 3}})
    return [dict(row) for row in split_by_patient(found)]


def run(name: str, folder: Path, data: Path, *options: str) -> dict[str, Any]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "M3_DATA": str(data), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROBES / name), *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def verify(tmp_path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the probe says of rows that were written by hand: write_index would refuse some of the faults."""
    (tmp_path / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "index_meta.json").write_text(json.dumps(META))
    return run("verify_index.py", tmp_path, tmp_path / "data")


def side(rows: list[dict[str, Any]], split: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["split"] == split]


def test_it_is_written_read_and_exported(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    write_index(tmp_path / "out", rows, META)
    assert [row["label"] for row in read_index(tmp_path / "out/index.jsonl")] == [row["label"] for row in rows]
    lines = (tmp_path / "out/index.jsonl").read_text().splitlines()
    assert {type(IndexRow.model_validate_json(line).label) for line in lines} == {tuple}
    exported = json.loads((tmp_path / "out/train.json").read_text()) | json.loads(
        (tmp_path / "out/test.json").read_text()
    )
    assert exported == {row["files"][0]: row["label"] for row in rows}


def test_what_is_no_such_index_is_refused_in_clear_sentences(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    rows[0]["label"], rows[1]["label"], rows[2]["label"], rows[3]["label"] = "mass", ["mass", "mass"], ["all"], None
    with pytest.raises(IndexInvalid) as refused:
        write_index(tmp_path / "out", rows, META)
    assert refused.value.problems == [
        "row 's1': label 'mass' is listed 2 times",
        "row 's2': no label may be called 'all' where several may hold: it counts the samples",
        "row 's2': label 'all' is not in label_names",
        "row 's3': a diagnosis needs a label, or a list of labels (`[]` where none holds)",
        "28 rows have a list of labels and 1 a label as a text: where several may hold every row has a list, `[]` "
        "where none does; else every row has a text",
    ]
    assert not (tmp_path / "out").exists()


def test_a_sound_index_counts_samples_and_labels(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    facts = verify(tmp_path, rows)
    assert facts["ok"] is True and facts["errors"] == [] and facts["several_labels"] is True
    assert facts["labels"] == {"mass": 15, "effusion": 10, "hernia": 5}
    for split, counts in facts["counts"].items():
        assert counts["all"] == len(side(rows, split))
        assert counts["mass"] == sum("mass" in row["label"] for row in side(rows, split))


def test_the_probe_tells_all_that_is_wrong(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for row in side(rows, "train"):
        row["label"] = [name for name in row["label"] if name != "hernia"] + ["effusion"] * (
            "effusion" not in row["label"]
        )
    for row in rows:
        row["attributes"] |= {"finding": int("mass" in row["label"]), "all": "|".join(row["label"])}
    side(rows, "val")[0]["label"] = "mass"
    side(rows, "test")[0]["label"] = ["scar"]
    facts = verify(tmp_path, rows)
    assert not facts["ok"] and facts["labels_not_in_meta"] == ["scar"]
    assert "every row of train has the label 'effusion'" in facts["errors"][-2]
    assert "no row of train has the label 'hernia'" in facts["errors"][-1]
    assert any("1 a label as a text" in error for error in facts["errors"])


def test_columns_that_are_labels_are_named(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rows):
        row["attributes"] |= {
            "mass": "Yes" if "mass" in row["label"] else "No",
            "findings": "|".join(row["label"]),
            "view": ["PA", "AP"][number % 7 % 2],
            "id": number,
        }
    assert verify(tmp_path, rows)["label_in_attributes"] == ["findings", "mass"]


def test_a_test_set_without_anything_to_tell_apart(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for row in side(rows, "test"):
        row["label"] = ["mass"]
    assert verify(tmp_path, rows)["errors"] == [
        "there is no label that some rows of test have and others lack: nothing could be measured"
    ]


def test_checks_before_a_training_name_each_label() -> None:
    def row(name: str, split: str, label: object) -> dict[str, object]:
        return {"sample_id": name, "patient": name, "split": split, "label": label}

    rows = [row("1", "train", ["a"]), row("2", "train", ["a", "b"]), row("3", "val", ["b", "b"]), row("4", "val", "b")]
    assert [f"{one.where}: {one.text}" for one in label_problems(rows, ["a", "b", "c"])] == [
        "3: lists 'b' twice",
        "4: has its label as a text, others have lists; all rows must be alike",
        "split train: every row has the label 'a': nothing can be told apart; leave it out of the label map",
        "split train: no row has the label 'c': nothing can be told apart; leave it out of the label map",
        "split val: there is no label that some rows have and others lack: give it more rows",
    ]
    sound = [row("1", "train", ["a"]), row("2", "train", []), row("3", "val", ["a"]), row("4", "val", [])]
    assert label_problems(sound, ["a"]) == [], "one label that may hold or not is enough"


PREDICT = """
import json, pathlib, sys
from PIL import Image, ImageStat
*inputs, _, out = sys.argv[1:]
out, cases = pathlib.Path(out), []
for path in inputs:
    picture = next(file for file in sorted(pathlib.Path(path).iterdir()) if file.suffix == ".png")
    share = ImageStat.Stat(Image.open(picture).crop((0, 0, 12, 20))).mean[0] / 255
    chances = {{"effusion": share, "mass": 1 - share, "hernia": 0.9}}
    label = [name for name in chances if chances[name] >= 0.5]
    cases.append({{"input": pathlib.Path(path).name, "label": label, "probabilities": chances}})
found = {{"task": "diagnosis", "labels": ["effusion", "mass", "hernia"], "multi_label": True, "cases": cases}}
{}
out.mkdir()
(out / "predictions.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("", ""),
        ("found['multi_label'] = False", 'has "multi_label": False, but several labels may hold of a sample'),
        ("cases[1]['label'] = 'hernia'", "is labelled 'hernia'; those with 0.5 or more are ["),
        ("cases[0]['label'] = []", "is labelled []; those with 0.5 or more are ["),
        ("cases[0]['label'] += cases[0]['label']", "'hernia']; those with 0.5 or more are ["),
        ("cases[0]['probabilities']['mass'] = 1.5", "has probabilities outside 0..1"),
        ("del cases[0]['probabilities']['mass']", "must have one probability for each label"),
    ],
)
def test_a_package_that_answers_several_labels(
    tmp_path: Path, rows: list[dict[str, Any]], fault: str, says: str
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "predict.py").write_text(PREDICT.format(fault))
    for name in ("model.safetensors", "metadata.json", "MODEL_CARD.md"):
        (package / name).write_text("")
    (package / "config.json").write_text(json.dumps({"task": "diagnosis", "multi_label": True}))
    (package / "label_map.json").write_text(json.dumps({"names": NAMES}))
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(package.iterdir())]
    (package / "SHA256SUMS").write_text("".join(sums))
    (tmp_path / "train_index.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows if row["split"] != "test")
    )
    data = tmp_path / "data"
    facts = run("verify_package.py", tmp_path, data, "--package", "package", "--index", "train_index.jsonl")
    if not says:
        assert facts["ok"] is True and facts["output_follows_image"] is True, facts
    else:
        assert not facts["schema_valid"] and says in facts["errors"][0], facts["errors"]


def test_labels_of_a_batch() -> None:
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(PROBES))
    try:
        from _classes import describe_labels
    finally:
        sys.path.remove(str(PROBES))

    def told(labels: Any, several: bool | None) -> tuple[dict[str, int], list[str]]:
        errors: list[str] = []
        return describe_labels("train", torch.tensor(labels), ["a", "b"], several, errors), errors

    assert told([[1.0, 0.0], [1.0, 1.0]], True) == ({"a": 2, "b": 1}, [])
    assert told([0, 1, 1], False) == ({"a": 1, "b": 2}, [])
    for labels, several, says in (
        ([0, 1], True, "give 0 or 1 for each label"),
        ([0, 2], False, "label numbers [2] are not in the label map"),
        ([[1.0, 0.0]], False, "a sample has one label"),
        ([[1, 0]], True, "must be float"),
        ([[0.5, 0.0]], True, "hold [0.5]"),
        ([[1.0, 0.0, 0.0]], True, "have shape [3] a sample, the label map 2 names"),
    ):
        errors = told(labels, several)[1]
        assert len(errors) == 1 and says in errors[0], errors
