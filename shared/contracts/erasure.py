"""Erasing runs and datasets: what is left as a trace, and what the gateway asks a runner for."""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from shared.contracts.base import Contract, Ref, Token


class Tombstone(Contract):
    """What is left of an erased run or dataset: which, when and by whom, and nothing of what it was."""

    id: Token
    kind: Literal["run", "dataset"]
    at: datetime
    by: str
    done: bool = False
    """False while it is being erased; asking again finishes it."""


class Amount(Contract):
    count: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(count=self.count + other.count, bytes=self.bytes + other.bytes)


class References(Contract):
    """Stored objects that messages on the bus name; what these objects name in turn is found by reading them."""

    kept: tuple[Ref, ...]
    """Of all runs and datasets that stay."""
    gone: tuple[Ref, ...]
    """Of those that are erased."""


class Sweep(Contract):
    """Arguments of the gateway's call `sweep`: remove what nothing names from the store and the runner's disk.

    Nothing may be at work meanwhile: an object that is being stored is named by nobody yet. A call that comes late is
    refused.
    """

    tool: ClassVar[str] = "sweep"
    erased: tuple[Token, ...]
    """Runs and datasets."""
    references: Ref
    """A `References`."""
    as_of: dict[str, int]
    """Stream -> its newest message when the references were gathered; one that has moved on may name more."""
    dry_run: bool = False
    """Only tell."""


class Swept(Contract):
    """`ToolResult.data` of the call."""

    erased: dict[str, Amount] = Field(default={})
    """Place -> objects or files, and their bytes."""
    shared: Amount = Amount()
    """Objects that what is erased names and that something else names, too: they stay."""
