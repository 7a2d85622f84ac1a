"""Intervals and permutations over patients, one kind for the figures of all tasks.

The interval (`over_patients`) is the t-interval with the bootstrap's standard error (T. C. Hesterberg, What teachers
should know about the bootstrap, American Statistician 69, 2015), on the logit scale as is advised for the AUC (G. Qin
and L. Hotilovac, Statistical Methods in Medical Research 17, 2008), on the log scale for what has no upper end.
`python -m bench.coverage` measures what it covers. What stays weak:

- at an end of the scale, where every answer is right, all draws agree. The other end is then the rate at which as many
  patients would all be right once in `1 / END` times, the rule of three: 0.86 of 20 patients;
- it stands on the patients that there are: a class with four of them is seen through those four.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from shared.contracts.scoring import Control

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

METHOD = "t-interval on the logit scale, standard error by bootstrap over patients"
END = 0.05
"""Chance that is left to a worse figure where every answer is right."""
_CELLS = 2_000_000
"""Draws times cases held at once, so that memory stays flat."""


@dataclass(frozen=True)
class Interval:
    """`draws` were used, `dropped` had no value and were drawn again."""

    low: float
    high: float
    draws: int
    dropped: int


def over_patients(
    patients: Ints,
    values: Callable[[Floats], Floats],
    draws: int = 1000,
    seed: int = 0,
    top: float = 1.0,
    classes: Sequence[Ints] = (),
) -> Interval | None:
    """95 % interval of anything that `values` computes from case weights: (draws, cases) -> (draws,), from 0 to `top`.

    `classes` are the cases of each class over which `values` is a mean.

    Patients are drawn with replacement, and all cases of a drawn patient come along. None without a value, or with one
    in fewer than a twentieth of the draws.
    """
    observed = float(values(np.ones((1, len(patients))))[0])
    if not np.isfinite(observed):
        return None
    count = int(patients.max()) + 1
    rng = np.random.default_rng(seed)
    kept: list[Floats] = []
    found = tried = 0
    while found < draws and tried < 20 * draws:
        size = max(1, min(draws, _CELLS // len(patients)))
        counts = rng.multinomial(count, np.full(count, 1 / count), size=size)
        drawn = values(counts[:, patients].astype(float))
        kept.append(drawn[np.isfinite(drawn)])
        found += len(kept[-1])
        tried += size
    if found < draws:
        return None
    if observed <= 0 or observed >= top:  # the logit has no value
        # Without a top nothing is known of how far it could reach.
        reach = top * (1 - END ** (1 / _effective(patients, classes))) if math.isfinite(top) else 0.0
        low, high = (0.0, reach) if observed <= 0 else (top - reach, top)
    else:
        low, high = _ends(observed, np.concatenate(kept)[:draws], count, top)
    return Interval(low=low, high=high, draws=draws, dropped=tried - found)


def _ends(observed: float, figures: Floats, count: int, top: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    left = 1 - observed / top
    reach = float(stdtrit(max(count - 1, 1), 0.975)) * float(figures.std(ddof=1)) / (observed * left)
    # From the odds x / (1 - x / top), which without a top are x itself; no end is beyond what a float holds.
    odds = observed / left * np.exp(np.clip([-reach, reach], -300, 300))
    low, high = 1 / (1 / odds + 1 / top)
    return float(low), float(high)


def _effective(patients: Ints, classes: Sequence[Ints]) -> float:
    """Patients to which those of the classes amount, of which each class has the same say: fewer where one is rare."""
    held = [len(np.unique(patients[cases])) for cases in classes]
    count = float(len(np.unique(patients)))
    return min(count, len(held) ** 2 / sum(1 / many for many in held)) if held and all(held) else count


def permuted(patients: Ints, values: Callable[[Ints], Floats], draws: int, seed: int) -> Floats:
    """`values` of (draws, cases) numbers of the cases whose truth each answer is held against; without NaN."""
    rng = np.random.default_rng(seed)
    kept = []
    done = 0
    while done < draws:
        size = max(1, min(draws - done, _CELLS // len(patients)))
        orders = rng.permuted(np.tile(np.arange(int(patients.max()) + 1), (size, 1)), axis=1)
        drawn = values(dealt(patients, orders))
        kept.append(drawn[np.isfinite(drawn)])
        done += size
    return np.concatenate(kept)


def by_chance(observed: float, drawn: Floats, how: str) -> tuple[tuple[Control, ...], float | None]:
    """The permutation test: what exchanged answers score on average as a control, and the p-value; nothing where they
    have no value. `drawn` are their figures, one a draw, `how` says which exchanges they are."""
    if not len(drawn) or not math.isfinite(observed):
        return (), None
    # A rounding error in the sum must not make an equal draw look smaller.
    p = float((1 + np.sum(drawn >= observed - 1e-12)) / (1 + len(drawn)))
    detail = f"mean over {how}; p = {p:.4f}, the smallest possible {1 / (1 + len(drawn)):.4f}"
    return (Control(name="permutation", value=float(np.mean(drawn)), detail=detail),), p


def dealt(patients: Ints, orders: Ints) -> Ints:
    """Whose answer each case takes over when patient p takes over those of `orders[:, p]`: (draws, cases).

    In order, from the other patient's first case again where p has more.
    """
    by_patient = np.argsort(patients, kind="stable")
    sizes = np.bincount(patients)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(len(patients), dtype=np.int64)
    place[by_patient] = np.arange(len(patients)) - np.repeat(starts, sizes)
    taken = orders[:, patients]
    return np.asarray(by_patient[starts[taken] + place % sizes[taken]])


def orders_of(count: int, draws: int, seed: int) -> tuple[Ints, str]:
    """Orders of `count` patients, (n, count), and what they are in words: random ones, or all where these are fewer."""
    orders_in_all = math.factorial(min(count, 20))
    if orders_in_all <= draws:
        orders = np.array(list(itertools.permutations(range(count))), dtype=np.int64)[1:]  # not as it is
        return orders, f"all {orders_in_all} orders of {count} patients"
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.tile(np.arange(count, dtype=np.int64), (draws, 1)), axis=1)
    return orders, f"{draws} random exchanges between {count} patients"
