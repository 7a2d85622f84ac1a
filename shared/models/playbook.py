"""The embedded default: each role's expert, written as a coroutine over the same tool calls and results.

It has no clock, randomness or I/O of its own, so that resuming is replaying it against the recorded results.
"""

from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.role import Role
from shared.contracts.transcript import Observation, Turn
from shared.errors import ReplayMismatch


class PlaybookCore:
    name = "playbook"

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        script = role.playbook(brief)
        calls = next(script)
        for entry in segment[1:]:  # the first is the order itself
            if isinstance(entry, Turn):
                if entry.calls != calls:
                    raise ReplayMismatch(
                        f"{role.name}, turn {entry.number}: on record {[call.name for call in entry.calls]}, "
                        f"the playbook now says {[call.name for call in calls]}; was it changed during the run?"
                    )
            else:
                try:
                    calls = script.send(entry)
                except StopIteration:
                    raise ReplayMismatch(
                        f"{role.name}: the playbook ended before its answer was accepted: {list(entry.notes)}"
                    ) from None
        return Decision(calls=calls)
