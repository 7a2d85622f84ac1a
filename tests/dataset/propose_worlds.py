"""What every world has: how it is made, what is asked, and what must be found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.contracts.base import TaskKind


@dataclass(frozen=True)
class World:
    make: Callable[[Path], None]
    task: TaskKind
    cases: int
    patients: int
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `propose` beside root and task."""
    counts: Mapping[str, int] | None = None
    """Class -> cases."""
    names: tuple[str, ...] | None = None
    splits: Mapping[str, int] | None = None
    channels: tuple[str, ...] | None = None
    dimensions: int | None = None
    key: str = ""
    """Of the question that must be asked."""
    choices: int = 0
    """Alternatives of it."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the best rules that are settled."""
