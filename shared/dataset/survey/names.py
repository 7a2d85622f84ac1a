"""What names of images may tell: whole folders, and fields of patterns, over all image families."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from shared.contracts.values import Source
from shared.dataset.files.patterns import compile
from shared.dataset.survey.evidence import Units


@dataclass(frozen=True)
class Named:
    """A part of names: a folder level (`level`), or a field of one family."""

    source: Source
    where: str
    level: int | None
    fields: dict[int, str]
    literals: dict[int, str]
    hint: str = ""
    """Text before the field in its pattern."""
    folder: bool = False
    """Whether it is (part of) a folder's name."""
    order: int = 0
    """Place among the fields of the same name."""
    patterns: dict[int, str] = dataclass_field(default_factory=dict)
    """Family -> the pattern that has the field: its own, or that of one of its variants."""

    def of(self, units: Units, number: int, file: str) -> str | None:
        if self.level is not None:
            parts = file.split("/")
            return parts[self.level] if self.level < len(parts) - 1 else None
        name = self.fields.get(number)
        if name is None:
            return None
        pattern = self.patterns.get(number)
        if pattern is None or pattern == units.families[number].pattern:
            return units.values((number, file)).get(name)
        return (compile(pattern).match(file) or {}).get(name)


def folder_levels(units: Units) -> Iterator[Named]:
    """Each level of folders as a whole, whatever fields it has in the patterns."""
    deepest = max((one.pattern.count("/") for one in units.families.values()), default=0)
    for level in range(deepest):
        fields, literals = {}, {}
        for number, family in units.families.items():
            parts = family.pattern.split("/")
            if level >= len(parts) - 1:
                continue
            if whole := re.fullmatch(r"\{(\w+)\}", parts[level]):
                fields[number] = whole[1]
            else:
                literals[number] = parts[level]
        if literals and not fields and all(part.count("{") == 1 for part in literals.values()):
            continue  # the field in each name says the same, see `name_fields`
        first = next(iter(fields.values()), "")
        yield Named(
            Source(field=first or f"folder{level + 1}"), f"folder {level + 1}", level, fields, literals, folder=True
        )


def name_fields(units: Units) -> Iterator[Named]:
    """Each field that is only a part of a folder's or file's name; fields of families that stand at the same place
    with the same text before them are one. Of a family with names of several structures, those of each structure."""
    places: dict[tuple[int, int, str], dict[int, str]] = defaultdict(dict)
    for number, family in units.families.items():
        own = [_shape(part) for part in family.pattern.split("/")]
        shapes = [[_shape(part) for part in one.pattern.split("/")] for one in family.variants]
        for turn, pattern in enumerate([family.pattern, *(one.pattern for one in family.variants)]):
            for place, order, before, name in _partial(pattern):
                differs = any(shape[place] != own[place] for shape in shapes)
                if differs == (turn == 0):
                    continue
                known = places[place, order, before.lower()]
                if number in known:  # another structure of the family's names: evidence of its own
                    known = places[place, order, before.lower() + "\0" * len(places)]
                known[number] = f"{pattern}\0{name}"
    for (place, order, before), told in places.items():
        number = max(told, key=lambda one: len(units.families[one].units))
        pattern, _, name = told[number].partition("\0")
        patterns = {one: text.partition("\0")[0] for one, text in told.items()}
        fields = {one: text.partition("\0")[2] for one, text in told.items()}
        where = f"{{{name}}} of {'the file name' if place < 0 else f'folder {place + 1}'} in {pattern}"
        yield Named(Source(field=name), where, None, fields, {}, before.rstrip("\0"), place >= 0, order, patterns)


def _shape(part: str) -> str:
    """What stands between fields and what is literal: names of structures that a family joins differ in it."""
    return re.sub(r"[^\W_]+", "w", re.sub(r"\{\w+\}", "0", part))


def _partial(pattern: str) -> Iterator[tuple[int, int, str, str]]:
    """Place (folder from 0, file name -1), order in it, text before, and name of each field that is no whole folder."""
    parts = pattern.split("/")
    seen: set[str] = set()
    for level, part in enumerate(parts):
        last = level == len(parts) - 1
        whole = not last and re.fullmatch(r"\{\w+\}", part)
        for order, found in enumerate(re.finditer(r"([^{}/]*)\{(\w+)\}", part)):
            if found[2] not in seen and not whole:
                yield (-1 if last else level), order, found[1], found[2]
            seen.add(found[2])
