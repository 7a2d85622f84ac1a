"""What a role may see and where it works: pure decisions of the runner."""

from pathlib import Path

import pytest

from services.tool_runner.mounts import TEMPLATES, Mounts, library
from services.tool_runner.runner import last_json
from services.tool_runner.seeds import area_for
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.state import RunState, fold
from shared.errors import UserError
from shared.settings import Settings


def planned(path: str | None) -> RunState:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x")
    plan = TaskPlan(task="diagnosis", dataset_id="d", reason="r", dimensions=2, modality="CT", metric="auc_macro")
    card = DataCard(dataset_id="d", name="d", description="d", path=path)
    event = TaskPlanned.make(run_id="r1", sender="task_manager", cause=asked, plan=plan, card=card)
    return fold("r1", [(1, asked), (2, event)])


def mounts(root: Path) -> Mounts:
    return Mounts(Settings(home=root / "home", data_roots=(root / "data",)), None)  # type: ignore[arg-type]


async def test_only_the_data_engineer_sees_the_raw_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "d"
    folder.mkdir(parents=True)
    policy, state = mounts(tmp_path), planned(str(folder))
    assert (await policy.for_role("data_engineer", state)).data == folder
    for role in ("task_manager", "module_architect", "model_trainer", "scorer", "gateway"):
        assert (await policy.for_role(role, state)).data is None


async def test_a_dataset_outside_of_the_data_roots_is_never_mounted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data-secret").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "data-secret")
    for path in (tmp_path / "data-secret", tmp_path / "data" / "link", tmp_path / "data" / ".." / "data-secret"):
        with pytest.raises(UserError, match="outside"):
            await mounts(tmp_path).for_role("data_engineer", planned(str(path)))


def test_a_new_lock_starts_a_new_build_workspace() -> None:
    state = planned("/x")
    assert area_for("module_architect", state.model_copy(update={"locks": 1})) == "build"
    assert area_for("model_trainer", state.model_copy(update={"locks": 2})) == "build-2"
    assert area_for("data_engineer", state.model_copy(update={"locks": 2})) == "data"


def test_scripts_can_import_the_training_kit_and_nothing_else_of_ours(tmp_path: Path) -> None:
    folder = library(tmp_path)
    assert library(tmp_path) == folder
    files = {path.relative_to(folder).parts[:2] for path in folder.rglob("*.py")}
    assert files == {("shared", "__init__.py"), ("shared", "trainkit")}
    assert (folder / "shared" / "__init__.py").read_text() == ""
    assert TEMPLATES.is_dir()


def test_facts_are_the_last_json_object_of_an_output() -> None:
    assert last_json(b'{"a": 1}\nnoise\n{"b": 2}\n{broken\n[3]\n') == {"b": 2}
    assert last_json(b"nothing") is None
