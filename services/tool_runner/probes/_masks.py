"""What is true of the masks of a segmentation's index: grids, values, structures on each side. For verify_index."""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from shared.trainkit.index import SPLITS, Row
from shared.trainkit.masks import Grid, axes_problem, grid_of, grid_problem, mask_values, middle

SHOWN = 20
_INTENSITIES = 12
"""Training images whose middle slice is looked at."""


@dataclass(frozen=True)
class Case:
    row: Row
    fault: str | None
    grid: Grid | None = None
    values: frozenset[int] = frozenset()


def look_at_masks(
    rows: Sequence[Row], sizes: Mapping[str, int], root: Path, meta: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Facts about the rows whose files are all there: `mask_faults`, `geometry`, `masks_checked` of `masks_sampled`."""
    whole = [row for row in rows if row.get("target") in sizes and all(file in sizes for file in row["files"])]
    order = list(whole)
    # Shuffled, so that what the time allows is a fair sample of the whole.
    random.Random(0).shuffle(order)
    until = time.monotonic() + seconds
    known = set(meta["label_values"].values()) if isinstance(meta.get("label_values"), dict) else set()

    def look(row: Row) -> Case | None:
        return _case(row, root, known, meta.get("dimensions")) if time.monotonic() <= until else None

    with ThreadPoolExecutor(4) as pool:
        cases = [case for case in pool.map(look, order) if case is not None]
    faults = sorted(f"{case.row['target']}: {case.fault}" for case in cases if case.fault)
    complete = len(cases) == len(whole)
    return {
        "mask_faults": faults[:SHOWN],
        "mask_faults_count": len(faults),
        "masks_checked": len(cases),
        "masks_sampled": not complete,
        "structures_not_trained": _untrained(cases, meta) if complete and not faults else [],
        "geometry": {**_geometry(cases, root), "structures": _structures(cases, meta)},
    }


def _case(row: Row, root: Path, known: set[int], dimensions: Any) -> Case:
    try:
        grid, mask = grid_of(root / row["files"][0]), grid_of(root / row["target"])
        problem = axes_problem(grid, dimensions) if dimensions in (2, 3) else None
        if problem := problem or grid_problem(grid, mask):
            return Case(row, problem)
        values = frozenset(mask_values(root / row["target"])) - {0}
    except Exception as error:  # whatever a reader trips over in a foreign file is the file's fault
        return Case(row, f"cannot be read as a mask: {error}".replace(f"{root}/", ""))
    strange = sorted(values - known)
    if strange:
        return Case(row, f"holds the values {', '.join(map(str, strange[:10]))}, which are not in label_values")
    return Case(row, None, grid, values)


def _structures(cases: Sequence[Case], meta: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Structure -> split -> cases that hold it."""
    counts = {side: Counter[int]() for side in SPLITS}
    for case in cases:
        counts[case.row["split"]].update(case.values)
    values = meta.get("label_values")
    named = values if isinstance(values, dict) else {}
    return {str(name): {side: counts[side][value] for side in SPLITS} for name, value in named.items()}


def _untrained(cases: Sequence[Case], meta: Mapping[str, Any]) -> list[str]:
    return [name for name, sides in _structures(cases, meta).items() if not sides["train"]]


def _geometry(cases: Sequence[Case], root: Path) -> dict[str, Any]:
    """Sizes, spacing in mm and orientation of the images; intensities of some training images' middle slices."""
    grids = [case.grid for case in cases if case.grid]
    facts: dict[str, Any] = {
        "image_sizes": dict(Counter("x".join(map(str, grid.shape)) for grid in grids).most_common(SHOWN)),
        "empty_masks": {
            side: sum(not case.values for case in cases if case.grid and case.row["split"] == side) for side in SPLITS
        },
    }
    if axes := [grid.spacing for grid in grids if grid.spacing]:
        columns = list(zip(*[spacing for spacing in axes if len(spacing) == len(axes[0])], strict=True))
        facts["spacing_mm"] = [
            {"min": min(column), "median": round(median(column), 4), "max": max(column)} for column in columns
        ]
        facts["orientation"] = dict(Counter(grid.orientation for grid in grids).most_common(SHOWN))
    trained = sorted(case.row["files"][0] for case in cases if case.grid and case.row["split"] == "train")
    lows, highs = [], []
    for file in trained[:: max(1, len(trained) // _INTENSITIES)][:_INTENSITIES]:
        try:
            slice_ = middle(root / file)
        except Exception:  # told as unreadable elsewhere
            continue
        lows.append(float(slice_.min()))
        highs.append(float(slice_.max()))
    # NaN compares to nothing, and JSON does not know it.
    lows, highs = [low for low in lows if low == low], [high for high in highs if high == high]
    if lows and highs:
        facts["intensity"] = {"min": min(lows), "max": max(highs), "lowest_maximum": min(highs), "images": len(lows)}
    return facts
