"""Writing and reading the index, and the paper's exports."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.contracts.data import IndexMeta, IndexRow
from shared.trainkit.index import IndexInvalid, natural_key, parse_index, read_index, sample_digest, write_index

META: dict[str, Any] = {
    "task": "diagnosis",
    "dimensions": 3,
    "label_names": ["CP", "NCP", "Normal"],
    "grouping": "stated",
    "grouping_from": "Folder names below the class are patients.",
    "split_from": "made",
    "seed": 3,
}


def scan(name: str, label: str = "CP", split: str = "train", files: int = 2, **more: Any) -> dict[str, Any]:
    paths = [f"{label}/{name}/{number}.png" for number in range(files)]
    return {"sample_id": name, "patient": f"p{name}", "label": label, "files": paths, "split": split, **more}


def test_written_files_are_what_the_contracts_read(tmp_path: Path) -> None:
    rows = [scan("a"), scan("b", "NCP", "val", attributes={"slope": 1.5}), scan("c", "Normal", "test", study="s")]

    write_index(tmp_path, rows, META)

    lines = (tmp_path / "index.jsonl").read_text(encoding="utf-8").splitlines()
    parsed = [IndexRow.model_validate_json(line) for line in lines]
    assert [row.sample_id for row in parsed] == ["a", "b", "c"]
    assert parsed[1].attributes == {"slope": 1.5}
    meta = IndexMeta.model_validate_json((tmp_path / "index_meta.json").read_text(encoding="utf-8"))
    assert meta.label_names == ("CP", "NCP", "Normal")
    assert read_index(tmp_path / "index.jsonl") == [json.loads(line) for line in lines]
    assert {path.name for path in tmp_path.iterdir()} == {
        "index.jsonl", "index_meta.json", "train.json", "test.json", "label_dict.json",
    }  # fmt: skip


def test_diagnosis_exports_have_the_papers_shape(tmp_path: Path) -> None:
    single = scan("d", "NCP", "train", files=1)
    write_index(tmp_path, [scan("a"), scan("b", "NCP", "val"), single, scan("c", "Normal", "test")], META)

    assert json.loads((tmp_path / "train.json").read_text()) == {
        "CP/a": ["CP"],
        "NCP/b": ["NCP"],
        "NCP/d/0.png": ["NCP"],
    }
    assert json.loads((tmp_path / "test.json").read_text()) == {"Normal/c": ["Normal"]}
    assert json.loads((tmp_path / "label_dict.json").read_text()) == {"CP": 0, "NCP": 1, "Normal": 2}


def test_samples_that_share_a_folder_keep_their_own_keys(tmp_path: Path) -> None:
    rows = [scan("a"), {**scan("b"), "files": ["CP/a/7.png", "CP/a/8.png"]}, scan("c", "NCP", "test")]

    write_index(tmp_path, rows, META)

    assert json.loads((tmp_path / "train.json").read_text()) == {"CP/a/0.png": ["CP"], "CP/a/7.png": ["CP"]}


def test_segmentation_and_report_exports(tmp_path: Path) -> None:
    mask = {"sample_id": "1", "patient": "1", "files": ["img/1.nii.gz"], "target": "label/1.nii.gz", "split": "train"}
    structures = {"label_names": ["spleen", "liver"], "label_values": {"spleen": 1, "liver": 6}}
    write_index(tmp_path, [mask], {**META, "task": "organ_segmentation", **structures})
    assert json.loads((tmp_path / "train.json").read_text()) == [
        {"image_path": "img/1.nii.gz", "label_path": "label/1.nii.gz", "labels": ["spleen", "liver"]}
    ]
    assert not (tmp_path / "label_dict.json").exists()

    write_index(tmp_path, [{**mask, "target": "No mass."}], {**META, "task": "report_generation", "label_names": []})
    assert json.loads((tmp_path / "train.json").read_text()) == [
        {"image_path": "img/1.nii.gz", "findings": "No mass.", "impression": ""}
    ]


def test_all_problems_are_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    rows = [
        scan("a", label="COVID"),
        scan("a"),
        {**scan("b"), "split": "dev", "patient": ""},
        {**scan("c"), "files": ["/etc/passwd", "../x.png"], "colour": 1},
        {**scan("d"), "label": None},
        {**scan("e"), "attributes": {"x": float("nan")}},
        {**scan("f"), "files": []},
    ]

    with pytest.raises(IndexInvalid) as error:
        write_index(tmp_path, rows, {**META, "grouping": "guessed", "dimension": 3})

    text = "\n".join(error.value.problems)
    for part in (
        "label 'COVID' is not in label_names", "sample_id 'a' stands in 2 rows", "split is 'dev'",
        "patient must be a text", "'/etc/passwd' is no plain path", "'../x.png' is no plain path",
        "unknown field 'colour'", "needs a label", "attributes must be", "files must be a list",
        "grouping is 'guessed'", "unknown field 'dimension'",
    ):  # fmt: skip
        assert part in text
    assert list(tmp_path.iterdir()) == []


def test_a_second_write_replaces_the_first(tmp_path: Path) -> None:
    write_index(tmp_path, [scan("a"), scan("b", "NCP", "test")], META)
    write_index(tmp_path, [scan("z"), scan("y", "NCP", "test")], META)

    assert [row["sample_id"] for row in read_index(tmp_path / "index.jsonl")] == ["z", "y"]
    assert len(list(tmp_path.iterdir())) == 5


def test_reading_fills_defaults_and_names_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    path.write_text(json.dumps(scan("a\u2028b"), ensure_ascii=False) + "\n\n")
    (row,) = read_index(path)
    assert (row["study"], row["target"], row["attributes"]) == (None, None, {})

    path.write_text(json.dumps(scan("a")) + "\n{oops\n[1]\n")
    with pytest.raises(IndexInvalid, match="line 2 is not JSON"):
        read_index(path)
    assert len(parse_index(path.read_text())[1]) == 2


def test_natural_order() -> None:
    names = ["10.png", "2.png", "IMG-0001-00010.jpg", "img-0001-00009.jpg", "0001.png", "1.png"]

    assert sorted(names, key=natural_key) == [
        "0001.png", "1.png", "2.png", "10.png", "img-0001-00009.jpg", "IMG-0001-00010.jpg",
    ]  # fmt: skip


def test_digest_is_of_content_in_order(tmp_path: Path) -> None:
    for name, content in {"a": b"12", "b": b"3", "c": b"12", "d": b"1", "e": b"23"}.items():
        (tmp_path / name).write_bytes(content)

    def digest(*names: str) -> str:
        return sample_digest(tmp_path / name for name in names)

    assert digest("a", "b") == digest("c", "b")
    assert digest("a", "b") != digest("b", "a")
    assert digest("a", "b") != digest("d", "e")
