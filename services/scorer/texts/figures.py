"""The figures of generated texts under one interface: sums of a pair, and a value from such sums over cases.

Nothing but sums is needed of a case, so that a figure of any draw of cases costs a product of matrices, also where it
is no mean over cases (BLEU, METEOR). An answer without a word has the sums of a text that shares nothing: 0 in every
figure, and its reference still counts in BLEU's length. `RULES` say it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from services.scorer.patients import Floats
from services.scorer.texts.cider import Cider
from services.scorer.texts.meteor import meteor, meteor_counts
from services.scorer.texts.tokens import MOST, Words
from shared.bleu import bleu, bleu_counts
from shared.rouge import rouge_l

RULES = (
    "Texts are compared as lower-case words without punctuation, tokenised like the COCO caption tools "
    f"(pycocoevalcap 1.2); the first {MOST} words of a text count.",
    "BLEU is that of the whole test set (clipped runs of words, brevity penalty), not a mean over cases; METEOR "
    "(1.5, exact and stem modules only) is computed from sums over the test set as well.",
    "ROUGE-L (F with beta 1.2) and CIDEr-D (runs of 1 to 4 words, sigma 6, 0 to 10) are means over cases.",
    "CIDEr-D's weights of words come from the references of the whole test set and are held fixed in every draw.",
    "A case without a usable answer, or with one without a word, counts with 0, and its reference counts in BLEU's "
    "length.",
)


@dataclass(frozen=True)
class Figure:
    sums: Callable[[Words, Words], Sequence[float]]
    """Of an answer and its reference."""
    value: Callable[[Floats], Floats]
    """(..., sums) added up over cases -> (...)."""
    cheap: bool = True
    """False where a pair costs a millisecond, not a twentieth of one."""

    def of(self, answers: Sequence[Words], references: Sequence[Words]) -> Floats:
        """(cases, sums)."""
        return np.array([self.sums(*pair) for pair in zip(answers, references, strict=True)], dtype=np.float64)


def figures(references: Sequence[Words]) -> Mapping[str, Figure]:
    """By name; `references` are those of the whole test set, which fix the weights of CIDEr-D."""
    cider = Cider(references)
    return {
        **{f"bleu_{n}": Figure(bleu_counts, partial(bleu, longest=n)) for n in range(1, 5)},
        "rouge_l": Figure(partial(_one, rouge_l), _mean),
        "meteor": Figure(meteor_counts, meteor, cheap=False),
        "cider_d": Figure(partial(_one, cider.score), _mean),
    }


def _one(score: Callable[[Words, Words], float], answer: Words, reference: Words) -> tuple[float, float]:
    return score(answer, reference), 1.0


def _mean(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1])
