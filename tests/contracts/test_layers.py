"""Packages import each other in one direction: each can be read, tested and moved with those below it alone."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path) -> set[str]:
    """Modules that a file names in imports, also in functions and for types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{one.name}" for one in node.names}
    return found


def test_no_package_imports_one_that_imports_it() -> None:
    imports = defaultdict(set)
    for path in sorted(path for top in ("shared", "services") for path in (ROOT / top).rglob("*.py")):
        if path.name != "__main__.py":  # a program, which nobody imports
            own = ".".join(path.relative_to(ROOT).with_suffix("").parts[:2])
            ours = (name.split(".") for name in imported(path) if name.startswith(("shared.", "services.")))
            imports[own] |= {".".join(parts[:2]) for parts in ours} - {own}
    assert imports["services.gateway"] > {"shared.bus", "shared.contracts"}
    order = list(TopologicalSorter(imports).static_order())
    assert order.index("shared.agent") < order.index("shared.disclosure") < order.index("shared.models")
