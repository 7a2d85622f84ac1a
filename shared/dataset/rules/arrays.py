"""Values of cases that stand as arrays in files (`shared.contracts.rules.Source.array`)."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.contracts.values import Source
from shared.dataset.files.inside import count_of, filled, shapes, texts_of, values_of
from shared.dataset.files.listing import Listing
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.gather import compiled, fields_of, same_fields
from shared.dataset.tables.cells import nearest
from shared.imaging.errors import BadImage

Values = list[tuple[str, ...]]
"""Of each case its different values, in order; none where there is nothing."""
NOT_USED = "array of values that cannot be used: correct it"
_Place = tuple[str, str]
"""File and array."""


def array_values(source: Source, root: Path, listing: Listing, found: Sequence[Found], account: Account) -> Values:
    """Raises RulesError where no case has such an array, or one of another length than its images."""
    assert source.array is not None
    files = _beside(source.file, listing, found) if source.file else [case.files[0] for case in found]
    at: list[_Place | None] = []
    for case, file in zip(found, files, strict=True):
        name = filled(source.array, case.fields)
        if name is None:
            raise RulesError(
                f"array {source.array!r} names a field that {case.key} does not have; fields: "
                f"{', '.join(case.fields) or 'none'}"
            )
        at.append((file, name) if file else None)
    wanted: dict[_Place, int | None] = {}
    for case, place in zip(found, at, strict=True):
        if place is not None and place not in wanted:
            part = case.images[0][0]
            wanted[place] = None if part.index is None else count_of(root / part.files[0], part.array)

    def one(place: _Place) -> list[str] | str | None:
        """Texts, what is wrong, or None where there is no such array."""
        try:
            values = values_of(root / place[0], place[1])
        except BadImage as error:
            return str(error)
        if values is None:
            return None
        texts = texts_of(values, wanted[place])
        if texts is not None:
            return texts
        count = wanted[place]
        needed = "one value" if count is None else f"{count} values, one for each entry of its images"
        shape = " x ".join(map(str, values.shape))
        return f"{place[0]} holds {place[1]!r} of shape {shape}; {needed} are expected"

    with ThreadPoolExecutor(4) as pool:
        read = dict(zip(wanted, pool.map(one, wanted), strict=True))
    faults = [said for said in read.values() if isinstance(said, str)]
    if found and not any(isinstance(said, list) for said in read.values()):
        if faults:
            raise RulesError(f"array {source.array!r}: {faults[0]}")
        there = [name for name, *_ in shapes(root / found[0].files[0])] if not source.file else []
        raise RulesError(f"no file has an array {source.array!r}{nearest(source.array, there)}")
    for said in faults:
        account.leave(NOT_USED, said)
    values: Values = []
    for case, place in zip(found, at, strict=True):
        texts = read[place] if place else None
        if isinstance(texts, str):
            account.dropped.setdefault(case.key, NOT_USED)
        index = case.images[0][0].index or 0
        values.append((texts[index],) if isinstance(texts, list) and texts[index] else ())
    return values


def _beside(file: str, listing: Listing, found: Sequence[Found]) -> list[str | None]:
    """The file of each case by the fields that it shares. Raises RulesError."""
    pattern = compiled([file], "file of an array")[0]
    shared = [name for name in pattern.fields if name in fields_of(found)]
    if pattern.fields and not shared and found:
        raise RulesError(f"{file!r} shares no field with `images`{nearest(pattern.fields[0], fields_of(found))}")
    by_fields: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for one in listing.files:
        if (fields := pattern.match(one)) is not None:
            by_fields[same_fields(fields, shared)].append(one)
    if not by_fields:
        raise RulesError(f"there is no file {file!r}{nearest(file, listing.files[:5000])}")
    if twice := next((some for some in by_fields.values() if len(some) > 1), None):
        raise RulesError(f"{file!r} gives one case several files ({', '.join(twice[:2])}); name more fields in it")
    known = [all(name in case.fields for name in shared) for case in found]
    return [by_fields.get(same_fields(case.fields, shared), [None])[0] if told else None
            for case, told in zip(found, known, strict=True)]  # fmt: skip
