"""Workspaces of the segmentation templates on small data, run in forked processes, and kills at any moment."""

import atexit
import functools
import importlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nibabel
import numpy as np
import yaml
from PIL import Image

from shared.training.checkpoints import pick_checkpoint
from tests.templates.conftest import TEMPLATES, Bench, oblique
from tests.templates.forked import finished, server, wait_for

LESIONS = {3: {"bleeding": 5}, 2: {"nodule": 7, "mass": 200}}
LESION_SETTINGS = yaml.safe_load((TEMPLATES / "segmentation" / "lesions.yaml").read_text())
NNUNET_LESIONS = {"task": "anomaly_detection", "every_structure": False, "score_map": True}


@contextmanager
def modules(template: str, *names: str) -> Iterator[SimpleNamespace]:
    """A template's own modules, which have general names: they are taken off the path again."""
    folder = TEMPLATES / template
    own = [file.stem for file in folder.glob("*.py")]
    before = {name: sys.modules.pop(name, None) for name in own}
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def read_progress(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a line torn by a kill is passed over."""
    lines = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


class SegBench(Bench):
    """Its settings are given by section; what it predicted is read back."""

    base: Mapping[str, Any] = {}
    """Of config.yaml."""

    def settings(self, **sections: Any) -> None:
        """config.yaml is `base` with these, section by section, and nothing else."""
        merged = {**self.base, **sections}
        for name, section in sections.items():
            if isinstance(section, dict) and isinstance(self.base.get(name), dict):
                merged[name] = {**self.base[name], **section}
        (self.workspace / "config.yaml").write_text(json.dumps(merged))

    def predict(self, output: Path, *inputs: Path) -> "subprocess.CompletedProcess[str]":
        """The package as a stranger runs it: no environment, another folder, nothing of ours on the path."""
        argv = ["-I", str(self.workspace / "package/predict.py"), *map(str, inputs), "--output", str(output)]
        return finished(server().start(argv, output.parent, {}))

    def cases(self, output: Path) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads((output / "predictions.json").read_text())["cases"]
        return found

    def note(self, name: str) -> Any:
        return json.loads((self.workspace / name).read_text())


@functools.cache
def trained_masks() -> SegBench:
    """A segmentation trained to its end on oblique volumes, shared by all tests that only read it."""
    folder = Path(tempfile.mkdtemp(prefix="trained-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = SegBench(folder, "segmentation")
    made.organs(6, oblique())
    made.write()
    made.configure(dimensions=3, epochs=6, width=8, levels=3, patience=0)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def lesions(folder: Path, dimensions: int, template: str = "segmentation") -> SegBench:
    """Eight images with an index, five to train on; s2 and s7 are healthy."""
    made = SegBench(folder, template)
    made.base = LESION_SETTINGS if template == "segmentation" else NNUNET_LESIONS
    made.values = LESIONS[dimensions]
    made.names = list(made.values)
    for number in range(8):
        (volume if dimensions == 3 else picture)(made, number, np.random.default_rng(number))
    made.write()
    return made


def volume(bench: SegBench, number: int, generator: np.random.Generator) -> None:
    """An oblique scan of 24 x 20 x 12 in two channels, with a large and a small lesion that the second shows best."""
    place = np.stack(np.meshgrid(*map(np.arange, (24, 20, 12)), indexing="ij"))
    mask = np.zeros((24, 20, 12), np.int16)
    for radius, side in ((3, (8, 8, 6)), (1.5, (18, 14, 4))):
        middle = generator.integers(-2, 3, 3) + np.array(side)
        if number not in (2, 7):
            mask[((place - middle[:, None, None, None]) ** 2).sum(0) <= radius**2] = 5
    (bench.data / f"image{number}").mkdir()
    files = [f"image{number}/{name}.nii.gz" for name in ("0_t1", "1_flair")]
    for file, contrast in zip(files, (-15, 60), strict=True):
        image = generator.normal(100, 8, mask.shape) + contrast * (mask == 5)
        image[:2] = 0
        nibabel.save(nibabel.Nifti1Image(image.astype(np.int16), oblique()), bench.data / file)
    nibabel.save(nibabel.Nifti1Image(mask, oblique()), bench.data / f"mask{number}.nii.gz")
    bench.add(f"s{number}", files, None, "val" if number >= 5 else "train", target=f"mask{number}.nii.gz")


def picture(bench: SegBench, number: int, generator: np.random.Generator) -> None:
    """A PNG radiograph of 40 x 48 with a disc (7) and a square (200)."""
    rows, columns = np.mgrid[:40, :48]
    row, column = generator.integers(8, 30, 2)
    mask = np.zeros((40, 48), np.uint8)
    if number not in (2, 7):
        mask[(rows - row) ** 2 + (columns - column / 2) ** 2 < 30] = 7
        mask[row : row + 7, 34:41] = 200
    image = generator.normal(100, 10, mask.shape) + 80 * (mask == 7) - 80 * (mask == 200)
    Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(bench.data / f"p{number}.png")
    Image.fromarray(mask).save(bench.data / f"mask{number}.png")
    bench.add(f"s{number}", [f"p{number}.png"], None, "val" if number >= 5 else "train", target=f"mask{number}.png")


def tilted(columns: np.ndarray) -> np.ndarray:
    """Axes in mm turned about z and then about x."""
    first, second = np.deg2rad(12), np.deg2rad(-9)
    about_z = np.array([[np.cos(first), -np.sin(first), 0], [np.sin(first), np.cos(first), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(second), -np.sin(second)], [0, np.sin(second), np.cos(second)]])
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = about_x @ about_z @ columns, (-40, 25, 300)
    return made


ORIENTATIONS = {
    "RAS": np.diag([2.0, 2.5, 5.0]),
    "LPS": np.diag([-2.0, -2.5, 5.0]),
    "left-handed": np.diag([-2.0, 2.5, 5.0]),
    "z, -x, y": np.array([[0, -2.0, 0], [0, 0, 2.5], [5.0, 0, 0]]),
    "sheared": np.array([[2.0, 0, 0], [0, 2.5, 1.2], [0, 0, 5.0]]),
}
"""Columns in mm a voxel: oblique once `tilted`, anisotropic, some left-handed, one with the gaps and shifts of a gantry
that was tilted."""


def bright_blocks(folder: Path, name: str) -> tuple[Path, np.ndarray, np.ndarray]:
    """An image in that orientation: -100, 50 in its middle, 100 in a smaller block. -> file, voxels, affine."""
    grid = tilted(ORIENTATIONS[name])
    shape = tuple(int(n) for n in np.abs(np.linalg.inv(ORIENTATIONS[name]) @ np.array([64.0, 70.0, 90.0])).round())
    image = np.full(shape, -100, np.int16)
    world = nibabel.affines.apply_affine(grid, np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1))
    inner = nibabel.affines.apply_affine(grid, np.array(shape) / 2)
    image[np.abs(world - inner).max(-1) < 22] = 50
    image[(np.abs(world - inner - (8, 0, 0)).max(-1) < 10)] = 100
    nibabel.save(nibabel.Nifti1Image(image, grid), folder / "image.nii.gz")
    return folder / "image.nii.gz", image, grid


def overlays(mask: Any, image: np.ndarray, grid: np.ndarray, levels: dict[int, int]) -> None:
    """A mask's values lie in the world where the image has these levels."""
    assert mask.shape == image.shape and mask.get_data_dtype() == np.uint8
    np.testing.assert_allclose(mask.affine, grid, atol=1e-4)
    answer = np.asanyarray(mask.dataobj)
    assert set(np.unique(answer)) == {0, *levels}
    for value, level in levels.items():
        there = nibabel.affines.apply_affine(mask.affine, np.argwhere(answer == value)).mean(0)
        truth = nibabel.affines.apply_affine(grid, np.argwhere(image == level)).mean(0)
        np.testing.assert_allclose(there, truth, atol=1.5)
        overlap = 2 * ((answer == value) & (image == level)).sum() / ((answer == value).sum() + (image == level).sum())
        assert overlap > 0.7, (value, overlap)


def killed_anywhere(bench: SegBench, folder: Path, rounds: int, epoch_of: Callable[[Path], float]) -> Path:
    """Start and kill -9, at first soon after a checkpoint appeared, then at any moment from the beginning on. Each
    goes on where the one before had come to, but for an epoch. -> the newest intact checkpoint."""
    chance, newest = random.Random(0), None
    for number in range(rounds):
        process = bench.start("train.py")
        if number % 2 == 0:
            known = set(folder.glob("checkpoint-*"))
            wait_for(process, lambda known=known: set(folder.glob("checkpoint-*")) - known)
        time.sleep(chance.uniform(0, 0.3 if number % 2 == 0 else 3))
        process.kill()
        assert process.returncode == -9, process.out + process.err
        if newest is not None:
            assert "starts from the beginning" not in process.out
            assert "goes on from" not in process.out or f"goes on from {newest.name}\n" in process.out
        newest = pick_checkpoint(folder)[0]
        assert newest is not None
        made = max((line["epoch"] for line in read_progress(bench.workspace / "progress.jsonl")), default=0)
        assert epoch_of(newest) >= made - 1, f"{newest.name} after epoch {made}"
        assert not (bench.workspace / "package").exists() and not (bench.workspace / "metrics.json").exists()
    assert newest is not None
    return newest


def torn_after(newest: Path, file: str) -> Path:
    """A copy under a higher number of which one file is cut off, as a power cut might leave it."""
    torn = newest.with_name("checkpoint-999999")
    shutil.copytree(newest, torn)
    content = (torn / file).read_bytes()
    (torn / file).write_bytes(content[: len(content) // 2])
    return torn
