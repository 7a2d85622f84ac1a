"""The text of a report: what is one, which part of it a column or a heading holds, and how it is written down.

Reports are kept as they were written: only white space is made even. The marks of de-identification (`XXXX`, `___`)
stay: the usual protocol for such reports keeps them, and without them sentences break (`Osseous are intact`). Runs in
the sandbox.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

Section = Literal["findings", "impression", "report"]

LONGEST = 20_000
"""Characters of a report; longer ones are no report but a file."""
DEIDENTIFIED = re.compile(r"\bX{3,}\b|_{3,}", re.IGNORECASE)

_PARTS: tuple[Section, ...] = ("findings", "impression")
_EMPTY = re.compile(
    r"(?:nan|none|null|nil|n\.? ?[/.]? ?a\.?|not (?:given|available|applicable|provided|specified|reported)|unknown"
    r"|empty|no (?:report|text)(?: (?:given|available))?|missing|tbd|to follow|see (?:above|below|report)"
    r"|X{3,}|_+|[\W_]*)[\W_]*",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_HEADINGS: dict[str, str] = {
    "findings": r"findings?",
    "impression": r"impressions?|conclusions?",
    "": r"indications?|history|clinical (?:history|information|indication|data)|reason for exam(?:ination)?"
    r"|comparisons?|techniques?|procedures?|exam(?:ination)?|recommendations?|notifications?|final report"
    r"|addendum|wet read",
}
_HEADING = re.compile(r"(?:^|(?<=[\n.]))[ \t]*(" + "|".join(_HEADINGS.values()) + r")[ \t]*:", re.IGNORECASE)


def tidy(text: str) -> str:
    """Single spaces, no control characters; empty where the text is a word for nothing (`nan`, `Not given.`)."""
    plain = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in text)
    plain = " ".join(plain.split())
    return "" if _EMPTY.fullmatch(plain) else plain


def words_in(text: str) -> int:
    """Words of letters; marks of de-identification are none."""
    return len(_WORD.findall(DEIDENTIFIED.sub(" ", text)))


def divided(text: str) -> dict[Section, str]:
    """A whole report by its headings: findings and impression where it has them, else the report as it is."""
    parts = _HEADING.split(text)
    found: dict[Section, str] = {}
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        for section in _PARTS:
            if re.fullmatch(_HEADINGS[section], heading, re.IGNORECASE) and (said := tidy(body)):
                found.setdefault(section, said)
    return found or {"report": tidy(text)}


def joined(sections: Mapping[Section, str], wanted: Section | None, headed: bool) -> str:
    """What is to be written of one case. `Findings: ... Impression: ...` where the dataset has both; a case that has
    one of them keeps its heading, so that it can be told from the other. Only one is `wanted`: its text alone."""
    found = {section: said for section, text in sections.items() if (said := tidy(text))}
    if wanted is not None and wanted != "report":
        return found.get(wanted, "")
    if not any(section in found for section in _PARTS):
        return found.get("report", "")
    heads = {section: f"{section.capitalize()}: " if headed else "" for section in _PARTS}
    return " ".join(heads[section] + found[section] for section in _PARTS if section in found)


def wanted_section(request: str) -> Section | None:
    """The one part that a request asks for, as in: write the findings section. None is the whole report."""
    said = {"findings": r"findings?", "impression": r"impressions?"}
    named = [name for name in _PARTS if re.search(said[name], request, re.I)]
    if len(named) != 1:
        return None
    one = said[named[0]]
    only = rf"(?:only|just) (?:the |an? )?{one}|{one} (?:section|part|generation|only)|generat\w+ (?:the |an? )?{one}"
    return named[0] if re.search(only, request, re.IGNORECASE) else None
