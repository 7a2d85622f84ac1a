"""The benchmark's tasks: their requests, ranges, and how hard each replica is (`requests.json`)."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from m3bench import cards
from shared.contracts.base import Contract, TaskKind
from shared.errors import UserError


class Task(Contract):
    name: str
    card: str
    """Stem of its card's file, which is the id of its dataset."""
    kind: TaskKind
    structures: tuple[str, ...]
    """That are to be segmented; of a diagnosis or report none."""
    requests: tuple[str, ...]
    real: dict[str, Any]
    replicas: dict[str, dict[str, Any]]
    """Size -> `metric`, `floor`, `ideal`, `measured`."""


class Lacking(Contract):
    """A task whose dataset lacks what it is for: to say so, or to ask, is the right end."""

    task: str
    files: tuple[str, ...]
    """Patterns of the names of files and folders that are taken out of the replica, in whatever layout."""
    why: str


@cache
def tasks() -> dict[str, Task]:
    """All by name, in the order of the paper's Table 1."""
    return {
        name: Task(
            name=name,
            card=told["card"],
            kind=told["task"],
            structures=tuple(told.get("structures", ())),
            requests=tuple(one["text"] for one in told["requests"]),
            real=told["real"],
            replicas=told["replicas"],
        )
        for name, told in _read()["tasks"].items()
    }


def unserved() -> tuple[str, ...]:
    """Requests that none of the datasets can serve: asking, or saying so, is the right end of them."""
    return tuple(one["text"] for one in _read()["unserved"])


def lacking() -> tuple[Lacking, ...]:
    return tuple(Lacking.model_validate(one) for one in _read()["lacking"])


def find(name: str) -> Task:
    """A task by its name or its dataset's id, in any case. Raises UserError."""
    for task in tasks().values():
        if name.lower() in (task.name.lower(), task.card):
            return task
    raise UserError(f"there is no task {name!r}; there are: {', '.join(tasks())}")


def chosen(names: Iterable[str]) -> list[Task]:
    """The tasks that are named, each once, or all. Raises UserError."""
    return list({task.name: task for task in map(find, names)}.values()) or list(tasks().values())


def card_of(task: Task) -> str:
    """Text of the card of its dataset."""
    return next(path for path in cards.paths() if path.stem == task.card).read_text(encoding="utf-8")


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("requests.json").read_text(encoding="utf-8"))
    return found
