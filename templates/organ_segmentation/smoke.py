"""A try-out on data of its own: train, package, predict from the package. Seconds on a CPU, nothing is left behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from config import Config

VALUES = {"ball": 3, "block": 28}


def run_smoke() -> int:
    from train import train

    begin = time.monotonic()
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="smoke-") as made:
        folder = Path(made)
        make_data(folder)
        os.chdir(folder)
        try:
            config = Config.model_validate(
                {
                    "engine": "monai",
                    "data_root": str(folder / "data"),
                    "model": {"width": 8, "levels": 3},
                    "training": {"epochs": 4, "patience": 0, "save_seconds": 0, "learning_rate": 0.01},
                }
            )
            code = train(config)
        finally:
            os.chdir(home)
        if code:
            return code
        print(f"trained after {time.monotonic() - begin:.1f} s", flush=True)
        scan = folder / "data/s0.nii.gz"
        command = [sys.executable, "-I", str(folder / "package/predict.py"), str(scan), "--output", str(folder / "out")]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            return 1
        import nibabel

        case = json.loads((folder / "out/predictions.json").read_text())["cases"][0]
        mask, image = nibabel.load(folder / "out" / case["mask"]), nibabel.load(scan)
        found = sorted({int(value) for value in np.unique(np.asanyarray(mask.dataobj))})
        if (
            mask.shape != image.shape
            or not np.allclose(mask.affine, image.affine)
            or set(found) - {0, *VALUES.values()}
        ):
            print(f"the mask of {case['input']} has shape {mask.shape} and values {found}", file=sys.stderr)
            return 1
        print(f"package writes a mask with the values {found} for {case['input']}")
        print(f"smoke test passed after {time.monotonic() - begin:.1f} s")
    return 0


def make_data(folder: Path) -> None:
    """Six scans of 24 x 24 x 16 voxels with noise, a bright ball and a dark block; index and label map beside them."""
    import nibabel

    generator = np.random.default_rng(0)
    (folder / "data").mkdir()
    rows = []
    for number in range(6):
        place = np.stack(np.meshgrid(*map(np.arange, (24, 24, 16)), indexing="ij"))
        middle = generator.integers(-2, 3, 3) + np.array([7, 8, 8])
        mask = np.zeros((24, 24, 16), np.uint8)
        mask[((place - middle[:, None, None, None]) ** 2).sum(0) < 20] = VALUES["ball"]
        mask[14:20, 12:20, 4:12] = VALUES["block"]
        image = generator.normal(0, 15, mask.shape) + 120 * (mask == VALUES["ball"]) - 120 * (mask == VALUES["block"])
        affine = np.diag([2.0, 2.0, 3.0, 1.0])
        nibabel.save(nibabel.Nifti1Image(image.astype(np.int16), affine), folder / "data" / f"s{number}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, affine), folder / "data" / f"m{number}.nii.gz")
        row = {"sample_id": f"s{number}", "patient": f"p{number}", "files": [f"s{number}.nii.gz"]}
        rows.append(row | {"target": f"m{number}.nii.gz", "split": "val" if number >= 4 else "train"})
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "label_map.json").write_text(json.dumps({"names": list(VALUES), "values": VALUES}))
