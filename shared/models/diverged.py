"""Where a replay went another way than its record: the first tool result of each role that is not what it was."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Observation, Turn

Entries = Mapping[str, Sequence[Turn | Observation]]

SEES_THE_TEST_SET = "data_engineer"
_DIGEST = "sha256:"
_TIMES = re.compile(r"\b\d+(\.\d+)? (s|ms)\b")


@dataclass(frozen=True)
class Divergence:
    role: str
    turn: int
    call: int
    """Counted from 1."""
    tool: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.role}, turn {self.turn}, call {self.call} ({self.tool})"
        return f"{place}, line {self.line} of the result\n  recorded: {self.before}\n  now:      {self.after}"


def kept(entry: Turn | Observation) -> Turn | Observation:
    """As it stands in a file: what tools said, without values for code and pictures. Of the Data Engineer, whose tools
    show files that turn out to be test cases, a digest of what they said."""
    if isinstance(entry, Turn):
        return entry
    hidden = entry.role == SEES_THE_TEST_SET
    results = [
        ToolResult(
            call_id=result.call_id,
            tool=result.tool,
            ok=result.ok,
            summary=_digest(result, entry.run_id) if hidden else result.summary,
        )
        for result in entry.results
    ]
    changed = {"results": tuple(results)} | ({"event": None, "notes": ()} if hidden else {})
    return entry.model_copy(update=changed)


def divergences(recorded: Entries, now: Entries) -> Iterator[Divergence]:
    """The first of each role, in the order of `recorded`. Ids of runs and times of day or of work are no difference."""
    for role, entries in recorded.items():
        ours, theirs = dict(_results(entries)), dict(_results(now.get(role, ())))
        for turn, call in sorted({*ours, *theirs}):
            before, after = ours.get((turn, call)), theirs.get((turn, call))
            lines = _differ(before, after)
            if lines and (known := before or after):
                yield Divergence(role, turn, call, known[1].tool, *lines)
                break


_Result = tuple[str, ToolResult]
"""With the id of its run."""


def _results(entries: Sequence[Turn | Observation]) -> Iterator[tuple[tuple[int, int], _Result]]:
    for entry in entries:
        for result in entry.results if isinstance(entry, Observation) else ():
            yield (entry.number, int(result.call_id.rpartition("-")[2]) + 1), (entry.run_id, result)


def _differ(before: _Result | None, after: _Result | None) -> tuple[int, str, str] | None:
    """The first line that differs, as recorded and now. A submission that is accepted may have no result."""
    if before is None or after is None:
        return 1, _first(before, "(none, as of an accepted submission)"), _first(after, "(none)")
    if before[1].summary.startswith(_DIGEST):
        same = _digest(after[1], after[0]) == before[1].summary
        return None if same else (1, "(of this role a digest is kept)", _first(after, ""))
    texts = (_plain(before[1], before[0]).splitlines(), _plain(after[1], after[0]).splitlines())
    for number, (old, new) in enumerate(zip_longest(*texts, fillvalue="(no more lines)"), 1):
        if old != new:
            return number, old[:300], new[:300]
    return None


def _plain(result: ToolResult, run_id: str) -> str:
    return _TIMES.sub(r"# \2", f"{'' if result.ok else 'refused: '}{result.summary}".replace(run_id, "RUN"))


def _digest(result: ToolResult, run_id: str) -> str:
    return _DIGEST + hashlib.sha256(_plain(result, run_id).encode()).hexdigest()


def _first(found: _Result | None, none: str) -> str:
    return found[1].summary.partition("\n")[0][:300] if found else none
