"""One test case as a PNG, as one JSON line: {"png": base64, "width", "height", "notes"}, or {"problem": why}.

Usage: render_case.py '{"images": ["/data/a.nii.gz"], "truth": "/data/truth.nii.gz", "answer": "/data/answer.nii.gz",
"values": {"liver": 6}, "colours": ["#ff4040"], "limit": 200000}'. `images` are the views of a case in order; truth and
answer are masks of the first view that hold `values`, and may be missing.
"""

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

_VIEWS = 3


def render(wanted: dict[str, Any]) -> dict[str, Any]:
    from _drawing import Scene, draw, grey_range
    from _paths import real_path, reason

    from shared.imaging.volume import read

    views = [real_path(view) for view in wanted["images"]]
    notes = [f"{_VIEWS} of {len(views)} views are shown"] if len(views) > _VIEWS else []
    scenes = [Scene(read([view])) for view in views[:_VIEWS]]
    notes += scenes[0].notes
    masks: dict[str, Any] = {"truth": None, "answer": None}
    for name in masks:
        if wanted.get(name):
            try:
                masks[name] = structures(real_path(wanted[name]), wanted["values"], scenes[0])
            except Exception as error:  # the image is worth seeing without it
                notes.append(f"the {name} cannot be drawn: {reason(error)}")
    sheet, png = draw(scenes, masks["truth"], masks["answer"], wanted["colours"], wanted["limit"])
    if shown := grey_range(scenes[0], masks["truth"])[2]:
        notes.append(shown)
    return {"png": base64.b64encode(png).decode(), "width": sheet.width, "height": sheet.height, "notes": notes}


def structures(path: Path, values: Mapping[str, int], scene: Any) -> np.ndarray:
    """Structure numbers 1..N in the order of `values`, on the axes of the scene; any other value is 0."""
    from shared.imaging.masks import on_image, read_label_map

    labels = on_image(*read_label_map(path), scene.image, path.name)
    numbers = np.zeros(labels.shape, np.uint16)
    for number, value in enumerate(values.values(), 1):
        numbers[labels == value] = number
    return np.asarray(scene.mask(numbers))


def main(arguments: list[str]) -> None:
    from _paths import reason

    try:
        found = render(json.loads(arguments[0]))
    except Exception as error:  # libraries fail in their own ways; the reason is the answer
        found = {"problem": reason(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
