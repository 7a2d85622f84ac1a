"""A text file that holds many reports, one after the other, each below a head with its number: as records."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

_FEWEST = 5
_LONGEST_LEAD = 40
_ID = r"([^\W\d_]{0,5}[-.]?\d[\w.-]*)"
_RULER = re.compile(r"[^\w\s]{3,}")
_PARTS = re.compile(r"\s+[/–-]\s+|\s*[|;\t]\s*|\s{2,}|,\s+")
_NAMED = re.compile(r"([^\W\d][^\d:=]*?)[\s:=.#]*(\S*\d\S*)")
_PRELIMINARY = "prelim preliminary provisional draft vorläufig vorlaeufig provisoire preliminar"
_FINAL = """
    final finalized released verified validated signed endgültig endgueltig freigegeben définitif definitif definitive
    definitivo definitiva validado validada definitief liberado liberada
"""
_CORRECTED = "corrected correction amended revised korrigiert corrigé corregido"
_RANK = {word: rank for rank, words in enumerate((_PRELIMINARY, _FINAL, _CORRECTED)) for word in words.split()}
FINAL = frozenset(_FINAL.split())
STATE = re.compile(r"status|\bstate\b|zustand|statut|estado|stato", re.IGNORECASE)
_SIGNED = re.compile(
    r"\b(?:signed|signature|dictated|transcribed|reported by|gez|elektronisch|freigegeben|vidiert|signé|validé|firmado"
    r"|validado|validato|firmato)\b"
    r"|^(?:dr|prof)\b", re.IGNORECASE)  # fmt: skip
_ELSEWHERE = re.compile(r"(?:\w+\W+)?(?:see|siehe|voir|véase)(?:\s+\w+){1,4}\W*", re.IGNORECASE)
"""`Report see old system`: the report is not here."""
_LONGEST_SIGNATURE = 12
"""Words."""
_PAIR = re.compile(r"([^\W\d][^:\n]{0,38}?)[ \t]*[:=][ \t]*(\S+(?: \S+){0,5})")
"""A line of a head: `IPP : 0617438`."""

Record = dict[str, str]


def blocks(text: str) -> list[Record]:
    """A record for each report: the parts of its head, and `text`. Empty where a text is no such file. Text
    before the first head is left out; where a ruler ends each report, so is text behind the last ruler.

    Of several reports of one number the final one takes the place of a preliminary one, and a corrected one of both;
    where that is not told none of them counts, and their text is empty."""
    lines = text.split("\n")
    head = _head(lines)
    at = [place for place, line in enumerate(lines) if head.match(line)] if head else []
    if head is None or len(at) < _FEWEST:
        return []
    ends = [*at[1:], len(lines)]
    rulers = [_last_ruler(lines[start:end]) for start, end in pairwise(at)]
    closing = next((place for place in range(at[-1], len(lines)) if _is_ruler(lines[place])), None)
    if closing is not None and all(rulers):
        ends[-1] = closing
    found = [_record(head, lines[start], lines[start + 1 : end]) for start, end in zip(at, ends, strict=True)]
    texts = sum(len(one["text"].split()) > 2 for one in found)
    if texts * 2 < len(found) or len({one["number"] for one in found}) * 2 <= len(found):
        return []
    return list(_counting(found))


def _head(lines: Sequence[str]) -> re.Pattern[str] | None:
    """What a head looks like, as the first line does, or the first one behind a ruler: the same lead, then a number."""
    written = [line for line in lines if line.strip()]
    behind = (line for before, line in pairwise(written) if _is_ruler(before) and not _is_ruler(line))
    firsts = [next((line for line in written if not _is_ruler(line)), ""), next(behind, "")]
    for first in dict.fromkeys(firsts):
        lead = re.match(rf"(\D*?){_ID}", first)
        if lead and len(lead[1]) <= _LONGEST_LEAD and (len(lead[2]) >= 4 or re.search(r"[^\W\d]", lead[1])):
            return re.compile(re.escape(lead[1]) + _ID + r"(?!\w)")
    return None


def _is_ruler(line: str) -> bool:
    return bool(_RULER.fullmatch(line.strip()))


def _last_ruler(lines: Sequence[str]) -> bool:
    """Whether a ruler ends them, and none stands before."""
    written = [line for line in lines if line.strip()]
    return bool(written) and [place for place, line in enumerate(written) if _is_ruler(line)] == [len(written) - 1]


def _record(head: re.Pattern[str], first: str, lines: Sequence[str]) -> Record:
    found = head.match(first)
    assert found is not None
    record = {"number": found[1].rstrip(".-")}
    for part in _PARTS.split(first[found.end() :].strip(" #=*-/|:;,\t")):
        named = _NAMED.fullmatch(part)
        name, value = (named[1].strip().lower(), named[2]) if named else (f"head {len(record)}", part)
        if value:
            record.setdefault(name, value)
    kept = [line for line in lines if not _is_ruler(line)]
    paragraphs = [one.strip() for one in re.split(r"\n\s*\n", "\n".join(kept)) if one.strip()]
    if len(paragraphs) > 1 and (more := _pairs(paragraphs[0])):
        record |= {name: value for name, value in more.items() if name not in record and name != "text"}
        paragraphs.pop(0)
    while len(paragraphs) > 1 and _is_signature(paragraphs[-1]):
        paragraphs.pop()
    text = "\n\n".join(paragraphs)
    return record | {"text": "" if _ELSEWHERE.fullmatch(text) else text}


def _pairs(paragraph: str) -> Record:
    """Names and values of a head that goes on below its first line; empty of a paragraph that is none. Most values of a
    head are numbers or days."""
    found = [_PAIR.fullmatch(line.strip()) for line in paragraph.split("\n")]
    pairs = [one for one in found if one]
    numbers = sum(any(c.isdigit() for c in one[2]) for one in pairs)
    return {one[1].strip().lower(): one[2] for one in pairs} if len(pairs) == len(found) <= 2 * numbers else {}


def _is_signature(paragraph: str) -> bool:
    return len(paragraph.split()) <= _LONGEST_SIGNATURE and bool(_SIGNED.search(paragraph))


def _counting(found: Sequence[Record]) -> Iterator[Record]:
    """Of each number the report that counts."""
    same: dict[str, list[Record]] = defaultdict(list)
    for one in found:
        same[one["number"]].append(one)
    for several in same.values():
        ranks = [_rank(one) for one in several]
        best = [one for one, rank in zip(several, ranks, strict=True) if rank == max(ranks)]
        clear = len({one["text"] for one in best}) == 1 and (len(best) == len(several) or min(ranks) >= 0)
        yield best[0] if clear else best[0] | {"text": ""}


def standing(rows: list[Record]) -> list[Record]:
    """Of several rows of a case those that count, where a column of their state ranks all of them."""
    for column in rows[0] if len(rows) > 1 else ():
        ranks = [_RANK.get(row.get(column, "").strip().lower(), -1) for row in rows] if STATE.search(column) else []
        if ranks and min(ranks) >= 0:
            return [row for row, rank in zip(rows, ranks, strict=True) if rank == max(ranks)]
    return rows


def _rank(record: Record) -> int:
    """Of the state that a head tells; -1 where it tells none."""
    words = {word for name, value in record.items() if name != "text" for word in re.findall(r"\w+", value.lower())}
    return max((_RANK[word] for word in words if word in _RANK), default=-1)
