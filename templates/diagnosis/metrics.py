"""Validation metrics. A figure that is not defined (one class only) is None, never a guess."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score, recall_score, roc_auc_score

from shared.training import told
from shared.training.dice import mean


def scores(
    logits: np.ndarray,
    labels: np.ndarray,
    multi_label: bool,
    patients: Sequence[str] | None = None,
    ordered: bool = False,
) -> dict[str, float | None]:
    """`logits` (N, classes); `labels` (N,) numbers, or (N, classes) of 0 and 1 if multi-label.

    auc_macro is the mean of one-against-rest over the classes that are both present and absent in `labels`;
    auc_macro_by_patient is the same after scans of one patient (of `patients`, N) with the same labels have become one
    case with the mean of their probabilities. Multi-label: accuracy is that of all labels of a sample at once,
    balanced_accuracy the mean over classes. Of `ordered` classes, which are grades, also quadratic_kappa.
    """
    chances = probabilities(logits, multi_label)
    truth = one_hot(labels, chances.shape[1], multi_label)
    cases = by_patient(chances, truth, patients or [str(number) for number in range(len(truth))])
    found = {"auc_macro": mean(aucs(chances, truth)), "auc_macro_by_patient": mean(aucs(*cases))}
    if multi_label:
        said = (chances >= 0.5).astype(int)
        sides = [pair for pair in zip(truth.T, said.T, strict=True) if both(pair[0])]
        balanced = mean([recall_score(*pair, average="macro") for pair in sides])
    else:
        truth, said = labels.astype(int), chances.argmax(1)
        balanced = float(recall_score(truth, said, labels=np.unique(truth), average="macro"))
        if ordered:
            found["quadratic_kappa"] = quadratic_kappa(truth, said, chances.shape[1])
    return found | {
        "balanced_accuracy": balanced,
        "accuracy": float(accuracy_score(truth, said)),
        # Of one label, a class that is neither there nor found does not count; of several it counts as missed.
        "f1_macro": float(f1_score(truth, said, average="macro", zero_division=0)),
    }


def quadratic_kappa(labels: np.ndarray, picked: np.ndarray, grades: int) -> float | None:
    """How far answers and truth agree beyond chance: 1 throughout, and the less the more grades they are apart."""
    if len({*labels, *picked}) < 2:
        return None
    return float(cohen_kappa_score(labels, picked, labels=range(grades), weights="quadratic"))


def temperature(logits: np.ndarray, labels: np.ndarray, multi_label: bool) -> float:
    """1 to 10: what logits are divided by for the least cross-entropy (Guo et al. 2017), never to be surer."""
    truth = one_hot(labels, logits.shape[1], multi_label)

    def surprise(warmth: float) -> float:
        chances = probabilities(logits / warmth, multi_label).clip(1e-9, 1 - 1e-9)
        return -float(np.mean(np.log(np.where(truth, chances, 1 - chances if multi_label else 1))))

    return float(minimize_scalar(surprise, bounds=(1, 10), method="bounded").x)


def probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray:
    logits = logits.astype(np.float64)
    return expit(logits) if multi_label else softmax(logits, 1)


def one_hot(labels: np.ndarray, classes: int, multi_label: bool) -> np.ndarray:
    return labels.astype(int) if multi_label else np.eye(classes, dtype=int)[labels.astype(int)]


def by_patient(chances: np.ndarray, truth: np.ndarray, patients: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Scans of one patient with the same labels as one case."""
    cases = [np.asarray(patients), *truth.T]
    return tuple(pd.DataFrame(part).groupby(cases, sort=False).mean().to_numpy() for part in (chances, truth))


def both(labels: np.ndarray) -> bool:
    """Whether a class is present and absent."""
    return bool(0 < labels.sum() < len(labels))


def aucs(chances: np.ndarray, truth: np.ndarray) -> list[float | None]:
    """Of each class against the rest, None where it is present or absent throughout."""
    return [
        float(roc_auc_score(truth[:, k], chances[:, k])) if both(truth[:, k]) else None for k in range(truth.shape[1])
    ]


def told_of_cases(found: Any, cases: Any, multi_label: bool, metric: str) -> dict[str, Any]:
    """What metrics.json says of the classes and cases of a set, in the order of the predictions `found`: a case is as
    good as the probability of what is true of it, of several labels the lowest."""
    chances, names = probabilities(found.predictions, multi_label), cases.label_names
    truth = one_hot(found.label_ids, len(names), multi_label)
    picked = (chances >= 0.5) if multi_label else one_hot(chances.argmax(1), len(names), False)
    right = np.where(truth == 1, chances, 1 - chances).min(1) if multi_label else (chances * truth).sum(1)
    patients = [str(row["patient"]) for row in cases.rows]

    def listed(marks: np.ndarray) -> str:
        return ", ".join(name for name, mark in zip(names, marks, strict=True) if mark) or "none"

    told_cases = [
        {"id": str(row["sample_id"]), "figure": float(figure), "truth": listed(true), "answer": listed(said)}
        for row, figure, true, said in zip(cases.rows, right, truth, picked, strict=True)
    ]

    def figure(numbers: Sequence[int], drawn: Sequence[str]) -> float | None:
        some = list(numbers)
        return scores(found.predictions[some], found.label_ids[some], multi_label, drawn, cases.ordered)[metric]

    more: dict[str, Any] = {"auc_by_class": dict(zip(names, aucs(chances, truth), strict=True))}
    if not multi_label:  # rows are what is true, columns what was said
        counts = confusion_matrix(truth.argmax(1), picked.argmax(1), labels=range(len(names)))
        more["confusion"] = {"names": names, "counts": counts.tolist()}
    return told.of_cases(told_cases, patients, figure) | more


def class_weights(targets: np.ndarray, multi_label: bool) -> list[float]:
    """Balanced, at most ten times the least: cross-entropy weights from one-hot rows, or the positives' weights."""
    positive = targets.sum(0)
    if multi_label:
        return [float(np.clip((len(targets) - n) / max(n, 1), 0.1, 10)) for n in positive]
    weights = len(targets) / (targets.shape[1] * np.maximum(positive, 1))
    weights = np.minimum(weights, 10 * weights.min())
    return [float(w) for w in weights / weights.mean()]
