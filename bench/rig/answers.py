"""A package used on its own, and what its predictions.json has to hold."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.rig.data import VALUES
from bench.rig.kinds import Kind


class WrongAnswer(Exception):
    """predict.py failed, or what it wrote is not what was promised."""


def check_answers(kind: Kind, python: Path, package: Path, inputs: list[Path], elsewhere: Path) -> None:
    """Run predict.py on all `inputs` without any variable set, in the empty folder `elsewhere`. Raises WrongAnswer."""
    command = ["env", "-i", str(python), str(package / "predict.py"), *map(str, inputs), "--output", "out"]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, timeout=600)
    _check(done.returncode == 0, f"exit code {done.returncode}: {done.stderr.strip()[-600:]}")
    found = json.loads((elsewhere / "out" / "predictions.json").read_text(encoding="utf-8"))
    _check(found["task"] == kind.template, f"its task is {found['task']}")
    cases = found["cases"]
    _check([case["input"] for case in cases] == [path.name for path in inputs], "the cases are not those asked for")
    for case, path in zip(cases, inputs, strict=True):
        _check("error" not in case, f"{path.name}: {case.get('error')}")
        if kind.template == "diagnosis":
            _diagnosis(kind, found, case)
        elif kind.template == "report_generation":
            _check(bool(case["report"].strip()), f"the report of {path.name} is empty")
        else:
            _check(found["label_values"] == VALUES, f"its label values are {found['label_values']}")
            _mask(path, elsewhere / "out" / case["mask"])


def _diagnosis(kind: Kind, found: dict[str, Any], case: dict[str, Any]) -> None:
    chances = case["probabilities"]
    _check(found["multi_label"] is kind.multi_label, f"it says multi_label {found['multi_label']}")
    _check(set(chances) == set(found["labels"]), f"{case['input']} has probabilities of {sorted(chances)}")
    _check(all(0 <= chance <= 1 for chance in chances.values()), f"{case['input']} has {chances}")
    if kind.multi_label:
        above = {name for name, chance in chances.items() if chance >= 0.5}
        _check(set(case["label"]) == above, f"{case['input']} is called {case['label']} with {chances}")
    else:
        _check(abs(sum(chances.values()) - 1) < 0.01, f"the probabilities of {case['input']} add up to another sum")
        _check(case["label"] == max(chances, key=chances.__getitem__), f"{case['input']} is called {case['label']}")


def _mask(image: Path, mask: Path) -> None:
    truth, affine = _read(image)
    found, own = _read(mask)
    _check(found.shape == truth.shape, f"{mask.name} has shape {found.shape}, its image {truth.shape}")
    _check(bool(np.allclose(affine, own)), f"{mask.name} lies elsewhere than its image")
    _check(found.dtype.kind in "ui", f"{mask.name} is of type {found.dtype}")
    values = {int(value) for value in np.unique(found)} - {0}
    _check(values <= set(VALUES.values()), f"{mask.name} has the values {sorted(values)}")


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Array and affine, which of a picture is that of nothing."""
    if path.suffix == ".png":
        from PIL import Image

        with Image.open(path) as picture:
            return np.asarray(picture), np.eye(4)
    import nibabel

    volume: Any = nibabel.load(path)
    return np.asanyarray(volume.dataobj), np.asarray(volume.affine)


def _check(right: bool, text: str) -> None:
    if not right:
        raise WrongAnswer(text)
