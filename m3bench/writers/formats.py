"""Writing tables, lists and pictures so that the same content gives the same bytes everywhere."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_table(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, quote_all: bool = False
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
        table.writerow(header)
        table.writerows(rows)


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_picture(path: Path, pixels: NDArray[np.uint8]) -> None:
    """8-bit (rows, columns) or (rows, columns, 3 or 4), as PNG, or as JPEG where the name ends so."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jpg":
        Image.fromarray(pixels).save(path, format="JPEG", quality=92)
    else:
        Image.fromarray(pixels).save(path, format="PNG", compress_level=1)


def cut_short(path: Path) -> None:
    """Leave the first half of a file, as an interrupted download does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
