"""Which parts of names may be patients: folders, their beginnings, parts of file names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.dataset.propose.draft import Draft
from shared.dataset.propose.values import Look, before, distinct, groups, share
from shared.dataset.survey.people import PERSON, PERSON_VALUE
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.splits import split_of
from shared.dataset.tables.words import ROLE

_BATCHES = (r"(?:images?|imgs?|part|batch|fold(?:er)?|set|data(?:set)?|chunk|dis[ck]|cd|dvd|volume|vol|archive|group"
            r"|series|slices?|scan|visit|ses(?:sion)?|day|week|month|year|t|v|slide|idx|x|y|z|class|grade|level|stage|frame"
            r"|im|image_?)[-_ ]?")  # fmt: skip
_BATCH = re.compile(rf"(?:^|[^a-z]){_BATCHES}$|(?:19|20)\d\d[-_ ]?q?$", re.I)
_BATCH_VALUE = re.compile(rf"{_BATCHES}\d+$", re.I)
_LONE_T, _T_VALUE = re.compile(r"(?:^|[^a-z])t[-_ ]?$", re.I), re.compile(r"t[-_ ]?\d+$", re.I)
_DAY = re.compile(r"(?:19|20)\d{2}[01]\d[0-3]\d")
_MOST_TIMES = 20
"""Numbers behind a `T` that may be points in time; more are of people or images."""
_BEGINNING = r"^(\D*\d+)"
_MOST_WORDS = 4
"""Words before numbers beyond which names are codes that nobody counted."""
_MOST_SPLITS = 12
_DENSE, _MOSTLY = 3, 0.8
"""Numbers of at most three times how many there are were counted from one, and are no codes. Share of the folders that
must have a number of their own."""
_SIDES = {"l", "r", "left", "right", "od", "os"}
Values = list[str | None]


@dataclass(frozen=True)
class Name:
    """A part of names that may tell patients apart."""

    field: str
    values: Values
    text: str
    """Of the pattern: what becomes the field `patient`, such as `{part1}-{part2}`."""
    where: str
    lead: str
    """Literal text before it."""
    whole: bool = False
    """Whether it is a folder or a name of its own."""
    said: bool = False
    """Whether a word says that it is a person."""
    part: str | None = None
    """What of the field's text counts (`Source.part`)."""


def names(draft: Draft, look: Look, taken: set[str]) -> list[Name]:
    """What may be a patient, as it stands from left to right; `taken` are fields of a class or a split."""
    pieces = draft.channels[0].pieces
    index = {name: look.column(name) for name in pieces[0].fields if all(name in piece.fields for piece in pieces)}
    free = [name for name in index if name not in taken]
    parts = _parts(draft, free, index)
    candidates = [*_folders(draft, free, index), *parts, *_beginnings([*parts, *_whole(draft, free, index)])]
    found = []
    for place, one in enumerate(candidates):
        known = [value for value in one.values if value]
        many, count = len(set(known)), len(look.units)
        if many < 2 or share(one.values) < 0.9:
            continue
        said = bool(PERSON.search(one.lead)) or (one.whole and _part(known, PERSON_VALUE) > 0.6)
        said = one.said or (said and not _BATCH.search(one.lead))
        batch = _BATCH.search(one.lead) or (one.whole and _part(known, _BATCH_VALUE) > 0.6)
        times = _LONE_T.search(one.lead) or (one.whole and _part(known, _T_VALUE) > 0.6)
        if not said and batch and not (times and many > _MOST_TIMES):
            continue
        single = one.text == braces(one.field)
        if single and many <= _MOST_SPLITS and any(split_of(value) for value in set(known)):
            continue
        if not said and _counter(one, index, taken):
            continue
        several = 1.0001 if one.part or _numbered_beside(one, index) else 1.1
        digits = sum(any(c.isdigit() for c in value) for value in known) / len(known)
        if not said and (many < 3 or count < several * many or digits < 0.8):
            continue
        if said and _restarts(one, index, taken):
            continue
        if any(_shard(one.values, other.values) for other in candidates[place + 1 :]):
            continue
        found.append(replace(one, said=said))
    return found


def _folders(draft: Draft, free: Sequence[str], index: dict[str, Values]) -> list[Name]:
    """Each folder as a whole, by one field where that tells it apart. Where each case has its own folder of several
    fields, with a file of each kind, also its beginning: `MET-0979` of `MET-0979-000`, `MET-0979-001`."""
    found: list[Name] = []
    seen: set[str] = set()
    for part in draft.channels[0].pieces[0].pattern.split("/")[:-1]:
        inner = [name for name in re.findall(r"\{(\w+)\}", part) if name in index]
        new = [name for name in inner if name in free and name not in seen]
        seen |= set(inner)
        if not new:
            continue
        joined = _joined(inner, index)
        alone = [name for name in new if distinct(index[name]) == distinct(joined)] or _codes(new, joined, index)
        name = alone[0] if alone else new[0]
        lead = part.partition(braces(inner[0]))[0]
        text = braces(name) if alone else _between(part, inner[0], inner[-1])
        values = index[name] if alone else joined
        found.append(Name(name, values, text, f"folder `{part}`", lead, part == braces(name)))
        if len(inner) > 1 and len(values) in (distinct(values), distinct(values) * len(draft.channels[0].pieces)):
            found += [
                Name(new[0], _joined(inner[:count], index), text, f"`{text}` of folder `{part}`", lead)
                for count in range(1, len(inner))
                if (text := _between(part, inner[0], inner[count - 1]))
            ]
    return found


def _codes(new: Sequence[str], joined: Values, index: dict[str, Values]) -> list[str]:
    """The one field of a folder that holds numbers, where a few of them stand behind several words, such as those of
    two kinds of one tumour (`SOB_M_DC_13412`, `SOB_M_LC_13412`); not where numbers count anew behind each word."""
    numbers = [name for name in new if any(c.isdigit() for value in index[name] for c in value or "")]
    if len(numbers) != 1:
        return []
    known = {value for value in index[numbers[0]] if value}
    counted = all(value.isdecimal() and int(value) <= _DENSE * len(known) for value in known)
    return numbers if not counted and len(known) >= _MOSTLY * distinct(joined) else []


def _joined(inner: Sequence[str], index: dict[str, Values]) -> Values:
    return ["/".join(value or "" for value in row) for row in zip(*[index[one] for one in inner], strict=True)]


def _between(part: str, first: str, last: str) -> str:
    start, end = part.index(braces(first)), part.index(braces(last)) + len(last) + 2
    return part[start:end]


def _parts(draft: Draft, free: Sequence[str], index: dict[str, Values]) -> list[Name]:
    pattern = draft.channels[0].pieces[0].pattern
    folders, _, last = pattern.rpartition("/")
    inner = [name for name in dict.fromkeys(re.findall(r"\{(\w+)\}", last)) if name in free]
    own = [name for name in inner if braces(name) not in folders]
    found = [
        Name(name, index[name], braces(name), f"`{{{name}}}` in the file name", before(draft, name),
             last.startswith(f"{braces(name)}."))
        for name in own
    ]  # fmt: skip
    numbers = [name for name in own if any(c.isdigit() for value in index[name] for c in value or "")]
    if numbers and own[0] != numbers[0] and own[0] == inner[0]:  # initials before a number
        text = _between(last, own[0], numbers[0])
        values = _joined(own[: own.index(numbers[0]) + 1], index)
        found.append(Name(own[0], values, text, f"`{text}` in the file name", last.partition(braces(own[0]))[0]))
    return found


def _whole(draft: Draft, free: Sequence[str], index: dict[str, Values]) -> list[Name]:
    """The file's name from its first field to its last one, where it has several."""
    last = draft.channels[0].pieces[0].pattern.rpartition("/")[2]
    inner = re.findall(r"\{(\w+)\}", last)
    if len(inner) < 2 or not set(inner) <= set(free) or "*" in last:
        return []
    text = _between(last, inner[0], inner[-1])
    texts = re.split(r"\{\w+\}", text)
    columns = zip(*[index[name] for name in inner], strict=True)
    values: Values = ["".join(lead + (value or "") for lead, value in zip(texts, row, strict=False)) for row in columns]
    return [Name(inner[0], values, text, f"`{text}` in the file name", last.partition(braces(inner[0]))[0])]


def _beginnings(parts: Sequence[Name]) -> list[Name]:
    """Of fields whose text goes on behind its first number: what it is up to there, as `H22` of `H22_2_15_hem`. Where
    all of them go on with a side, as `01L` and `01R` do, they are two of one person. Where most are apart by then, some
    may end there: `01`, `02_run-1`, `02_run-2`."""
    found = []
    for one in parts:
        split = [re.match(_BEGINNING, value) if value else None for value in one.values]
        words = {re.split(r"\d", hit[1])[0] for hit in split if hit}
        rests = [hit.string[hit.end() :].lower() for hit in split if hit]
        sides = {rest.strip("-_ ") for rest in rests} <= _SIDES
        longer = [rest for rest in rests if sides or (rest and not rest[0].isalnum())]
        values = [hit[1] if hit else None for hit in split]
        apart = len(rests) == len(split) and 2 * distinct(values) > distinct(one.values) > distinct(values)
        few = apart and all(not rest[:1].isalnum() for rest in rests)
        many = one.text == braces(one.field) and len(longer) >= 0.8 * len(split)
        if (few or many) and len(words) <= max(_MOST_WORDS, 0.1 * distinct(values)):
            where = f"the beginning of {one.where}"
            found.append(replace(one, values=values, where=where, part=_BEGINNING, said=sides))
    return found


def _numbered_beside(one: Name, index: dict[str, Values]) -> bool:
    """Whether a later field numbers what one value has several of, as the visit of `P0979-000`, `P0979-001` does, or is
    its day."""
    several = [places for places in groups(one.values).values() if len(places) > 1]
    inside = re.findall(r"\{(\w+)\}", one.text)
    later = list(index)[max(list(index).index(name) for name in inside) + 1 :]
    return bool(several) and any(
        (2 <= distinct(index[other]) <= 10 or all(_DAY.fullmatch(value or "") for value in index[other]))
        and all((value or "").isdecimal() for value in index[other])
        and _torn(several, index[other])
        for other in later
    )


def _part(values: Sequence[str], pattern: re.Pattern[str]) -> float:
    return sum(bool(pattern.match(value)) for value in values) / max(1, len(values))


def _shard(values: Values, finer: Values) -> bool:
    """Whether it is only the beginning of a finer name, as in p10/p10000032."""
    pairs = {(one, other) for one, other in zip(values, finer, strict=True) if one and other}
    return bool(pairs) and all(other.startswith(one) and other[len(one) :][:1].isalnum() for one, other in pairs)


def _counter(one: Name, index: dict[str, Values], taken: set[str]) -> bool:
    """Whether a number begins anew in each class, side or folder before it, so that it tells nobody apart."""
    several = [places for places in groups(one.values).values() if len(places) > 1]
    letters = {re.sub(r"\d+", "", value) for value in one.values if value}
    if not several or len(letters) > _MOST_WORDS:  # initials beside a number are no count
        return False
    own = re.findall(r"\{(\w+)\}", one.text)
    told = [index[other] for other in taken if other in index and other not in own]
    if told and _torn(several, list(zip(*told, strict=True))):
        return True
    # Fields before it in which it starts again: slices of a patient, pictures of a study. Names of views and sequences
    # are no such thing, and of two numbers none is known to be the coarser.
    earlier = list(index)[: min(list(index).index(name) for name in own)]
    words = {other: {value for value in index[other] if value} for other in earlier if other not in taken}
    coarse = [other for other, known in words.items() if not all(ROLE.fullmatch(value.lower()) for value in known)]
    plain = all(value.isdecimal() for other in coarse for value in words[other])
    if plain and all(len(words[other]) <= 2 for other in coarse):
        return False
    return _torn(several, list(zip(*told, *[index[other] for other in coarse], strict=True)))


def _restarts(one: Name, index: dict[str, Values], taken: set[str]) -> bool:
    """Whether even what a word calls a patient is a number within each class: `AD/sub1`, `CN/sub1` count anew."""
    told = [index[other] for other in taken if other in index and braces(other) not in one.text]
    several = [places for places in groups(one.values).values() if len(places) > 1]
    if not told or len(several) * 2 < distinct(one.values):
        return False
    column = list(zip(*told, strict=True))
    return all(len({column[at] for at in places}) == len(places) for places in several)


def _torn(several: Sequence[Sequence[int]], column: Sequence[object]) -> bool:
    """Whether members of nearly all groups differ in a column."""
    return sum(len({column[at] for at in places}) == len(places) for places in several) >= 0.9 * len(several)
