"""Fields of image files that tables, headers and arrays tell (`Rules.fields`), before files become cases."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from shared.contracts.cases import Part
from shared.contracts.rules import Excluded, Rules
from shared.dataset.files.inside import Taken
from shared.dataset.files.listing import Listing
from shared.dataset.rules.found import Account, Found
from shared.dataset.rules.sources import Sources
from shared.dataset.tables.cells import comparable, readable
from shared.dataset.tables.dates import number_of


def with_fields(
    rules: Rules, root: Path, listing: Listing, account: Account
) -> Callable[[list[list[Taken]]], list[list[Taken]]]:
    """Gives the files of all channels their further fields. One without a value, or with several, is left out where
    `case` needs the field, and so is one that `exclude` refuses by itself."""

    def told(channels: list[list[Taken]]) -> list[list[Taken]]:
        files = [one for taken in channels for one in taken]
        found = [_alone(one) for one in files]
        sources = Sources(rules, root, listing, found, Account())
        needed = set(rules.case) if isinstance(rules.case, tuple) else set()
        lacking: dict[int, str] = {}
        for name, source in rules.fields.items():
            for place, some in enumerate(sources.of(source)):
                if len(some) == 1:
                    found[place].fields[name] = some[0]  # for the fields behind it, too
                elif name in needed:
                    lacking.setdefault(place, f"file with {'several values' if some else 'no value'} of {name!r}")
        for one in (one for one in rules.exclude if one.of == "file"):
            for place, some in enumerate(sources.of(one.source) if one.source else ()):
                if place not in lacking and excluded(one, some):
                    lacking[place] = ""
                    account.leave(f"excluded by the rules: {one.reason}", files[place].file)
        for place, what in ((place, what) for place, what in lacking.items() if what):
            account.leave(
                f"{what}, which `case` names: nothing to do where its source leaves it out "
                "on purpose, else correct it in `fields`",
                files[place].file,
            )
        made = iter(
            replace(one, fields=case.fields) if place not in lacking else None
            for place, (one, case) in enumerate(zip(files, found, strict=True))
        )
        return [[one for one in islice(made, len(taken)) if one is not None] for taken in channels]

    by_file = any(one.of == "file" for one in rules.exclude)
    return told if rules.fields or by_file else lambda channels: channels


def _alone(one: Taken) -> Found:
    """A file as if it were a case."""
    part = Part(files=(one.file,), array=one.array, index=one.index)
    return Found(one.file, ((part,),), {**one.fields}, [(one.file, one.fields)])


def excluded(one: Excluded, values: Sequence[str]) -> bool:
    """Whether values say that a case or file is not to be used."""
    said, named = set(map(comparable, values)), set(map(comparable, one.values or one.unless))
    if one.above is not None or one.below is not None:
        numbers = [number for text in values if (number := number_of(text)) is not None]
        return any(
            (one.above is not None and number > one.above) or (one.below is not None and number < one.below)
            for number in numbers
        )
    if one.unless:
        return not said & named
    return bool(said & named) if named else any(map(readable, values))
