"""Pictures of test cases for a report: what the gateway asks a runner for once a run has its score, and what it gets.

A call and not a job, since a run that has ended is closed: pictures are no facts of it, and may be drawn again.
"""

from pydantic import Field

from shared.contracts.base import Contract, Ref, ToolArgs

MAX_PICTURES = 12
MAX_PNG = 256 << 10
"""Bytes of one picture."""


class RenderCases(ToolArgs):
    """Draw these test samples with what the package answered. For the gateway alone: no core is offered it."""

    tool = "render_cases"
    samples: tuple[str, ...] = Field(min_length=1, max_length=MAX_PICTURES)


class CasePicture(Contract):
    """One case, drawn in the sandbox. Without `png` the `problem` says why."""

    sample_id: str
    png: Ref | None = None
    """In the bucket pictures, from which no mount of a role comes: it shows a test case."""
    width: int = 0
    height: int = 0
    """Pixels."""
    problem: str = ""
    notes: tuple[str, ...] = ()
    """What a reader has to know to read it: planes, grey range, what could not be drawn."""


class CasePictures(Contract):
    """`ToolResult.data` of the call."""

    pictures: tuple[CasePicture, ...]
    colours: dict[str, str] = {}
    """Structure -> `#rrggbb`, the same in all pictures of a run."""
