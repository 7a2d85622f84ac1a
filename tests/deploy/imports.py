"""What a service of ours imports, directly or through others, inside functions too, but not for type checking alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.chart import REPOSITORY

OURS = ("services", "shared")


def foreign(module: str) -> set[str]:
    """Top names of all that is not ours below a module."""
    found, seen, waiting = set(), set(), [module]
    while waiting:
        name = waiting.pop()
        parts = name.split(".")
        if parts[0] not in OURS:
            found.add(parts[0])
            continue
        for end in range(1, len(parts) + 1):
            one = ".".join(parts[:end])
            if (path := _file(one)) and one not in seen:
                seen.add(one)
                waiting += imports(path)
    return found


def _file(module: str) -> Path | None:
    place = REPOSITORY.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file may import: of `from a import b` both `a` and `a.b`."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = path.parent.relative_to(REPOSITORY).parts
            above = around[: len(around) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
