"""Batches of the workspace's datasets: drawn, described, and those of training and validation compared."""

import inspect
import random
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import _classes
import _reports
import _segmentation
from _paths import reason

BATCH = 4
BATCHES = 2
DRAWN = 8
SPLITS = ("train", "val")
BAD = "BadImage"
"""What the templates' readers raise for a file or sample that cannot be used."""


def look(split: str, data: Any, facts: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """Draw the first two batches and eight further samples; the first batch is returned for the model."""
    errors: list[str] = facts["errors"]
    count = attempt(errors, folder, lambda: len(data))
    if count is None:
        return None
    facts["counts"][split] = count
    if not count:
        errors.append(f"{split} has no samples")
        return None
    facts["label_names"] = list(getattr(data, "label_names", facts["label_names"]))
    facts["vocabulary"] = int(getattr(data, "vocabulary", 0))
    numbers = list(range(min(BATCH * BATCHES, count)))
    rest = range(len(numbers), count)
    numbers += random.Random(0).sample(rest, min(DRAWN, len(rest)))
    items, good = [], []
    bad: dict[str, str] = {}
    for number in numbers:
        before = len(errors)
        where = f"{split} sample {number}: "
        item = attempt(errors, folder, partial(drawn, data, number), where, bad)
        if item is not None:
            items.append(item)
            good.append(number)
        elif where in bad:
            # The sample's own fault, as the reader says: not what the module could mend.
            facts["bad_samples"][sample_name(data, number) or where.strip(": ")] = bad.pop(where)
        elif len(errors) > before and len(errors) >= 10:
            errors.append("further samples were not tried")
            break
    if not items:
        errors.append(f"no sample of {split} can be used")
        return None
    if not errors and _segmentation.are_masks(items[0]["image"][None], items[0]["labels"][None]):
        # Patches differ each time: a few images are drawn from often enough to see their structures.
        items += [drawn(data, good[turn % len(good)]) for turn in range(len(items), BATCH * BATCHES)]
    return describe(split, items, facts, _classes.are_several(list(getattr(data, "rows", []))))


def sample_name(data: Any, number: int) -> str:
    """The sample_id of a dataset's row; empty where the dataset does not tell."""
    try:
        return str(data.rows[number]["sample_id"])
    except (AttributeError, IndexError, KeyError, TypeError):
        return ""


def drawn(data: Any, number: int) -> dict[str, Any]:
    import torch

    item = data[number]
    if not isinstance(item, Mapping) or not {"image", "labels"} <= set(item):
        keys = sorted(item) if isinstance(item, Mapping) else type(item).__name__
        raise ValueError(f"an item must be a mapping with image and labels, found {keys}")
    if not isinstance(item["image"], torch.Tensor):
        raise ValueError(f"image must be a tensor, found {type(item['image']).__name__}")
    return {**item, "labels": torch.as_tensor(item["labels"])}


def describe(
    split: str, items: list[dict[str, Any]], facts: dict[str, Any], several: bool | None
) -> dict[str, Any] | None:
    import torch

    errors: list[str] = facts["errors"]
    for key in ("image", "labels"):
        shapes = Counter(tuple(item[key].shape) for item in items)
        if len(shapes) > 1:
            errors.append(f"{split}: {key} has different shapes from sample to sample: {[list(s) for s in shapes]}")
            return None
    images = torch.stack([item["image"] for item in items]).detach()
    labels = torch.stack([item["labels"] for item in items]).detach()
    names = facts["label_names"]
    finite = bool(torch.isfinite(images).all()) if images.is_floating_point() else True
    if not finite:
        errors.append(f"{split}: images hold NaN or infinity")
    if not images.is_floating_point():
        errors.append(f"{split}: images are {images.dtype}, the network takes float32")
    flat = images.float().flatten(1)
    facts["constant_samples"] += int((flat.amax(1) == flat.amin(1)).sum())
    if _segmentation.are_masks(images, labels):
        told = _segmentation.describe_labels(split, labels, names, errors)
    elif _reports.are_reports(labels, facts["vocabulary"]):
        told = _reports.describe_labels(split, labels, facts["vocabulary"], errors)
    else:
        told = _classes.describe_labels(split, labels, names, several, errors)
    facts["batches"][split] = {
        "shape": [min(BATCH, len(items)), *images.shape[1:]],
        "dtype": str(images.dtype).removeprefix("torch."),
        "finite": finite,
        "labels": told,
        "mean": number(flat.mean()),
        "std": number(flat.std()),
        "samples_read": len(items),
    }
    return stacked(items[:BATCH])


def stacked(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A batch of what the items have as tensors of one shape."""
    import torch

    def alike(values: list[Any]) -> bool:
        return all(isinstance(value, torch.Tensor) and value.shape == values[0].shape for value in values)

    columns = {key: [item.get(key) for item in items] for key in items[0]}
    return {key: torch.stack(values).detach() for key, values in columns.items() if alike(values)}


def taken(model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What of a batch the model's `forward` has parameters for."""
    known = inspect.signature(model.forward).parameters.values()
    every = any(one.kind is one.VAR_KEYWORD for one in known)
    return {key: value for key, value in batch.items() if every or key in {one.name for one in known}}


def number(value: Any) -> float | None:
    found = float(value)
    return round(found, 5) if found == found and abs(found) != float("inf") else None


def compare(built: Mapping[str, Any], facts: dict[str, Any]) -> None:
    """Patients and samples of the two sides, by the rows that the datasets say they hold."""
    rows = {split: list(getattr(data, "rows", [])) for split, data in built.items() if data is not None}
    for split, found in rows.items():
        if found and len(found) != facts["counts"].get(split):
            facts["errors"].append(f"{split} has {facts['counts'].get(split)} samples but {len(found)} rows")
    sides = [{str(row["patient"]) for row in found if "patient" in row} for found in rows.values()]
    facts["patients_on_both_sides"] = sorted(set.intersection(*sides))[:20] if len(sides) == len(SPLITS) else []
    if facts["patients_on_both_sides"]:
        facts["errors"].append(f"patients on both sides of the split: {facts['patients_on_both_sides']}")


def attempt(
    errors: list[str], folder: Path, step: Callable[[], Any], where: str = "", bad: dict[str, str] | None = None
) -> Any:
    """What `step` returns, or None after a line in `errors` with type, message and the line of own code; a sample that
    cannot be read stands in `bad` in its place."""
    try:
        return step()
    except (Exception, SystemExit) as error:
        own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
        if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
            at = f" ({Path(error.filename).relative_to(folder)}:{error.lineno})"
        else:
            at = f" ({Path(own[-1].filename).relative_to(folder)}:{own[-1].lineno})" if own else ""
        if bad is not None and type(error).__name__ == BAD:
            bad[where] = reason(error)
        else:
            errors.append(f"{where}{reason(error)}{at}")
        return None
