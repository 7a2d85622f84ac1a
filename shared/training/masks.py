"""Cases with masks, as the index and the label map say: rows, masks as class numbers, what is wrong. Class numbers are
1..N in the order of the label map, 0 is background; masks hold the dataset's own values."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from shared.imaging.case import load_image
from shared.imaging.masks import on_image, read_label_map
from shared.imaging.volume import BadImage, Image
from shared.training import checks, configfile

Row = Mapping[str, Any]
Counts = Mapping[str, Mapping[str, int]]
"""split -> structure -> images that have it."""


class Source(configfile.Source):
    """The first keys of a segmentation's configuration."""

    label_map: str = "label_map.json"
    every_structure: bool = True
    """Whether the data are refused where a structure is in no training mask; else the model card says so."""
    task: Literal["organ_segmentation", "anomaly_detection"] = "organ_segmentation"
    """As predictions and the model card name it; it decides nothing."""
    score_map: bool = False
    """Whether the package writes the probability of any structure beside each mask."""


def label_values(source: Source) -> dict[str, int]:
    """Structure -> its value in the masks, in the order of the class numbers 1..N."""
    found = json.loads(Path(source.label_map).read_text(encoding="utf-8"))
    names, values = list(found["names"]), found.get("values") or {}
    # Without values the masks hold the class numbers.
    return {name: int(values.get(name, number)) for number, name in enumerate(names, 1)}


def check_rows(source: Source) -> list[dict[str, Any]]:
    """The rows of the index. Raises DataProblems: where rows alone are wrong, the images are opened, too."""
    rows = checks.read_index(source.index)
    values = label_values(source)
    problems = checks.split_problems(rows, source) + checks.value_problems(values)
    problems += [checks.Problem(str(row["sample_id"]), "has no mask (target)") for row in rows if not row["target"]]
    if problems and (root := source.data_folder).is_dir():
        problems += checks.read_all([row for row in rows if row["target"]], lambda row: load_case(row, root, values))
    checks.refuse(problems)
    return rows


def load_case(row: Row, root: Path, values: Mapping[str, int]) -> tuple[Image, np.ndarray]:
    """A case as it is, and its mask as class numbers on the image's axes. Raises BadImage with all problems."""
    problems = []
    image = mask = None
    try:
        image = load_image([root / str(file) for file in row["files"]])
    except BadImage as error:
        problems.append(str(error))
    name = str(row["target"])
    try:
        labels, grid = read_label_map(root / name)
        mask, unknown = to_classes(labels, values)
        if unknown:
            known = ", ".join(f"{value} {structure}" for structure, value in values.items())
            problems.append(f"{name} holds {shorten(unknown)}, which the label map does not have ({known})")
        if image is not None:
            mask = on_image(mask, grid, image, name)
    except BadImage as error:
        problems.append(str(error))
    if problems:
        raise BadImage("; ".join(problems))
    assert image is not None and mask is not None
    return image, mask


def shorten(values: Sequence[int]) -> str:
    text = ", ".join(map(str, values[:10])) + (f" and {len(values) - 10} more" if len(values) > 10 else "")
    return f"the value{'s' if len(values) > 1 else ''} {text}"


def to_classes(mask: np.ndarray, values: Mapping[str, int]) -> tuple[np.ndarray, list[int]]:
    """Class numbers in place of the dataset's values, and the values that stand for nothing."""
    codes, present = pd.factorize(mask.ravel())
    numbers = {value: number for number, value in enumerate(values.values(), 1)}
    table = np.array([numbers.get(value, 0) for value in present.tolist()])
    kind = np.uint8 if len(values) < 256 else np.uint16
    return table.astype(kind)[codes].reshape(mask.shape), sorted({*present.tolist()} - {0, *numbers})


def missing(counts: Counts, values: Mapping[str, int], every: bool) -> list[checks.Problem]:
    """What cannot be learnt, or not be measured at all; `every` structure has to be in a training mask, or any."""
    absent = unseen(counts, values)
    if absent and (every or len(absent) == len(values)):
        return [
            checks.Problem(f"structure {name}", f"no training mask has it (value {values[name]})") for name in absent
        ]
    if not any(counts["val"].get(name) for name in values):
        text = "no mask has a structure, by which weights are chosen; give it images that do"
        return [checks.Problem("split val", text)]
    return []


def unseen(counts: Counts, values: Mapping[str, int]) -> list[str]:
    return [name for name in values if not counts["train"].get(name)]


def limits(counts: Counts, values: Mapping[str, int]) -> list[str]:
    """Sentences for the model card."""
    untried = [name for name in values if not counts["val"].get(name)]
    return [f"No training image has {name}: it is never found." for name in unseen(counts, values)] + [
        f"No validation image has {name}: nothing is known about its quality." for name in untried
    ]
