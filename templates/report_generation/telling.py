"""What tells reports apart: words that some of them have, and sentences that several patients share. The images are
asked for both, and a report may be made of such sentences alone. predict.py uses this same file."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from words import Words, plain

END = re.compile(r"(?<=[^\d\s][.!?])\s+(?=[^a-z])|(?<=[。！？])\s*(?=\S)")


@dataclass(frozen=True)
class Telling:
    words: Sequence[int]
    """Token numbers, the most even first."""
    sentences: Sequence[str]
    asked: int
    """The first so many of them are facts."""
    texts: Sequence[Sequence[int]]
    """Training reports in shared sentences, the nearest one in place of any other: numbers in their order."""
    worth: Sequence[Sequence[float]]
    """How alike each text is to a report (ROUGE-L): where it has no fact at all, then what each fact adds."""
    usual: Sequence[float]
    """Share of training reports that have each fact."""
    trust: float = 1.0
    """How much of the way from there to what the images say is gone: what a network is too sure of makes texts worse
    than one for all."""

    def __len__(self) -> int:
        return len(self.words) + self.asked

    def facts(self, report: str, words: Words) -> np.ndarray:
        """float32 (len,) of 0 and 1: which words and sentences a report has."""
        had, said, asked = set(words.encode(report)), set(END.split(plain(report))), self.sentences[: self.asked]
        return np.array([*(word in had for word in self.words), *(one in said for one in asked)], "float32")

    def report(self, likely: Sequence[float]) -> str:
        """The text that is expected to be most alike to the report, by the likelihood of its facts (minimum Bayes risk,
        Kumar and Byrne 2004): where nothing is known, what is most alike to all reports."""
        usual = np.asarray(self.usual)
        facts = usual + self.trust * (np.asarray(likely) - usual)
        said = self.texts[int((self._worth[:, 0] + self._worth[:, 1:] @ facts).argmax())]
        return " ".join(self.sentences[number] for number in said)

    @cached_property
    def _worth(self) -> np.ndarray:
        return np.array(self.worth)

    @property
    def text(self) -> str:
        """The content of telling.json."""
        return json.dumps(asdict(self), ensure_ascii=False)


def load(path: Path) -> Telling:
    """From a telling.json."""
    return Telling(**json.loads(path.read_text(encoding="utf-8")))


def reports_of(model: Any, images: Any, length: int, writer: str, words: Words, telling: Telling) -> list[str]:
    """A report of each case, by `writer`: decoder or sentences."""
    if writer == "sentences":
        return [telling.report(line) for line in model.likely(images)]
    return [words.decode(line) for line in model.write(images, length)]
