"""What a core may write in place of a path to a picture: a pattern, or the sample_id of a case."""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from os import scandir
from typing import Any

from services.tool_runner.paths import Place, Roots, kind_of, open_file, open_folder
from services.tool_runner.tools.text import natural_key
from shared.contracts.tools import MOST_PICTURES
from shared.errors import ToolRefused

INDEX = "/workspace/train_index.jsonl"
_MAX_INDEX = 64 << 20


def named(roots: Roots, given: Sequence[str], masks: bool = False) -> tuple[list[str], list[str]]:
    """Paths for what was given, what is there as it is written first, and a note for each pattern that matches more
    than there is room for. Of a sample_id the images of all its views, or with `masks` its mask. Raises ToolRefused."""
    paths: list[str] = []
    notes: list[str] = []
    cases: Cases | None = None
    for one in given:
        if (place := _absent(roots, one)) is None:
            paths.append(one)
        elif any(sign in one for sign in "*?["):
            room = MOST_PICTURES + 1 - len(paths)
            found = list(islice(_matching(Place(place.root, place.top, ()), place.parts), max(1, room)))
            if not found:
                raise ToolRefused(f"{one} matches nothing. `*` and `?` stand for characters of one name, not for /.")
            if len(found) == room:
                notes.append(f"{one} matches more: the first are shown.")
            paths += found[: max(0, room - 1)]
        else:
            cases = cases or Cases(roots)
            paths += _of_sample(cases.rows[one], masks) if one in cases.rows else [one]
    if len(paths) > MOST_PICTURES:
        raise ToolRefused(f"These are {len(paths)} pictures; at most {MOST_PICTURES} are shown side by side.")
    return paths, notes


def _absent(roots: Roots, path: str) -> Place | None:
    """The place of a path where nothing is; None for what is there, and for what is refused when it is opened."""
    try:
        place = roots.locate(path)
        return place if place.parts and kind_of(place) == "nothing" else None
    except ToolRefused:
        return None


def _matching(folder: Place, parts: Sequence[str]) -> Iterator[str]:
    """In natural order. Links are not followed, nor matched as folders."""
    wanted, *rest = parts
    with open_folder(folder) as opened, scandir(opened) as entries:
        found = [entry for entry in entries if fnmatchcase(entry.name, wanted)]
        folders = {entry.name for entry in found if entry.is_dir(follow_symlinks=False)}
    for name in sorted((entry.name for entry in found), key=natural_key):
        if not rest:
            yield folder.below(name).virtual
        elif name in folders:
            yield from _matching(folder.below(name), rest)


def _rows(roots: Roots) -> dict[str, Any]:
    """sample_id -> row of the index; empty for a role that has none, or where it is not readable any more."""
    try:
        with open_file(roots.locate(INDEX)) as file:
            rows = [json.loads(line) for line in file.read(_MAX_INDEX).splitlines() if line.strip()]
    except (ToolRefused, ValueError, RecursionError):
        return {}
    return {str(row["sample_id"]): row for row in rows if isinstance(row, dict) and "sample_id" in row}


class Cases:
    """The cases of the index, for a role that has one."""

    def __init__(self, roots: Roots) -> None:
        self.roots, self.rows = roots, _rows(roots)
        self.classes: dict[str, str] = {}
        """Path of a case's image -> its class; several are joined, and a mask or report is none."""
        for row in self.rows.values():
            files = row.get("files")
            self.classes |= {f"/data/{name}": _class_of(row) for name in (files if isinstance(files, list) else ())}

    def of_every_class(self) -> tuple[list[str], list[str]]:
        """As many cases of each class as there is room for, evenly drawn, and their masks, where there are any."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows.values():
            groups.setdefault(_class_of(row), []).append(row)
        views = max(len(_of_sample(row)) for row in self.rows.values())
        room = max(1, MOST_PICTURES // (len(groups) * views))
        rows = [
            group[place * len(group) // min(room, len(group))]
            for _, group in sorted(groups.items())[: max(1, MOST_PICTURES // views)]
            for place in range(min(room, len(group)))
        ]
        shown = [(path, self._mask(row)) for row in rows for path in _of_sample(row)][:MOST_PICTURES]
        return [path for path, _ in shown], [mask for _, mask in shown]

    def _mask(self, row: dict[str, Any]) -> str:
        """A target may be a report, too, which is no path."""
        try:
            (path,) = _of_sample(row, masks=True)
            return path if kind_of(self.roots.locate(path)) == "file" else ""
        except ToolRefused:
            return ""


def _class_of(row: dict[str, Any]) -> str:
    label = row.get("label")
    return ", ".join(map(str, label)) if isinstance(label, list) else "" if label is None else str(label)


def _of_sample(row: dict[str, Any], masks: bool = False) -> list[str]:
    """Paths of the views of a case, or of its mask."""
    files = row.get("files")
    names = [row.get("target")] if masks else files if isinstance(files, list) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ToolRefused(f"{row['sample_id']} has no {'mask' if masks else 'image'} in {INDEX}.")
    return [f"/data/{name}" for name in names]
