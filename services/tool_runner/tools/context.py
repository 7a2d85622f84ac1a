"""What a tool is given and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from services.tool_runner.paths import Roots
from shared.contracts.base import Ref
from shared.contracts.tools import Picture


@dataclass(frozen=True)
class Executed:
    """How a sandboxed process ended. A time-out or a kill is a result, never an exception."""

    outcome: str
    """`ok`, `failed`, `timeout`, `memory` or `cancelled`."""
    exit_code: int | None
    """128 + n for a death by signal n; None where the sandbox ended it."""
    seconds: float
    isolation: str
    output: bytes
    """stdout and stderr together: all of it, or the first and last 200 kB with a marker line between."""
    log: Ref | None = None
    peak_memory_mb: float = 0.0


class Execute(Protocol):
    """Runs argv in the sandbox with the workspace as current folder; provided by the runner."""

    async def __call__(
        self, argv: Sequence[str], *, seconds: float, stdin: bytes = b"", probe: bool = False
    ) -> Executed:
        """`probe`: the workspace is read-only and our probes are mounted.

        Raises ToolBroken when no sandbox can be had.
        """
        ...

    def probe_argv(self, script: str, *args: str) -> list[str]:
        """argv of one of our probes (`preview_dirs.py`) at the sandbox level in use."""
        ...


@dataclass(frozen=True)
class Context:
    roots: Roots
    execute: Execute
    call_id: str


@dataclass(frozen=True)
class Answer:
    """A tool's answer before it is bounded and put under its call's id."""

    ok: bool
    summary: str
    data: dict[str, JsonValue] = field(default_factory=dict)
    truncated: bool = False
    executed: Executed | None = None
    pictures: tuple[Picture, ...] = ()
