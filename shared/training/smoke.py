"""A try-out of a template on data of its own: train, package, predict from the package. Nothing is left behind."""

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

from shared.imaging.case import load_image
from shared.imaging.masks import on_image, read_label_map
from shared.imaging.write import write_nifti, write_png

VALUES = {"dark": 3, "bright": 28}
"""Structures of the masks."""


def run(
    modes: Sequence[str],
    train: Callable[[], int],
    settings: Callable[[str], Mapping[str, Any]],
    row: Callable[[int, str], Mapping[str, Any]] | None = None,
) -> int:
    """`train()` trains in the working directory by its config.yaml, which has `settings(mode)`. A mode begins with 3d
    or 2d. `row(number, mode)` is what the index says of a case, odd ones have a bright block; None: masks. -> exit code
    """
    home = Path.cwd()
    for mode in modes:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="smoke-") as made:
            write_cases(Path(made), mode, row)
            (Path(made) / "config.yaml").write_text(json.dumps({**settings(mode), "data_root": f"{made}/data"}))
            os.chdir(made)
            try:
                code = train() or predict(Path(made))
            finally:
                os.chdir(home)
        if code:
            print(f"smoke test failed ({mode})", file=sys.stderr)
            return code
        print(f"smoke test passed ({mode}) after {time.monotonic() - begin:.1f} s", flush=True)
    return 0


def write_cases(folder: Path, mode: str, row: Callable[[int, str], Mapping[str, Any]] | None) -> None:
    """Twelve cases of noise with a dark block, half of them with a bright one: a NIfTI of 16 slices, or a PNG."""
    generator, deep, rows = np.random.default_rng(0), mode.startswith("3d"), []
    for number in range(12):
        mask = np.zeros((16, 32, 32), np.uint8)
        corner = 4 + generator.integers(0, 3, 3)
        for value, start in (VALUES["dark"], corner + np.array((0, 12, 12))), (VALUES["bright"], corner):
            if value == VALUES["dark"] or number % 2:
                mask[tuple(slice(edge, edge + 8) for edge in start)] = value
        volume = generator.normal(110, 15, mask.shape) + 80.0 * (mask == 28) - 80.0 * (mask == 3)
        name, affine = f"s{number:02d}", np.diag([2.0, 2.0, 3.0, 1.0])
        case = folder / "data" / name
        case.mkdir(parents=True)
        files = []
        for kind, values in ("image", np.clip(volume, 0, 255).astype(np.uint8)), ("mask", mask):
            made = write_nifti(values.T, affine, case / kind) if deep else write_png(values[8], case / kind)
            files.append(f"{name}/{made.name}")
        found = {"sample_id": name, "patient": f"patient-{name}", "files": files[:1]}
        found |= row(number, mode) if row else {"target": files[1]}
        rows.append(found | {"split": "val" if number >= 8 else "train"})
    (folder / "train_index.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    names = {"names": ["plain", "block"]} if row else {"names": list(VALUES), "values": VALUES}
    (folder / "label_map.json").write_text(json.dumps(names))


def predict(folder: Path) -> int:
    """The package, as a stranger runs it; a mask has to lie on its image and hold the dataset's values. -> exit code"""
    (image,) = (folder / "data/s01").glob("image.*")
    command = [sys.executable, "-I", str(folder / "package/predict.py"), str(image), "--output", str(folder / "out")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    case = json.loads((folder / "out/predictions.json").read_text())["cases"][0]
    answer = next(case[kind] for kind in ("label", "report", "mask") if kind in case)
    if "mask" in case:
        mask = on_image(*read_label_map(folder / "out" / answer), load_image([image]), answer)
        if odd := {int(value) for value in np.unique(mask)} - {0, *VALUES.values()}:
            print(f"the mask of {case['input']} has the values {sorted(odd)}", file=sys.stderr)
            return 1
    print(f"package says {answer!r} of {case['input']}", flush=True)
    return 0
