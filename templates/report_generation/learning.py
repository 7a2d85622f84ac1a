"""What tells the training reports apart, and how alike each text of shared sentences is to a report."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from metrics import tokens
from telling import END, Telling
from words import Words, plain
from words import learn as learn_words

from shared.rouge import rouge_l

PATIENTS, RUN = 3, 4
"""That have a sentence, or each run of so many words of it, before a package may hold it: what fewer have could be told
to be theirs."""
ASKED, SENTENCES, TEXTS = 512, 4096, 1000
"""Sentences that images are asked for, and that texts are made of, and texts: at most, the most frequent first, of
those as frequent some drawn from all."""
COMPARED = 400
"""Training reports, evenly drawn, that the texts are held against."""
ALIKE = 0.5
"""Of the words of a sentence and of a shared one (Dice), from which the shared one stands in its place in a text."""
FIRM = 10.0
"""Weight of the pull towards no influence of a fact, in reports."""


def learn(rows: Sequence[Mapping[str, Any]], vocabulary: int, most: int) -> tuple[Words, Telling]:
    """From the training rows: the tokenizer, and what tells them apart, with `most` words, of those that more than one
    report in fifty has and not nearly all."""
    return _learn(tuple((plain(str(row["target"])), str(row["patient"])) for row in rows), vocabulary, most)


@lru_cache(maxsize=1)  # both splits are made with the same
def _learn(rows: Sequence[tuple[str, str]], vocabulary: int, most: int) -> tuple[Words, Telling]:
    reports = [report for report, _ in rows]
    words = learn_words(reports, vocabulary)
    counts = np.zeros(len(words))
    for report in reports:
        counts[np.unique(words.encode(report))] += 1
    share = counts / max(1, len(rows))
    even = (counts >= 2) & (share >= 0.02) & (share <= 0.95)
    ranked = np.argsort(-(share * (1 - share)), kind="stable")
    telling = [int(number) for number in ranked if even[number]][:most]

    said, of_patient = [END.split(report) for report in reports], dict[str, list[str]]()
    for (_, patient), sentences in zip(rows, said, strict=True):
        of_patient.setdefault(patient, []).extend(sentences)
    patients = Counter(one for sentences in of_patient.values() for one in set(sentences))
    of_each = ({run for one in sentences for run in runs_of(one)} for sentences in of_patient.values())
    runs = Counter(run for having in of_each for run in having)
    asked = [one for one, count in patients.most_common(ASKED) if count >= PATIENTS]
    known = {*asked}
    others = [one for one, _ in patients.most_common() if one not in known]
    shared = [*asked, *(one for one in others if min(runs[run] for run in runs_of(one)) >= PATIENTS)][:SENTENCES]
    stands_for = nearest(shared)
    found = [dict.fromkeys(n for one in sentences if (n := stands_for(one)) is not None) for sentences in said]
    left = Counter(tuple(found[place]) for place in np.random.default_rng(0).permutation(len(found)))
    left.pop((), None)
    texts = [text for text, _ in left.most_common(TEXTS)]
    made = Telling(telling, shared, len(asked), texts, [], [])
    return words, worth(made, reports, words) if texts else made


def runs_of(sentence: str) -> list[str]:
    """Of RUN words, each; of fewer there is one."""
    said = tokens(sentence)
    return [" ".join(said[start : start + RUN]) for start in range(max(1, len(said) - RUN + 1))]


def nearest(shared: Sequence[str]) -> Callable[[str], int | None]:
    """Which shared sentence can stand for one: itself, or the one with the most words in common; None where no one has
    enough. Few patients have a sentence that tells place, kind and size at once; many have one much like it."""
    bags, having = [set(tokens(one)) for one in shared], dict[str, list[int]]()
    place = {one: number for number, one in enumerate(shared)}
    for number, bag in enumerate(bags):
        for word in bag:
            having.setdefault(word, []).append(number)

    @cache
    def found(one: str) -> int | None:
        if one in place:
            return place[one]
        bag = set(tokens(one))
        common = Counter(number for word in bag for number in having.get(word, ()))
        alike = {number: 2 * words / (len(bag) + len(bags[number])) for number, words in common.items()}
        best = max(alike, key=lambda number: (alike[number], -number), default=None)  # of equals the most frequent
        return best if best is not None and alike[best] >= ALIKE else None

    return found


def worth(telling: Telling, reports: Sequence[str], words: Words) -> Telling:
    """With `usual`, and `worth` by ridge regression, on a training report's facts, of how alike each text is to it
    (ROUGE-L)."""
    count = min(COMPARED, len(reports))
    drawn = [reports[place * len(reports) // count] for place in range(count)]
    made = [tuple(tokens(" ".join(telling.sentences[number] for number in said))) for said in telling.texts]
    alike = np.array([[rouge_l(text, report) for text in made] for report in (tuple(tokens(one)) for one in drawn)])
    facts = np.array([telling.facts(report, words) for report in drawn], "float64")
    middle, level = facts.mean(0), alike.mean(0)
    off = facts - middle
    slopes = np.linalg.solve(off.T @ off + FIRM * np.eye(len(middle)), off.T @ (alike - level))
    found = np.column_stack([level - middle @ slopes, slopes.T])
    return replace(telling, worth=found.round(4).tolist(), usual=middle.round(4).tolist())
