"""The plan's metric in each subgroup of the test set: by sex, age, maker of the scanner and site, where known."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pydantic import JsonValue

from services.scorer.findings import Findings
from shared.contracts.data import IndexRow
from shared.contracts.wrapping import Groups

FEWEST = 10
"""Patients of which a figure is told."""
KINDS = {"sex": "sex", "age": "age", "manufacturer": "scanner", "site": "site"}
"""Field of `Groups` -> what a reader calls it."""


def subgroups(test: Sequence[IndexRow], groups: Mapping[str, Groups], found: Findings) -> list[JsonValue]:
    """A line a group: `by` and `group`; where there are enough patients `cases` and `patients`, too, and where the
    metric has a value `value`, `low` and `high`. Only kinds of which the test set has two groups or more. `groups` are
    by sample_id.

    Names of sites, and of makers that are not known, are numbers: the one with the most patients is the first.
    """
    told: list[JsonValue] = []
    for field, kind in KINDS.items():
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(test):
            if value := getattr(groups.get(row.sample_id), field, None):
                places[value].append(place)
        if len(places) > 1:
            patients = {value: len({test[place].patient for place in some}) for value, some in places.items()}
            for value, name in _named(kind, patients):
                told.append(_line(kind, name, places[value], patients[value], found))
    return told


def _line(kind: str, name: str, places: Sequence[int], patients: int, found: Findings) -> dict[str, JsonValue]:
    line: dict[str, JsonValue] = {"by": kind, "group": name}
    if patients < FEWEST:
        return line
    line |= {"cases": len(places), "patients": patients}
    metric = found.part(np.array(places, dtype=np.int64)) if found.part else None
    return line | ({"value": metric.value, "low": metric.low, "high": metric.high} if metric else {})


def _named(kind: str, patients: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Value and name of each group; digests, which begin with a digit or a small letter, are numbered."""
    numbers: Counter[str] = Counter()
    for value in sorted(patients, key=lambda value: (-patients[value], value)):
        if kind in ("site", "scanner") and not value[0].isupper():
            numbers[kind] += 1
            yield value, f"{kind} {numbers[kind]}"
        else:
            yield value, value
