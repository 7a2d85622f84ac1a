"""How a reader of a replica is scored: folds by patient, and for each kind of task the metric of its requests."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from m3bench.readers.choice import Choice
from m3bench.readers.samples import Sample
from m3bench.words.reports import rouge_l

Floats = NDArray[np.floating]
Masks = Sequence[NDArray[np.bool_]]
"""Of one case, a mask a structure."""
FOLDS = 3


class Reader(Protocol):
    """Learns from some samples and answers for others; none of the methods sees an answer of the latter."""

    def classify(self, known: Sequence[Sample], targets: Floats, asked: Sequence[Sample]) -> Floats:
        """Probabilities (asked, targets) of `targets`, (known, targets) of 0 or 1, from the images alone."""
        ...

    def segment(self, known: Sequence[Sample], values: Sequence[int], asked: Sequence[Sample]) -> Iterator[Masks]:
        """For each sample asked for, a mask a value on its own grid."""
        ...


Scores = dict[str, float]
"""Measure -> value; among them the metric that the requests name."""


def score(reader: Reader, found: Sequence[Sample], values: Sequence[int] = (), folds: int = FOLDS) -> Scores:
    """Over the first `folds` of three folds by patient. `values` are those of a segmentation's structures."""
    parts = [fold for number, fold in enumerate(by_patient(found)) if number < folds]
    if found[0].mask is not None:
        return _dice(reader, parts, values)
    return _reports(reader, parts) if found[0].text is not None else _diagnosis(reader, parts)


def by_patient(found: Sequence[Sample]) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """(known, asked) with nobody on both sides; classes as even as patients allow."""
    from sklearn.model_selection import StratifiedGroupKFold

    groups = [sample.group for sample in found]
    classes = [sample.label or "" for sample in found]
    split = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    for known, asked in split.split(groups, classes, groups):
        yield [found[at] for at in known], [found[at] for at in asked]


Parts = Sequence[tuple[list[Sample], list[Sample]]]


def _diagnosis(reader: Reader, parts: Parts) -> Scores:
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

    names = sorted({str(sample.label) for known, _ in parts for sample in known})
    true, guessed = [], []
    for known, asked in parts:
        targets = np.array([[sample.label == name for name in names] for sample in known], float)
        chances = reader.classify(known, targets, asked) + 1e-9
        guessed.append(chances / chances.sum(axis=1, keepdims=True))
        true += [names.index(str(sample.label)) for sample in asked]
    chances = np.concatenate(guessed)
    best = chances.argmax(axis=1)
    return {
        "accuracy": float(accuracy_score(true, best)),
        "balanced_accuracy": float(balanced_accuracy_score(true, best)),
        "auc_macro": float(roc_auc_score(true, chances, multi_class="ovr")),
    }


def _dice(reader: Reader, parts: Parts, values: Sequence[int]) -> Scores:
    """Mean over the structures that are in a case, then over cases."""
    scores = []
    for known, asked in parts:
        for sample, masks in zip(asked, reader.segment(known, values, asked), strict=True):
            labels = sample.labels()
            each = [
                2 * np.sum(mask & (labels == value)) / (mask.sum() + np.sum(labels == value))
                for mask, value in zip(masks, values, strict=True)
                if (labels == value).any()
            ]
            scores += [float(np.mean(each))] if each else []
    return {"dice": float(np.mean(scores)), "lowest case": min(scores)}


def _reports(reader: Reader, parts: Parts) -> Scores:
    """The answer is the known report that is expected to agree best, by the facts that were read from the image."""
    from sklearn.metrics import roc_auc_score

    scores, constant, areas = [], [], []
    for known, asked in parts:
        names = sorted({fact for sample in known for fact in sample.facts or ()})
        targets, wanted = (
            np.array([[name in (sample.facts or ()) for name in names] for sample in side], float)
            for side in (known, asked)
        )
        chances = reader.classify(known, targets, asked)
        choice = Choice([str(sample.text) for sample in known], targets)
        # Whoever sees nothing knows how frequent each fact is.
        blind = choice.best(targets.mean(axis=0, keepdims=True))[0]
        for sample, text in zip(asked, choice.best(chances), strict=True):
            scores.append(rouge_l(str(sample.text), text))
            constant.append(rouge_l(str(sample.text), blind))
        both = (wanted.min(axis=0) < 1) & (wanted.max(axis=0) > 0)
        areas += [float(roc_auc_score(wanted[:, at], chances[:, at])) for at in np.flatnonzero(both)]
    facts = float(np.mean(areas)) if areas else 0.5
    return {"rouge_l": float(np.mean(scores)), "constant": float(np.mean(constant)), "auc of facts": facts}
