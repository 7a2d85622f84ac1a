"""What tells reports apart: words that some of them have, and sentences that several patients share. The images are
asked for both, and a report may be made of such sentences alone. predict.py uses this same file."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from words import Words, plain

PATIENTS = 3
"""That have a sentence before a package may hold it: what fewer have could be told to be theirs."""
SENTENCES, TEXTS = 512, 1000
"""At most, the most frequent first."""
TEMPER = 0.3
"""Of the evidence of all facts together: they say much of the same, so each counts less than it would by itself."""
END = re.compile(r"(?<=[^\d\s][.!?])\s+(?=[^a-z])|(?<=[。！？])\s*(?=\S)")


@dataclass(frozen=True)
class Telling:
    words: Sequence[int]
    """Token numbers, the most even first."""
    sentences: Sequence[str]
    share: Sequence[float]
    """Of the training reports that have each fact: the words, then the sentences."""
    texts: Sequence[tuple[Sequence[int], Sequence[int], int]]
    """What is left of training reports when other sentences are left out: numbers of sentences in their order, numbers
    of facts, and how many reports come to it."""

    def __len__(self) -> int:
        return len(self.words) + len(self.sentences)

    def facts(self, report: str, words: Words) -> np.ndarray:
        """float32 (len,) of 0 and 1: which words and sentences a report has."""
        had, said = set(words.encode(report)), set(END.split(plain(report)))
        return np.array([*(word in had for word in self.words), *(one in said for one in self.sentences)], "float32")

    def report(self, likely: Sequence[float]) -> str:
        """The text that is most alike to what may have been said, by the likelihood of all facts (minimum Bayes risk,
        Kumar and Byrne 2004): where nothing is known, what is most alike to all reports."""
        held, alike = self._of_texts
        evidence = TEMPER * (held @ (_logit(likely) - _logit(self.share)))
        weights = np.array([often for *_, often in self.texts]) * np.exp(evidence - evidence.max())
        said, *_ = self.texts[int((alike @ weights).argmax())]
        return " ".join(self.sentences[number] for number in said)

    @cached_property
    def _of_texts(self) -> tuple[np.ndarray, np.ndarray]:
        """(texts, facts) of 0 and 1; (texts, texts), the Dice of their facts."""
        held = np.zeros((len(self.texts), len(self)), "float32")
        for line, (_, facts, _) in zip(held, self.texts, strict=True):
            line[list(facts)] = 1
        return held, 2 * (held @ held.T) / (held.sum(1)[:, None] + held.sum(1)).clip(1)

    @property
    def text(self) -> str:
        """The content of telling.json."""
        return json.dumps(asdict(self), ensure_ascii=False)


def learn(rows: Sequence[Mapping[str, Any]], words: Words, most: int) -> Telling:
    """From the training rows; `most` words, of those that more than one report in fifty has and not nearly all."""
    reports = [plain(str(row["target"])) for row in rows]
    counts = np.zeros(len(words))
    for report in reports:
        counts[np.unique(words.encode(report))] += 1
    share = counts / max(1, len(rows))
    even = (counts >= 2) & (share >= 0.02) & (share <= 0.95)
    ranked = np.argsort(-(share * (1 - share)), kind="stable")
    telling = [int(number) for number in ranked if even[number]][:most]

    split, patients = [END.split(report) for report in reports], dict[str, set[str]]()
    for row, said in zip(rows, split, strict=True):
        for one in said:
            patients.setdefault(one, set()).add(str(row["patient"]))
    shared = sorted((one for one in patients if len(patients[one]) >= PATIENTS), key=lambda one: -len(patients[one]))
    number_of = {one: number for number, one in enumerate(shared[:SENTENCES])}
    left = Counter(tuple(number_of[one] for one in said if one in number_of) for said in split)
    left.pop((), None)

    found = Telling(telling, list(number_of), [], [])
    texts = []
    for said, often in left.most_common(TEXTS):
        facts = found.facts(" ".join(found.sentences[number] for number in said), words)
        texts.append((said, [int(number) for number in np.flatnonzero(facts)], often))
    held = np.array([found.facts(report, words) for report in reports])
    return Telling(telling, found.sentences, held.mean(0).tolist(), texts)


def load(path: Path) -> Telling:
    """From a telling.json."""
    return Telling(**json.loads(path.read_text(encoding="utf-8")))


def reports_of(model: Any, images: Any, length: int, writer: str, words: Words, telling: Telling) -> list[str]:
    """A report of each case, by `writer`: decoder or sentences."""
    if writer == "sentences":
        return [telling.report(line) for line in model.likely(images)]
    return [words.decode(line) for line in model.write(images, length)]


def _logit(share: Sequence[float]) -> np.ndarray:
    inside = np.clip(np.asarray(share, "float64"), 1e-3, 1 - 1e-3)
    return np.log(inside) - np.log1p(-inside)
