"""A three-plane picture of a scan, or the picture itself if it is flat, as one JSON line: {"summary", "data"}.

Usage: view_image.py /data/scan.nii.gz [/data/mask.nii.gz]
`data["png"]` is base64. Volumes are turned to the nearest RAS+ orientation first; a folder is a stack of its slices.
"""

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

_MAX_PNG = 130_000
_PLANES = ("sagittal", "coronal", "axial")
_COLOURS = (
    (255, 64, 64),
    (64, 220, 64),
    (80, 140, 255),
    (255, 210, 40),
    (240, 90, 240),
    (60, 220, 220),
    (255, 150, 60),
)
_SOFT_TISSUE = (-160.0, 240.0)


class Volume:
    """Values in an order fit for planes: (x, y, z) to the right, anterior and superior; or (row, column[, rgb])."""

    def __init__(
        self, array: np.ndarray, spacing: tuple[float, ...], facts: dict[str, Any], affine: Any = None
    ) -> None:
        self.array, self.spacing, self.facts, self.affine = array, spacing, facts, affine
        self.flat = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype == np.uint8)


def load(virtual: str) -> Volume:
    from _images import FORMATS, open_image  # type: ignore[import-not-found]
    from _paths import extension, real_path  # type: ignore[import-not-found]

    path: Path = real_path(virtual)
    if path.is_dir():
        return _stack(path)
    image = open_image(path, FORMATS.get(extension(path.name).lower(), "dicom"))
    facts = {"format": image.format, **image.facts}
    if image.format == "nifti":
        return _scan(path, facts)
    array = np.asarray(image.pixels(True))
    if array.ndim == 4:
        array = array[0] if array.shape[0] <= 4 else array[..., 0]
    if array.ndim == 3 and not (array.shape[2] in (3, 4) and array.dtype == np.uint8):
        array = array.transpose(2, 1, 0)[:, ::-1, ::-1]
    if array.ndim not in (2, 3):
        raise ValueError(f"an array of shape {list(array.shape)} is no picture")
    spacing = tuple(image.spacing) if len(image.spacing) == array.ndim else (1.0,) * 3
    return Volume(array, spacing, facts)


def _scan(path: Path, facts: dict[str, Any]) -> Volume:
    import nibabel as nib

    scan: Any = nib.as_closest_canonical(nib.load(path))
    array = np.asanyarray(scan.dataobj)
    while array.ndim > 3:
        array = array[..., 0]
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim == 2:
        array = array.T[::-1]
    return Volume(array, tuple(float(z) for z in scan.header.get_zooms()[:3]), facts, np.asarray(scan.affine))


def _stack(folder: Path) -> Volume:
    from _images import FORMATS, open_image
    from _paths import extension, natural_key

    names = [
        entry.name
        for entry in folder.iterdir()
        if entry.is_file()
        and not entry.is_symlink()
        and not entry.name.startswith(".")
        and extension(entry.name).lower() in FORMATS
    ]
    if not names:
        raise ValueError("the folder holds no image files")
    names = sorted(names, key=natural_key)
    step = -(-len(names) // 300)
    slices, failed = [], 0
    for name in names[::step]:
        try:
            image = open_image(folder / name, FORMATS[extension(name).lower()])
            pixels = np.asarray(image.pixels(True))
            slices.append(pixels.mean(axis=2) if pixels.ndim == 3 else pixels)
        except Exception:
            failed += 1
    kept = [item for item in slices if item.shape == slices[0].shape]
    if not kept:
        raise ValueError(f"none of the {len(names)} slices could be read")
    array = np.stack(kept).transpose(2, 1, 0)[:, ::-1, ::-1]
    facts = {
        "format": "folder of slices",
        "slices": len(names),
        "shown": len(kept),
        "shape": [len(kept), *kept[0].shape],
    }
    if failed or len(kept) < len(slices):
        facts["left_out"] = f"{failed} unreadable, {len(slices) - len(kept)} of another size"
    return Volume(array, (1.0, 1.0, float(step)), facts)


def window(values: np.ndarray, is_scan: bool) -> tuple[float, float, str]:
    """Grey range: soft tissue for what looks like CT in Hounsfield units, else the 1st to 99th percentile."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if finite.size == 0:
        return 0.0, 1.0, "no finite values"
    if finite.size > 2_000_000:
        finite = finite[:: finite.size // 1_000_000]
    low, high = np.percentile(finite, (1, 99))
    if is_scan and -4000 <= finite.min() <= -200 and 150 < finite.max() < 32768 and (finite < -150).mean() > 0.02:
        return *_SOFT_TISSUE, "soft tissue window in HU"
    if high <= low:
        low, high = float(finite.min()), float(finite.max())
    return float(low), float(high if high > low else low + 1), "1st to 99th percentile"


def centres(volume: Volume, mask: np.ndarray | None) -> tuple[int, int, int]:
    """Indices of the planes: through the largest areas of the mask, else the middle."""
    shape = volume.array.shape
    if mask is None or not mask.any():
        return shape[0] // 2, shape[1] // 2, shape[2] // 2
    filled = mask != 0
    sums = (filled.sum(axis=tuple(other for other in range(3) if other != axis)) for axis in range(3))
    x, y, z = (int(np.argmax(found)) for found in sums)
    return x, y, z


def render(grey: np.ndarray, mask: np.ndarray | None, size: tuple[int, int], labels: list[int]) -> Any:
    """One plane as a picture of `size` (width, height), labels tinted and outlined."""
    from PIL import Image as Pil

    picture = Pil.fromarray(grey).convert("RGB").resize(size, Pil.Resampling.BILINEAR)
    if mask is None:
        return picture
    order = np.searchsorted(labels, mask)
    tinted = np.where(np.isin(mask, labels), order + 1, 0).astype(np.int32)
    big = np.asarray(Pil.fromarray(tinted).resize(size, Pil.Resampling.NEAREST))
    rgb = np.asarray(picture).astype(np.float32)
    edge = np.zeros(big.shape, bool)
    edge[1:] |= big[1:] != big[:-1]
    edge[:, 1:] |= big[:, 1:] != big[:, :-1]
    for number in np.unique(big[big > 0]):
        colour = np.array(_COLOURS[(int(number) - 1) % len(_COLOURS)], np.float32)
        inside = big == number
        rgb[inside] = rgb[inside] * 0.7 + colour * 0.3
        rgb[inside & edge] = colour
    return Pil.fromarray(rgb.astype(np.uint8))


def draw(volume: Volume, mask: np.ndarray | None, low: float, high: float, at: tuple[int, ...], side: int) -> Any:
    from PIL import Image as Pil

    labels = [int(value) for value in np.unique(mask) if value != 0] if mask is not None else []
    array = volume.array
    if volume.flat:
        colour = array.ndim == 3
        grey = array if colour else _grey(array, low, high)
        height, width = array.shape[:2]
        scale = side * 1.5 / max(height, width)
        return render(grey, mask, (max(1, round(width * scale)), max(1, round(height * scale))), labels)
    panels = []
    for axis in range(3):
        plane = np.take(array, at[axis], axis)
        over = np.take(mask, at[axis], axis) if mask is not None else None
        across, up = (volume.spacing[other] for other in range(3) if other != axis)
        width, height = plane.shape[0] * across, plane.shape[1] * up
        scale = side / max(width, height)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        # Superior (or anterior) goes up, so the second axis is flipped; left of the picture is the lower index.
        turned = None if over is None else np.ascontiguousarray(over.T[::-1])
        panels.append(render(np.ascontiguousarray(_grey(plane, low, high).T[::-1]), turned, size, labels))
    sheet = Pil.new("RGB", (sum(panel.width for panel in panels) + 8, max(panel.height for panel in panels)))
    left = 0
    for panel in panels:
        sheet.paste(panel, (left, 0))
        left += panel.width + 4
    return sheet


def _grey(plane: np.ndarray, low: float, high: float) -> np.ndarray:
    scaled = np.nan_to_num((plane.astype(np.float64) - low) / (high - low), posinf=1, neginf=0)
    return (np.clip(scaled, 0, 1) * 255).astype(np.uint8)


def encode(volume: Volume, mask: np.ndarray | None, low: float, high: float, at: tuple[int, ...]) -> bytes:
    for side in (360, 280, 200, 140, 90):
        for colours in (0, 64):
            sheet = draw(volume, mask, low, high, at, side)
            buffer = io.BytesIO()
            (sheet.quantize(colours) if colours else sheet).save(buffer, "PNG", optimize=True)
            if buffer.tell() <= _MAX_PNG:
                return buffer.getvalue()
    raise ValueError("the picture stays too big")


def overlay_of(volume: Volume, virtual: str) -> tuple[np.ndarray, list[str]]:
    mask = load(virtual)
    found = mask.array if mask.array.ndim == (2 if volume.flat else 3) else mask.array[..., 0]
    wanted = volume.array.shape[:2] if volume.flat else volume.array.shape
    if found.shape != wanted:
        raise ValueError(f"the overlay has shape {list(found.shape)}, the image {list(wanted)}: they do not match")
    notes = []
    if volume.affine is not None and mask.affine is not None and not np.allclose(volume.affine, mask.affine, atol=1e-2):
        notes.append("WARNING: the overlay's affine differs from the image's; they are drawn voxel on voxel")
    values = np.nan_to_num(found)
    if not np.array_equal(values, np.round(values)):
        notes.append("the overlay is not whole-numbered; it was rounded")
    if len(np.unique(np.round(values)[:: max(1, len(values) // 50)])) > 200:
        raise ValueError("the overlay has more than 200 different values, so it is no mask")
    return np.round(values).astype(np.int32), notes


def view(virtual: str, overlay: str | None) -> dict[str, Any]:
    from _images import intensities

    volume = load(virtual)
    mask, notes = overlay_of(volume, overlay) if overlay else (None, [])
    numbers = intensities(volume.array)
    low, high, how = window(volume.array, volume.facts["format"] in ("nifti", "dicom", "npy", "folder of slices"))
    at: tuple[int, ...] = () if volume.flat else centres(volume, mask)
    data: dict[str, Any] = {**volume.facts, **numbers, "window": [round(low, 3), round(high, 3)], "window_from": how}
    data["spacing"] = [round(value, 4) for value in volume.spacing] if volume.spacing else []
    data.pop("tags", None)
    lines = [f"{virtual}: {volume.facts['format']}, shape {'x'.join(map(str, volume.facts.get('shape', [])))}"]
    lines[0] += f", orientation {volume.facts['orientation']}" if "orientation" in volume.facts else ""
    if "mean" in numbers:
        lines.append(
            f"min {numbers['min']:g}, p1 {numbers['p1']:g}, median {numbers['median']:g}, p99 {numbers['p99']:g}, "
            f"max {numbers['max']:g}, mean {numbers['mean']:g}, std {numbers['std']:g}"
        )
    lines.append(f"Drawn from {low:g} to {high:g} ({how})")
    if not volume.flat:
        data["planes"] = dict(zip(_PLANES, at, strict=True))
        order = ", ".join(f"{name} at {number}" for name, number in data["planes"].items())
        lines[-1] += f"; left to right: {order}" + (" (names hold for RAS data)" if volume.affine is None else "")
    if mask is not None:
        values, counts = np.unique(mask[mask != 0], return_counts=True)
        data["labels"] = {str(int(value)): int(count) for value, count in zip(values, counts, strict=True)}
        said = ", ".join(f"{value}: {count:,}" for value, count in list(data["labels"].items())[:40])
        lines.append(f"Overlay voxels by label: {said}" if said else "The overlay is empty: no voxel has a label")
    if "left_out" in volume.facts:
        notes.append(f"left out: {volume.facts['left_out']}")
    data["png"] = base64.b64encode(encode(volume, mask, low, high, at)).decode()
    return {"summary": "\n".join([*lines, *notes]), "data": data}


def main(arguments: list[str]) -> None:
    from _paths import reason

    try:
        found = view(arguments[0], arguments[1] if len(arguments) > 1 else None)
    except Exception as error:
        found = {"summary": f"{arguments[0]} could not be rendered: {reason(error)}", "data": {}, "failed": True}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
