"""What is wrong with a dataset's files, worst first: how many, an example, and what to do about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_LONGEST = 200
UNUSABLE, DOUBTFUL, NOTE = 0, 1, 2
"""Ranks: nothing can be made of these; they can be used by someone who knows; worth knowing."""


@dataclass
class Findings:
    """A collector. `skipped` says what a check did not look at."""

    found: list[tuple[int, int, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)
    """Files of which it is said already."""

    def add(self, rank: int, examples: Sequence[str], what: str, do: str, count: int | None = None) -> None:
        """As many as there are `examples`, unless `count` says; none of none. `what` stands behind the count, as
        `image(s) are cut off`."""
        count = len(examples) if count is None else count
        if count:
            such = f", such as {_short(examples[0])}" if examples else ""
            self.found.append((rank, -count, f"{count:,} {_numbered(what, count)}{such}: {do}"))

    def say(self, rank: int, text: str) -> None:
        """What has no count."""
        self.found.append((rank, 0, text))


def _short(example: str) -> str:
    """Beginning and end of a long path."""
    return example if len(example) <= _LONGEST else f"{example[: _LONGEST // 2]} ... {example[-_LONGEST // 2 :]}"


def _numbered(what: str, count: int) -> str:
    """`image(s) are` as singular or plural."""
    if count != 1:
        return what.replace("(s)", "s").replace("(es)", "es")
    what = what.replace("(s)", "").replace("(es)", "")
    for several, one in (("are", "is"), ("have", "has"), ("hold", "holds"), ("do not", "does not"), ("mark", "marks"),
                         ("name", "names"), ("stand", "stands")):  # fmt: skip
        what = re.sub(rf"\b{several}\b", one, what, count=1)
    return what
