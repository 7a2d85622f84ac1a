"""A role is what differs between agents; the loop, the bus and the checks' machinery are the same for all."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.contracts.base import AgentName, Contract, Event, Spent, ToolArgs
from shared.contracts.state import RunState
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation

Facts = dict[str, JsonValue]
Playbook = Callable[[Brief], Generator[tuple[Call, ...], Observation, None]]


@dataclass(frozen=True)
class Probe:
    """A run of one of the runner's trusted programs. `exports` are workspace files that come back as Refs; the package
    of the training `job` (its id, or the name of a try) is seen at /package."""

    name: str
    arguments: tuple[str, ...]
    exports: tuple[str, ...] = ()
    job: str = ""


@dataclass(frozen=True)
class Submission:
    """One way to end a role's work: the tool name that a core calls, its contract, what is looked at, what is said.

    `probe` may be None (nothing to look at). `check` is pure: facts -> problems; an empty list ends the work.
    """

    tool: str
    answer: type[Contract]
    check: Callable[[Any, Facts, Brief], list[str]]
    event: Callable[[Any, Facts, Brief, RunState, Spent], Event]
    probe: Callable[[Any, Brief], Probe | None] = lambda answer, brief: None
    unread: Callable[[Facts, Sequence[ToolResult], Sequence[ToolResult]], list[str]] = lambda facts, beside, before: []
    """What the results of calls beside it say that those before did not: for that it comes back, once."""


@dataclass(frozen=True)
class Role:
    name: AgentName
    tools: tuple[type[ToolArgs], ...]
    submissions: tuple[Submission, ...]
    prompt: Path
    playbook: Playbook
    opening: Callable[[Brief, bool], tuple[Call, ...]] = lambda brief, again: ()
    """Calls that are made before a model's first turn on an order; `again`: it has had one on the same data."""
    team: tuple["Role", ...] = ()
    """Of a run without collaboration: all roles, whose prompts and tools this one has beside its own."""

    def submission(self, tool: str) -> Submission | None:
        return next((item for item in self.submissions if item.tool == tool), None)

    def tool(self, name: str) -> type[ToolArgs] | None:
        return next((item for item in self.tools if item.tool == name), None)
