"""The modules config, data and model of a template, in this process, for as long as they are needed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from bench.rig.workspace import TEMPLATES


class Modules(NamedTuple):
    config: ModuleType
    data: ModuleType
    model: ModuleType


def dataset_module(folder: Path) -> ModuleType:
    """The module of a template that makes its datasets."""
    names = [name for name in ("cases", "data") if (folder / f"{name}.py").exists()]
    return next(module for module in map(import_module, names) if hasattr(module, "build"))


@contextmanager
def template(name: str) -> Iterator[Modules]:
    """Templates have modules of the same names: afterwards, those of this one are forgotten."""
    folder = TEMPLATES / name
    sys.path.insert(0, str(folder))
    try:
        yield Modules(import_module("config"), dataset_module(folder), import_module("model"))
    finally:
        sys.path.remove(str(folder))
        for key, module in list(sys.modules.items()):
            if folder in Path(getattr(module, "__file__", None) or "/").parents:
                del sys.modules[key]
