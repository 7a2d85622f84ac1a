"""CIDEr-D: how the runs of one to four words of an answer agree with those of its reference (pycocoevalcap 1.2)."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from services.scorer.texts.tokens import Words
from shared.bleu import LONGEST, runs

SIGMA = 6.0
"""Of CIDEr-D's penalty for a difference in length, in words."""


class Cider:
    """CIDEr-D of pairs. How much a run weighs is fixed by the references: log(cases / cases whose reference has it)."""

    def __init__(self, references: Sequence[Words]) -> None:
        held: Counter[Words] = Counter(run for words in references for found in runs(words) for run in found)
        self._cases = math.log(max(len(references), 1))
        self._weights = {run: self._cases - math.log(count) for run, count in held.items()}
        self._norm = lru_cache(maxsize=4096)(self._measured)

    def score(self, answer: Words, reference: Words) -> float:
        """0 to 10."""
        apart = max(len(answer) - 1, 0) - max(len(reference) - 1, 0)
        cosines = 0.0
        for ours, theirs, left, right in zip(
            runs(answer), runs(reference), self._norm(answer), self._norm(reference), strict=True
        ):
            if left and right:
                both = (
                    min(count, theirs[run]) * theirs[run] * self._weights[run] ** 2
                    for run, count in ours.items()
                    if run in theirs
                )
                cosines += sum(both) / (left * right)
        return 10.0 * cosines / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2))

    def _measured(self, words: Words) -> tuple[float, ...]:
        return tuple(
            math.sqrt(sum((count * self._weights.get(run, self._cases)) ** 2 for run, count in found.items()))
            for found in runs(words)
        )
