"""A three-plane picture of a scan, or the picture itself if it is flat, or several side by side, as one JSON line.

Usage: view_image.py '[{"path": "/data/scan.nii.gz", "overlay": "/data/mask.nii.gz", "caption": "", "written": ""}]'
Prints {"summary", "data"}; `data["picture"]` is a PNG or JPEG in base64. A folder is a DICOM series, or a stack of its
pictures.
"""

import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

_MAX_BYTES = 48_000
MOST_CHANNELS = 4
"""That are drawn of one image."""
_SLICES = 300
"""Of a longer stack every second, third, ... picture is read."""
_COLOURS = (
    ("#ff4040", "red"), ("#40dc40", "green"), ("#508cff", "blue"), ("#ffd228", "yellow"),
    ("#f05af0", "magenta"), ("#3cdcdc", "cyan"), ("#ff963c", "orange"),
)  # fmt: skip
_PLANES = ("axial", "coronal", "sagittal")
_MOST_LABELS = 200


def load(virtual: str) -> tuple[Any, dict[str, Any], float]:
    """The image, facts of it, and mm between its slices where the files do not say. Raises BadImage."""
    from _paths import real_path

    from shared.imaging.formats import format_of
    from shared.imaging.headers import peek
    from shared.imaging.inputs import input_files
    from shared.imaging.volume import BadImage, read

    files = input_files(real_path(virtual))
    kinds = {found.kind if (found := format_of(file)) else None for file in files}
    if len(files) == 1 or kinds == {"dicom"}:
        # A few are channels, as in a case; many are times.
        few = len(files) == 1 and 1 < peek(files[0]).frames <= MOST_CHANNELS
        image = read(files, axis4="channels" if few else "first", uneven="accept")
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


@dataclass
class Look:
    """An image as it will be drawn, with what is said of it."""

    scene: Any
    mask: np.ndarray | None
    data: dict[str, Any]
    lines: list[str]
    others: list[Any]
    """Scenes of its further channels."""


def look(virtual: str, overlay: str, alone: bool) -> Look:
    """Raises what the readers raise."""
    from _drawing import Scene, grey_range
    from _facts import line_of, values_of

    image, facts, between = load(virtual)
    scene = Scene(image, between)
    others = [Scene(image, between, channel) for channel in range(1, min(scene.channels, MOST_CHANNELS))]
    mask = overlay_of(scene, overlay) if overlay else None
    low, high, said = grey_range(scene, mask)
    data = {
        **facts,
        "shape": list(image.array.shape[1::-1] if scene.flat else image.array.shape[:3]),
        **values_of(image),
        "window": [round(low, 3), round(high, 3)],
    }
    drawn = said or ("as it is" if (low, high) == (0.0, 255.0) else f"{low:g} to {high:g}")
    lines = [line_of(data), f"Drawn: {drawn}"]
    if not scene.flat:
        data["spacing"] = [round(size, 4) for size in scene.spacing]
        data["planes"] = dict(zip(("sagittal", "coronal", "axial"), scene.centres(mask), strict=True))
        shown = ", ".join(f"{name} at {data['planes'][name]}" for name in (_PLANES if alone else _PLANES[:1]))
        lines[-1] += f"; left to right: {shown}" if alone else f"; {shown}"
    if mask is not None:
        values, counts = np.unique(mask[mask != 0], return_counts=True)
        data["labels"] = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
    if others:
        each = f"channels 1 to {len(others) + 1} of {scene.channels}, one after the other, each in a range of its own"
        lines.append(each if alone else f"channel 1 of {scene.channels}")
    lines += [f"left out: {facts['left_out']}"] if "left_out" in facts else []
    return Look(scene, mask, data, [*lines, *scene.notes], others)


def view(wanted: list[dict[str, str]]) -> dict[str, Any]:
    """`wanted`: path, overlay, caption, and what is written under each. One that cannot be read says so."""
    from _drawing import draw, montage
    from _paths import reason

    looks: list[Look | str] = []
    for one in wanted:
        try:
            looks.append(look(one["path"], one["overlay"], len(wanted) == 1))
        except Exception as error:  # libraries fail in their own ways; the reason is the answer
            looks.append(f"{one['path']} could not be rendered: {reason(error)}")
    seen = [one for one in looks if isinstance(one, Look)]
    if not seen:
        return {"summary": "\n".join(map(str, looks)), "data": {}, "failed": True}
    # The same label has the same colour in all of them.
    values = sorted({int(label) for one in seen for label in one.data.get("labels", ())})[:_MOST_LABELS]
    for sight in seen:
        if sight.mask is not None:
            sight.lines.append(_told(sight.data["labels"], values))
            sight.mask = np.where(sight.mask != 0, np.searchsorted(values, sight.mask) + 1, 0)
    colours = [_COLOURS[number % len(_COLOURS)][0] for number in range(_MOST_LABELS)]
    if len(wanted) == 1:
        _, picture = draw([seen[0].scene, *seen[0].others], seen[0].mask, seen[0].mask, colours, _MAX_BYTES, lossy=True)
        text = "\n".join([f"{wanted[0]['path']}: {seen[0].lines[0]}", *seen[0].lines[1:]])
        return {"summary": text, "data": {**seen[0].data, "picture": base64.b64encode(picture).decode()}}
    cells: list[Any] = []
    text, data = "", {}
    for number, (one, found) in enumerate(zip(wanted, looks, strict=True), 1):
        if isinstance(found, Look):
            cells.append((found.scene, found.mask, one["written"]))
            data[one["path"]] = found.data
            told = "; ".join(line for line in found.lines if line != "Drawn: as it is")
            found = f"{one['caption']}{', ' * bool(one['caption'])}{one['path']}: {told}"
        else:
            cells.append("not rendered")
        text += f"{number} {found}\n"
    _, picture = montage(cells, colours, _MAX_BYTES)
    return {"summary": text.rstrip(), "data": {"images": data, "picture": base64.b64encode(picture).decode()}}


def _told(labels: dict[str, int], values: list[int]) -> str:
    def colour(label: str) -> str:
        return _COLOURS[values.index(int(label)) % len(_COLOURS)][1]

    marked = ", ".join(f"{label} ({colour(label)}): {count:,}" for label, count in list(labels.items())[:40])
    return f"Overlay voxels by label: {marked}" if marked else "The overlay is empty: no voxel has a label"


def main(arguments: list[str]) -> None:
    print(json.dumps(view(json.loads(arguments[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
