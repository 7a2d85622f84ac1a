"""list, read, copy, write and edit. Each fault of the published tools (silent, unbounded, unchecked) has its test."""

import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from shared.contracts.tools import MAX_FILE_CHARS
from shared.errors import ToolBroken

TEN = "".join(f"line {number}\n" for number in range(1, 11))


async def test_writing_says_what_it_wrote(bench) -> None:
    result = await bench("write_files", files={"a.py": "x = 1\n", "deep/er/b.txt": "one\ntwo\n", "bare": ""})
    assert result.ok
    assert "Wrote 3 files, 3 lines" in result.summary
    assert (bench.workspace / "deep/er/b.txt").read_text() == "one\ntwo\n"
    assert result.data["written"]["/workspace/deep/er/b.txt"]["lines"] == 2
    assert not [path for path in bench.workspace.rglob("*.m3tmp")]


async def test_a_failed_write_is_seen_and_nothing_of_the_call_remains(bench) -> None:
    (bench.workspace / "file").write_text("x")
    result = await bench("write_files", files={"new/a.txt": "a", "file/b.txt": "b"})
    assert not result.ok
    assert "file, not a folder" in result.summary
    assert [path.name for path in bench.workspace.rglob("*")] == ["file"]


async def test_writing_twice_is_the_same_as_once(bench) -> None:
    await bench("write_files", files={"a.txt": "a"})
    again = await bench("write_files", files={"a.txt": "a"})
    assert again.ok
    assert "Already there" in again.summary


async def test_other_content_is_not_overwritten_unless_asked(bench) -> None:
    (bench.workspace / "a.txt").write_text("mine\n")
    (bench.workspace / "a.txt").chmod(0o755)
    refused = await bench("write_files", files={"new.txt": "n", "a.txt": "other\n"})
    assert not refused.ok
    assert "exists with other content" in refused.summary
    assert not (bench.workspace / "new.txt").exists()
    done = await bench("write_files", files={"a.txt": "other\n"}, overwrite=True)
    assert done.summary == "Wrote 1 file, 1 line: /workspace/a.txt."
    done = await bench("write_files", files={"a.txt": "third\n"}, overwrite=True, diff=True)
    assert "-other" in done.summary and "+third" in done.summary
    assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("train.py", "import torch\nfrom Model import <placeholder>\n", "line 2"),
        ("train.py", "def f(:\n", "Python, line 1"),
        ("labels.json", '[{"a": 1}, // the first\n {"a": 2}]', "JSON has no comments"),
        ("labels.json", '{"loss": NaN}', "NaN is not JSON"),
        ("rows.jsonl", '{"a": 1}\n{"a": }\n', "line 2"),
        ("config.yaml", "a: 1\nb: [1, 2\nc: 3\n", "YAML, line 3"),
        ("config.yml", "a: !!python/object/apply:os.system [ls]\n", "YAML, line 1"),
        ("run.sh", "if true; then\n  echo a\n", "shell, line"),
    ],
)
async def test_what_does_not_parse_is_not_written(bench, name: str, text: str, said: str) -> None:
    result = await bench("write_files", files={"fine.txt": "ok", name: text})
    assert not result.ok
    assert said in result.summary
    assert ">" in result.summary
    assert list(bench.workspace.iterdir()) == []


async def test_valid_files_of_each_kind_are_written(bench) -> None:
    files = {"a.py": "async def f(): ...\n", "a.json": "[1]", "a.jsonl": "{}\n\n", "a.yaml": "a: &x 1\nb: *x\n"}
    result = await bench("write_files", files={**files, "a.sh": "set -o pipefail\nls | head\n"})
    assert result.ok


async def test_an_edit_changes_one_place_and_says_so_in_a_line(bench) -> None:
    (bench.workspace / "c.yaml").write_text("epochs: 1\nlr: 0.1\n")
    result = await bench("edit_files", path="c.yaml", old="epochs: 1", new="epochs: 20")
    assert result.ok and result.summary == "Edited /workspace/c.yaml at line 1: 1 line in place of 1 line."
    assert (bench.workspace / "c.yaml").read_text() == "epochs: 20\nlr: 0.1\n"
    result = await bench("edit_files", path="c.yaml", old="lr: 0.1", new="lr: 0.2\nwd: 0", diff=True)
    assert "-lr: 0.1\n+lr: 0.2" in result.summary


YAML = """# all of it
model:
  width: 16   # channels
  window: null # [low, high]
  empty:
training:
  rates:   # of three
    - 0.1
    - 0.2
  epochs: 1
"""


async def test_keys_of_yaml_are_set_at_once_and_comments_stay(bench) -> None:
    path = bench.workspace / "c.yaml"
    path.write_text(YAML)
    wanted = {"training.epochs": 20, "model.width": 1e-5, "model.window": [-160, 240], "training.rates": ["a, b"]}
    result = await bench("edit_files", path="c.yaml", set=wanted | {"model.empty.inner": True})
    assert result.ok, result.summary
    assert (
        "training.epochs 1 -> 20" in result.summary and "model.empty.inner true, which was not there" in result.summary
    )
    text = path.read_text()
    assert "  width: 1.0e-05   # channels" in text and "  window: [-160, 240] # [low, high]" in text
    model = {"width": 1e-5, "window": [-160, 240], "empty": {"inner": True}}
    assert yaml.safe_load(text) == {"model": model, "training": {"rates": ["a, b"], "epochs": 20}}
    again = await bench("edit_files", path="c.yaml", set=wanted)
    assert again.data["already_applied"] and path.read_text() == text
    assert (await bench("edit_files", path="c.yaml", set={"model.empty.inner": 1})).ok
    assert "inner: 1}" in path.read_text(), "true is not 1"


@pytest.mark.parametrize("text", [YAML, json.dumps(yaml.safe_load(YAML))], ids=["lines", "flow"])
async def test_a_key_that_is_not_there_is_added_to_its_section_and_its_likes_are_named(bench, text: str) -> None:
    (bench.workspace / "c.yaml").write_text(text)
    result = await bench(
        "edit_files", path="c.yaml", set={"model.widht": 3, "new.one.two": "yes", "training.epochs": None}
    )
    assert result.ok and "model.widht 3, which was not there. Near: model.width" in result.summary
    found = yaml.safe_load((bench.workspace / "c.yaml").read_text())
    before = yaml.safe_load(YAML)
    assert found == {
        "model": before["model"] | {"widht": 3},
        "training": before["training"] | {"epochs": None},
        "new": {"one": {"two": "yes"}},
    }


@pytest.mark.parametrize(
    ("name", "text", "arguments", "said"),
    [
        ("c.yaml", YAML, {"set": {"model": 3}}, "is a section"),
        ("c.yaml", YAML, {"set": {"model.width.deep": 3}}, "model.width has a value"),
        ("c.yaml", "a: &x 1\nb: *x\n", {"set": {"b": 3}}, "aliases"),
        ("c.yaml", "- 1\n", {"set": {"b": 3}}, "has no keys"),
        ("c.py", "a = 1\n", {"set": {"a": 3}}, "is no YAML"),
        ("c.yaml", YAML, {"set": {"a": 3}, "old": "a", "new": "b"}, "old and new, or set"),
        ("c.yaml", YAML, {"old": "epochs"}, "old and new, or set"),
    ],
)
async def test_keys_that_cannot_be_set_change_nothing(bench, name: str, text: str, arguments: dict, said: str) -> None:
    (bench.workspace / name).write_text(text)
    result = await bench("edit_files", path=name, **arguments)
    assert not result.ok and said in result.summary, result.summary
    assert (bench.workspace / name).read_text() == text


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [("lr: 0.1\n", "lr: 0.1", "lr: 0.2"), ("import os\n", "import os", "import os\nimport sys"), ("a\n", "a", "b a c")],
)
async def test_a_repeated_edit_is_already_applied(bench, text: str, old: str, new: str) -> None:
    (bench.workspace / "f.txt").write_text(text)
    first = await bench("edit_files", path="f.txt", old=old, new=new)
    after = (bench.workspace / "f.txt").read_text()
    again = await bench("edit_files", path="f.txt", old=old, new=new)
    assert first.ok and not first.data["already_applied"]
    assert again.ok and again.data["already_applied"]
    assert "Already applied" in again.summary
    assert (bench.workspace / "f.txt").read_text() == after


async def test_a_miss_shows_the_nearest_lines(bench) -> None:
    (bench.workspace / "t.py").write_text("def train(model):\n    loss = model(batch)\n    return loss\n")
    result = await bench("edit_files", path="t.py", old="    loss = modle(batch)", new="x")
    assert not result.ok
    assert "    2 |     loss = model(batch)" in result.summary
    spaces = await bench("edit_files", path="t.py", old="\tloss = model(batch)", new="x")
    assert "white space" in spaces.summary


async def test_several_matches_are_named_by_line(bench) -> None:
    (bench.workspace / "t.txt").write_text("a\nb\na\nb\na\n")
    result = await bench("edit_files", path="t.txt", old="a", new="c")
    assert not result.ok
    assert "3 times" in result.summary and "lines 1, 3, 5" in result.summary
    assert (bench.workspace / "t.txt").read_text() == "a\nb\na\nb\na\n"


async def test_an_edit_that_breaks_the_file_is_refused(bench) -> None:
    (bench.workspace / "t.py").write_text("x = (1)\n")
    result = await bench("edit_files", path="t.py", old="1)", new="1")
    assert not result.ok
    assert "never closed" in result.summary
    assert (bench.workspace / "t.py").read_text() == "x = (1)\n"


async def test_an_edit_keeps_line_ends_encoding_and_mode(bench) -> None:
    path = bench.workspace / "w.txt"
    path.write_bytes("größe\r\nzwei\r\ndrei\r\n".encode("latin-1"))
    path.chmod(0o700)
    result = await bench("edit_files", path="w.txt", old="größe\nzwei", new="größe\n2")
    assert result.ok
    assert path.read_bytes() == "größe\r\n2\r\ndrei\r\n".encode("latin-1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_reading_bounds_and_says_what_it_left_out(bench) -> None:
    (bench.workspace / "long.txt").write_text("".join(f"row {number}\n" for number in range(20_000)))
    (bench.workspace / "short.txt").write_text("short\n")
    result = await bench("read_files", paths=["long.txt", "short.txt"])
    assert result.ok and result.truncated
    gone = re.search(
        r"\[\.\.\. lines ([\d,]+) to ([\d,]+) of 20,000 left out; read with first_line=(\d+) ", result.summary
    )
    assert gone is not None
    first, last = (int(one.replace(",", "")) for one in gone.groups()[:2])
    assert f"row {first - 2}\n[..." in result.summary and f"...]\nrow {last}\n" in result.summary
    assert first == int(gone[3])
    assert (
        "row 0\n" in result.summary and "row 19999" in result.summary and "=== /workspace/short.txt" in result.summary
    )
    some = await bench("read_files", paths=["long.txt"], first_line=500, last_line=502)
    assert "row 499\nrow 500\nrow 501" in some.summary and "row 502" not in some.summary
    beyond = await bench("read_files", paths=["short.txt"], first_line=7)
    assert "has no line 7" in beyond.summary


async def test_a_file_of_one_endless_line_is_bounded(bench) -> None:
    (bench.workspace / "one.json").write_text(json.dumps(list(range(100_000))))
    result = await bench("read_files", paths=["one.json"])
    assert len(result.summary) <= MAX_FILE_CHARS + 200 and " of 688,890 left out" in result.summary


async def test_programs_of_a_template_are_read_whole_in_one_call(bench) -> None:
    for name, size in {"train.py": 11_000, "images.py": 13_000, "model.py": 4_000}.items():
        (bench.workspace / name).write_text("x = 1\n" * (size // 6))
    assert not (await bench("read_files", paths=["train.py", "images.py", "model.py"])).truncated
    (bench.workspace / "data.py").write_text("y = 1\n" * 2_000)
    assert (await bench("read_files", paths=["train.py", "images.py", "model.py", "data.py"])).truncated


async def test_odd_files_are_named_for_what_they_are(bench) -> None:
    (bench.workspace / "empty.txt").touch()
    (bench.workspace / "latin.txt").write_bytes(b"caf\xe9\n")
    (bench.workspace / "scan.nii.gz").write_bytes(b"\x1f\x8b\x08\0rest")
    result = await bench("read_files", paths=["empty.txt", "latin.txt", "scan.nii.gz", "latn.txt"])
    assert result.ok and "caf\u00e9" in result.summary and "=== not read: " in result.summary
    assert not (await bench("read_files", paths=["latn.txt"])).ok
    assert "the file is empty" in result.summary
    assert "café" in result.summary and "Latin-1" in result.summary
    assert "preview_files" in result.data["errors"]["scan.nii.gz"]
    assert "Near names in /workspace: latin.txt" in result.data["errors"]["latn.txt"]


async def test_listing_sorts_naturally_and_gives_sizes(bench) -> None:
    for name in ("s10.py", "s2.py", "s1.py"):
        (bench.workspace / name).write_text("x" * 1500)
    (bench.workspace / "void").mkdir()
    result = await bench("list_files")
    assert list(result.data["files"]) == ["s1.py", "s2.py", "s10.py"]
    assert "s1.py  1.5 kB" in result.summary and "void/  empty folder" in result.summary


async def test_an_empty_folder_is_said_to_be_empty(bench) -> None:
    assert "empty" in (await bench("list_files")).summary
    assert "empty" in (await bench("preview_dirs")).summary


@pytest.mark.parametrize("number", [11, 1000, 1001])
async def test_a_crowded_folder_is_counted_never_silently_skipped(bench, number: int) -> None:
    crowd = bench.data / "reports"
    crowd.mkdir()
    for index in range(number):
        (crowd / f"{index}.txt").touch()
    (bench.data / "labels.csv").write_text("a\n")
    result = await bench("list_files", path="/data")
    assert "labels.csv" in result.data["files"]
    if number > 1000:
        assert result.data["not_listed"] == {"reports/": 1001}
        assert "1,001 files" in result.summary
    else:
        assert f"reports/{number - 2}.txt" in result.data["files"]


async def test_names_that_are_no_text_do_not_break_the_result(bench) -> None:
    (bench.data / "ok.txt").write_text("x")
    os.mknod(bytes(bench.data) + b"/bad\xff\nname.txt", 0o644)
    assert (await bench("list_files", path="/data")).ok
    assert (await bench("preview_dirs", path="/data")).ok


async def test_copying_a_template_keeps_modes_and_repeats_quietly(bench) -> None:
    source = bench.roots.templates / "diagnosis"
    (source / "inner").mkdir(parents=True)
    (source / "train.py").write_text("pass\n")
    (source / "inner" / "run.sh").write_text("true\n")
    (source / "inner" / "run.sh").chmod(0o555)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").write_bytes(b"x")
    first = await bench("copy_files", source="/templates/diagnosis", destination=".")
    assert first.ok and "Copied 2 files" in first.summary and "__pycache__" in first.summary
    assert stat.S_IMODE((bench.workspace / "inner" / "run.sh").stat().st_mode) == 0o755
    again = await bench("copy_files", source="/templates/diagnosis", destination="/workspace")
    assert again.ok and "2 files already there" in again.summary
    (bench.workspace / "train.py").write_text("changed\n")
    (source / "more.py").write_text("pass\n")
    third = await bench("copy_files", source="/templates/diagnosis", destination=".")
    assert not third.ok and "/workspace/train.py exists with other content" in third.summary
    assert not (bench.workspace / "more.py").exists()
    last = await bench("copy_files", source="/templates/diagnosis/train.py", destination="train.py", overwrite=True)
    assert last.ok and (bench.workspace / "train.py").read_text() == "pass\n"


async def test_copying_never_deletes_what_is_there(bench) -> None:
    (bench.workspace / "kit").mkdir()
    (bench.workspace / "kit" / "mine.txt").write_text("mine")
    (bench.data / "kit").mkdir()
    (bench.data / "kit" / "theirs.txt").write_text("theirs")
    assert (await bench("copy_files", source="/data/kit", destination="kit")).ok
    assert {path.name for path in (bench.workspace / "kit").iterdir()} == {"mine.txt", "theirs.txt"}
    inside = await bench("copy_files", source="kit", destination="kit/copy")
    assert not inside.ok and "inside" in inside.summary


async def test_a_file_is_copied_into_a_folder_or_under_a_name(bench) -> None:
    (bench.data / "a.txt").write_text("a")
    (bench.workspace / "there").mkdir()
    await bench("copy_files", source="/data/a.txt", destination="there")
    await bench("copy_files", source="/data/a.txt", destination="b.txt")
    assert (bench.workspace / "there" / "a.txt").read_text() == (bench.workspace / "b.txt").read_text() == "a"
    missing = await bench("copy_files", source="/data/b.txt", destination="c")
    assert "does not exist" in missing.summary


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_files", {"paths": "a.txt"}, "must be a list"),
        ("read_files", {}, "paths is missing"),
        ("write_files", {"files": {"a": "b"}, "mode": "w"}, "mode is not an argument"),
        ("run_script", {"command": "ls", "seconds": 9000}, "less than or equal to 600"),
        ("remove_files", {}, "no tool remove_files"),
        ("read_files", {"paths": [""]}, "path is empty"),
        ("write_files", {"files": {"n" * 300: "x"}}, "too long"),
        ("write_files", {"files": {"a.txt": "\ud800"}}, "surrogates"),
    ],
)
async def test_wrong_arguments_come_back_in_plain_words(bench, tool: str, arguments: dict, said: str) -> None:
    result = await bench(tool, **arguments)
    assert not result.ok
    assert said in result.summary


async def test_training_is_not_a_tool_of_the_runner(bench) -> None:
    with pytest.raises(ToolBroken):
        await bench("start_training", command=["python", "train.py"])


async def test_the_library_that_scripts_import_is_read_and_never_written(bench, tmp_path: Path) -> None:
    (tmp_path / "m3").mkdir()
    (tmp_path / "m3" / "loop.py").write_text("RATE = 1\n")
    shown = replace(bench, roots=replace(bench.roots, library=tmp_path / "m3"))
    read = await shown("read_files", paths=["/m3/loop.py"])
    assert read.ok and "RATE = 1" in read.summary
    assert not (await shown("write_files", files={"/m3/loop.py": "RATE = 2\n"})).ok
    assert (tmp_path / "m3" / "loop.py").read_text() == "RATE = 1\n"
    refused = await bench("read_files", paths=["/m3/loop.py"])
    assert "there is no /m3 for this role" in refused.summary
