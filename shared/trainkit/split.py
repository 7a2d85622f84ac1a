"""Dividing samples into train, val and test so that no patient stands on two sides. Runs in the sandbox."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.trainkit.index import SPLITS, Row, labels_of

UNLABELLED = ""


@dataclass(frozen=True)
class _Group:
    """What must stay together: a patient, or patients that share an identical sample."""

    rows: tuple[int, ...]
    classes: Mapping[str, int]


ENOUGH = 12
"""Test patients from which a good score can be told from chance: with five, an AUC of 0.98 is in 59 % of draws."""


def split_shares(patients: int) -> dict[str, float]:
    """Shares of val and test: 15 and 20 %. Of few patients test gets up to 30 % to have `ENOUGH`, and of very few as
    much as gives two in test and one in val."""
    if patients < 4:
        return {"val": 0.15, "test": 0.2}
    return {"val": max(0.15, 1 / patients), "test": max(0.2, min(0.3, ENOUGH / patients), 2 / patients)}


def split_by_patient(
    rows: Sequence[Mapping[str, Any]],
    *,
    val: float = 0.15,
    test: float = 0.2,
    seed: int = 0,
    max_train: int | None = None,
    max_test: int | None = None,
    balance: bool = False,
    keep: Mapping[str, str] | None = None,
    same: Iterable[tuple[str, str]] = (),
) -> list[Row]:
    """Copies of `rows` with `split` set, in the order given; only the caps leave rows out.

    `val` and `test` are shares of all samples; 0 leaves that side out. Classes are spread alike over the sides, and a
    class with as many patients as there are sides is on each of them (where patients have several classes, as far as
    possible). The result depends on ids, labels and `seed` alone, not on the order of rows.

    `max_train` bounds train and val together, `max_test` test. A cap first drops further scans of a patient, then
    patients. With `balance` the classes share a cap equally, and a class smaller than its share gives all it has
    (nothing is dropped to match it: weight the loss); without, they keep their proportions.
    `keep` maps every sample_id to its existing split; then only val is carved out of train (share `val` of it), unless
    there is one. `same` names pairs of samples with identical content: their patients stay on one side.
    Raises ValueError for one patient, one class, too few patients, or an existing split that divides a patient.
    """
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise ValueError(f"val={val} and test={test} must be shares below 1 that leave something to train on")
    _check(rows)
    groups = _groups(rows, same)
    if keep is None:
        shares = {"train": 1 - val - test, "val": val, "test": test}
        sides = _divide(groups, {side: share for side, share in shares.items() if share > 0}, seed)
    else:
        sides = _kept(rows, groups, keep, val, seed)
    split = {index: side for side, members in sides.items() for group in members for index in group.rows}
    left = _capped(rows, split, max_train, max_test, balance, seed)
    return [{**row, "split": split[index]} for index, row in enumerate(rows) if index in left]


def _check(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        raise ValueError("there are no samples to split")
    twice = [name for name, count in Counter(row["sample_id"] for row in rows).items() if count > 1]
    if twice:
        raise ValueError(f"sample_id must be unique; given more than once: {', '.join(sorted(twice)[:5])}")
    if len({row["patient"] for row in rows}) < 2:
        raise ValueError(
            "all samples belong to one patient, so no part can be held out; check how patients are told apart"
        )
    classes = {name for row in rows for name in _classes(row)}
    if len(classes) == 1 and UNLABELLED not in classes:
        raise ValueError(f"all samples have the one class {classes.pop()!r}; a classifier needs at least two")


def _classes(row: Mapping[str, Any]) -> tuple[str, ...]:
    return labels_of(row) or (UNLABELLED,)


def _groups(rows: Sequence[Mapping[str, Any]], same: Iterable[tuple[str, str]]) -> list[_Group]:
    parent = {row["patient"]: row["patient"] for row in rows}

    def root(patient: str) -> str:
        while parent[patient] != patient:
            parent[patient] = parent[parent[patient]]
            patient = parent[patient]
        return patient

    patient_of = {row["sample_id"]: row["patient"] for row in rows}
    for one, other in same:
        if one not in patient_of or other not in patient_of:
            raise ValueError(f"`same` names a sample that is not among the rows: {(one, other)}")
        first, second = sorted((root(patient_of[one]), root(patient_of[other])))
        parent[second] = first
    members: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        members[root(row["patient"])].append(index)
    # Sorted by id, so that the order of rows has no say.
    return [
        _Group(tuple(indices), Counter(name for index in indices for name in _classes(rows[index])))
        for _, indices in sorted(members.items())
    ]


def _divide(groups: Sequence[_Group], shares: Mapping[str, float], seed: int) -> dict[str, list[_Group]]:
    """Greedy: each group goes where the classes it brings are missing most, in proportion to what the side is due."""
    if len(groups) < len(shares):
        raise ValueError(f"{len(groups)} patients are too few for {', '.join(shares)}; set val=0 or get more patients")
    order = list(groups)
    random.Random(seed).shuffle(order)
    total: Counter[str] = Counter()
    for group in order:
        total.update(group.classes)
    due = {side: {name: share * count for name, count in total.items()} for side, share in shares.items()}
    sides: dict[str, list[_Group]] = {side: [] for side in shares}

    def put(group: _Group, side: str) -> None:
        sides[side].append(group)
        for name, count in group.classes.items():
            due[side][name] -= count

    def cost(group: _Group, side: str) -> float:
        """Growth of the squared distance from what is due, relative to it: the chi-squared of the whole division."""
        return sum(n * (n - 2 * due[side][name]) / (shares[side] * total[name]) for name, n in group.classes.items())

    order = _one_of_each(order, shares, due, sides, put)
    for side in sorted(shares, key=lambda side: shares[side]):
        if not sides[side] and order:
            put(order.pop(0), side)
    # Very large patients first: what follows can still make up for them. The others stay shuffled.
    coarse = max(1, sum(total.values()) // 20)
    for group in sorted(order, key=lambda group: -(sum(group.classes.values()) // coarse)):
        put(group, min(shares, key=lambda side: cost(group, side)))
    empty = [side for side, members in sides.items() if not members]
    if empty:
        raise ValueError(f"too few patients: nothing is left for {', '.join(empty)}; set val=0 or get more patients")
    return sides


def _one_of_each(
    order: list[_Group],
    shares: Mapping[str, float],
    due: Mapping[str, Mapping[str, float]],
    sides: Mapping[str, list[_Group]],
    put: Any,
) -> list[_Group]:
    """Give every side a patient of every class, rarest class first; returns the groups that are still free."""
    free = list(order)
    carriers = {name: sum(name in group.classes for group in order) for name in due["train"]}
    # A class with fewer patients than sides is learned first, then tested, then used for selection.
    priority = [side for side in ("train", "test", "val") if side in shares]
    for name in sorted(carriers, key=lambda name: (carriers[name], name)):
        for side in priority[: carriers[name]]:
            if any(name in group.classes for group in sides[side]):
                continue
            fitting = [group for group in free if name in group.classes]
            if fitting:
                chosen = min(fitting, key=lambda group: abs(group.classes[name] - due[side][name]))
                free.remove(chosen)
                put(chosen, side)
    return free


def _kept(
    rows: Sequence[Mapping[str, Any]], groups: Sequence[_Group], keep: Mapping[str, str], val: float, seed: int
) -> dict[str, list[_Group]]:
    lost = [row["sample_id"] for row in rows if keep.get(row["sample_id"]) not in SPLITS]
    if lost:
        raise ValueError(f"the existing split gives no train, val or test for {len(lost)} samples, first {lost[0]!r}")
    sides: dict[str, list[_Group]] = {side: [] for side in SPLITS}
    for group in groups:
        found = sorted({keep[rows[index]["sample_id"]] for index in group.rows})
        if len(found) > 1:
            patients = sorted({rows[index]["patient"] for index in group.rows})
            raise ValueError(
                f"the existing split has patient {' = '.join(patients[:3])} in {' and '.join(found)}; "
                "leave those samples out of train, or make a new split"
            )
        sides[found[0]].append(group)
    for side in ("train", "test"):
        if not sides[side]:
            raise ValueError(f"the existing split has no sample in {side}; make a new split instead")
    if not sides["val"] and val > 0:
        sides.update(_divide(sides["train"], {"train": 1 - val, "val": val}, seed))
    return sides


def _capped(
    rows: Sequence[Mapping[str, Any]],
    split: Mapping[int, str],
    max_train: int | None,
    max_test: int | None,
    balance: bool,
    seed: int,
) -> set[int]:
    """Indices of the rows that stay."""
    size = Counter(split.values())
    caps = {"train": max_train, "val": max_train, "test": max_test}
    if max_train is not None and size["val"]:
        val_cap = max(1, round(max_train * size["val"] / (size["train"] + size["val"])))
        caps |= {"val": val_cap, "train": max_train - val_cap}
    frequency = Counter(name for row in rows for name in _classes(row))
    left: set[int] = set()
    for side, cap in caps.items():
        here = [index for index, where in split.items() if where == side]
        if cap is None or len(here) <= cap:
            left.update(here)
            continue
        queues: dict[str, list[int]] = defaultdict(list)
        for index in _patients_first(rows, here, seed):
            # A row with several classes counts for the rarest.
            queues[min(_classes(rows[index]), key=lambda name: (frequency[name], name))].append(index)
        quotas = _quotas({name: len(queue) for name, queue in sorted(queues.items())}, cap, balance, side)
        for name, queue in queues.items():
            left.update(queue[: quotas[name]])
    return left


def _patients_first(rows: Sequence[Mapping[str, Any]], indices: Iterable[int], seed: int) -> list[int]:
    """First one scan of every patient, then their second ones, and so on; patients in shuffled order."""
    scans: dict[str, list[int]] = defaultdict(list)
    for index in sorted(indices, key=lambda index: str(rows[index]["sample_id"])):
        scans[rows[index]["patient"]].append(index)
    patients = sorted(scans)
    random.Random(seed).shuffle(patients)
    rounds = max(map(len, scans.values()), default=0)
    return [scans[patient][turn] for turn in range(rounds) for patient in patients if turn < len(scans[patient])]


def _quotas(counts: Mapping[str, int], cap: int, balance: bool, side: str) -> dict[str, int]:
    """How many of each class stay, at least one of each, `cap` in all (fewer than `cap` only where there are fewer)."""
    if cap < len(counts):
        raise ValueError(f"a cap that leaves {cap} samples for {side} cannot hold one of each of {len(counts)} classes")
    quotas = dict.fromkeys(counts, 1)
    total = sum(counts.values())
    for _ in range(min(cap, total) - len(counts)):
        open_ = [name for name in counts if quotas[name] < counts[name]]
        weight = {name: 1.0 if balance else counts[name] / total for name in open_}
        # One sample at a time to the class that is furthest behind its share; caps are thousands at most.
        quotas[min(open_, key=lambda name: (quotas[name] / weight[name], name))] += 1
    return quotas
