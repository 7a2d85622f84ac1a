"""No process that is not in the sandbox can load what runs code: pickles, in whatever format they come."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LOADERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "torch", "pandas"}
SANDBOXED = ("services/tool_runner/probes", "shared/trainkit")
"""What runs inside. The launcher and the runner talk in marshalled bytes that no stranger writes."""
FILES = sorted(
    str(path.relative_to(REPOSITORY))
    for top in ("services", "shared")
    for path in (REPOSITORY / top).rglob("*.py")
    if not str(path.relative_to(REPOSITORY)).startswith(SANDBOXED)
)
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
