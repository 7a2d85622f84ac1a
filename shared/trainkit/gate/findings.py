"""The collector of what was found."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shared.trainkit.gate.kinds import KINDS

EXAMPLES = 5


@dataclass
class _Found:
    count: int = 0
    examples: dict[str, str] = field(default_factory=dict)
    """Path or name -> what is wrong with it."""
    measured: dict[str, Any] = field(default_factory=dict)
    looked_at: int | None = None
    repair: str = ""


class Findings:
    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}

    def add(self, kind: str, example: str, detail: str = "", count: int = 1) -> None:
        """Call in a fixed order: the first examples are kept."""
        found = self._found.setdefault(kind, _Found())
        found.count += count
        if len(found.examples) < EXAMPLES:
            found.examples.setdefault(example, detail)

    def add_all(self, kind: str, examples: Iterable[str], detail: str = "") -> None:
        for example in examples:
            self.add(kind, example, detail)

    def measure(self, kind: str, repair: str = "", looked_at: int | None = None, **measured: Any) -> None:
        """Numbers for a kind that was found; nothing where it was not. `repair` makes the general one particular."""
        if found := self._found.get(kind):
            found.measured |= measured
            found.repair = repair or found.repair
            found.looked_at = looked_at if looked_at is not None else found.looked_at

    def count(self, kind: str) -> int:
        return self._found[kind].count if kind in self._found else 0

    def listed(self) -> list[dict[str, Any]]:
        """Errors first, each in the order of KINDS."""
        order = {kind: number for number, kind in enumerate(KINDS)}
        said = []
        for kind in sorted(self._found, key=lambda kind: order[kind]):
            found, known = self._found[kind], KINDS[kind]
            one: dict[str, Any] = {
                "kind": kind,
                "severity": known.severity,
                "what": known.what,
                "count": found.count,
                "examples": list(found.examples),
                "details": {name: detail for name, detail in found.examples.items() if detail},
                "measured": found.measured,
                "repair": found.repair or known.repair,
            }
            if found.looked_at is not None:
                one["looked_at"] = found.looked_at
            said.append(one)
        return said
