"""Reports as text that strangers wrote: how long one may be, and what of it is kept."""

import re
import unicodedata

MAX_CHARACTERS = 20_000
"""Of one report."""

_KEPT = "\n\t"


def clean(text: str) -> str:
    """Without control characters, marks that turn or hide what follows, and halves of pairs; those become spaces."""
    plain = "".join(" " if unicodedata.category(c)[0] == "C" and c not in _KEPT else c for c in text)
    return re.sub(r"[^\S\n]+", " ", plain).strip()
