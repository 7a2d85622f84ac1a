"""Tables as text with separators: their encoding, their separator, their rows."""

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import charset_normalizer

from shared.dataset.tables.cells import MAX_CELL, TableError, limited

MAX_BYTES = 2 << 30
MAX_TEXT = 16 << 20
"""Bytes of a file that is read as one text."""
_SAMPLE = 1 << 18
_MOST_WORDS = 8
"""Of a cell of a .txt file."""
_FILE = re.compile(r"\w\.[a-z]\w{1,3}(?:\.gz)?$", re.IGNORECASE)
_FEWEST, _SHARE = 5, 0.8
"""Lines, and their share, that are rows where others are notes."""
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SIGNS = set("“”‘’–—…°²³±µ§·×\u00a0")
_EASTERN = re.compile(rb"[A-Za-z][\xb3\xb9\xbf][A-Za-z]|[\x8a\x8e\x9a\x9e]|[a-z][\x9d\x9f]")
"""In cp1250 ł, ą, ż between letters, where Western text has ³, ¹, ¿; š, ž, ť, ź, of which Western text has none."""
_OTHER_ENCODINGS = ["cp1252", "gb18030", "shift_jis", "cp1251"]

csv.field_size_limit(MAX_CELL + 1)


def rows(path: Path) -> Iterator[Sequence[str]]:
    """Raw rows of a CSV or TSV, plain or gzipped, whatever its encoding and separator. Raises TableError."""
    encoding = encoding_of(path)
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding, errors="replace", newline="") as text:
        sample = text.read(_SAMPLE)
        separator = separator_of(sample, "\t" if ".tsv" in path.name.lower() else ",")
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding, errors="replace", newline="") as text:
        try:
            yield from limited(csv.reader(text, delimiter=separator, skipinitialspace=True), path.name)
        except csv.Error as error:
            raise TableError(f"{path.name} is no sound table ({error}); look for an open quote") from None
        except (OSError, EOFError) as error:
            raise TableError(f"{path.name} cannot be read to its end ({error}); get it again") from None


def lines_of_table(path: Path) -> list[Sequence[str]] | None:
    """Rows of a .txt file that is a table: its lines have the same separators, but for notes around them. None where it
    is a text."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    if not any(line.rstrip().endswith(".") for line in lines):
        for separator in ("\t", ",", ";", "|"):
            found = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
            if len({len(row) for row in found}) == 1 and len(found[0]) > 1 and _cells(found):
                return list(limited(found, path.name))
        words = [line.split() for line in lines]
        # Columns set apart by spaces: only a list of files is told from a text.
        if len(set(map(len, words))) == 1 and all(re.search(r"\w\.\w{2,4}$|\d", row[0]) for row in words[1:]):
            return list(words)
    inner = _with_notes(lines) or _list_of_files(lines)
    return list(limited(inner, path.name)) if inner else None


def _list_of_files(lines: Sequence[str]) -> list[list[str]]:
    """Rows of a list of files below a note of what they are (`# withdrawn`, `Unusable:`), some with a remark."""
    named = [line.split(None, 1) for line in lines if not (line.startswith("#") or line.rstrip().endswith(":"))]
    if len(named) < 2 or not all(_FILE.search(words[0]) for words in named):
        return []
    remarks = any(len(words) > 1 for words in named)
    return [[*words, ""][:2] if remarks else words for words in named]


def _cells(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the parts of lines are short enough for cells."""
    return not any(len(cell.split()) > _MOST_WORDS for row in rows[:50] for cell in row)


def _with_notes(lines: Sequence[str]) -> list[list[str]]:
    """Rows of a table that has a few lines of notes above or below, such as what its codes mean; else nothing."""
    for separator in ("|", "\t", ";"):  # sentences have commas
        counts = [line.count(separator) for line in lines]
        usual = Counter(counts).most_common(1)[0][0]
        inside = [at for at, count in enumerate(counts) if count == usual]
        whole = len(inside) == inside[-1] - inside[0] + 1
        if usual and whole and len(inside) >= max(_FEWEST, _SHARE * len(lines)):
            found = list(csv.reader([lines[at] for at in inside], delimiter=separator, skipinitialspace=True))
            if _cells(found):
                return found
    return []


def read_text(path: Path) -> str:
    """A whole text file of bounded size. Raises TableError."""
    if path.stat().st_size > MAX_TEXT:
        raise TableError(f"{path.name} is larger than {MAX_TEXT >> 20} MB; no report or list is as long, split it")
    return path.read_bytes().decode(encoding_of(path), errors="replace").replace("\r\n", "\n")


def encoding_of(path: Path) -> str:
    """By its mark, else UTF-8 where all of it is, else by what its letters look like."""
    try:
        return _encoding_of(path)
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read ({error}); get it again") from None


def _encoding_of(path: Path) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    size = 0
    with _opened(path) as raw:
        start = raw.read(4096)
        for mark, encoding in _BOMS.items():
            if start.startswith(mark):
                return encoding
        # Text of an English file in UTF-16 has a zero in every other byte.
        if start[1::2].count(0) > len(start) // 4:
            return "utf-16-le"
        if start[::2].count(0) > len(start) // 4:
            return "utf-16-be"
        chunk = start
        while chunk:
            size += len(chunk)
            if size > MAX_BYTES:
                raise TableError(f"{path.name} has more than {MAX_BYTES >> 30} GB; take out columns not needed")
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                return _guessed(chunk)
            chunk = raw.read(1 << 20)
    return "utf-8"


def _guessed(chunk: bytes) -> str:
    lines = [line for line in chunk.split(b"\n") if not line.isascii()][:500]
    sample = b"\n".join(lines)
    # A letter with an accent stands alone between plain ones; other scripts come in runs.
    runs = re.findall(rb"[\x80-\xff]+", sample)
    if sum(len(run) == 1 for run in runs) >= 0.7 * len(runs):
        if _EASTERN.search(sample):
            return "cp1250"
        # Where Western letters are only those at whose places Turkish has its own, it is Turkish.
        found = set(sample.decode("cp1252", "replace").lower()) - set(map(chr, range(128)))
        return "cp1254" if found & set("ýþð") and found <= set("ýþðöüçâî\ufffd") | _SIGNS else "cp1252"
    best = charset_normalizer.from_bytes(sample, cp_isolation=_OTHER_ENCODINGS).best()
    return best.encoding if best else "cp1252"


def separator_of(sample: str, usual: str) -> str:
    """The character that gives most rows of the sample the same number of columns."""
    best, chosen = (0.0, False, False, False, 0), usual
    for separator in dict.fromkeys((usual, ",", ";", "\t", "|")):
        if separator not in sample:
            continue
        try:
            found = list(csv.reader(io.StringIO(sample, newline=""), delimiter=separator, skipinitialspace=True))
        except csv.Error:
            continue
        if len(sample) >= _SAMPLE - 1:
            found = found[:-1]
        widths = Counter(len(row) for row in found[:300] if row)
        wide = {width: count for width, count in widths.items() if width > 1}
        if not wide:
            continue
        width, count = max(wide.items(), key=lambda item: (item[1], item[0]))
        # `11,3;left` has decimal commas: they stand between digits only, and the header has none.
        decimal = separator == "," and not re.search(r"\D,|,\D", sample)
        first = bool(found[0]) and len(found[0]) == width
        score = (round(count / sum(widths.values()), 1), not decimal, first, separator == usual, width)
        # The header has the separator too, or it is punctuation of the cells.
        if score > best and any(len(row) == width for row in found[:5]):
            best, chosen = score, separator
    return chosen


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb")
