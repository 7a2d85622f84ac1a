"""What `verify_index` looks for in the labels of a diagnosis: one of each sample, or several that may hold."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from shared.trainkit.checks import one_sided, repeats_labels
from shared.trainkit.indexrules import Row, labels_of, several_labels

SHOWN = 20


def look_at_labels(rows: Sequence[Row], meta: dict[str, Any]) -> dict[str, Any]:
    labels = Counter(name for row in rows for name in labels_of(row))
    unknown = sorted(set(labels) - set(classes_of(meta))) if meta.get("task") == "diagnosis" else []
    return {
        "labels": dict(labels.most_common(1000)),
        "several_labels": several_labels(rows),
        **cut("labels_not_in_meta", unknown),
        "label_in_attributes": _telling_attributes(rows),
    }


def unlearnable(rows: Sequence[Row], meta: dict[str, Any], trained: dict[str, int]) -> list[str]:
    """Classes of which train has no sample; of several labels those that nothing could be learned or measured of."""
    names = classes_of(meta)
    if not several_labels(rows):
        return [f"class {name!r} has no sample in train" for name in names if name not in trained]
    sides = {side: [row for row in rows if row["split"] == side] for side in ("train", "test")}
    found = [
        f"{how} row of train has the label {name!r}: nothing can be told apart, leave it out of label_names"
        for name, how in one_sided(sides["train"], names).items()
    ]
    if sides["test"] and len(one_sided(sides["test"], names)) == len(names):
        found.append("there is no label that some rows of test have and others lack: nothing could be measured")
    return found


def _telling_attributes(rows: Sequence[Row]) -> list[str]:
    """Attributes whose values and the labels, or one of several, determine each other: the label by another name."""
    labelled = [row for row in rows if row["label"] is not None]
    telling, several = [], several_labels(rows)
    for key in sorted({key for row in labelled for key in row["attributes"]}):
        pairs = {
            (json.dumps(row["attributes"][key], sort_keys=True), labels_of(row))
            for row in labelled
            if key in row["attributes"]
        }
        values, labels = {value for value, _ in pairs}, {label for _, label in pairs}
        carriers = [row for row in labelled if key in row["attributes"]]
        same = len(pairs) == len(values) == len(labels) >= 2 and len(carriers) > len(labels)
        if same or (
            several and repeats_labels([row["attributes"][key] for row in carriers], [*map(labels_of, carriers)])
        ):
            telling.append(key)
    return telling


def classes_of(meta: dict[str, Any]) -> list[str]:
    names = meta.get("label_names")
    return [str(name) for name in names] if isinstance(names, list) and meta.get("task") == "diagnosis" else []


def cut(name: str, items: Sequence[Any], count_name: str | None = None) -> dict[str, Any]:
    return {name: list(items[:SHOWN]), count_name or f"{name}_count": len(items)}
