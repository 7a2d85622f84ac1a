"""Two runners on two machines: the calls of a run stay with one of them, and the other one can take over."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.tool_runner.runner import Runner
from shared.bus import Bus
from shared.contracts.tools import ProfileDataset, ToolCall
from shared.service import Context
from shared.settings import Settings
from tests.processes import environment, start
from tests.runner.jobs import ready_to_train, runner_folder

SECONDS = 100.0


@pytest.fixture
def homes(settings: Settings, tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("one", "two")]
    for home in made:
        runner_folder(settings, home)
    return made


@pytest.fixture
def runners(settings: Settings, homes: list[Path]) -> Iterator[list["subprocess.Popen[str]"]]:
    started = [
        start(
            "services.tool_runner",
            environment(settings, home=str(home), ready_file=str(home / "runner" / "ready")),
            "--class",
            "build",
        )
        for home in homes
    ]
    yield started
    for process in started:
        process.kill()
        process.communicate()


async def test_calls_stay_where_their_workspace_is(
    settings: Settings, bus: Bus, homes: list[Path], runners: list["subprocess.Popen[str]"]
) -> None:
    run_id = await ready_to_train(settings, bus)
    caller = await Bus.connect(settings, "module_architect")
    async with asyncio.timeout(SECONDS):
        while not all((home / "runner" / "ready").exists() for home in homes):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def call(number: int, tool: str, **arguments: object) -> str:
        made = ToolCall(
            call_id=f"{run_id}-{number}", run_id=run_id, role="module_architect", tool=tool, arguments=arguments,
            reply="",
        )  # fmt: skip
        result = await caller.call("build", made, SECONDS)
        assert result.ok, result.summary
        return result.summary

    def has_it() -> list[bool]:
        return [(home / "runner" / "ws" / run_id).exists() for home in homes]

    for number in range(12):
        await call(number, "write_files", files={"/workspace/notes.txt": f"call {number}"}, overwrite=True)
    assert sorted(has_it()) == [False, True]
    runners[has_it().index(True)].kill()
    assert "call 11" in await call(12, "read_files", paths=["/workspace/notes.txt"])
    assert has_it() == [True, True]
    await caller.close()


async def test_a_profile_is_of_no_run_and_waits_for_no_other_runner(bus: Bus, settings: Settings) -> None:
    """It names its dataset where other calls name a run, of which nothing is known."""
    asked = ToolCall(call_id="p1", run_id="a-dataset", role="task_manager", tool=ProfileDataset.tool, reply="")
    assert await Runner(Context("tool_runner", settings, bus), "bwrap").at_home(asked)
