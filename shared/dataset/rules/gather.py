"""Image files grouped to cases by the patterns of rules."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from shared.contracts.cases import Part
from shared.contracts.rules import Images, Rules, Views
from shared.dataset.files import patterns
from shared.dataset.files.inside import Taken, images_in, inner_fields
from shared.dataset.files.listing import Listing
from shared.dataset.files.looking import Looker
from shared.dataset.files.patterns import Compiled, PatternError
from shared.dataset.rules.by_headers import (
    HEADER,
    by_series,
    with_headers,
    without_no_images,
    without_objects,
    without_raw,
)
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.reasons import Expected
from shared.dataset.survey.naming import evenly
from shared.dataset.tables.cells import nearest
from shared.dataset.tables.forms import numbered
from shared.dataset.tables.keys import Named
from shared.imaging.formats import refusal
from shared.imaging.headers import BadImage
from shared.imaging.order import natural_key

NO_RULE = "image that no rule takes: add a pattern to `images`, or one to `exclude`"
_NUMBERS = re.compile(r"\d+")
OTHER_KIND = Expected(
    "image of another kind than those of the cases, by its name: nothing to do, or add a pattern to `images`",
    "no_image",
)
NO_VIEW = "case without one image of each of `views`: add the one that is missing, or exclude the one too many"
OTHER_VIEW = Expected("image of another view than `views` names: nothing to do", "no_image")
# No Expected: whoever says which of two images counts could take the easy one.
REPLACED = "file in whose place another one is taken (`take: first`): nothing to do"
DRAWING = Expected("mask that no rule takes: nothing to do, or add a pattern to `masks`", "no_image")
_LOOKED_AT = 3
"""Files that say what others are that are called alike."""
_SECONDS = 10.0
ONE_CHANNEL = (
    "case without all channels: add the files that are missing, let another channel `stand_in` for the one that it "
    "lacks, or take that one out of `images`"
)
SEVERAL_FILES = (
    "case with several files of one channel: name more fields in `case`, make the pattern narrower, or set "
    "`several: views`, or `take: first` where one replaces the other"
)
UNEVEN_VIEWS = "case with more views of one channel than of another: add the files that are missing"
SEVERAL_ARRAYS = "case with several arrays of its files: name the field of `array` in `case`, so that each is a case"
NO_ARRAY = "file without an array that `array` takes: give the array another name, or leave the file out of the pattern"


def compiled(texts: Iterable[str], where: str) -> tuple[Compiled, ...]:
    """Raises RulesError for what is no pattern."""
    try:
        return tuple(patterns.compile(text) for text in texts)
    except PatternError as error:
        raise RulesError(f"{where}: {error}") from None


def joined(text: str) -> str:
    """Form in which values of fields are compared."""
    return text.casefold()


def unused(rules: Rules, listing: Listing, account: Account) -> list[str]:
    """Image files that `exclude` does not name; the others are accounted for."""
    excluded = [(pattern, one.reason) for one in rules.exclude for pattern in compiled(one.files, "exclude")]
    if not excluded:
        return listing.images
    images = [one for entry in rules.images for one in compiled(entry.files, f"images {entry.channel}".strip())]
    kept = []
    for file in listing.images:
        reason = next((reason for pattern, reason in excluded if pattern.match(file) is not None), None)
        if reason is None:
            kept.append(file)
        else:
            account.leave(f"excluded by the rules: {reason}", file)
            account.excluded.append(Named(file, [file], patterns.first_match(images, file) or {}))
    return kept


def gather(
    rules: Rules,
    root: Path,
    files: Sequence[str],
    marks: Collection[str],
    account: Account,
    told: Callable[[list[list[Taken]]], list[list[Taken]]] = lambda taken: taken,
) -> list[Found]:
    """Cases of `files`, sorted by key; `marks` are files of masks and no images of a case; `told` gives the files of
    each channel the fields that tables and headers tell. Raises RulesError."""
    channels = [compiled(entry.files, f"images {entry.channel}".strip()) for entry in rules.images]
    taken: list[list[Taken]] = [[] for _ in channels]
    twice: list[str] = []
    left: list[str] = []
    kinds: set[tuple[int, str]] = set()
    for file in files:
        if file in marks:
            continue
        hits = [
            (place, found)
            for place, one in enumerate(channels)
            if (found := patterns.first_match(one, file)) is not None
        ]
        if len(hits) > 1 and len({rules.images[place].array for place, _ in hits}) < len(hits):
            twice.append(file)
            hits = hits[:1]
        for place, fields in hits:
            number = next(at for at, one in enumerate(channels[place]) if one.match(file) is not None)
            some = _taken(rules, rules.images[place], root, file, fields, account)
            taken[place] += [replace(one, place=number) for one in some] if number else some
        if hits:
            kinds.add(_kind(file))
        else:
            left.append(file)
    drawn = _drawings(root, [file for file in left if _kind(file) in kinds]) if rules.masks else set()
    for file in left:
        untaken = DRAWING if file in drawn else NO_RULE
        account.leave(refusal(file) or (untaken if _kind(file) in kinds else OTHER_KIND), file)
    if isinstance(rules.case, tuple) or rules.case == "file":  # of others whole series are looked at
        taken = [without_objects(root, some, account) for some in taken]
    taken = told([with_headers(rules, root, without_raw(root, some, account), account) for some in taken])
    _check(rules, channels, taken, files, marks)
    if twice:
        shown = " and ".join(entry.channel or f"entry {place}" for place, entry in enumerate(rules.images, 1))
        account.conflicts.append(f"{len(twice)} files are taken by several entries of `images` ({shown}): {twice[0]}")
    groups = by_series(rules, root, taken[0], account) if rules.case == "series" else _groups(rules, channels, taken)
    if rules.case in ("series", "folder"):
        groups = without_no_images(root, groups, account)
    cases = [_case(rules, key, members, account) for key, members in groups.items()]
    return sorted(_unique([case for case in cases if case is not None]), key=lambda case: natural_key(case.key))


def _kind(file: str) -> tuple[int, str]:
    """What files of one kind share: how deep they lie, and their name but for its numbers."""
    return file.count("/"), _NUMBERS.sub("0", file.rpartition("/")[2].casefold())


def _drawings(root: Path, files: Iterable[str]) -> set[str]:
    """Those that are masks, such as another reader's: by the values of some that are called alike but for numbers."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        groups[_NUMBERS.sub("0", file.casefold())].append(file)
    looker = Looker(root, _SECONDS)
    found = set()
    for group in groups.values():
        looks = [looker.pixels(file) for file in evenly(group, _LOOKED_AT)]
        if all(look is not None and look.pixels is not None and look.pixels.mask for look in looks):
            found |= set(group)
    return found


def _taken(rules: Rules, entry: Images, root: Path, file: str, fields: dict[str, str], account: Account) -> list[Taken]:
    """The file, or the images that it holds."""
    try:
        found = images_in(root, file, fields, entry.array, rules.case == "entry")
    except BadImage as error:
        account.leave(f"file that cannot be looked into: {error}".replace(Path(file).name, "it"), file)
        return []
    if not found:
        account.leave(NO_ARRAY, file)
    return found


def _check(
    rules: Rules,
    channels: Sequence[Sequence[Compiled]],
    taken: Sequence[Sequence[Taken]],
    files: Sequence[str],
    marks: Collection[str],
) -> None:
    named = [entry.channel for entry in rules.images]
    for entry, some, one in zip(rules.images, taken, channels, strict=True):
        if entry.stand_in and entry.stand_in not in (name for name in named if name != entry.channel):
            raise RulesError(
                f"`images` {entry.channel}: `stand_in` {entry.stand_in!r} is no other channel"
                f"{nearest(entry.stand_in, named)}"
            )
        if some:
            continue
        if any(patterns.first_match(one, file) is not None for file in files if file in marks):
            raise RulesError(
                f"`masks` take every file that `images` {', '.join(entry.files)} takes; make one pattern narrower"
            )
    if isinstance(rules.case, tuple):
        for entry, one in zip(rules.images, channels, strict=True):
            for pattern in one:
                there = (*pattern.fields, *_inner(entry), *rules.fields)
                for name in rules.case:
                    if name not in there and not name.startswith(HEADER):
                        raise RulesError(
                            f"`case` names the field {name!r}, which {pattern.pattern!r} does not have"
                            f"{nearest(name, there)}"
                        )
        if not rules.case:
            raise RulesError("`case` is an empty list; name fields, or one of file, folder, series")
    if rules.case == "series" and len(rules.images) > 1:
        raise RulesError("`case: series` goes with one entry of `images`; with several channels name fields in `case`")


def _groups(
    rules: Rules, channels: Sequence[Sequence[Compiled]], taken: Sequence[Sequence[Taken]]
) -> dict[str, list[list[Taken]]]:
    """Key -> channel -> files."""
    several = len(channels) > 1
    every = [
        {*pattern.fields, *_inner(entry)}
        for entry, some in zip(rules.images, channels, strict=True)
        for pattern in some
    ]
    inner = [name for name in _inner(rules.images[0]) if all(name in one for one in every)]
    shared = [name for name in (*channels[0][0].fields, *inner) if all(name in one for one in every)]
    one_file = len({entry.files for entry in rules.images}) == 1
    if several and not shared and not one_file and rules.case == "file":
        raise RulesError(
            "the patterns of the channels share no field, so their files cannot be joined; give the part of the path "
            "that is the same in all channels one name, such as {case}"
        )
    groups: dict[str, list[list[Taken]]] = {}
    names: dict[str, str] = {}
    for place, some in enumerate(taken):
        for one in some:
            if isinstance(rules.case, tuple):
                key = "/".join(one.fields[name] for name in rules.case)
            elif several and shared and not one_file:
                key = "/".join((*(one.fields[name] for name in shared), *one.number))
            elif rules.case in ("file", "entry"):
                arrays = [one.fields[name] for name in inner] if several else [one.array or ""] if inner else []
                key = "/".join((*(() if several and not one_file else (one.file,)), *arrays, *one.number))
            else:
                key = one.file.rpartition("/")[0] or "."
            # A file system that minds case may still hold `P1` and `p1` as one patient's.
            same = joined(key) if isinstance(rules.case, tuple) or (several and shared) else key
            key = names.setdefault(same, key)
            groups.setdefault(key, [[] for _ in taken])[place].append(one)
    return groups


def _inner(entry: Images) -> tuple[str, ...]:
    """Raises RulesError."""
    try:
        return inner_fields(entry.array)
    except PatternError as error:
        raise RulesError(f"array {entry.array!r}: {error}") from None


def _case(rules: Rules, key: str, members: Sequence[Sequence[Taken]], account: Account) -> Found | None:
    members = _stood_in(rules, members, account)
    if not all(members):
        account.leave(ONE_CHANNEL, key)
        return None
    members = [_first(entry, some, account) for entry, some in zip(rules.images, members, strict=True)]
    ordered = [sorted(some, key=lambda one: natural_key(one.file)) for some in members]
    counts = {len(some) for some in ordered}
    single = rules.case in ("file", "entry")
    if (single or (rules.dimensions == 2 and rules.several == "slices")) and counts != {1}:
        account.leave(SEVERAL_FILES, key)
        return None
    if rules.views is not None:
        chosen = [_in_order(rules.views, some) for some in ordered]
        if {len(some) for some in chosen} != {len(rules.views.order)}:
            account.leave(NO_VIEW, key)
            return None
        used = {one.file for some in chosen for one in some}
        account.leave(OTHER_VIEW, *(one.file for some in ordered for one in some if one.file not in used))
        ordered, counts = chosen, {len(rules.views.order)}
    if rules.several == "views" and not single:
        if len(counts) > 1:
            account.leave(UNEVEN_VIEWS, key)
            return None
        images = tuple(tuple(_part([one]) for one in view) for view in zip(*ordered, strict=True))
    else:
        if any(len({one.array for one in some}) > 1 for some in ordered):
            account.leave(SEVERAL_ARRAYS, key)
            return None
        images = (tuple(_part(some) for some in ordered),)
    return Found(key, images, _agreed(ordered), [(one.file, one.fields) for one in ordered[0]])


def _stood_in(rules: Rules, members: Sequence[Sequence[Taken]], account: Account) -> Sequence[Sequence[Taken]]:
    """The files of each channel, or of the one that stands in for it."""
    place = {entry.channel: number for number, entry in enumerate(rules.images)}
    missing = [entry for entry, some in zip(rules.images, members, strict=True) if not some and entry.stand_in]
    full = [
        some or members[place[one]] if (one := entry.stand_in) else some
        for entry, some in zip(rules.images, members, strict=True)
    ]
    if all(full):
        account.stood_in.update(f"{entry.stand_in} for {entry.channel}" for entry in missing)
    return full


def _in_order(views: Views, some: Sequence[Taken]) -> list[Taken]:
    """The one image of each view; none where one is missing or there twice."""
    named: dict[str, list[Taken]] = defaultdict(list)
    for one in some:
        named[joined(one.fields.get(views.field, ""))].append(one)
    wanted = [named.get(joined(name), []) for name in views.order]
    return [held[0] for held in wanted if len(held) == 1]


def _first(entry: Images, some: Sequence[Taken], account: Account) -> Sequence[Taken]:
    """Those of the first pattern that has some, where the others are replaced by them."""
    first = min(one.place for one in some)
    if entry.take == "all" or all(one.place == first for one in some):
        return some
    account.leave(REPLACED, *(one.file for one in some if one.place != first))
    return [one for one in some if one.place == first]


def _part(some: Sequence[Taken]) -> Part:
    return Part(files=tuple(one.file for one in some), array=some[0].array, index=some[0].index)


def _agreed(members: Sequence[Sequence[Taken]]) -> dict[str, str]:
    """Fields that have one value in all files."""
    fields: dict[str, str] = {}
    torn: set[str] = set()
    for some in members:
        for one in some:
            for name, text in one.fields.items():
                if joined(fields.setdefault(name, text)) != joined(text):
                    torn.add(name)
    return {name: text for name, text in fields.items() if name not in torn}


def _unique(found: Sequence[Found]) -> Sequence[Found]:
    times = Counter(case.key for case in found)
    for case in found:
        if times[case.key] > 1:
            case.key = case.files[0]
    return found


def fields_of(found: Sequence[Found]) -> list[str]:
    """Names of all fields that cases have."""
    return list(dict.fromkeys(name for case in found for name in case.fields))


def same_fields(one: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    """Values of fields in the form in which they are compared."""
    return tuple(joined(one[name]) for name in names)


def zeros_apart(
    named: Collection[tuple[str, ...]], called: Collection[tuple[str, ...]]
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Key of cases -> key of other files, where they differ in zeros alone (`007` and `7`), one on each side."""
    sides: list[dict[tuple[str, ...], list[tuple[str, ...]]]] = []
    for one, other in ((named, called), (called, named)):
        sides.append(defaultdict(list))
        for key in one:
            if key not in other:
                sides[-1][tuple(map(numbered, key))].append(key)
    left, right = sides
    return {right[form][0]: one[0] for form, one in left.items() if len(one) == 1 == len(right.get(form, ()))}
