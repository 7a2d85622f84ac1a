"""The command against a real gateway: exit codes, plain sentences, and packages that land whole or not at all."""

import asyncio
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.command import cli
from shared.bus import Bus
from shared.contracts.runs import SWITCHES, RunFinished
from shared.contracts.transcript import Turn
from shared.settings import Settings
from shared.store import Store
from tests.cli.conftest import call


def test_without_a_gateway_one_sentence_says_what_to_do(environment: dict[str, str]) -> None:
    assert "m3builder up" in call(environment, "runs", code=1)
    assert "stopped" in call(environment, "status", code=1)
    assert "never started" in call(environment, "logs", "scorer", code=2)
    assert "no service 'nobody'" in call(environment, "logs", "nobody", code=2)
    assert "down" in call(environment, "down")


@pytest.mark.usefixtures("gateway")
def test_wrong_input_is_exit_code_2(environment: dict[str, str], own: Settings, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    assert "Say in a sentence" in call(environment, "run", " ", code=2)
    assert "no core" in call(environment, "run", "x", "--core", "gpt", code=2)
    assert "--without takes collaboration" in call(environment, "run", "x", "--without", "memory", code=2)
    assert "is no language model" in call(environment, "run", "x", "--without", "reflection", code=2)
    assert "--budget: toknes" in call(environment, "run", "x", "--budget", "toknes=3", code=2)
    assert "no role" in call(environment, "prompt", "nurse", code=2)
    assert "--without takes collaboration" in call(environment, "prompt", "solo", "--without", "memory", code=2)
    assert "cannot be read" in call(environment, "dataset", "add", "--card", str(card), code=2)
    card.write_text("{")
    assert "is not JSON" in call(environment, "dataset", "add", str(own.data_roots[0]), "--card", str(card), code=2)
    card.write_text('{"dataset name": "A", "dataset description": "B"}')
    assert "dataset path" in call(environment, "dataset", "add", "--card", str(card), code=2)
    card.write_text('{"dataset name": "A", "dataset description": "B", "dataset path": "/nowhere"}')
    assert "does not exist" in call(environment, "dataset", "add", "--card", str(card), code=2)
    assert "outside the data roots" in call(environment, "dataset", "add", "/usr", "--card", str(card), code=2)
    assert "no run" in call(environment, "watch", "nope", code=2)
    assert "no run" in call(environment, "fetch", "nope", str(tmp_path / "new"), code=2)
    assert not (tmp_path / "new").exists()
    assert "ok" not in call(environment, "dataset", "list")


@pytest.mark.usefixtures("gateway")
def test_a_replay_is_asked_for_on_the_machine_only_and_visits_are_told(
    environment: dict[str, str], tmp_path: Path
) -> None:
    turn = Turn(run_id="old", role="task_manager", number=1, at=datetime.now(UTC), core="x", calls=())
    script = tmp_path / "turns.jsonl"
    script.write_text(turn.model_dump_json())
    bounds = ("--budget", "tokens=90000", "--without", "debugging")
    run_id = call(environment, "run", "x", "--core", f"scripted:{script}", "--detach", *bounds).strip()
    assert run_id in call(environment, "runs")
    assert "without debugging" in call(environment, "show", run_id)
    assert "cannot be read" in call(environment, "run", "x", "--core", "scripted:/nowhere", code=2)
    assert "GET /runs 200" in call(environment, "audit")
    assert call(environment, "token").strip() == "secret"
    stranger = environment | {"M3_GATEWAY_TOKEN": "other"}
    assert "does not know you" in call(stranger, "runs", code=2)


@pytest.mark.usefixtures("gateway")
def test_a_dataset_is_registered_with_its_real_folder(
    environment: dict[str, str], own: Settings, tmp_path: Path
) -> None:
    card = tmp_path / "card.json"
    card.write_text('{"dataset_name": "Chest CLI", "dataset_description": "CT", "dataset_path": "/placeholder"}')
    assert "chest-cli" in call(environment, "dataset", "add", str(own.data_roots[0] / "chest"), "--card", str(card))
    assert str(own.data_roots[0] / "chest") in call(environment, "dataset", "list")
    call(environment, "dataset", "add", "--card", str(card), "--without-data")
    assert "(not here)" in call(environment, "dataset", "list")


@pytest.mark.usefixtures("gateway")
def test_a_run_is_followed_to_its_end_and_its_package_fetched(
    environment: dict[str, str], own: Settings, tmp_path: Path
) -> None:
    store = Store.connect(own)
    store.ensure_buckets()
    made = tmp_path / "made"
    (made / "weights").mkdir(parents=True)
    (made / "predict.py").write_text("print(1)\n")
    (made / "weights" / "w.bin").write_bytes(b"\1" * 100_000)
    package = store.put_folder("packages", made)
    run_id = call(environment, "run", "classify chest CT", "--detach").strip()
    assert run_id in call(environment, "runs")

    async def end() -> None:
        bus = await Bus.connect(own, "task_manager")
        await bus.append(
            RunFinished.make(
                run_id=run_id, sender="task_manager", cause=None, end="succeeded", level="valid", package=package
            )
        )
        await bus.close()

    later = threading.Timer(2, lambda: asyncio.run(end()))
    later.start()
    told = call(environment, "watch", run_id)
    later.join()
    assert f"{run_id}: succeeded, level valid" in told and "classify chest CT" in told

    folder = tmp_path / "fetched"
    call(environment, "fetch", run_id, str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["package", "record.json", "summary.txt"]
    assert (folder / "package" / "predict.py").read_text() == "print(1)\n"
    assert (folder / "package" / "weights" / "w.bin").stat().st_size == 100_000
    record = json.loads((folder / "record.json").read_text())
    assert (record["run_id"], record["level"]) == (run_id, "valid")
    assert f"{run_id}: succeeded, level valid" in (folder / "summary.txt").read_text()
    assert "not empty" in call(environment, "fetch", run_id, str(folder), code=2)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.slow
@pytest.mark.usefixtures("gateway")
def test_a_run_that_does_not_succeed_is_exit_code_1(environment: dict[str, str], own: Settings, tmp_path: Path) -> None:
    run_id = call(environment, "run", "classify chest CT", "--detach").strip()
    assert "no package yet" in call(environment, "fetch", run_id, str(tmp_path / "early"), code=2)
    assert "cancelling" in call(environment, "cancel", run_id)

    async def end() -> None:
        bus = await Bus.connect(own, "task_manager")
        await bus.append(RunFinished.make(run_id=run_id, sender="task_manager", cause=None, end="cancelled"))
        await bus.close()

    asyncio.run(end())
    assert "cancelled" in call(environment, "watch", run_id, code=1)
    assert "already ended" in call(environment, "cancel", run_id, code=2)
    told = call(environment, "trace", run_id)
    assert "CancelRequested: gateway -> task_manager" in told and "RunFinished: task_manager -> person" in told
    assert json.loads(call(environment, "trace", run_id, "--json"))["run_id"] == run_id
    call(environment, "trace", run_id, "--html", str(tmp_path / "run.html"))
    assert "CancelRequested: gateway to task_manager" in (tmp_path / "run.html").read_text()
    assert "keeper" in call(environment, "top", "--once")
    assert "made no package" in call(environment, "fetch", run_id, str(tmp_path / "story"), code=1)
    assert sorted(path.name for path in (tmp_path / "story").iterdir()) == ["record.json", "summary.txt"]
    assert not (tmp_path / "early").exists()


def test_every_switch_changes_what_a_role_is_told_and_the_table_says_what() -> None:
    def prompt(*words: str) -> str:
        return CliRunner().invoke(cli.app, ["prompt", *words]).output

    head, *lines, _ = prompt().splitlines()
    assert head.split()[:4] == ["role", "without", "tokens", "tools"]
    table = {(line[:17].strip(), line[17:32].strip()): line[32:].split(maxsplit=2) for line in lines}
    assert len(table) == len(lines) == 4 * 6
    for (role, without), (tokens, tools, *differs) in table.items():
        assert bool(differs) == (without != "nothing"), (role, without)
        switches = {"all four": ",".join(SWITCHES), "nothing": ""}.get(without, without)
        told = prompt(role, "--short", "--without", switches)
        assert f"{tokens}  in all" in told and told.count("  tool: ") == int(tools), (role, without)
    whole = {role: row[0] for (role, without), row in table.items() if without == "nothing"}
    assert all(row[0] != whole[role] for (role, without), row in table.items() if without != "nothing")
    assert "role data_engineer: Example" in " ".join(table["data_engineer", "few_shot"])
