"""Text metrics of the validation part, 0 to 1, and how much of them is owed to the images."""

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from shared.bleu import bleu, bleu_counts
from shared.rouge import rouge_l

SHUFFLES = 99


def tokens(text: str) -> list[str]:
    """Words in lower case, without punctuation."""
    return re.findall(r"\w+(?:[-/.,]\w+)*", text.lower())


def scores(references: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """`bleu_1` to `bleu_4` of the corpus, `rouge_l` as the mean over reports."""
    pairs = [(tuple(tokens(answer)), tuple(tokens(want))) for want, answer in zip(references, answers, strict=True)]
    counts = np.sum([bleu_counts(*pair) for pair in pairs], axis=0)
    return {
        "rouge_l": float(np.mean([rouge_l(*pair) for pair in pairs])),
        **{f"bleu_{most}": float(bleu(counts, most)) for most in range(1, 5)},
    }


def merit(figure: float, answers: Sequence[str]) -> float:
    """What weights and writers are chosen by: `figure`, one less where all cases have the same report. Such a text has
    seen no image, and is often the likest to all reports."""
    return figure - (len(set(answers)) < 2)


def image_dependence(
    references: Sequence[str], answers: Sequence[str], patients: Sequence[str], seed: int = 0
) -> dict[str, float | None]:
    """Each report held against the text of another patient's images, as if the images had been shuffled.

    `rouge_l_shuffled` is the mean over 99 shuffles, `image_dependence` what the right images are better by, and
    `image_dependence_p` the share of shuffles that do as well as the right images (one counted more on both sides).
    None with fewer than two patients. Nothing is generated again: a text follows from its images alone.
    """
    if len(set(patients)) < 2:
        return dict.fromkeys(("rouge_l_shuffled", "image_dependence", "image_dependence_p"))
    words = cache(tokens)

    @cache  # many cases often share one text, so that there are far fewer pairs than cases squared
    def score(reference: str, answer: str) -> float:
        return rouge_l(words(answer), words(reference))

    generator = np.random.default_rng(seed)
    others = [[k for k, other in enumerate(patients) if other != own] for own in patients]
    real = float(np.mean([score(*pair) for pair in zip(references, answers, strict=True)]))
    shuffled = [
        float(np.mean([score(references[k], answers[generator.choice(others[k])]) for k in range(len(references))]))
        for _ in range(SHUFFLES)
    ]
    mean = float(np.mean(shuffled))
    as_good = sum(value >= real - 1e-12 for value in shuffled)
    return {
        "rouge_l_shuffled": mean,
        "image_dependence": real - mean,
        "image_dependence_p": (1 + as_good) / (1 + SHUFFLES),
    }
