"""Replays a recorded run: the turns of a transcript file, whatever the results are.

The file is JSON Lines of `Turn` and `Observation` (written by `m3builder record RUN FILE`). Of turns role, number, text
and calls are used; observations tell where reality diverged.
"""

import os
import stat
from pathlib import Path

from pydantic import ValidationError

from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.role import Role
from shared.contracts.transcript import Call, Observation, Turn, decode_entry
from shared.errors import ReplayMismatch, UserError
from shared.models.diverged import divergences

MAX_BYTES = 64 << 20


def read_transcript(path: Path) -> dict[str, list[Turn | Observation]]:
    """Role -> its entries in order. Raises UserError when the file is missing or no transcript."""
    try:
        entries = [decode_entry(line) for line in _read(path).splitlines() if line.strip()]
    except OSError as error:
        raise UserError(f"the transcript {path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise UserError(f"{path} is no transcript: {error.errors()[0]['msg']}") from None
    found: dict[str, list[Turn | Observation]] = {}
    for entry in entries:
        found.setdefault(entry.role, []).append(entry)
    if not any(isinstance(entry, Turn) for entry in entries):
        raise UserError(f"{path} holds no turns")
    return found


def _read(path: Path) -> bytes:
    """Raises UserError for what is no regular file, or a larger one than any recorded run."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise UserError(f"the transcript {path} is no regular file of at most {MAX_BYTES} bytes")
        return file.read(MAX_BYTES)


class ScriptedCore:
    opened = sees = False

    def __init__(self, path: str) -> None:
        self.name = f"scripted:{path}"
        self._recorded = read_transcript(Path(path))

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        done = segment[-1].number  # turns on record so far, over all orders
        entries = self._recorded.get(role.name, [])
        recorded = [entry for entry in entries if isinstance(entry, Turn)]
        if done >= len(recorded):
            told = f"the transcript has {len(recorded)} turns of {role.name}; turn {done + 1} was asked for"
            places = divergences({role.name: entries}, {role.name: segment})
            raise ReplayMismatch("; reality diverged at ".join([told, *map(str, places)]))
        turn = recorded[done]
        return Decision(calls=tuple(_rebind(call, turn.run_id, brief.run_id) for call in turn.calls), text=turn.text)


def _rebind(call: Call, old_run: str, new_run: str) -> Call:
    """Ids of the recorded run (in job ids, for instance) become those of this one."""
    return Call.model_validate_json(call.model_dump_json().replace(old_run, new_run))
