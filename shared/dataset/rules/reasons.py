"""Reasons for leaving something out that lose nothing: what nobody asked for, or what has no target."""

from collections import Counter
from collections.abc import Mapping

from shared.contracts.cases import Lossless


class Expected(str):
    """A reason that was to be expected; `of` says what is left out for it."""

    of: Lossless

    def __new__(cls, text: str, of: Lossless) -> "Expected":
        reason = super().__new__(cls, text)
        reason.of = of
        return reason


UNREAD = "image that cannot be read: have it copied again"
"""Where a header would have told something: nothing else is said of such a file."""


def lossless(left_out: Mapping[str, int]) -> dict[Lossless, int]:
    """How much of what was left out was to be expected. By type, not by words: authors of rules write reasons, too."""
    found: Counter[Lossless] = Counter()
    for reason, count in left_out.items():
        if isinstance(reason, Expected):
            found[reason.of] += count
    return dict(found)
