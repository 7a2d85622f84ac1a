"""Keys of tables matched to cases as people write them: `7` and `007`, with and without suffix, folders or case.

Exact forms come first; a looser one counts only for keys and cases that nothing stricter claimed, and only where it
fits one of them. What fits several is ambiguous and never guessed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.dataset.tables.forms import FORMS, bare, base, code, same, stem, tight

_FIELD = re.compile(r"\{([^{}]+)\}")
_PART_END = re.compile(r"(?<=[^\W_])(?=[\W_]|$)")
_LEADS = re.compile(r"[^\W\d_].*\d.*\d")
"""Keys with a letter and two digits behind it: what is shorter begins names by chance, unless it is of their kind."""
_KIND = re.compile(r"[^\W\d_]{2,}(?=\d)")
_FEW = 3
"""Keys with the same letters before a number, from which on one digit is a number of the kind, too: `CXR2`."""
FILE_NAMES = ("path", "name", "stem", "folder")
"""What `Table.names` may say besides a field and `auto`."""
_SAMPLE = 1000
"""Keys that `auto` is decided by."""
_SHOWN = 3
"""Names that no key has."""
_MOST_LIKE = 60
"""Texts of one loose form that are looked at; so many are ambiguous anyway."""


@dataclass(frozen=True)
class Named:
    """What a case is called: its key, its image files and the fields of their pattern."""

    key: str
    files: Sequence[str]
    fields: Mapping[str, str]


@dataclass
class Matching:
    """What the keys of a table name."""

    names: str
    """`path`, `name`, `stem`, `folder`, `case` or a field."""
    cases: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Key as written -> indices of cases."""
    ambiguous: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Key as written -> some of what it could name."""
    unknown: list[str] = field(default_factory=list)
    """Keys that name nothing."""
    unnamed: tuple[str, ...] = ()
    """Some names, as `names` says, that no key has."""


@dataclass(frozen=True)
class _Thing:
    """What one key may name: a case by one of its names, or all cases of a folder or of one value of a field."""

    texts: tuple[str, ...]
    cases: tuple[int, ...]


def match(keys: Iterable[str], named: Sequence[Named], names: str = "auto") -> Matching:
    """The cases that each of `keys` names. A key of several lines names each of them. Raises ValueError for `names`
    that no case has."""
    distinct = [key for key in dict.fromkeys(keys) if key]
    if names != "auto":
        return _match(distinct, _things(named, names), names)
    fields = dict.fromkeys(name for case in named[:: max(1, len(named) // 50)] for name in case.fields)
    sample = distinct[:: max(1, len(distinct) // _SAMPLE)]
    best, chosen = 0, "path"
    for one in ("path", "stem", "folder", *fields, "case"):
        found = len(_match(sample, _things(named, one), one, leads=False).cases)
        if found > best:
            best, chosen = found, one
        if best == len(sample):
            break
    leads = not best and bool(_match(sample, _things(named, "path"), "path").cases)
    return _match(distinct, _things(named, chosen), chosen, leads)


def match_values(keys: Iterable[str], values: Sequence[Iterable[str]], names: str) -> Matching:
    """As `match`, of cases that have values of their own, such as the patient in another table."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, texts in enumerate(values):
        for text in texts:
            groups[text].append(index)
    things = [_Thing((text,), tuple(cases)) for text, cases in groups.items()]
    return _match([key for key in dict.fromkeys(keys) if key], things, names)


def _things(named: Sequence[Named], names: str) -> list[_Thing]:
    if names == "case" and not any("case" in case.fields for case in named):
        return [_Thing((case.key,), (index,)) for index, case in enumerate(named)]
    if names == "path":
        return [_Thing(tuple(case.files), (index,)) for index, case in enumerate(named)]
    if names in ("name", "stem"):
        form = base if names == "name" else stem
        return [_Thing(tuple(dict.fromkeys(map(form, case.files))), (index,)) for index, case in enumerate(named)]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, case in enumerate(named):
        if "{" in names:  # several fields woven, as keys are
            if all(field in case.fields for field in _FIELD.findall(names)):
                groups[names.replace("{", "{0[").replace("}", "]}").format(case.fields)].append(index)
        elif names == "folder":
            for folder in dict.fromkeys(file.rpartition("/")[0] for file in case.files):
                groups[folder].append(index)
        elif names in case.fields:
            groups[case.fields[names]].append(index)
    if not groups and named:
        there = sorted({one for case in named[:100] for one in case.fields})
        raise ValueError(
            f"`names: {names}` is no field of the images; it is one of auto, {', '.join((*FILE_NAMES, *there))}"
        )
    return [_Thing((text,), tuple(cases)) for text, cases in groups.items() if text]


def _match(keys: Sequence[str], things: Sequence[_Thing], names: str, leads: bool = True) -> Matching:
    found = Matching(names)
    left: dict[str, set[str]] = {key: {part.strip() for part in key.split("\n") if part.strip()} for key in keys}
    parts = list(dict.fromkeys(part for one in left.values() for part in sorted(one)))
    owners = {part: key for key, several in left.items() for part in several}
    pieces, unclear = _match_parts(parts, things, names, owners, leads)
    for key, several in left.items():
        cases = sorted({case for part in several for thing in pieces.get(part, ()) for case in thing.cases})
        if cases:
            found.cases[key] = tuple(cases)
        elif any(part in unclear for part in several):
            found.ambiguous[key] = next(unclear[part] for part in sorted(several) if part in unclear)
        else:
            found.unknown.append(key)
    named = {case for cases in found.cases.values() for case in cases}
    free = [thing.texts[0] for thing in things if named.isdisjoint(thing.cases)]
    found.unnamed = tuple(free[:: max(1, -(-len(free) // _SHOWN))])
    return found


def _match_parts(
    parts: Sequence[str], things: Sequence[_Thing], names: str, owners: Mapping[str, str], leads: bool
) -> tuple[dict[str, tuple[_Thing, ...]], dict[str, tuple[str, ...]]]:
    """Each part's things, and of parts that fit several what they fit. `leads`: a key may lead the names of several."""
    # Of these only the last name counts; and only paths of files and folders may be longer than the key, or shorter.
    last, paths = names in ("name", "stem"), names in FILE_NAMES
    found: dict[str, tuple[_Thing, ...]] = {}
    unclear: dict[str, tuple[str, ...]] = {}
    claimed: set[int] = set()
    index = _Index(things, paths)
    fitting = {part: index.fitting(base(part) if last else part) for part in parts}
    for level in range(len(FORMS)):
        # In a strict form two keys may name one case; not where folders were cut off them.
        rivals = None if level < 3 and not last else owners
        hits = {part: _nearest(fits, level, claimed) for part, fits in fitting.items() if part not in found}
        _settle(hits, things, found, unclear, claimed, rivals)
    free = [part for part in parts if part not in found and part not in unclear]
    if free and leads and paths and not last:
        texts = {number: thing.texts for number, thing in enumerate(things) if number not in claimed}
        for part, numbers in leading(free, texts).items():
            found[part] = tuple(things[number] for number in sorted(numbers))
            claimed |= numbers
    free = [part for part in parts if part not in found and part not in unclear and code(part)]
    if free:
        codes: dict[str, set[int]] = defaultdict(set)
        for number, thing in enumerate(things):
            for text in thing.texts if number not in claimed else ():
                codes[code(base(text) if paths else text)].add(number)
        _settle({part: codes.get(code(part), set()) for part in free}, things, found, unclear, claimed, owners)
    free = [part for part in parts if part not in found and part not in unclear]
    if not paths:
        free = [part for part in free if "/" not in part]
    if not found and paths:
        # Paths of the machine where the table was made: their ends fit.
        _settle({part: index.ending(part) for part in free}, things, found, unclear, claimed, owners)
        free = [part for part in free if part not in found and part not in unclear]
    if free and paths and not last:
        texts = {number: thing.texts for number, thing in enumerate(things) if number not in claimed}
        _settle(woven(free, texts), things, found, unclear, claimed, owners)
        free = [part for part in free if part not in found and part not in unclear]
    if free:
        loose = _BareIndex(things, claimed)
        _settle({part: loose.find(part) for part in free}, things, found, unclear, claimed, owners)
    return found, unclear


def _nearest(fits: Sequence[tuple[int, int, int]], level: int, claimed: set[int]) -> set[int]:
    """Of (level, names in common, number of the thing) those of the level or stricter that have most in common."""
    free = [(common, number) for at, common, number in fits if at <= level and number not in claimed]
    most = max((common for common, _ in free), default=0)
    return {number for common, number in free if common == most}


def _settle(
    hits: Mapping[str, set[int]],
    things: Sequence[_Thing],
    found: dict[str, tuple[_Thing, ...]],
    unclear: dict[str, tuple[str, ...]],
    claimed: set[int],
    owners: Mapping[str, str] | None,
) -> None:
    """Take what is clear. With `owners` (part -> its key) a thing that parts of several keys fit is not."""
    wooers: dict[int, set[str]] = defaultdict(set)
    for part, numbers in hits.items():
        for number in numbers:
            wooers[number].add(owners[part] if owners else "")
    for part, numbers in hits.items():
        if not numbers:
            continue
        rivals = {other for number in numbers for other in wooers[number]}
        if len(numbers) == 1 and len(rivals) == 1:
            found[part] = tuple(things[number] for number in numbers)
            claimed |= numbers
        else:
            texts = [things[number].texts[0] for number in sorted(numbers)] if len(numbers) > 1 else sorted(rivals)
            unclear[part] = tuple(texts[:4])


class _Index:
    """Things by the ends of their texts in the loosest form, which all that fit in a stricter form share."""

    def __init__(self, things: Sequence[_Thing], paths: bool) -> None:
        self.paths = paths
        self.texts = [(text, number) for number, thing in enumerate(things) for text in thing.texts]
        self.loose = [same(text).split("/") for text, _ in self.texts]
        self.ends: dict[int, dict[str, list[int]]] = {}
        self.wholes: dict[str, list[int]] = defaultdict(list)
        for place, names in enumerate(self.loose):
            self.wholes["/".join(names)].append(place)

    def fitting(self, key: str) -> list[tuple[int, int, int]]:
        """(strictest form, names in common, number) of the things of which one path is the end of the other."""
        names = same(key).split("/")
        places = self._ending_in(names)[:_MOST_LIKE]
        for count in range(1, len(names)):
            places = places + self.wholes.get("/".join(names[-count:]), [])[:_MOST_LIKE]
        found = []
        forms = [form(key) for form in FORMS]
        for place in dict.fromkeys(places):
            text, number = self.texts[place]
            for level, other in enumerate(forms):
                one = FORMS[level](text)
                if one == other:
                    found.append((level, 1 << 20, number))
                    break
                if self.paths and (one.endswith("/" + other) or other.endswith("/" + one)):
                    found.append((level, min(one.count("/"), other.count("/")) + 1, number))
                    break
        return found

    def ending(self, key: str) -> set[int]:
        """Things whose path ends like `key`, those that share most names."""
        names = same(key).split("/")
        for count in range(len(names), 0, -1):
            if places := self._ending_in(names[-count:]):
                return {self.texts[place][1] for place in places[:_MOST_LIKE]}
        return set()

    def _ending_in(self, names: Sequence[str]) -> list[int]:
        count = len(names)
        if count not in self.ends:
            self.ends[count] = defaultdict(list)
            for place, loose in enumerate(self.loose):
                if len(loose) >= count:
                    self.ends[count]["/".join(loose[-count:])].append(place)
        return self.ends[count].get("/".join(names), [])


class _BareIndex:
    """Things by their last name, with and without letters before its number; one of key and name has none."""

    def __init__(self, things: Sequence[_Thing], claimed: set[int]) -> None:
        self.plain: dict[str, set[int]] = defaultdict(set)
        self.bare: dict[str, set[int]] = defaultdict(set)
        for number, thing in enumerate(things):
            for text in thing.texts if number not in claimed else ():
                self.plain[same(base(text))].add(number)
                self.bare[bare(text)].add(number)

    def find(self, key: str) -> set[int]:
        plain, number = same(base(key)), bare(key)
        found = self.bare.get(plain, set())
        return found | self.plain.get(number, set()) if number != plain else found


def woven(keys: Iterable[str], paths: Mapping[int, Sequence[str]]) -> dict[str, set[int]]:
    """Keys made of several names of a path in order, the last one or its beginning among them: `A_7_T1` of
    `A/7/scans/T1.nii.gz` and of `A/7/T1_256_256.png`. Key -> numbers of the paths that it fits."""
    split = [(number, same(text).split("/")) for number, texts in paths.items() for text in texts]
    lasts = {one for _, names in split for one in _beginnings(names[-1])}
    wanted: dict[str, list[str]] = defaultdict(list)
    ends: set[str] = set()
    for key in keys:
        form = same(key).replace("/", "_")
        parts = [form, *(form[mark.end() :] for mark in re.finditer("_", form))]
        if not lasts.isdisjoint(parts[1:]):
            wanted[form].append(key)
            ends.update(parts)
    found: dict[str, set[int]] = {}
    for number, names in split if wanted else ():
        last = set(_beginnings(names[-1]))
        made = last & ends
        for folder in reversed(names[:-1]):
            made |= {longer for one in made if (longer := f"{folder}_{one}") in ends}
        for key in (key for form in made - last for key in wanted.get(form, ())):
            found.setdefault(key, set()).add(number)
    return found


def leading(keys: Iterable[str], paths: Mapping[int, Sequence[str]]) -> dict[str, set[int]]:
    """Keys of letters and a number with which a folder or the name of some paths begins, with or without hyphens:
    `TS-001` of `Trieste/TS001_long.png`. Key -> numbers of the paths; of several keys the longest counts, of
    two as long none."""
    known: dict[str, list[str]] = defaultdict(list)
    written = {key: tight(key) for key in keys}
    kinds = Counter(kind[0] for own in written.values() if _LEADS.search(own) and (kind := _KIND.match(own)))
    for key, own in written.items():
        if _LEADS.search(own) or ((kind := _KIND.match(own)) and kinds[kind[0]] >= _FEW):
            known[own].append(key)
    found: dict[str, set[int]] = {}
    for number, texts in paths.items() if known else ():
        names = {name for text in texts for name in text.replace("\\", "/").split("/")}
        begins = {tight(name[: mark.start()]) for name in names for mark in _PART_END.finditer(name)}
        length = max((len(begin) for begin in begins if begin in known), default=0)
        hits = [key for begin in begins if len(begin) == length for key in known.get(begin, ())]
        if len(hits) == 1:
            found.setdefault(hits[0], set()).add(number)
    return found


def _beginnings(name: str) -> list[str]:
    """The name, and what stands before each `_` of it."""
    return [name, *(name[: mark.start()] for mark in re.finditer("_", name))]
