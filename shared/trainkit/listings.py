"""Tables and lists of pairs that a dataset brings. Runs in the sandbox, needs the standard library only."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from shared.trainkit.names import IMAGE_WORD, MASK_WORD
from shared.trainkit.pairs import SECOND, Pair, Pairing

_LARGEST = 50 << 20
DANGLING = "listed file that does not exist: copy it from the source, or take its entry out of the list"


def read_table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV or TSV as text, whatever its delimiter and byte order mark."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as handle:
        head = handle.read(65536)
        handle.seek(0)
        try:
            dialect: Any = csv.Sniffer().sniff(head, delimiters=",;\t|")
        except csv.Error:
            dialect = csv.excel
        return [{str(key): value for key, value in row.items()} for row in csv.DictReader(handle, dialect=dialect)]


def listed_pairs(root: Path, tables: Iterable[str], files: Sequence[str]) -> Pairing:
    """Pairs of image and mask that a JSON or CSV file of the dataset lists; that with the most pairs counts."""
    best = Pairing()
    places = Places(files)
    for table in tables:
        found = Pairing(says=f"image and mask are listed together in {table}")
        seen: set[str] = set()
        for place, record in records(root / table):
            _take(found, record, place, PurePosixPath(table).parent, places, seen)
        if len(found.pairs) > len(best.pairs):
            best = found
    return best


class Places:
    """Finds a file by what a table calls it: its path, the end of its path, or its name where only one has it."""

    def __init__(self, files: Sequence[str]) -> None:
        self.exact = {file.lower(): file for file in files}
        self.names: dict[str, list[str]] = defaultdict(list)
        for file in files:
            self.names[PurePosixPath(file).name.lower()].append(file)

    def find(self, value: str, base: PurePosixPath) -> str | None:
        said = PurePosixPath(value.strip().replace("\\", "/").lower())
        said = PurePosixPath(*[part for part in said.parts if part not in (".", "/")])
        for whole in (str(base).lower() / said if str(base) != "." else said, said):
            if found := self.exact.get(str(whole)):
                return found
        same = self.names.get(said.name, [])
        if len(same) > 1:
            same = [file for file in same if file.lower().endswith("/".join(said.parts[-2:]))]
        return same[0] if len(same) == 1 else None


def _take(
    found: Pairing,
    record: Mapping[str, Any],
    place: str,
    base: PurePosixPath,
    places: Places,
    seen: set[str],
) -> None:
    texts = {key: value for key, value in record.items() if isinstance(value, str) and "." in value}
    masks = [key for key in texts if _words(key, MASK_WORD)]
    images = [
        key for key in texts if key not in masks and (_words(key, IMAGE_WORD) or re.search("path|file", key, re.I))
    ]
    if not masks or not images:
        return
    image, mask = places.find(texts[images[0]], base), places.find(texts[masks[0]], base)
    if image is None or mask is None:
        found.unused[DANGLING] += [texts[key] for key, file in ((images[0], image), (masks[0], mask)) if file is None]
    elif {image, mask} & seen:
        found.unused[SECOND].append(image)
    else:
        seen.update((image, mask))
        split = next((value for key, value in record.items() if re.fullmatch("split|set|partition", key, re.I)), place)
        found.pairs.append(Pair(image, mask, re.sub(r"(\.nii)?\.\w+$", "", PurePosixPath(image).name), str(split)))


def _words(key: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(token) for token in re.split(r"[^A-Za-z0-9]+", key) if token)


def records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Objects of a JSON file with the key that they stand under, or rows of a table; nothing where it cannot be read.

    Of an object that maps many names to values, each pair is an object with `key` and `value`.
    """
    try:
        if path.stat().st_size > _LARGEST:
            return
        if path.suffix.lower() in (".csv", ".tsv"):
            for row in read_table(path):
                yield "", row
        elif path.suffix.lower() == ".json":
            yield from _objects(json.loads(path.read_text(encoding="utf-8-sig", errors="replace")), "")
        elif path.suffix.lower() == ".jsonl":
            for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
                yield from _objects(json.loads(line) if line.strip() else [], "")
    except (OSError, ValueError, RecursionError, csv.Error):
        return


def _objects(content: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(content, Mapping):
        if sum(bool(re.search(r"[./]", key)) for key in content) > 0.5 * len(content):
            for key, value in content.items():
                yield place, {"key": key, "value": value}
            return
        yield place, content
        for key, value in content.items():
            if isinstance(value, list | Mapping):
                yield from _objects(value, str(key))
    elif isinstance(content, list):
        for item in content:
            if isinstance(item, list | Mapping):
                yield from _objects(item, place)
