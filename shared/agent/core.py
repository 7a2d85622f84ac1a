"""A core decides the next tool calls. All are interchangeable, and a run names one."""

from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.agent.role import Role
from shared.contracts.base import Spent
from shared.contracts.transcript import Call, Observation, Turn


@dataclass(frozen=True)
class Decision:
    calls: tuple[Call, ...]
    text: str = ""
    remark: str = ""
    kept: JsonValue = None
    hidden: tuple[str, ...] = ()
    """Of text and calls, what the model knows by surrogates only."""
    spent: Spent = field(default_factory=Spent)


class Core(Protocol):
    name: str
    sees: bool
    """Whether it is shown pictures."""
    opened: bool
    """Whether the calls that a role always begins with are made before it is asked: it needs no turn for them."""

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        """The next calls, given the transcript since the work was ordered. `segment` ends with an Observation.

        Must not depend on anything but its arguments: another replica may ask again after a crash.
        """
        ...
