"""A run without collaboration: one role does the work of all four, and its core talks on over the stages.

The services stay as they are, each with its own rights, so that plan, rules, module and training are said, checked and
sealed as ever. What changes is what a core is told: the prompts and tools of all, and, in a role that goes on with
another's work, the whole conversation of that one. Over the lock nothing goes on: who has seen raw data is not the one
who builds, and so no score is worth less for it.
"""

from collections.abc import Sequence
from dataclasses import replace

from shared.agent.brief import Brief
from shared.agent.prompt import opening
from shared.agent.role import Role
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Observation, Turn

Entries = list[Turn | Observation]


def alone(role: Role, team: Sequence[Role]) -> Role:
    """The role as one that does the work of the whole `team`, itself included; its own stage is what it can end."""
    return replace(role, team=tuple(team))


def going_on(before: Entries, brief: Brief, segment: Entries) -> tuple[Brief, Entries]:
    """The brief and the entries of one conversation: what was said on the last order of `before`, then `segment`."""
    begun = [number for number, entry in enumerate(before) if isinstance(entry, Observation) and entry.opens]
    if not begun:
        return brief, segment
    first, *said = before[begun[-1] :]
    assert isinstance(first, Observation)
    last = next(entry for entry in reversed(said) if isinstance(entry, Turn))
    known = {result.call_id for entry in said if isinstance(entry, Observation) for result in entry.results}
    ids = [(f"{last.run_id}-{last.role}-{last.number}-{place}", call.name) for place, call in enumerate(last.calls)]
    results = [ToolResult(call_id=one, tool=name, ok=True, summary="accepted") for one, name in ids if one not in known]
    handed_on = Observation(
        run_id=brief.run_id,
        role=brief.role,
        number=segment[0].number,
        results=tuple(results),
        notes=(f"Your work goes on as {brief.role}.\n\n{opening(brief)}",),
    )
    # Of the files an endpoint outside may be told what it may in the role that looks at them.
    begun_with = Brief.model_validate(first.event).model_copy(update={"public": brief.public})
    return begun_with, [first, *said, handed_on, *segment[1:]]
