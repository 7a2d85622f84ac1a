"""Fields of image files that tables, headers and arrays tell (`Rules.fields`), before files become cases."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from shared.contracts.cases import Part
from shared.contracts.rules import Rules
from shared.dataset.files.inside import Taken
from shared.dataset.files.listing import Listing
from shared.dataset.rules.found import Account, Found
from shared.dataset.rules.sources import Sources


def with_fields(
    rules: Rules, root: Path, listing: Listing, account: Account
) -> Callable[[list[list[Taken]]], list[list[Taken]]]:
    """Gives the files of all channels their further fields. One without a value, or with several, is left out where
    `case` needs the field."""

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
        for place, what in lacking.items():
            account.leave(f"{what}, which `case` names: correct its source in `fields`", files[place].file)
        made = iter(
            replace(one, fields=case.fields) if place not in lacking else None
            for place, (one, case) in enumerate(zip(files, found, strict=True))
        )
        return [[one for one in islice(made, len(taken)) if one is not None] for taken in channels]

    return told if rules.fields else lambda channels: channels


def _alone(one: Taken) -> Found:
    """A file as if it were a case."""
    part = Part(files=(one.file,), array=one.array, index=one.index)
    return Found(one.file, ((part,),), {**one.fields}, [(one.file, one.fields)])
