"""Wording of made-up reports, and what a reader who sees everything can score with other words."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.scorer.texts.tokens import words
from shared.rouge import rouge_l as of_words

RIGHT_LEFT = {-1: "right", 1: "left"}
"""Side in the picture -> the person's side."""


@dataclass(frozen=True)
class Report:
    findings: str
    impression: str


def one_of(rng: np.random.Generator, *options: str) -> str:
    return options[int(rng.integers(len(options)))]


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def bleu_1(reference: str, answer: str) -> float:
    """Clipped share of the answer's words that are in the reference, with the brevity penalty."""
    want, have = Counter(words(reference)), Counter(words(answer))
    total = sum(have.values())
    if not total:
        return 0.0
    brevity = min(1.0, float(np.exp(1 - sum(want.values()) / total)))
    return brevity * sum(min(count, want[word]) for word, count in have.items()) / total


def rouge_l(reference: str, answer: str) -> float:
    """As the scorer counts."""
    return of_words(words(answer), words(reference))


def agreement(references: Sequence[str], answers: Sequence[str]) -> list[list[float]]:
    """ROUGE-L of each answer (column) with each reference (row)."""
    split = [words(answer) for answer in answers]
    return [[of_words(answer, want) for answer in split] for want in map(words, references)]


def usual(texts: Sequence[str], most: int = 100) -> str:
    """Of the first `most` that are not empty, the one that agrees best with all of them: the best that can be said
    without an image."""
    told = [text for text in texts if text][:most]
    return told[int(np.mean(agreement(told, told), axis=0).argmax())] if told else ""


def known_scores(
    references: Sequence[str], retold: Callable[[int], str], constant: str, most: int = 200
) -> dict[str, dict[str, float]]:
    """`ideal`: every finding known, words drawn anew from the same grammar. `trivial`: one report for everybody.

    Over the first `most` non-empty references; `retold(i)` words the facts of reference i again.
    """
    pairs = [(text, retold(index)) for index, text in enumerate(references) if text][:most]
    if not pairs:
        return {"ideal": {}, "trivial": {}}

    def mean(measure: Callable[[str, str], float], answers: Sequence[str]) -> float:
        return round(
            float(np.mean([measure(text, answer) for (text, _), answer in zip(pairs, answers, strict=True)])), 3
        )

    again, same = [answer for _, answer in pairs], [constant] * len(pairs)
    return {
        "ideal": {"bleu_1": mean(bleu_1, again), "rouge_l": mean(rouge_l, again)},
        "trivial": {"bleu_1": mean(bleu_1, same), "rouge_l": mean(rouge_l, same)},
    }
