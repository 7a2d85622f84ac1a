"""A three-plane picture of a scan, or the picture itself if it is flat, as one JSON line: {"summary", "data"}.

Usage: view_image.py /data/scan.nii.gz [/data/mask.nii.gz]
`data["png"]` is base64. A folder is a DICOM series, or a stack of its pictures.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

_MAX_PNG = 130_000
_SLICES = 300
"""Of a longer stack every second, third, ... picture is read."""
_COLOURS = ("#ff4040", "#40dc40", "#508cff", "#ffd228", "#f05af0", "#3cdcdc", "#ff963c")
_MOST_LABELS = 200


def load(virtual: str) -> tuple[Any, dict[str, Any], float]:
    """The image, facts of it, and mm between its slices where the files do not say. Raises BadImage."""
    from _paths import real_path

    from shared.imaging.formats import format_of
    from shared.imaging.inputs import input_files
    from shared.imaging.volume import BadImage, read

    files = input_files(real_path(virtual))
    kinds = {found.kind if (found := format_of(file)) else None for file in files}
    if len(files) == 1 or kinds == {"dicom"}:
        image = read(files, axis4="first", uneven="accept")
        return image, {"format": found.name if (found := format_of(files[0])) else "image"}, 1.0
    step = -(-len(files) // _SLICES)
    kept = []
    for file in files[::step]:
        try:
            read([file])
            kept.append(file)
        except BadImage:
            continue
    facts: dict[str, Any] = {"format": "folder of slices", "slices": len(files), "shown": len(kept)}
    if unread := len(files[::step]) - len(kept):
        facts["left_out"] = f"{unread} unreadable"
    return read(kept), facts, float(step)


def overlay_of(scene: Any, virtual: str) -> np.ndarray:
    """Whole numbers on the axes of the scene. Raises BadImage and ValueError."""
    from _paths import real_path

    from shared.imaging.inputs import input_files
    from shared.imaging.masks import on_image, read_label_map

    files = input_files(real_path(virtual))
    labels = on_image(*read_label_map(files, order=scene.image.order), scene.image, files[0].name)
    if len(np.unique(labels)) > _MOST_LABELS:
        raise ValueError(f"{files[0].name} has more than {_MOST_LABELS} different values, so it is no mask")
    return np.asarray(scene.mask(labels))


def view(virtual: str, overlay: str | None) -> dict[str, Any]:
    from _drawing import Scene, draw, grey_range
    from _facts import line_of, values_of

    image, facts, between = load(virtual)
    scene = Scene(image, between)
    mask = overlay_of(scene, overlay) if overlay else None
    low, high, said = grey_range(scene, mask)
    data = {
        **facts,
        "shape": list(image.array.shape[1::-1] if scene.flat else image.array.shape[:3]),
        **values_of(image),
        "window": [round(low, 3), round(high, 3)],
    }
    lines = [f"{virtual}: {line_of(data)}", f"Drawn from {low:g} to {high:g}{f' ({said})' if said else ''}"]
    if not scene.flat:
        data["spacing"] = [round(size, 4) for size in scene.spacing]
        data["planes"] = dict(zip(("sagittal", "coronal", "axial"), scene.centres(mask), strict=True))
        order = ", ".join(f"{name} at {data['planes'][name]}" for name in ("axial", "coronal", "sagittal"))
        lines[-1] += f"; left to right: {order}"
    numbers = None
    if mask is not None:
        values, counts = np.unique(mask[mask != 0], return_counts=True)
        data["labels"] = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
        marked = ", ".join(f"{value}: {count:,}" for value, count in list(data["labels"].items())[:40])
        lines.append(f"Overlay voxels by label: {marked}" if marked else "The overlay is empty: no voxel has a label")
        numbers = np.where(mask != 0, np.searchsorted(values, mask) + 1, 0)
    lines += [f"left out: {facts['left_out']}"] if "left_out" in facts else []
    colours = [_COLOURS[number % len(_COLOURS)] for number in range(_MOST_LABELS)]
    data["png"] = base64.b64encode(draw([scene], numbers, numbers, colours, _MAX_PNG)[1]).decode()
    return {"summary": "\n".join([*lines, *scene.notes]), "data": data}


def main(arguments: list[str]) -> None:
    from _paths import reason

    try:
        found = view(arguments[0], arguments[1] if len(arguments) > 1 else None)
    except Exception as error:  # libraries fail in their own ways; the reason is the answer
        found = {"summary": f"{arguments[0]} could not be rendered: {reason(error)}", "data": {}, "failed": True}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
