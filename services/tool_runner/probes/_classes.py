"""What the probes look for where the answer is classes. Standalone: imports nothing of ours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

TASK = "diagnosis"
_SURE = 0.5
"""Of several labels those are answered that have this probability or more."""


def are_several(rows: Sequence[Any]) -> bool | None:
    """Whether several labels may hold of a sample (lists); None without rows that have labels."""
    labels = [row.get("label") for row in rows if isinstance(row, Mapping) and row.get("label") is not None]
    return any(isinstance(label, list | tuple) for label in labels) if labels else None


def schema_faults(found: Any, names: Sequence[str], labels: Sequence[str], several: bool) -> list[str]:
    """What is wrong with the form of predictions.json; `several` is whether several labels may hold of a sample."""
    if not isinstance(found, dict) or found.get("task") != TASK:
        return [f"predictions.json must be an object with task {TASK}"]
    if found.get("labels") != list(labels):
        return [f"predictions.json has labels {found.get('labels')}, the label map {list(labels)}"]
    if bool(found.get("multi_label")) != several:
        said = "several labels may hold of a sample" if several else "a sample has one label"
        return [f'predictions.json has "multi_label": {found.get("multi_label")!r}, but {said}: it must be {several}']
    cases = found.get("cases")
    if not isinstance(cases, list) or [c.get("input") for c in cases if isinstance(c, dict)] != list(names):
        return ["cases must hold one entry for each input, under the input's name and in their order"]
    faults = []
    for case in cases:
        if "error" in case:
            faults.append(f"{case['input']} could not be predicted: {case['error']}")
        elif fault := _case(case, labels, several):
            faults.append(fault)
    return faults


def _case(case: Mapping[str, Any], labels: Sequence[str], several: bool) -> str:
    chances, label = case.get("probabilities"), case.get("label")
    if not isinstance(chances, dict) or set(chances) != set(labels):
        return f"{case['input']} must have one probability for each label"
    values = list(chances.values())
    if not all(isinstance(v, int | float) and math.isfinite(v) and -1e-6 <= v <= 1 + 1e-6 for v in values):
        return f"{case['input']} has probabilities outside 0..1: {values}"
    if several:
        sure = [name for name in labels if chances[name] >= _SURE]
        alike = (
            isinstance(label, list) and len(label) == len(set(map(str, label))) and set(map(str, label)) == set(sure)
        )
        return "" if alike else f"{case['input']} is labelled {label!r}; those with {_SURE} or more are {sure}"
    if abs(sum(values) - 1) > 1e-3:
        return f"the probabilities of {case['input']} sum to {sum(values):.4f}, not 1"
    if label not in labels or chances[label] < max(values) - 1e-6:
        return f"{case['input']} is labelled {label!r}, which is not its most probable label"
    return ""


def describe_labels(
    split: str, labels: Any, names: Sequence[str], several: bool | None, errors: list[str]
) -> dict[str, int]:
    """How often each label stands in a batch: class numbers (B,), or 0 and 1 for each of several labels (B, K).

    `several` is what the rows say, None where there are none.
    """
    if labels.ndim == 1:
        if several:
            errors.append(
                f"{split}: labels are class numbers, but several may hold of a sample (the index has lists): give 0 or "
                "1 for each label, as float"
            )
        found: dict[int, int] = {}
        for label in labels.tolist():
            found[int(label)] = found.get(int(label), 0) + 1
        outside = [label for label in found if not 0 <= label < max(len(names), 1)]
        if outside:
            errors.append(f"{split}: label numbers {outside} are not in the label map of {len(names)} names")
        return {names[k] if 0 <= k < len(names) else str(k): n for k, n in found.items()}
    if several is False:
        errors.append(f"{split}: labels have shape {list(labels.shape[1:])} a sample, but a sample has one label")
    if labels.ndim != 2 or labels.shape[1] != len(names):
        errors.append(f"{split}: labels have shape {list(labels.shape[1:])} a sample, the label map {len(names)} names")
        return {}
    if not labels.is_floating_point():
        errors.append(f"{split}: labels are {labels.dtype}, several labels must be float (0 or 1 each)")
    if strange := sorted({float(value) for value in labels.flatten().tolist()} - {0.0, 1.0}):
        errors.append(f"{split}: labels hold {strange[:5]}; each of several labels must be 0 or 1")
        return {}
    return {name: int(n) for name, n in zip(names, labels.sum(0).tolist(), strict=True)}
