"""How the cases of an intake job differ from those of the rules that the search proposes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.tool_runner.intake.sandbox import IntakeSandbox
from shared.contracts.cases import CaseSpec, Proposal
from shared.contracts.rules import Rules
from shared.dataset.rules.apart import apart
from shared.errors import ToolRefused

FEW = 5000
"""Cases up to which it is looked at: of more, honest rules say less than a bit a case by their text alone."""


def is_among(rules: Rules, proposals: Iterable[Proposal]) -> bool:
    """Whether the rules are one of the proposals as they stand, but for cases that were handed back."""
    said = rules.model_copy(update={"leave_out": {}})
    return any(Rules.model_validate(one.rules) == said for one in proposals)


@dataclass(frozen=True)
class Compared:
    """What a job takes in, to be compared with proposals."""

    rules: Rules
    cases: Sequence[CaseSpec]
    """That are taken in."""
    values: Mapping[str, int]
    """Of structures, in their masks."""
    taken: Callable[[Sequence[CaseSpec]], list[CaseSpec]]
    """Of the cases that any rules find, those that the job would take in."""
    sandbox: IntakeSandbox
    data: Path

    async def all(self, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
        """With `apart`. Raises Cancelled."""
        return tuple([await self._one(one) for one in proposals])

    async def _one(self, proposal: Proposal) -> Proposal:
        theirs = Rules.model_validate(proposal.rules)
        if (theirs.task, theirs.dimensions, theirs.axis4) != (self.rules.task, self.rules.dimensions, self.rules.axis4):
            return proposal
        try:
            found, coverage, _ = await self.sandbox.resolve(self.data, theirs, whose=False)
        except ToolRefused:
            return proposal
        theirs_taken = await asyncio.to_thread(self.taken, found)
        told = await asyncio.to_thread(apart, theirs_taken, coverage.label_values, self.cases, self.values)
        return proposal.model_copy(update={"apart": told})
