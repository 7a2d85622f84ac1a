"""The embedded default: each role's expert, written as a coroutine over the same tool calls and results.

It has no clock, randomness or I/O of its own, so that resuming is replaying it against the recorded results.
"""

import traceback
from pathlib import Path

from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.dialogue import rounds
from shared.agent.role import Role
from shared.contracts.transcript import Call, Observation, Turn
from shared.errors import M3Error, PlaybookBroken, ReplayMismatch


class PlaybookCore:
    name = "playbook"
    opened = sees = False

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        try:
            return Decision(calls=_replayed(role, brief, segment))
        except M3Error:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            raise PlaybookBroken(
                f"the playbook of {role.name} has a defect: {type(error).__name__}: {error} ({place})"
            ) from error


def _replayed(role: Role, brief: Brief, segment: list[Turn | Observation]) -> tuple[Call, ...]:
    script = role.playbook(brief)
    calls = next(script)
    for turn, observation in rounds(segment):
        if turn.calls != calls:
            raise ReplayMismatch(
                f"{role.name}, turn {turn.number}: on record {[call.name for call in turn.calls]}, "
                f"the playbook now says {[call.name for call in calls]}; was it changed during the run?"
            )
        try:
            calls = script.send(observation)
        except StopIteration:
            raise ReplayMismatch(
                f"{role.name}: the playbook ended before its answer was accepted: {list(observation.notes)}"
            ) from None
    return calls
