"""Who may import whom: downward only, so that a file is understood with what lies below it."""

from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import shared.dataset
from tests.deploy.chart import REPOSITORY
from tests.deploy.imports import imports

ROOMS = ("tables", "files", "shapes", "survey", "intake", "rules", "profile", "propose")


def _within(folder: str) -> dict[str, set[str]]:
    """Modules of a folder -> those of them that each imports, inside functions, too; but for packages around it."""
    files = {_name(path): path for path in (REPOSITORY / folder).rglob("*.py")}
    return {
        name: {one for one in imports(path) if one in files and not f"{name}.".startswith(f"{one}.")}
        for name, path in files.items()
    }


def _name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("folder", ["shared", "services"])
def test_no_module_imports_what_imports_it(folder: str) -> None:
    found = _within(folder)
    assert found
    TopologicalSorter(found).prepare()  # raises CycleError, which names the circle


def test_rooms_of_the_dataset_import_from_those_before_them() -> None:
    said = str(shared.dataset.__doc__)
    assert sorted(ROOMS, key=lambda room: said.index(f"`{room}`")) == list(ROOMS)
    for name, others in _within("shared/dataset").items():
        room = name.split(".")[2] if name != "shared.dataset" else ROOMS[0]
        for other in others:
            assert ROOMS.index(other.split(".")[2]) <= ROOMS.index(room), f"{name} imports {other}"
