"""An endpoint on loopback that plays the model of a whole run, from the turns of another run."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from shared.contracts.transcript import Turn
from tests.models.model_endpoints import Endpoint
from tests.models.protocols import Protocol, Reply


class Recording(Endpoint):
    """Plays one run for all of its roles: each is given its next recorded turn, found by its words and its progress.

    `turns` are role -> turns of some other run; `systems` are role -> system prompt. What each role sends is looked at
    by an endpoint of its own.
    """

    def __init__(self, protocol: Protocol, turns: Mapping[str, Sequence[Turn]], systems: Mapping[str, str]) -> None:
        super().__init__(protocol, [])
        self.systems = systems
        self.play(turns)
        self.read = self.wrote = 0
        """Tokens that the replies said to have cost."""
        self._lock = threading.Lock()

    def play(self, turns: Mapping[str, Sequence[Turn]]) -> None:
        self.turns = turns
        self.roles = {role: Endpoint(self.protocol, []) for role in turns}

    def unasked(self) -> list[Turn]:
        return [turn for role, turns in self.turns.items() for turn in turns[len(self.roles[role].bodies) :]]

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        with self._lock:
            reply = self._answer(path, key, body)
            self.wrong += [one for endpoint in self.roles.values() for one in endpoint.wrong]
            return reply

    def _answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        system = self.protocol.system(body)
        role = next((role for role, text in self.systems.items() if text == system), None)
        done = len(self.roles[role].bodies) if role else 0
        if role is None or done == len(self.turns[role]):
            self.wrong.append(f"{role or system[:80]} asks for turn {done + 1}: {self.protocol.said(body)[-1]}"[:2000])
            return self.protocol.error(400, "invalid_request_error", self.wrong[-1])
        turn, endpoint = self.turns[role][done], self.roles[role]
        # A run's id is in the names of its jobs, and nowhere else a model would look.
        started = re.search(rf"job (\S+)-{role}-\d+-\d+ is queued", str(self.protocol.said(body)))
        run_id = started[1] if started else turn.run_id
        uses = [
            (f"{role}-{turn.number}-{place}", call.name, _rebound(call.arguments, turn.run_id, run_id))
            for place, call in enumerate(turn.calls)
        ]
        # Figures that tell a double or a missing count from a right one.
        read, wrote = 1000 + 7 * self.read % 997, 10 + done
        endpoint.replies = [self.protocol.reply(*uses, text=turn.text, read=read, wrote=wrote, cached=(3, 5))]
        reply = endpoint.answer(path, key, body)
        if reply.status == 200:
            self.read, self.wrote = self.read + read, self.wrote + wrote
        return reply


def _rebound(arguments: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(arguments).replace(old, new))
