"""One test case as a PNG, as one JSON line: {"png": base64, "width", "height", "notes"}, or {"problem": why}.

Usage: render_case.py '{"image": "/data/image", "dimensions": 3, "truth": "/data/truth.nii.gz", "answer":
"/data/answer.nii.gz", "values": {"liver": 6}, "colours": ["#ff4040"], "limit": 200000}'. `image` is a folder with the
sample's files in order; truth and answer are masks that hold `values`, and may be missing.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def render(wanted: dict[str, Any]) -> dict[str, Any]:
    from _paths import reason  # type: ignore[import-not-found]
    from _render_planes import draw, grey_range  # type: ignore[import-not-found]
    from _render_read import read_images, read_mask  # type: ignore[import-not-found]

    volumes, notes = read_images(wanted["image"], wanted["dimensions"])
    masks: dict[str, Any] = {"truth": None, "answer": None}
    for name in masks:
        if wanted.get(name):
            try:
                masks[name] = read_mask(wanted[name], wanted["values"], volumes[0])
            except Exception as error:  # the image is worth seeing without it
                notes.append(f"the {name} cannot be drawn: {reason(error)}")
    sheet, png = draw(volumes, masks["truth"], masks["answer"], wanted["colours"], wanted["limit"])
    if shown := grey_range(volumes[0], masks["truth"])[2]:
        notes.append(shown)
    return {"png": base64.b64encode(png).decode(), "width": sheet.width, "height": sheet.height, "notes": notes}


def main(arguments: list[str]) -> None:
    from _paths import reason

    try:
        found = render(json.loads(arguments[0]))
    except Exception as error:
        found = {"problem": reason(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
