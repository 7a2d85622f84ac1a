"""Names of the structures in masks: from a list or mapping in the dataset, or from the card. Runs in the sandbox."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = re.compile(r"label|class|structure|organ|legend|lut|dataset|names", re.IGNORECASE)
_TEXTS = (".json", ".csv", ".tsv", ".txt", ".ctbl", ".lut")
_LARGEST = 2 << 20
_MOST = 300
_BACKGROUND = re.compile(r"background|backgound|unknown|clear label|none|bg", re.IGNORECASE)
_NO_STRUCTURE = re.compile(
    r"\b(?:files?|folders?|subfolders?|scans?|cases?|samples?|images?|masks?|patients?|json|csv|columns?|labels?|classes"
    r"|mm)\b",
    re.IGNORECASE,
)
"""What else is counted in a datacard."""
_LIST_KEY = re.compile(r"labels?|label_?(?:list|names?|map|dict)|class(?:es)?|class_?names?|structures?|organs?", re.I)


@dataclass(frozen=True)
class Names:
    """A list gives names in order, a mapping gives them with their values."""

    source: str
    ordered: tuple[str, ...] = ()
    values: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Named:
    label_values: dict[str, int]
    """Structure -> value in the masks, in the order of the values; holds every value that occurs, and no other."""
    says: str
    warnings: tuple[str, ...] = ()


def name_values(present: Iterable[int], sources: Sequence[Names]) -> Named:
    """Names for the values that occur in the masks (without 0), from the source that fits them best."""
    values = sorted(set(present) - {0})
    best: tuple[tuple[int, int, int], Names, dict[int, str], tuple[str, ...]] | None = None
    for number, source in enumerate(sources):
        names, warnings = _fit(values, source)
        surplus = max(len(source.ordered), len(source.values)) - len(names)
        score = (len(names), -surplus, -number)
        if names and (best is None or score > best[0]):
            best = (score, source, names, warnings)
    found, warnings = (best[2], best[3]) if best else ({}, ())
    named: dict[str, int] = {}
    for value in values:
        name = found.get(value, f"label_{value}")
        named[name if name not in named else f"{name} ({value})"] = value
    unnamed = [value for value in values if value not in found]
    if unnamed:
        shown = ", ".join(map(str, unnamed[:10]))
        warnings = (*warnings, f"no name was found for the mask values {shown}; they are called label_<value>")
    return Named(named, best[1].source if best else "the values in the masks", warnings)


def _fit(values: Sequence[int], source: Names) -> tuple[dict[int, str], tuple[str, ...]]:
    if source.values:
        known = dict(source.values)
        return {value: known[value] for value in values if value in known}, ()
    names = list(source.ordered)
    if names and _BACKGROUND.fullmatch(names[0]):
        names = names[1:]
    by_place = {place: name for place, name in enumerate(names, 1)}
    if all(value in by_place for value in values):
        return {value: by_place[value] for value in values}, ()
    if len(names) == len(values):
        pairs = ", ".join(f"{value} {name}" for value, name in zip(values, names, strict=True))
        told = (
            f"the values in the masks are not 1 to {len(names)}; the names were given to them in order: {pairs[:400]}"
        )
        return dict(zip(values, names, strict=True)), (told,)
    # Values beyond the list (28 in a list of 26) belong to its last names, where those have no voxel of their own.
    beyond = [value for value in values if value > len(names)]
    tail = list(by_place)[len(names) - len(beyond) :]
    found = {value: by_place[value] for value in values if value in by_place}
    if len(beyond) <= len(names) and not set(tail) & set(values):
        moved = {value: by_place[place] for value, place in zip(beyond, tail, strict=True)}
        said = ", ".join(f"{value} as {name}" for value, name in moved.items())
        return found | moved, (f"mask values beyond the list of {len(names)} names were taken as its last: {said}",)
    return found, ()


def names_in_dataset(root: Path, files: Iterable[str]) -> list[Names]:
    """What the dataset's own tables and texts say; `files` are relative to `root`. Those with a telling name first."""
    found: list[Names] = []
    told = [file for file in files if Path(file).suffix.lower() in _TEXTS]
    for file in sorted(told, key=lambda file: (not _FILE.search(Path(file).name), file.count("/"), file))[:200]:
        path = root / file
        try:
            if path.stat().st_size > _LARGEST:
                continue
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError:
            continue
        if path.suffix.lower() == ".json":
            found += _from_json(text, file)
        elif path.suffix.lower() in (".csv", ".tsv"):
            found += _from_table(text, file)
        elif _FILE.search(path.name):
            found += _from_text(text, file)
    return found


def names_in_text(text: str, source: str = "the datacard's text") -> list[Names]:
    """`1 spleen, 2: right kidney` or `labels: [spleen, right kidney]` in free text."""
    found = re.findall(
        r"(?<![\w.])(\d{1,3})(?![A-Za-z])\s*(?:[:=)-]|is|are|for)?\s*(?:the )?([A-Za-z][A-Za-z0-9 /'()-]{1,60}?)\s*"
        r"(?=[,;.\]\n]|$| and \d)",
        text,
    )
    values = tuple((int(number), name.strip()) for number, name in found if not _NO_STRUCTURE.search(name))
    sources = []
    if len({number for number, _ in values}) == len(values) and {1} <= {number for number, _ in values}:
        sources.append(Names(source, values=tuple(pair for pair in values if pair[0] != 0)))
    listed = re.search(r"\b(?:labels?|structures?|organs?|classes)\b[^.\[:]{0,40}[:=]?\s*\[([^\]]+)\]", text, re.I)
    if listed:
        names = tuple(name.strip(" '\"") for name in listed[1].split(",") if name.strip(" '\""))
        sources.append(Names(source, ordered=names))
    return sources


def _from_json(text: str, source: str) -> list[Names]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    candidates = [content]
    if isinstance(content, dict):
        candidates = [value for key, value in content.items() if _LIST_KEY.fullmatch(key)] or [content]
    return [names for one in candidates if (names := _plain(one, source))]


def _plain(content: Any, source: str) -> Names | None:
    """A list of names, a mapping either way round, or a list of objects with a name and a number."""
    if isinstance(content, Mapping):
        pairs = [_pair(key, value) for key, value in content.items()]
        return _mapping(pairs, source)
    if not isinstance(content, list) or not 1 <= len(content) <= _MOST:
        return None
    if all(isinstance(item, str) and re.search(r"[A-Za-z]", item) and "/" not in item[:2] for item in content):
        return Names(source, ordered=tuple(item.strip() for item in content))
    if all(isinstance(item, Mapping) for item in content):
        return _mapping([_object(item) for item in content], source)
    return None


def _mapping(pairs: Sequence[tuple[int, str] | None], source: str) -> Names | None:
    if not 1 <= len(pairs) <= _MOST or None in pairs:
        return None
    kept = tuple(sorted(pair for pair in pairs if pair and pair[0] != 0))
    numbers = [number for number, _ in kept]
    return Names(source, values=kept) if kept and len(set(numbers)) == len(numbers) else None


def _pair(key: Any, value: Any) -> tuple[int, str] | None:
    """(1, liver) from "1": "liver" or "liver": 1."""
    for number, name in ((key, value), (value, key)):
        if isinstance(name, str) and not name.strip().isdecimal() and _whole(number):
            return int(number), name.strip()
    return None


def _object(item: Mapping[str, Any]) -> tuple[int, str] | None:
    numbers = [
        value for key, value in item.items() if re.fullmatch(r"(?:.*_)?(?:id|value|index|label|number)", key, re.I)
    ]
    names = [value for key, value in item.items() if re.fullmatch(r"(?:.*_)?(?:name|label|structure|organ)", key, re.I)]
    number = next((value for value in numbers if _whole(value)), None)
    name = next((value for value in names if isinstance(value, str) and not _whole(value)), None)
    return (int(number), name.strip()) if number is not None and name else None


def _from_table(text: str, source: str) -> list[Names]:
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t" if "\t" in text.partition("\n")[0] else ","))
    if not 1 <= len(rows) <= _MOST:
        return []
    found = _mapping([_object({str(key): value for key, value in row.items()}) for row in rows], source)
    return [found] if found else []


def _from_text(text: str, source: str) -> list[Names]:
    """One structure a line: `1 left lung`, `1: liver`, a colour table, or names alone."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "//"))]
    if not 1 <= len(lines) <= _MOST:
        return []
    numbered = [
        re.match(r"(\d+)\s*[:=,;\t ]\s*\"?([A-Za-z][^\t,;\"]*?)\"?(?:[\s,;]+\d+){0,6}\s*$", line) for line in lines
    ]
    if all(numbered):
        found = _mapping([(int(one[1]), one[2].strip()) for one in numbered if one], source)
        return [found] if found else []
    if all(re.fullmatch(r"[A-Za-z][\w /()'-]{0,60}", line) for line in lines):
        return [Names(source, ordered=tuple(lines))]
    return []


def _whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal())
