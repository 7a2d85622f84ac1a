"""What goes into the intake program and comes out of it (`shared.dataset.intake.intake`)."""

from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract
from shared.contracts.wrapping import Wrapping

VERSION = "7"
"""Raise it when the same files would give other canonical files or facts: what was decoded is then done again."""
SPECS, PERSONS, RECORDS, LOOKS, OUT = "specs.jsonl", "persons.jsonl", "records.jsonl", "looks", "out"


class Order(Contract):
    """What holds for all cases of a shard, and bounds."""

    dimensions: Literal[2, 3]
    axis4: Literal["refuse", "channels", "first"] = "refuse"
    masks: bool = False
    """Whether every case gets a mask: an empty one where nothing is marked."""
    workers: int = Field(default=2, ge=1)
    memory_mb: int = Field(default=4096, ge=1)
    """Of all workers together."""
    seconds: int = Field(default=300, ge=1)
    """Of processor time, for one case; of a volume with 2 GB of voxels some 60 are needed."""


class Taken(Contract):
    """What became of one case."""

    n: int = Field(ge=0)
    """Line of `specs.jsonl`, from 0."""
    images: tuple[str, ...] = ()
    """Names of canonical files in `out/<n>`."""
    mask: str | None = None
    values: tuple[int, ...] = ()
    facts: dict[str, JsonValue] = {}
    wrapping: Wrapping = Wrapping()
    left_out: str = ""
    """Why it is no case and what to do about it, without any name; empty where it is one."""
    ended: Literal["", "memory", "seconds", "died"] = ""
    """What ended the worker: another machine, or a worker alone, may come further."""


class LeftOut(Exception):
    """Why files make no case, with what to do about it; names none of them."""
