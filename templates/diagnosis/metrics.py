"""Validation metrics. A figure that is not defined (one class only) is None, never a guess."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score


def scores(logits: np.ndarray, labels: np.ndarray, multi_label: bool) -> dict[str, float | None]:
    """`logits` (N, classes); `labels` (N,) numbers, or (N, classes) of 0 and 1 if multi-label.

    auc_macro is the mean of one-against-rest over the classes that are both present and absent in `labels`.
    Multi-label: accuracy is that of all labels of a sample at once, balanced_accuracy the mean over classes.
    """
    logits = logits.astype(np.float64)
    classes = logits.shape[1]
    truth = labels.astype(int) if multi_label else np.eye(classes, dtype=int)[labels.astype(int)]
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    chances = 1 / (1 + np.exp(-logits)) if multi_label else shifted / shifted.sum(1, keepdims=True)
    both = [k for k in range(classes) if 0 < truth[:, k].sum() < len(truth)]
    auc = [float(roc_auc_score(truth[:, k], chances[:, k])) for k in both]
    if multi_label:
        found = (chances >= 0.5).astype(int)
        balanced = [float(balanced_accuracy_score(truth[:, k], found[:, k])) for k in both]
        return {
            "auc_macro": mean(auc),
            "balanced_accuracy": mean(balanced),
            "accuracy": float((found == truth).all(1).mean()),
            "f1_macro": float(f1_score(truth, found, average="macro", zero_division=0)),
        }
    picked, right = chances.argmax(1), labels.astype(int)
    recalls = [float((picked[right == k] == k).mean()) for k in range(classes) if (right == k).any()]
    return {
        "auc_macro": mean(auc),
        "balanced_accuracy": mean(recalls),
        "accuracy": float((picked == right).mean()),
        "f1_macro": float(f1_score(right, picked, average="macro", zero_division=0)),
    }


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def class_weights(targets: np.ndarray, multi_label: bool) -> list[float]:
    """Balanced, at most ten times the least: cross-entropy weights from one-hot rows, or the positives' weights."""
    positive = targets.sum(0)
    if multi_label:
        return [float(np.clip((len(targets) - n) / max(n, 1), 0.1, 10)) for n in positive]
    weights = len(targets) / (targets.shape[1] * np.maximum(positive, 1))
    weights = np.minimum(weights, 10 * weights.min())
    return [float(w) for w in weights / weights.mean()]
