"""Words of a report, as the COCO caption tools (pycocoevalcap 1.2) count them.

Theirs is the Penn Treebank tokeniser in lower case without punctuation: `2.1-cm`, `t2/flair` and `1,200` stay whole,
`doesn't` is `does n't`, `patient's` is `patient 's`, `cannot` is `can not`, `10%` is `10 %`. Three things differ on
purpose: brackets count as punctuation (their list of it misses the lower-case names that brackets get), abbreviations
lose their last dot (`dr.` and `dr` are one word), and any dash or quotation mark counts as the plain one.
"""

import re
import unicodedata
from typing import TypeAlias

Words: TypeAlias = tuple[str, ...]

MOST = 2000
"""Words of a text that count; what comes after them is not read."""

_PLAIN = str.maketrans({"’": "'", "‘": "'", "`": "'", **dict.fromkeys("‐‑‒−", "-")})
_ENDINGS = r"'(?:s|ll|re|ve|d|m)\b"
_SPLIT = re.compile(rf"(?<=\w)(n't\b|{_ENDINGS})|(?<=\bcan)(?=not\b)")
_WORD = re.compile(
    rf"n't\b|{_ENDINGS}"
    r"|(?:[^\W\d_]\.){2,}"  # p.m., i.e.
    r"|[^\W_]+(?:(?:[-/]|(?<=\d)[.,:](?=\d))[^\W_]+)*"
    r"|[%+<>=±×°&@#~*$]"
)


def words(text: str) -> Words:
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN).lower()
    found = []
    for match in _WORD.finditer(_SPLIT.sub(r" \1", plain)):
        found.append(match[0])
        if len(found) == MOST:
            break
    return tuple(found)
