"""Families that are images together: unions of several kinds of names, and channels of one case."""

import re
from collections.abc import Sequence
from dataclasses import replace

from shared.dataset.files.patterns import compile
from shared.dataset.propose.draft import Channel
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece, align
from shared.dataset.tables.words import ROLE

SEQUENCE = re.compile(
    r"t[12]|t[12](?:w|ce|c|gd|n|f|wi|km|map|weighted)|t1ce|flair|dwi|adc|pdw?|swi|gre|stir|dce|ct|cta|pet|suv|mra?|perf|"
    r"bval\d*|b\d{2,4}|hbv|art|ven|pv|arterial|venous|portal|delay(?:ed)?|native|contrast|nect|cect|fat|water|inphase|"
    r"outphase|post|pre|phase\d*|cbf|cbv|tmax|mtt|dixon|in|opp|\d{4}"
)
"""A whole word that names one of several images of the same anatomy."""
MOST_CHANNELS = 8
STRAY = 10
"""Times as many files as a stray one has its neighbours have."""
_DIGITS = 4
"""From which on a number tells examinations or people rather than counts."""
_CHECKED = 200
"""Files of another use that a pattern is tried on."""


def sets(pieces: Sequence[Piece], others: Sequence[Family]) -> list[list[Channel]]:
    """Sets of channels: families of other cases stand together, families of the same cases are channels or rivals."""
    unions: list[list[Piece]] = []
    for one in sorted(pieces, key=lambda piece: -len(piece.files)):
        for union in unions:
            if not any(siblings(one, other) for other in union):
                union.append(one)
                break
        else:
            unions.append([one])
    if len(unions) == 1:
        return [[Channel("", _whole(some, others))] for some in _with_and_without_others(unions[0])]
    names = _channel_names([union[0] for union in unions])
    largest = len(unions[0][0].files)
    even = [place for place, union in enumerate(unions) if sum(len(p.files) for p in union) >= 0.8 * largest]
    named = [place for place in even if _is_sequence(names[place])]
    found = []
    if len(named) >= 2 and len(named) <= MOST_CHANNELS:
        ranked = sorted(named, key=lambda place: _channel_order(names[place]))
        found.append([Channel(names[place], tuple(unions[place])) for place in ranked])
    found += [[Channel("", tuple(_one_naming(union)))] for union in unions]
    single = all(len(union) == 1 for union in unions)
    joined = merged([union[0] for union in unions], others) if single else None
    joined = joined or tuple(_one_naming([one for union in unions for one in union]))
    return [*found, [Channel("", joined)]]


def _with_and_without_others(union: Sequence[Piece]) -> list[Sequence[Piece]]:
    """All pieces; and, where some files lie at another depth or have fewer fields, those that are like the most."""
    depth, fields = union[0].pattern.count("/"), len(union[0].fields)
    like = [one for one in union if one.pattern.count("/") == depth and len(one.fields) >= fields]
    return [union, like] if len(like) < len(union) else [union]


def _whole(union: Sequence[Piece], others: Sequence[Family]) -> tuple[Piece, ...]:
    """Pieces of one kind; where they hold the same numbers and differ in a word (left and right eye), this is a field,
    without which files of one case could not be told from those of the other."""
    fits = [align(one, union[0]) for one in union[1:]]
    same = bool(fits) and all(fit is not None and fit.share >= 0.5 for fit in fits)
    return (merged(union, others) if same else None) or tuple(_one_naming(union))


def merged(pieces: Sequence[Piece], others: Sequence[Family]) -> tuple[Piece, ...] | None:
    """One piece for patterns that differ in a word or two, which become fields; None where they differ in more."""
    split = [re.findall(r"\{\w+\}|[^\W_]+|[\W_]", piece.pattern) for piece in pieces]
    if len({len(one) for one in split}) != 1:
        return None
    places = [place for place, column in enumerate(zip(*split, strict=True)) if len(set(column)) > 1]
    words = {one[place] for one in split for place in places}
    if not 1 <= len(places) <= 2 or any(word.startswith("{") or not word.isalnum() for word in words):
        return None
    tokens = [*split[0]]
    for place, name in zip(places, ("{kind}", "{kind_2}"), strict=False):
        tokens[place] = name
    files = tuple(sorted(file for piece in pieces for file in piece.files))
    pattern = "".join(tokens)
    if any(compile(pattern).match(file) is not None for other in others for file in evenly(other.files, _CHECKED)):
        return None  # it would take masks or other files, too
    return (replace(pieces[0], pattern=pattern, files=files, beside=tuple(piece.family for piece in pieces[1:])),)


def _is_sequence(name: str) -> bool:
    own = re.findall(r"[^\W_]+", name.lower())
    return bool(own) and all(SEQUENCE.fullmatch(word) for word in own)


def _channel_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (0, name.lower())


def siblings(one: Piece, other: Piece) -> bool:
    """Whether two families hold files of the same cases, so that they are no union."""
    if one.family.number == other.family.number and one.pattern == other.pattern:
        return False
    mine, theirs = _literals(one.pattern), _literals(other.pattern)
    apart = set(mine) ^ set(theirs)
    found = align(other, one)
    share = found.share if found else 0.0
    if found and share >= 0.5 and any(ROLE.fullmatch(word) or SEQUENCE.fullmatch(word) for word in apart):
        return True
    # One file of a kind a folder, beside one or more of the other: nothing but the name tells them apart.
    places = [piece.pattern.rpartition("/") for piece in (one, other)]
    bare = [_fields(stem) <= _fields(folder) for folder, _, stem in places]
    return bool(found and share >= 0.5 and apart and (all(bare) or (any(bare) and places[0][0] == places[1][0])))


def _fields(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def _literals(pattern: str) -> list[str]:
    bare = re.sub(r"\{\w+\}", " ", pattern)
    return [word.lower() for word in re.findall(r"t[12][a-z]*|[^\W\d_]+|\d+", bare, re.IGNORECASE)]


def _channel_names(pieces: Sequence[Piece]) -> list[str]:
    """What is special about each pattern, as it is written there: in the files' own names, or else in their folders."""
    paths = [piece.pattern[: -len(piece.family.suffix) or None] for piece in pieces]
    own = _apart([path.rpartition("/")[2] for path in paths])
    return own if all(own) and len(set(own)) == len(own) else _apart(paths)


def _apart(paths: Sequence[str]) -> list[str]:
    split = [re.findall(r"\{\w+\}|[^\W_]+", path) for path in paths]
    common = set.intersection(*[{word.lower() for word in one} for one in split])
    found = []
    for one in split:
        own = [word for word in one if word.lower() not in common and not word.startswith("{")]
        found.append(" ".join(dict.fromkeys(own)))
    return found


def _one_naming(union: Sequence[Piece]) -> list[Piece]:
    """Fields of families that stand at the same place, or in the same folders, get the same name, so that they mean one
    thing in rules; and those that hold the same kind of number wherever they stand."""
    first = union[0]
    kinds = _numbers(first)
    places = {place: name for name, place in _places(first.pattern).items()}
    known: dict[str, dict[tuple[int, int], str]] = {}
    found = [first]
    for number, one in enumerate(union[1:], 2):
        same = known.setdefault(one.pattern.rpartition("/")[0], dict(places))
        names = {name: same.setdefault(place, f"{name}_{number}") for name, place in _places(one.pattern).items()}
        moved = {name: kinds[kind] for kind, name in _numbers(one).items() if kind in kinds}
        names = {name: f"{name}_{number}" if other in moved.values() else other for name, other in names.items()}
        names |= moved
        found.append(one.renamed(names))
    return found


def _numbers(piece: Piece) -> dict[str, str]:
    """Numbers of some digits that one field alone has -> the field, such as the six digits of an examination."""
    found: dict[str, list[str]] = {}
    for name in piece.fields:
        kinds = {re.sub(r"\d", "0", re.sub(r"[^\W\d_]+", "a", value)) for value in evenly(piece.column(name), _CHECKED)}
        kind = kinds.pop() if len(kinds) == 1 else ""
        if kind.count("0") >= _DIGITS:
            found.setdefault(kind, []).append(name)
    return {kind: names[0] for kind, names in found.items() if len(names) == 1}


def _places(pattern: str) -> dict[str, tuple[int, int]]:
    """Field -> its folder (from the top; the file's name is -1) and its order there."""
    parts = pattern.split("/")
    found: dict[str, tuple[int, int]] = {}
    for level, part in enumerate(parts):
        for order, name in enumerate(re.findall(r"\{(\w+)\}", part)):
            found.setdefault(name, (level if level < len(parts) - 1 else -1, order))
    return found
