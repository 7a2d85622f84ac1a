"""No process that is not in the sandbox can load what runs code: pickles, in whatever format they come."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LOADERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "torch", "pandas"}
SANDBOXED = ("services/tool_runner/probes", "shared/training", "shared/imaging", "shared/dataset")
"""What runs inside, but for the modules of it that others import. The launcher and the runner talk in marshalled bytes
that no stranger writes."""


def imported(name: str) -> set[str]:
    """Files of ours that a file imports when it is loaded."""
    found = set()
    for node in ast.parse((REPOSITORY / name).read_text()).body:
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = name.split("/")[: -node.level]
            module = ".".join([*folder, *filter(None, [node.module])])
        for place in [module, *(f"{module}.{alias.name}" for alias in getattr(node, "names", ()))] if module else []:
            path = place.replace(".", "/")
            found |= {one for one in (f"{path}.py", f"{path}/__init__.py") if (REPOSITORY / one).is_file()}
    return found


def outside() -> list[str]:
    """Files that processes outside of the sandbox may load."""
    tops = [path for top in ("services", "shared") for path in (REPOSITORY / top).rglob("*.py")]
    names = [str(path.relative_to(REPOSITORY)) for path in tops]
    found = {name for name in names if not name.startswith(SANDBOXED)}
    left = list(found)
    while left:
        new = imported(left.pop()) - found
        found |= new
        left += new
    return sorted(found)


FILES = outside()
PARTS = sorted({name.rsplit("/", 1)[0] for name in FILES})


def faults(source: str) -> list[str]:
    """Imports of loaders anywhere in it, and arrays of objects that are asked for."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found += [f"line {node.lineno}: {name}" for name in names if name.split(".")[0] in LOADERS]  # type: ignore[attr-defined]
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            safe = isinstance(node.value, ast.Constant) and node.value.value is False
            found += [] if safe else [f"line {node.lineno}: allow_pickle"]
    return found


@pytest.mark.parametrize("part", PARTS)
def test_no_part_outside_the_sandbox_loads_code(part: str) -> None:
    files = [name for name in FILES if name.rsplit("/", 1)[0] == part]
    wrong = {name: found for name in files if (found := faults((REPOSITORY / name).read_text()))}
    assert wrong == {}


def test_a_loader_would_be_found() -> None:
    source = "def f():\n    import torch.serialization\n    np.load(x, allow_pickle=True)\nfrom pickle import loads\n"
    assert len(faults(source)) == 3


def test_what_others_import_of_the_sandboxed_parts_is_looked_at() -> None:
    assert "shared/imaging/formats.py" in FILES and "shared/imaging/pickles.py" not in FILES
