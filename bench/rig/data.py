"""Small data of each task, made here: noise with bright or dark places that a network finds in seconds.

`make` writes images and masks below `folder/data`, and train_index.jsonl and label_map.json into `folder`. Volumes are
NIfTI, images PNG. Every third sample is of the validation part.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Task = Literal["diagnosis", "report_generation", "organ_segmentation", "anomaly_detection"]
Row = dict[str, Any]
Array = NDArray[Any]

CLASSES = ("plain", "upper block", "lower block")
VALUES = {"ball": 3, "block": 28}
TEXTS = (
    "Findings: nothing is seen. Impression: normal.",
    "Findings: a bright block in the upper part. Impression: upper block.",
    "Findings: a bright block in the lower part. Impression: lower block.",
)


def make(
    folder: Path,
    task: Task,
    shape: Sequence[int],
    count: int,
    *,
    multi_label: bool = False,
    contrast: float = 90,
    seed: int = 0,
) -> list[Path]:
    """`shape` is (H, W) or (D, H, W); `contrast` what places differ by from noise with a deviation of 20.

    -> an INPUT for predict.py for each validation sample. Reports are of cases with two views.
    """
    (folder / "data").mkdir(parents=True)
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        head: Row = {"sample_id": f"s{number:03d}", "patient": f"p{number:03d}"}
        head["split"] = "val" if number % 3 == 2 else "train"
        # Classes take turns in each part by itself.
        if task in ("diagnosis", "report_generation"):
            head |= _scan(
                folder / "data", task, shape, number, number // 3 + number % 3, multi_label, contrast, generator
            )
        else:
            healthy = task == "anomaly_detection" and number % 6 == 4
            head |= _masked(folder / "data", shape, number, healthy, contrast, generator)
        rows.append(head)
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    names = list(CLASSES[1:] if multi_label else CLASSES) if task == "diagnosis" else []
    if "segmentation" in task or "anomaly" in task:
        text = json.dumps({"names": list(VALUES), "values": VALUES})
    else:
        text = json.dumps({"names": names})
    (folder / "label_map.json").write_text(text, encoding="utf-8")
    return [_input(folder / "data", row) for row in rows if row["split"] == "val"]


def _input(data: Path, row: Row) -> Path:
    """The folder of a case with several files, else its file."""
    first = data / str(row["files"][0])
    return first.parent if len(row["files"]) > 1 else first


def _scan(
    data: Path,
    task: Task,
    shape: Sequence[int],
    number: int,
    turn: int,
    multi_label: bool,
    contrast: float,
    generator: np.random.Generator,
) -> Row:
    """Blocks above or below the middle, in the left half, somewhat moved."""
    kind = turn % 3
    shown = [bool(turn & 1), bool(turn & 2)] if multi_label else [kind == 1, kind == 2]
    reports, files = task == "report_generation", []
    for view in range(2 if reports else 1):
        volume = generator.normal(80, 20, tuple(shape))
        for part, there in enumerate(shown):
            side, (down, across) = shape[-1] // 5, generator.integers(0, shape[-1] // 10 + 1, 2)
            top, left = shape[-2] // 10 + part * shape[-2] // 2 + down, shape[-1] // 10 + across
            if there:
                volume[..., top : top + side, left : left + side] += contrast
        name = f"s{number:03d}/{view}" if reports else f"s{number:03d}"
        files.append(_save(volume, data, name))
    if reports:
        return {"files": files, "target": TEXTS[kind]}
    found = [name for name, there in zip(CLASSES[1:], shown, strict=True) if there]
    return {"files": files, "label": found if multi_label else CLASSES[kind]}


def _masked(
    data: Path, shape: Sequence[int], number: int, healthy: bool, contrast: float, generator: np.random.Generator
) -> Row:
    """A bright ball and a dark block on opposite sides, with their values in the mask; none where `healthy`."""
    size = np.array(shape)
    middle = size * 0.32 + generator.uniform(-0.08, 0.08, len(size)) * size
    place = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"))
    radius = 0.2 * size.min()
    mask = np.zeros(tuple(shape), np.uint8)
    if not healthy:
        near = place - middle.reshape(-1, *(1,) * len(size))
        mask[(near**2).sum(0) < radius**2] = VALUES["ball"]
        mask[tuple(slice(round(0.6 * edge), round(0.85 * edge)) for edge in shape)] = VALUES["block"]
    image = generator.normal(0, 20, mask.shape) + contrast * (mask == VALUES["ball"])
    image -= contrast * (mask == VALUES["block"])
    name = f"s{number:03d}"
    files = [_save(image + 120 if image.ndim == 2 else image, data, name)]
    return {"files": files, "target": _save(mask, data, f"{name}_mask")}


def _save(array: Array, data: Path, name: str) -> str:
    """(H, W) as PNG, (D, H, W) as NIfTI in RAS+ of 2 x 2 x 3 mm. -> path below `data`."""
    whole = array if array.dtype == np.uint8 else np.rint(array)
    name += ".png" if array.ndim == 2 else ".nii.gz"
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    if array.ndim == 2:
        from PIL import Image

        Image.fromarray(np.clip(whole, 0, 255).astype(np.uint8)).save(data / name)
    else:
        import nibabel

        kept = whole.transpose(2, 1, 0)
        kept = kept if kept.dtype == np.uint8 else kept.astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(kept, np.diag([2.0, 2.0, 3.0, 1.0])), data / name)
    return name
