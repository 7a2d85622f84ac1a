"""Names for the values of masks and labels, as small files of the dataset tell them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from shared.dataset.files.listing import Listing
from shared.dataset.tables.cells import comparable
from shared.dataset.tables.separated import read_text
from shared.dataset.tables.tables import TableError, read_table
from shared.vocabulary.reading import read

_BACKGROUND = re.compile(r"(?:\w+ )?background|bg|unlabell?ed(?: data)?|void|clear label|none|hintergrund|fond", re.I)
_MOST_BYTES = 300_000
_MOST_FILES = 40
_MOST_CODES = 30
_PAIR = re.compile(r"(?<![\w=.])(\w{1,6})\s*=\s*([^\W\d][^=]*?)[\s.]*(?=\s{2,}|[,;]|$|\s\w{1,6}\s*=)")
"""A code and what it stands for."""
_ITEM = re.compile(
    r"(?:^|[\s(:])(\d{1,3})(?:\s*[:–-]\s*|\s+)(?:(?:is|for|means|the)\s+)*([^\W\d][^\d,;:()]{0,60}?)\s*(?:[()].*)?$"
)
"""The same in a list of a sentence."""
_SENTENCE = "a sentence"
_ENDS = re.compile(r"[.!?;](?:\s|$)|\n\s*\n")
_BARE = re.compile(
    r"\b(?:no|without|lacks?|lacking) (?:\w+ ){0,3}"
    r"(?:masks?|annotations?|outlines?|contours?|shapes?|polygons?|box(?:es)?|marks?|markings?|segmentations?|regions?)\b"
    r"(?: (?!not\b|never\b|cannot\b)\w+){0,4} ((?:shows?|contains?|ha(?:s|ve)|is|are|means?)\b.*)",
    re.IGNORECASE,
)
_LACKS = re.compile(
    r"^\w+(?: (?!not\b|never\b)\w+)? (?:(?:no|without|free of) (?:visible |such )?(\w[\w -]*)"
    r"|nothing|normal|healthy|negative|clean|empty)\b",
    re.IGNORECASE,
)
_NAMES = ("name", "label", "class", "structure", "organ", "region", "meaning", "description", "category")
_NUMBERS = ("id", "value", "index", "number", "label", "class", "code", "intensity", "pixel", "key", "idx")


@dataclass(frozen=True)
class Legend:
    """What one file says: names of values, of colours, or of channels in order."""

    file: str
    values: Mapping[int, str] = field(default_factory=dict)
    colors: Mapping[str, str] = field(default_factory=dict)
    """`#rrggbb` -> name."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Letters that stand for classes -> name."""
    channels: tuple[str, ...] = ()
    named: str = ""
    """Where in the file: a key such as `labels`."""
    background: frozenset[int | str] = frozenset()
    """Values or colours that are called background, and so are in neither."""
    unmarked: bool = False
    """Whether a sentence says that an image without a mark shows nothing."""

    @property
    def counted(self) -> bool:
        """Whether it is a list whose numbers are only where names stand in it."""
        return self.named.endswith(("from 0", "from 1"))

    def fits(self, occur: set[int]) -> bool:
        """Whether it names all values that occur; what a sentence says may be of something else, so no others then."""
        rest = occur - self.background
        return bool(rest) and (rest == set(self.values) if self.named == _SENTENCE else rest <= set(self.values))


def _numbered(file: str, pairs: Mapping[int, str], named: str = "") -> Legend:
    ground = frozenset(value for value, name in pairs.items() if _BACKGROUND.fullmatch(name))
    return Legend(file, {value: pairs[value] for value in pairs if value not in ground}, named=named, background=ground)


def _coloured(file: str, pairs: Mapping[str, str]) -> Legend:
    ground = frozenset(color for color, name in pairs.items() if _BACKGROUND.fullmatch(name))
    return Legend(file, colors={one: pairs[one] for one in pairs if one not in ground}, background=ground)


def legends(listing: Listing) -> list[Legend]:
    """Of all small JSON, YAML, CSV and text files, those near the top of the dataset first."""
    small = [
        file
        for file, size in zip(listing.files, listing.sizes, strict=True)
        if size <= _MOST_BYTES
        and file.lower().endswith((".json", ".yaml", ".yml", ".csv", ".tsv", ".txt", ".names", ".md"))
    ]
    # Thousands of small files are a file for each case, not a legend.
    small.sort(key=lambda file: (file.count("/"), file))
    found: list[Legend] = []
    for file in small[:_MOST_FILES]:
        path = listing.root / file
        try:
            found += _of_file(path, file)
        except (OSError, ValueError, TableError, RecursionError, yaml.YAMLError):
            continue
    return found


def _of_file(path: Path, file: str) -> list[Legend]:
    name = file.lower()
    if name.endswith(".json"):
        return _of_object(json.loads(path.read_text(encoding="utf-8-sig")), file, "")
    if name.endswith((".yaml", ".yml")):
        return _of_object(yaml.safe_load(path.read_text(encoding="utf-8-sig")), file, "")
    if name.endswith((".txt", ".names", ".md")):
        content = read_text(path)
        unmarked = [Legend(file, unmarked=True)] if says_unmarked(content) else []
        return unmarked + (_of_lines(content, file) or _of_pairs(content, file) or _of_sentences(content, file))
    return _of_table(path, file)


def _of_object(content: Any, file: str, key: str, depth: int = 0) -> list[Legend]:
    if isinstance(content, list):
        return _of_list(content, file, key)
    if not isinstance(content, dict) or depth > 2:
        return []
    if key.lower() in ("modality", "modalities", "channel_names", "channels"):
        order = sorted(content, key=lambda one: (len(str(one)), str(one)))
        return [Legend(file, channels=tuple(str(content[one]) for one in order), named=key)]
    pairs = dict(_pair(first, second) for first, second in content.items() if _pair(first, second))
    if content and len(pairs) == len(content):
        return [_numbered(file, pairs, key)]
    found = []
    for inner, value in content.items():
        found += _of_object(value, file, str(inner), depth + 1)
    return found


def _pair(first: Any, second: Any) -> Any:
    """(value, name) whichever way round they stand; None where they are neither."""
    if isinstance(second, str) and second.strip() and not _whole(second) and _whole(first):
        return int(first), second.strip()
    if isinstance(first, str) and not _whole(first) and not isinstance(second, bool) and _whole(second):
        return int(second), first.strip()
    return None


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and bool(re.fullmatch(r"\d{1,5}(\.0)?", str(value)))


def _of_list(content: list[Any], file: str, key: str) -> list[Legend]:
    """A list of names counts from 0 (as YOLO does) or 1; a list of objects is a table."""
    if not content or len(content) > 500:
        return []
    if all(isinstance(one, str) for one in content):
        names = [one.strip() for one in content]
        if len(set(names)) != len(names) or any("/" in name or "." in name for name in names):
            return []
        return _listed(names, file, key)
    if all(isinstance(one, dict) for one in content):
        return _of_rows([{str(k): str(v) for k, v in one.items()} for one in content], file)
    return []


def _listed(names: list[str], file: str, key: str) -> list[Legend]:
    if names and _BACKGROUND.fullmatch(names[0]):
        return [Legend(file, values=dict(enumerate(names[1:], 1)), named=key)]
    # Counted from 1 and from 0: the values that occur decide (`naming`).
    return [
        Legend(file, values=dict(enumerate(names, 1)), named=f"{key} from 1"),
        Legend(file, values=dict(enumerate(names)), named=f"{key} from 0"),
    ]


def _of_lines(content: str, file: str) -> list[Legend]:
    lines = [line.strip() for line in content.splitlines() if line.strip() and not line.startswith("#")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if len(rows) > 1 and len({len(row) for row in rows}) == 1:  # a table as Markdown writes it
        return _of_rows([dict(zip(rows[0], row, strict=True)) for row in rows[1:]], file)
    if not 1 <= len(lines) <= 300 or any(len(line) > 120 for line in lines):
        return []
    found = [re.fullmatch(r"(\d{1,5})[\s:,;=-]+(?:(?:[\d.]+\s+){3,7})?\"?([^\d\"][^\"]*?)\"?", line) for line in lines]
    if all(found):
        return [_numbered(file, {int(one[1]): one[2] for one in found if one})]
    stem = file.rpartition("/")[2].lower()
    if re.search(r"class|label|names|categor", stem) and all(
        re.fullmatch(r"[^\W\d][\w /()-]*", line) for line in lines
    ):
        return _listed(lines, file, "")
    return []


def _of_pairs(content: str, file: str) -> list[Legend]:
    """`N = free   E = effusion` and `1 = liver, 2 = lesion` somewhere in a text."""
    found = [pair for line in content.splitlines() for pair in _PAIR.findall(line)]
    pairs = {code: " ".join(name.split()) for code, name in found}
    if not 2 <= len(pairs) <= _MOST_CODES or len(pairs) < len(found) or len(set(pairs.values())) < len(pairs):
        return []
    if all(map(_whole, pairs)):
        return [_numbered(file, {int(code): name for code, name in pairs.items()})]
    return [Legend(file, codes=pairs)]


def _of_sentences(content: str, file: str) -> list[Legend]:
    """`0 background, 1 liver and 2 lesion` somewhere in a text. A list with a number that is not understood is none."""
    found = []
    for sentence in _ENDS.split(content):
        run: list[tuple[int, str]] = []
        for chunk in [*re.split(r"[,;]|\band\b(?=\s*\d)", " ".join(sentence.split())), ""]:
            one = _ITEM.search(chunk.strip())
            if one and (not run or int(one[1]) > run[-1][0]):
                run.append((int(one[1]), one[2]))
                continue
            if len({name for _, name in run}) == len(run) > 1 and not re.match(r"\s*\d", chunk):
                found.append(_numbered(file, dict(run), _SENTENCE))
            run = [(int(one[1]), one[2])] if one else []
    return found


def says_unmarked(content: str) -> bool:
    """`A frame without a polygon shows no polyp`, `images with no mask are normal`."""
    for sentence in _ENDS.split(content):
        if found := _BARE.search(" ".join(sentence.split())):
            told = _LACKS.search(found[1])
            seen = read(told[1] or "") if told else None
            if seen and (not seen.text or seen.concepts("finding") or "lesion" in seen.concepts("task")):
                return True
    return False


def _of_table(path: Path, file: str) -> list[Legend]:
    rows = read_table(path).rows
    return _of_rows(rows, file) if 1 <= len(rows) <= 500 else []


def _of_rows(rows: list[dict[str, str]], file: str) -> list[Legend]:
    columns = {name.strip().lower(): name for name in rows[0]}
    names = [columns[one] for one in columns if any(word in one for word in _NAMES)]
    names = [one for one in names if all(row.get(one) and not _whole(row[one]) for row in rows)]
    names = [one for one in names if len({row[one] for row in rows}) == len(rows)]
    if not names:
        return []
    name = names[0]
    found = []
    written = [[columns[column]] for column in columns if re.search("colou?r|hex|rgb", column)]
    written += [[columns[one] for one in short] for short in (("r", "g", "b"), ("red", "green", "blue"))
                if all(one in columns for one in short)]  # fmt: skip
    for some in written:
        made = [_color(" ".join(row.get(column, "") for column in some)) for row in rows]
        if all(made):
            found.append(_coloured(file, {str(color): row[name] for color, row in zip(made, rows, strict=True)}))
    for column in columns:
        values = [row.get(columns[column], "") for row in rows]
        fits = columns[column] != name and any(re.search(rf"\b{word}|{word}\b", column) for word in _NUMBERS)
        if fits and all(map(_whole, values)) and len(set(values)) == len(values):
            pairs = {int(float(value)): row[name] for value, row in zip(values, rows, strict=True)}
            found.append(_numbered(file, pairs, columns[column]))
    return found


def _color(text: str) -> str | None:
    if re.fullmatch(r"#?[0-9a-fA-F]{6}", text.strip()):
        return "#" + text.strip().lstrip("#").lower()
    parts = re.findall(r"\d+", re.sub(r"\.0\b", "", text))
    if len(parts) == 3 and all(int(part) < 256 for part in parts):
        return "#" + "".join(f"{int(part):02x}" for part in parts)
    return None


def of_codes(codes: Mapping[str, str], values: Iterable[str]) -> list[Legend]:
    """What codes of one column stand for, where they name all of its values."""
    known = {comparable(code): name for code, name in codes.items()}
    held = {value: known[one] for value in values if (one := comparable(value)) in known}
    if not held or len(held) < len(list(values)):
        return []
    whole = {int(float(value)): name for value, name in held.items() if _whole(value)}
    return [Legend("", values=whole, codes=held)]


def naming(found: Iterable[Legend], values: Iterable[int]) -> Legend | None:
    """The legend that names all `values` that occur and the fewest beside them; None where none does."""
    occur = set(values)
    fitting = [one for one in found if one.fits(occur)]

    def fit(one: Legend) -> tuple[int, int, bool, int]:
        ground = occur & one.background
        # What gives numbers itself is surer than a list that is counted.
        return len(one.values) - len(occur - ground), len(ground), one.counted, one.file.count("/")

    return min(fitting, key=fit, default=None)


def names_for(values: Iterable[int], hints: Mapping[str, str], found: Iterable[Legend]) -> dict[int, str]:
    """Names of all of `values`, and perhaps of others: as a person gave them (`hints`), else as a legend does. Empty
    where neither names all."""
    occur = list(values)
    if occur and all(str(value) in hints for value in occur):
        return {int(value): name for value, name in hints.items() if value.isdecimal()}
    legend = naming(found, occur)
    return dict(legend.values) if legend else {}


def named_values(values: Mapping[str, int], hints: Mapping[str, str], legends: Sequence[Legend]) -> dict[str, str]:
    """Names for values that are numbers or codes."""
    if all(value in hints for value in values) and values:
        return {value: hints[value] for value in values}
    if not values or not all(value.lstrip("-").removesuffix(".0").isdecimal() for value in values):
        coded = next((one.codes for one in legends if values and values.keys() <= one.codes.keys()), {})
        return {value: coded[value] for value in values} if coded else {}
    whole = {value: int(float(value)) for value in values}
    if min(whole.values()) < 0:
        return {}
    legend = naming([one for one in legends if len(one.values) == len(values)], whole.values())
    return {value: legend.values[number] for value, number in whole.items()} if legend else {}
