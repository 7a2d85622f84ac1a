"""Whether words speak of a side of the body: images of such cases are not mirrored."""

import re
from collections.abc import Iterable

_WORDS = re.compile(
    r"left|right|link(?:s|e[rnms]?)|rechts?|recht(?:e[rnms]?)|izq|izquierd[oa]s?"
    r"|dcha|derech[oa]s?|gauches?|droite?s?|sinistr[oaie]|destr[oaie]|esquerd[oa]s?|direit[oa]s?",
    re.IGNORECASE,
)
_SHORT = re.compile("l|r|lt|rt", re.IGNORECASE)
_APART = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def sided(texts: Iterable[str], names: bool = True) -> bool:
    """Whether any text has a word for left or right, in English, German, Spanish, French, Italian or Portuguese; of
    `names` of classes or structures also one of the letters L and R."""
    words = (word for text in texts for word in _APART.split(text))
    return any(_WORDS.fullmatch(word) or (names and _SHORT.fullmatch(word)) for word in words)
