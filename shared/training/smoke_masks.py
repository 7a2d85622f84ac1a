"""A try-out of a segmentation template on data of its own: train, package, predict. Seconds a mode on a CPU, nothing is
left behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

VALUES = {"ball": 3, "block": 28}


def run(train: Callable[[Path], int], settings: Mapping[str, Any], modes: Sequence[str]) -> int:
    """`train` is what train.py does with a configuration file, `settings` that file's content; a mode is 3d or 2d."""
    home = Path.cwd()
    for mode in modes:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="smoke-") as made:
            try:
                os.chdir(made)
                code = try_out(train, settings, Path(made), mode)
            finally:
                os.chdir(home)
        if code:
            print(f"smoke test failed ({mode})", file=sys.stderr)
            return code
        print(f"smoke test passed ({mode}) after {time.monotonic() - begin:.1f} s", flush=True)
    return 0


def try_out(train: Callable[[Path], int], settings: Mapping[str, Any], folder: Path, mode: str) -> int:
    suffix = "png" if mode == "2d" else "nii.gz"
    make_data(folder, suffix, healthy=not settings.get("every_structure", True))
    (folder / "config.yaml").write_text(json.dumps({**settings, "data_root": str(folder / "data")}))
    if code := train(folder / "config.yaml"):
        return code
    image = folder / "data" / f"s0.{suffix}"
    command = [sys.executable, "-I", str(folder / "package/predict.py"), str(image), "--output", str(folder / "out")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    case = json.loads((folder / "out/predictions.json").read_text())["cases"][0]
    mask, grid = read(folder / "out" / case["mask"])
    truth, wanted = read(image)
    found = {int(value) for value in np.unique(mask)}
    if mask.shape != truth.shape or not np.allclose(grid, wanted) or found - {0, *VALUES.values()}:
        print(f"the mask of {case['input']} has shape {mask.shape} and values {sorted(found)}", file=sys.stderr)
        return 1
    print(f"package writes {', '.join(sorted(set(case) - {'input'}))} for {case['input']}; values {sorted(found)}")
    return 0


def make_data(folder: Path, suffix: str, healthy: bool) -> None:
    """Six scans of 24 x 24 x 16 voxels, or pictures of 24 x 24, with noise, a bright ball and a dark block, one in
    training without either where `healthy`; index and label map beside them."""
    generator = np.random.default_rng(0)
    (folder / "data").mkdir()
    rows = []
    for number in range(6):
        place = np.stack(np.meshgrid(*map(np.arange, (24, 24, 16)), indexing="ij"))
        middle = generator.integers(-2, 3, 3) + np.array([7, 8, 8])
        mask = np.zeros((24, 24, 16), np.uint8)
        if not (healthy and number == 3):
            mask[((place - middle[:, None, None, None]) ** 2).sum(0) < 20] = VALUES["ball"]
            mask[14:20, 12:20, 4:12] = VALUES["block"]
        image = generator.normal(0, 15, mask.shape) + 100 * (mask == VALUES["ball"]) - 100 * (mask == VALUES["block"])
        save(image, folder / "data" / f"s{number}.{suffix}")
        save(mask, folder / "data" / f"m{number}.{suffix}")
        row = {"sample_id": f"s{number}", "patient": f"p{number}", "files": [f"s{number}.{suffix}"]}
        rows.append(row | {"target": f"m{number}.{suffix}", "split": "val" if number >= 4 else "train"})
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "label_map.json").write_text(json.dumps({"names": list(VALUES), "values": VALUES}))


def save(array: np.ndarray, path: Path) -> None:
    """A picture is the middle slice; images are shifted to what eight bits hold."""
    if path.suffix == ".png":
        from PIL import Image

        plane = array[:, :, 8]
        plane = plane if plane.dtype == np.uint8 else np.clip(plane + 128, 0, 255).astype(np.uint8)
        Image.fromarray(plane).save(path)
        return
    import nibabel

    kept = array if array.dtype == np.uint8 else array.astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(kept, np.diag([2.0, 2.0, 3.0, 1.0])), path)


def read(path: Path) -> tuple[Any, Any]:
    """Array and affine, zeros for a picture."""
    if path.suffix == ".png":
        from PIL import Image

        with Image.open(path) as picture:
            return np.asarray(picture), np.zeros((4, 4))
    import nibabel

    image = nibabel.load(path)
    return np.asanyarray(image.dataobj), image.affine
