"""What a role may see and where it works: pure decisions of the runner."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.tool_runner.mounts import IMPORTED, TEMPLATES, Mounts, library, templates
from services.tool_runner.runner import last_json
from services.tool_runner.seeds import area_for
from shared.contracts.state import RunState, fold
from shared.errors import UserError
from shared.settings import Settings
from tests.cases import begun


def planned(path: str | None) -> RunState:
    return fold("r1", enumerate(begun("r1", {"path": path}), 1))


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


def test_scripts_can_import_what_is_listed_and_nothing_else_of_ours(tmp_path: Path) -> None:
    folder = library(tmp_path)
    assert library(tmp_path) == folder
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert all(any(file.is_relative_to(name) for file in files) for name in IMPORTED)
    others = {str(file) for file in files if not any(file.is_relative_to(name) for name in IMPORTED)}
    assert others == {"shared/__init__.py", "shared/store/__init__.py"}
    assert all((folder / name).read_text() == "" for name in others)


def test_a_template_is_shown_with_real_files_where_the_repository_has_links(tmp_path: Path) -> None:
    """Tools refuse links, and `cp -r` would keep them."""
    folder = templates(tmp_path)
    shown = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert any(path.is_symlink() for path in TEMPLATES.rglob("*"))
    files = {path.relative_to(TEMPLATES) for path in TEMPLATES.rglob("*") if "__pycache__" not in path.parts}
    assert shown == {path for path in files if (TEMPLATES / path).is_file()}
    assert all((folder / path).read_bytes() == (TEMPLATES / path).read_bytes() for path in shown)


def test_what_the_sandbox_runs_imports_nothing_that_is_not_in_it(tmp_path: Path) -> None:
    names = ("propose", "intake.intake", "rules.resolve", "profile.profile")
    programs = ", ".join(f"shared.dataset.{name}" for name in names)
    words = [sys.executable, "-P", "-c", f"import {programs}"]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(library(tmp_path))}, cwd=tmp_path)
    assert done.returncode == 0


def test_facts_are_the_last_json_object_of_an_output() -> None:
    assert last_json(b'{"a": 1}\nnoise\n{"b": 2}\n{broken\n[3]\n') == {"b": 2}
    assert last_json(b"nothing") is None
