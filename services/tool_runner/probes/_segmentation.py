"""What the probes look for where the answer is a mask."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TASKS = ("organ_segmentation", "anomaly_detection")
TOLERANCE = 0.1
"""Parts of a voxel that a corner of a mask's grid may lie beside the image's."""


def are_masks(images: Any, labels: Any) -> bool:
    """Whether a batch's labels hold a class for each voxel: (B, D, H, W) or (B, H, W) beside (B, C, ...) images."""
    return bool(labels.ndim >= 3 and labels.ndim == images.ndim - 1 and labels.shape[1:] == images.shape[2:])


def describe_labels(split: str, labels: Any, names: Sequence[str], errors: list[str]) -> dict[str, int]:
    """Voxels of each structure in the patches that were drawn; class numbers are 1..N, 0 is background."""
    import torch

    if labels.is_floating_point():
        errors.append(f"{split}: labels are {labels.dtype}, class numbers of voxels must be whole (int64)")
        return {}
    numbers, counts = torch.unique(labels, return_counts=True)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    outside = [number for number in found if not 0 <= number <= len(names)]
    if outside:
        errors.append(f"{split}: class numbers {outside} are not in 0..{len(names)}, background and {len(names)} names")
    if not set(found) - {0}:
        errors.append(f"{split}: none of the {len(labels)} patches that were drawn holds a structure")
    return {names[number - 1]: count for number, count in found.items() if 1 <= number <= len(names)}


def schema_faults(found: Any, names: Sequence[str], labels: Mapping[str, Any], out: Path) -> list[str]:
    """What is wrong with the form of predictions.json; `labels` is the package's label map."""
    if not isinstance(found, dict) or found.get("task") not in TASKS:
        return [f"predictions.json must be an object with a task of {', '.join(TASKS)}"]
    values = labels.get("values")
    if not isinstance(values, dict) or set(values) != set(labels["names"]):
        return ['label_map.json must have "values", the value in the masks of each of its names']
    if found.get("labels") != labels["names"] or found.get("label_values") != values:
        return [f"predictions.json has other labels or label_values than the label map: {labels}"]
    cases = found.get("cases")
    if not isinstance(cases, list) or [c.get("input") for c in cases if isinstance(c, dict)] != list(names):
        return ["cases must hold one entry for each input, under the input's name and in their order"]
    faults = []
    for case in cases:
        mask = case.get("mask")
        if "error" in case:
            faults.append(f"{case['input']} could not be predicted: {case['error']}")
        elif not isinstance(mask, str) or not inside(out, mask):
            faults.append(f"{case['input']} names no mask file in the output folder: {mask!r}")
    return faults


def inside(folder: Path, name: str) -> bool:
    path = (folder / name).resolve()
    return path.is_file() and path.is_relative_to(folder.resolve())


def read_mask(path: Path) -> tuple[Any, Any]:
    """Array in the file's axes and affine, None for a picture."""
    import numpy as np

    if path.name.endswith((".nii", ".nii.gz")):
        import nibabel

        image: Any = nibabel.load(path)
        return np.asanyarray(image.dataobj), image.affine
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture), None


def grid_of(files: Sequence[Path]) -> tuple[tuple[int, ...], Any]:
    """Shape and affine that a mask of this input must have, without channels; no affine where the files have none, or
    are DICOM."""
    first = files[0]
    name = first.name.lower()
    if name.endswith((".nii", ".nii.gz")):
        import nibabel

        image: Any = nibabel.load(first)
        return tuple(image.shape[:3]), image.affine
    if name.endswith(".npy"):
        import numpy as np

        return np.load(first, allow_pickle=False, mmap_mode="r").shape, None
    if name.endswith((".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")):
        from shared.imaging.headers import peek

        width, height = peek(first).shape[:2]
        return (height, width), None
    import pydicom

    header = pydicom.dcmread(first, stop_before_pixels=True)
    return (int(header.Columns), int(header.Rows), len(files)), None


def mask_faults(path: Path, files: Sequence[Path], values: Mapping[str, int]) -> list[str]:
    """Is this a mask of that input: its grid, whole numbers, no value that the label map lacks?"""
    import numpy as np

    mask, affine = read_mask(path)
    shape, wanted = grid_of(files)
    faults = []
    if tuple(mask.shape) != tuple(shape):
        faults.append(f"the mask has shape {list(mask.shape)}, the input {list(shape)}")
    elif wanted is not None and (affine is None or apart(affine, wanted, shape) > TOLERANCE):
        faults.append("the mask's affine is not the input's: it lies elsewhere in space")
    if mask.dtype.kind not in "iub":
        faults.append(f"the mask holds {mask.dtype}, not whole numbers")
    foreign = sorted({float(value) for value in np.unique(mask)} - {0.0, *(float(v) for v in values.values())})
    if foreign:
        faults.append(f"the mask has values that the label map lacks: {foreign[:10]}")
    return faults


def apart(affine: Any, other: Any, shape: Sequence[int]) -> float:
    """Largest distance of corresponding corners, in voxels of the input's finest axis."""
    import numpy as np

    corners = np.array([[*corner, 1] for corner in np.ndindex(2, 2, 2)], dtype=float)
    corners[:, :3] *= np.maximum(np.array([*shape[:3], 1, 1][:3]) - 1, 0)
    finest = float(np.sqrt((np.asarray(other)[:3, :3] ** 2).sum(0)).min())
    moved = corners @ (np.asarray(affine) - np.asarray(other)).T
    return float(np.sqrt((moved[:, :3] ** 2).sum(1)).max()) / max(finest, 1e-9)


def judge(
    cases: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, Sequence[Path]],
    pairs: Sequence[tuple[str, str]],
    values: Mapping[str, int],
    out: Path,
    facts: dict[str, Any],
) -> None:
    """Masks against the grids of their inputs, and against those of the altered copies. `inputs` is name -> files."""
    errors: list[str] = facts["errors"]
    masks = {str(case["input"]): out / str(case["mask"]) for case in cases}
    for name, path in masks.items():
        errors += [f"{name}: {fault}" for fault in mask_faults(path, inputs[name], values)]
    facts["on_input_grid"] = not errors
    if errors:
        return
    found = {name: read_mask(path)[0] for name, path in masks.items()}
    facts["voxels"] = {
        name: int(sum((found[plain] == value).sum() for plain, _ in pairs)) for name, value in values.items()
    }
    moved = [float((found[plain] != found[altered]).mean()) for plain, altered in pairs]
    facts["largest_change"] = max(moved)
    facts["output_follows_image"] = max(moved) > 0
    if not facts["output_follows_image"]:
        empty = "; all masks are empty" if not any(facts["voxels"].values()) else ""
        errors.append(f"the masks do not change when the image does{empty}")


def alter_dicom(source: Path, target: Path, turned: Any) -> None:
    """The same slice with other values, so that a series stays one."""
    import pydicom

    found = pydicom.dcmread(source)
    try:
        if found.file_meta.TransferSyntaxUID.is_compressed:
            found.decompress()
        found.PixelData = turned(found.pixel_array).tobytes()
    except Exception:  # what cannot be decoded is for predict.py to refuse
        shutil.copyfile(source, target)
        return
    found.save_as(target)
