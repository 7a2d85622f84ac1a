"""Which known report to answer with when all that is known of an image is how likely each fact is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from m3bench.words.reports import agreement

FIRM = 3.0
"""Weight of the pull towards no influence of a fact, in known reports that have it."""


class Choice:
    """Known reports with their facts.

    How well a known report agrees with another is taken as linear in the other's facts, so that the agreement to be
    expected from it follows from probabilities. `facts` is (reports, facts) of 0 or 1.
    """

    def __init__(self, texts: Sequence[str], facts: NDArray[np.floating]) -> None:
        from sklearn.linear_model import Ridge

        told = np.array(agreement(texts, texts))
        # That a report agrees with itself says nothing about others: it counts as the next best does.
        np.fill_diagonal(told, 0)
        np.fill_diagonal(told, told.max(axis=0))
        self._texts = texts
        self._expected = Ridge(alpha=FIRM).fit(facts, told)

    def best(self, chances: NDArray[np.floating]) -> list[str]:
        """For each row of (images, facts) probabilities the report with the highest expected ROUGE-L."""
        return [self._texts[at] for at in self._expected.predict(chances).argmax(axis=1).tolist()]
