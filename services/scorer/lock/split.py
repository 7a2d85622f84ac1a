"""Dividing cases into train, val and test so that what belongs together stands on one side, and classes are alike."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from services.scorer.lock.near import Ints
from shared.contracts.rules import Split

ENOUGH = 14
"""Test patients from which a faultless score can be told from chance: with 14 in 99 % of draws, with 12 in 53 %."""
LEAST: Mapping[Split, int] = {"test": 2, "train": 1, "val": 1}
"""Patients of a side."""
VAL, TEST = 0.15, 0.2


def split_shares(patients: int) -> dict[Split, float]:
    """Shares of all sides, of 4 patients or more: 15 % for val and 20 % for test. Of few patients test gets up to 30 %
    to have `ENOUGH`, and of very few as much as gives two in test and one in val."""
    val, test = max(VAL, 1 / patients), max(TEST, min(0.3, ENOUGH / patients), 2 / patients)
    return {"train": 1 - val - test, "val": val, "test": test}


def divide(
    groups: Ints,
    classes: Sequence[Sequence[str]],
    shares: Mapping[Split, float],
    seed: str,
    fixed: Mapping[int, Split] | None = None,
) -> dict[int, Split]:
    """Side of each group. `groups` (cases,) numbers what stays together, `classes` are those of each case.

    Classes are spread alike over the sides: each is learned, and where groups have one class, one with as many groups
    as there are sides is on each of them. Groups of one size are dealt by `seed` alone; `fixed` ones stay where they
    are. The least of each side needs groups enough.
    """
    held: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for group, names in zip(groups.tolist(), classes, strict=True):
        held[group].update(names or ("",))
    total = sum(held.values(), Counter[str]())
    due = {side: {name: share * count for name, count in total.items()} for side, share in shares.items()}
    sides: dict[int, Split] = {}
    coarse = max(1, total.total() // 20)

    def put(group: int, side: Split) -> None:
        sides[group] = side
        for name, count in held[group].items():
            due[side][name] -= count

    def cost(group: int, side: Split) -> float:
        """Growth of the squared distance from what is due, relative to it: the chi-squared of the whole division."""
        return sum(n * (n - 2 * due[side][name]) / (shares[side] * total[name]) for name, n in held[group].items())

    for group, side in (fixed or {}).items():
        put(group, side)
    free = sorted(held.keys() - sides.keys())
    random.Random(seed).shuffle(free)
    carriers = Counter(name for names in held.values() for name in names)
    # Each class is learned before any is tested, or used for selection: an image may show many of them.
    priority: list[Split] = [side for side in ("train", "test", "val") if side in shares]
    for enough, side in enumerate(priority, 1):
        for name in sorted(carriers, key=lambda name: (carriers[name], name)):
            fitting = [group for group in free if group not in sides and name in held[group]]
            there = any(name in held[group] for group, where in sides.items() if where == side)
            if carriers[name] >= enough and fitting and not there:
                put(min(fitting, key=lambda group: abs(held[group][name] - due[side][name]) // coarse), side)
    free = [group for group in free if group not in sides]
    for side in sorted(shares, key=lambda side: shares[side]):
        while free and Counter(sides.values())[side] < LEAST[side]:
            put(free.pop(), side)
    # Very large groups first: what follows can still make up for them. The others stay shuffled.
    for group in sorted(free, key=lambda group: -(held[group].total() // coarse)):
        put(group, min(shares, key=lambda side: cost(group, side)))
    return sides
