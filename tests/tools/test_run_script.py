"""run_script: what a program printed, how it ended, and what a core needs to mend it."""

import pytest

from shared.contracts.tools import MAX_RESULT_CHARS


async def test_a_command_runs_in_the_workspace(bench) -> None:
    (bench.workspace / "a.txt").write_text("hello\n")
    result = await bench("run_script", command="cat a.txt; echo $M3_DATA", args=["x"])
    assert result.ok and result.exit_code == 0 and result.isolation == "none"
    assert "hello" in result.summary and str(bench.data) in result.summary
    assert result.summary.startswith("Exit code 0 after ")


async def test_a_failing_part_of_a_pipe_fails(bench) -> None:
    result = await bench("run_script", command="false | tee log.txt")
    assert not result.ok and result.exit_code == 1
    assert "printed nothing" in result.summary
    # head ends the one before it, which is no failure.
    result = await bench("run_script", command="seq 1000000 | head -2")
    assert result.ok and result.exit_code == 141 and "read enough" in result.summary and "1\n2" in result.summary


async def test_a_script_is_kept_imports_from_the_workspace_and_gets_arguments(bench) -> None:
    (bench.workspace / "dataset.py").write_text("SIZE = 3\n")
    script = "import sys, dataset\nprint(dataset.SIZE, sys.argv[1:])\nprint('{\"rows\": 12}')\nprint('done')\n"
    result = await bench("run_script", script=script, args=["--a", "b c"])
    assert result.ok
    assert "3 ['--a', 'b c']" in result.summary
    assert result.data["last_json"] == {"rows": 12}
    assert (bench.workspace / ".scripts" / "run-role-1-1.py").read_text() == script
    named = await bench("run_script", script="print(1)", save_as="tools/look.py")
    assert named.data["script"] == "/workspace/tools/look.py"


async def test_the_traceback_comes_parsed_at_the_cores_own_line(bench) -> None:
    script = "import json\n\ndef load():\n    return json.loads('{')\n\nload()\n"
    result = await bench("run_script", script=script, save_as="load.py")
    assert not result.ok
    found = result.data["traceback"]
    assert (found["type"], found["line"]) == ("JSONDecodeError", 4)
    assert found["file"] in ("load.py", "/workspace/load.py")
    assert "Expecting property name" in found["message"]


async def test_of_chained_errors_the_last_counts(bench) -> None:
    script = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no\\nuse') from error\n"
    result = await bench("run_script", script=script)
    assert result.data["traceback"]["type"] == "ValueError"
    assert result.data["traceback"]["message"] == "no\nuse"


async def test_a_script_that_does_not_parse_is_not_run(bench) -> None:
    result = await bench("run_script", script="print('a'\n")
    assert not result.ok and not bench.execute.runs
    assert result.data["traceback"]["type"] == "SyntaxError" and "never closed" in result.summary


async def test_running_out_of_time_is_a_result_with_a_hint(bench) -> None:
    result = await bench("run_script", command="echo started; sleep 20", seconds=1)
    assert not result.ok and result.exit_code is None
    assert result.data["outcome"] == "timeout"
    assert "training is a job" in result.summary and "started" in result.summary


async def test_huge_output_is_head_and_tail(bench) -> None:
    result = await bench("run_script", script="for n in range(60_000): print('row', n)")
    assert result.ok and result.truncated
    assert len(result.summary) <= MAX_RESULT_CHARS
    assert "row 0\n" in result.summary and "row 59999" in result.summary and "left out" in result.summary


async def test_progress_bars_colours_and_repeats_are_tidied(bench) -> None:
    script = (
        "import sys\nfor n in range(101): sys.stdout.write(f'\\r{n}%')\nprint()\n"
        "for _ in range(50): print('\\x1b[31mwarning: x\\x1b[0m')\nprint('end')"
    )
    result = await bench("run_script", script=script)
    body = result.summary.split("\n", 1)[1]
    assert body == "100%\nwarning: x\n[the line above 49 more times]\nend"


async def test_bytes_that_are_no_text_come_through(bench) -> None:
    result = await bench("run_script", command="printf 'a\\xff\\000b\\n'")
    assert result.ok and "a\ufffdb" in result.summary


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": "ls", "script": "1"},
        {"command": "ls", "save_as": "a.sh"},
        {"command": "  "},
        {"command": "a\0b"},
    ],
)
async def test_a_call_without_one_clear_task_is_refused(bench, arguments: dict) -> None:
    result = await bench("run_script", **arguments)
    assert not result.ok and not bench.execute.runs


async def test_a_missing_program_is_said_to_be_missing(bench) -> None:
    result = await bench("run_script", command="nnUNet_train_v1 3d_fullres")
    assert result.exit_code == 127 and "command not found" in result.summary


async def test_save_as_over_a_huge_sparse_file_reads_nothing_of_it(bench) -> None:
    with (bench.workspace / "look.py").open("wb") as file:
        file.truncate(1 << 40)
    result = await bench("run_script", script="print('small')", save_as="look.py")
    assert result.ok, result.summary
    assert (bench.workspace / "look.py").read_text() == "print('small')"
    assert not list(bench.workspace.rglob("*.m3tmp"))
