"""Replicas that several files of tests look at: made once, when first asked for, and never changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from m3bench.replicas import make

Tiny = Callable[[str], Path]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The `tiny` replica of a card, in the paper's layout, with its truth beside it."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("tiny") / name
            make(name, made[name], seed=3, workers=1)
        return made[name]

    return get
