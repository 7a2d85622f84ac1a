"""What a program needs to run without us: the files and distributions that its imports lead to.

Every `import` statement counts, those inside functions too. A module that is only named in a string
(`importlib.import_module("name")`) is not seen.
"""

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from shared.training.exported import EXPORTED, IMAGING


class NotExportable(ValueError):
    """A package could not run by itself; two lines for each reason: what is wrong, what to change."""


OURS = ("shared", "services", "m3bench")


@dataclass
class Needed:
    """Files by their path in a package, names of distributions as pip has them, and what cannot be had."""

    files: dict[str, Path] = field(default_factory=dict)
    distributions: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def needed(program: Path) -> Needed:
    """What a package needs of the files that `program` leads to. Raises NotExportable, which names every import that a
    package could not have."""
    found = followed(program)
    if found.faults:
        raise NotExportable("\n".join(dict.fromkeys(found.faults)))
    return found


def followed(program: Path) -> Needed:
    """The imports of `program`, through the files of its folder and what packages share with training. Raises
    NotExportable where a file is missing or no Python."""
    found, known = Needed(), installed()
    waiting = [(program.name, program)]
    while waiting:
        name, path = waiting.pop()
        if name in found.files:
            continue
        if not path.is_file():
            raise NotExportable(f"{path.name} is missing\nwrite it: it is the program that a package is run with")
        found.files[name] = path
        for module, line in imported(path):
            root = module.partition(".")[0]
            if own := module_files(program.parent, root):
                waiting += own
            elif shared := shared_files(module):
                waiting += shared
            elif root in OURS:
                found.faults.append(
                    f"{name} line {line} imports {module}, which a package does not have\n"
                    "import it in train.py only, or write what is needed of it into a file of the workspace"
                )
            elif root in sys.stdlib_module_names:
                continue  # also where an old distribution of that name is installed
            elif root in known:
                found.distributions.update(dist.lower() for dist in known[root])
            else:
                found.faults.append(
                    f"{name} line {line} imports {module}, which is not installed here\n"
                    "take a package that is, or add the module's file to the workspace"
                )
    return found


@functools.cache
def installed() -> Mapping[str, list[str]]:
    """Distributions by the modules that they bring. Looked up once: it reads every installed file's name."""
    return metadata.packages_distributions()


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Full names of the modules that a file imports, with line numbers. Relative imports stay in their folder."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise NotExportable(f"{path.name} line {error.lineno} is no Python: {error.msg}\nmend that line") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            # `from package import module` and `from module import name` look alike.
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def module_files(folder: Path, name: str) -> list[tuple[str, Path]]:
    """The module `name` of a folder: one file, or all files of a package."""
    if (file := folder / f"{name}.py").is_file():
        return [(file.name, file)]
    return [(path.relative_to(folder).as_posix(), path) for path in sorted((folder / name).rglob("*.py"))]


def shared_files(module: str) -> list[tuple[str, Path]]:
    """What packages get of ours: the readers, and the parts of shared.training.exported."""
    if f"{module}.".startswith("shared.imaging."):
        return module_files(IMAGING.parent, IMAGING.name)
    if module.startswith("shared.training.exported."):
        return module_files(EXPORTED, module.split(".")[3])
    return []


def as_exported(text: str) -> str:
    """The text of a file as a package has it: what it shares with training stands beside predict.py there."""
    text = re.sub(r"from shared\.training\.exported import", "import", text)
    return text.replace("shared.training.exported.", "").replace("shared.imaging", "imaging")
