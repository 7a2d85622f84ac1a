"""How runs end, and that what they need works inside."""

import os
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner import sandbox
from shared.errors import ToolBroken


def test_learning_works(seen: dict[str, Any]) -> None:
    """torch, numpy, DataLoader with two workers, a spawned pool, a module from /m3 and a file from the data."""
    assert seen["learning"]["outcome"] == "ok", seen["learning"]["text"]
    # Libraries may have something to say of the machine, too.
    said = [line for line in seen["learning"]["text"].split("\n") if not line.startswith("Error in cpuinfo")]
    assert said[:4] == ["2.0 3", "28.0", "[1, 2]", "helper voxels"]
    assert "model.pt" in seen["learning"]["files"]
    assert seen["learning"]["peak_memory_mb"] > 100


def test_exit_code_and_both_streams_are_kept(ends: dict[str, Any]) -> None:
    done = ends["exit_code"]
    assert (done["outcome"], done["exit_code"], done["text"]) == ("failed", 7, "out\nerr\n")
    assert not done["output_cut"] and done["log_bytes"] == done["size"] == 8


def test_many_short_runs_at_once(ends: dict[str, Any]) -> None:
    assert {tuple(one) for one in ends["many_at_once"]} == {("ok", "hello\n")}


def test_standard_input_arrives_whole(ends: dict[str, Any]) -> None:
    assert ends["standard_input"]["size"] == 300_003
    assert ends["standard_input"]["text"].endswith("aend")


def test_death_by_signal(ends: dict[str, Any]) -> None:
    assert (ends["death_by_signal"]["outcome"], ends["death_by_signal"]["exit_code"]) == ("failed", 139)


def test_a_kill_far_from_the_limit_is_not_called_memory(ends: dict[str, Any]) -> None:
    assert (ends["killed_without_cause"]["outcome"], ends["killed_without_cause"]["exit_code"]) == ("failed", 137)


def test_unknown_command_is_a_result(ends: dict[str, Any]) -> None:
    assert ends["unknown_command"]["exit_code"] == 127
    assert "m3-no-such-command" in ends["unknown_command"]["text"]


def test_timeout_ends_a_daemon_in_its_own_session(ends: dict[str, Any]) -> None:
    done = ends["timeout_with_daemon"]
    assert done["outcome"] == "timeout" and done["exit_code"] is None
    assert done["seconds"] >= 1.5 and done["left"] == []


def test_a_daemon_does_not_outlive_its_run(ends: dict[str, Any]) -> None:
    assert ends["exit_with_daemon"]["outcome"] == "ok"
    assert ends["exit_with_daemon"]["left"] == []


def test_cancel_lets_the_child_save(ends: dict[str, Any]) -> None:
    done = ends["cancel_saves"]
    assert (done["outcome"], done["exit_code"]) == ("cancelled", 0)
    assert "saved" in done["files"]


def test_cancel_kills_what_ignores_it(seen: dict[str, Any]) -> None:
    done = seen["cancel_ignored"]
    assert (done["outcome"], done["exit_code"]) == ("cancelled", None)
    assert done["seconds"] >= 10


def test_cancelled_task_leaves_nothing(ends: dict[str, Any]) -> None:
    done = ends["task_cancelled"]
    assert done["started"] and done["cancelled"] and done["left"] == []


def test_killed_runner_leaves_nothing(ends: dict[str, Any]) -> None:
    assert ends["runner_killed"]["started"] and ends["runner_killed"]["left"] == []


def test_private_home_is_gone_even_if_locked(ends: dict[str, Any]) -> None:
    assert ends["private_home"]["outcome"] == "ok"
    assert not ends["private_home"]["left"]
    assert ends["homes_left"] == [], "of no run, not even the one whose runner was killed"


def test_what_cannot_be_mounted_is_named(ends: dict[str, Any]) -> None:
    assert "nowhere" in ends["missing_mount"]


def test_device_is_bound_as_one(ends: dict[str, Any]) -> None:
    assert ends["device"]["text"] == "b'\\x00\\x00'\n"


def test_detect_takes_the_strongest(seen: dict[str, Any]) -> None:
    assert seen["level"] == "bwrap" or seen["auto"] in ("bwrap", "landlock")
    assert seen["auto"] == "bwrap" or seen["level"] != "bwrap"


def test_drop_root_for_good_with_python_below_a_closed_folder(ends: dict[str, Any]) -> None:
    if ends["started_as"] != 0:
        pytest.skip("nothing to drop: the tests do not run as root")
    assert set(ends["uid"]) == set(ends["gid"]) == {ends["user"]} and ends["groups"] == []
    assert ends["home"].endswith("/state")
    assert ends["lazy"].endswith("wave.py")
    assert not ends["root_listed"]


async def test_root_starts_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    with pytest.raises(ToolBroken, match="root"):
        await sandbox.run(
            ["true"],
            workspace=tmp_path,
            limits=sandbox.Limits(seconds=1, memory_mb=100),
            log=tmp_path / "log",
            level="none",
        )
    with pytest.raises(ToolBroken, match="root"):
        sandbox.detect("none")


def test_unknown_level_is_the_users_to_mend(ends: dict[str, Any]) -> None:
    assert "M3_ISOLATION" in ends["unknown_level"]
