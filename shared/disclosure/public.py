"""Which words of a dataset are schema: columns and arrays, classes that many cases have."""

import re
from collections.abc import Iterable, Iterator

from shared.contracts.profile import Candidate, Profile
from shared.disclosure.known import medical

MANY = 5
"""Files or rows from which on a value is of many (k-anonymity)."""
FEW = 20
"""Different values of a column or folder that may tell classes."""
_WIDE = 64
_OF_PEOPLE = re.compile(
    r"name|physician|doctor|arzt|medecin|operator|reader|rater|radiolog|techni|annotator|author|creator|user|befunder"
    r"|staff|person|patient|subject|contact|address|street|city|mail|phone|hospital|institution|insur|birth|geburt",
    re.IGNORECASE,
)
"""Of a header, that its values may be names."""


def public_words(profile: Profile) -> set[str]:
    """Headers of tables, names of arrays, and the classes and splits that the files themselves tell apart."""
    headers = [
        column.name
        for table in profile.tables
        if table.rows >= MANY and len(table.columns) <= _WIDE
        for column in table.columns
    ]
    arrays = [name for group in profile.groups if group.files >= MANY for name in group.arrays]
    found = {name for name in (*headers, *arrays) if not re.search(r"\d{3}", name) and len(name) <= 40}
    people = {_place(one) for one in profile.patients}
    persons = max((one.distinct for one in profile.patients), default=profile.images)
    for one in (*profile.labels, *profile.splits):
        told = one.source.column or one.source.array or one.source.header or ""
        if _place(one) in people or _OF_PEOPLE.search(told) or 2 * min(one.distinct, FEW) > persons:
            continue
        if one.distinct <= FEW:
            found.update(_classes(one.values), one.columns)
    return found


def classes(counts: dict[str, int]) -> set[str]:
    """Names of classes or structures that trusted programs counted."""
    return set(_classes(counts))


def _classes(values: dict[str, int]) -> Iterator[str]:
    for value, many in values.items():
        if many >= MANY and len(value) <= 40 and not re.search(r"\d{4}", value) and not _two_names(value.split()):
            yield value


def _two_names(words: Iterable[str]) -> bool:
    """`Young, Grace`, `Dr. Young`: capitalised words of which one is no term."""
    capitals = [word.strip(".,;") for word in words if word[:1].isupper() and not word.isupper()]
    return len(capitals) > 1 and not all(map(medical, capitals))


def _place(one: Candidate) -> tuple[str | None, ...]:
    source = one.source
    return source.field, source.table, source.column, source.header, source.array
