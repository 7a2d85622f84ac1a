"""Small data on disk and the template as a person or an agent runs it: by command line, in a copied folder."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.templates.forked import Process, finished, server

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates"


def bare_environment(**more: str) -> dict[str, str]:
    """What the sandbox sets, and nothing else."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **more}


def modules(template: str, *names: str) -> SimpleNamespace:
    """Modules of a template by name. Every template has some of the same names: afterwards they are forgotten."""
    folder = TEMPLATES / template
    own = {path.stem for path in folder.glob("*.py")}
    kept = {name: sys.modules.pop(name) for name in own if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        return SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name in own:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


class Bench:
    """A build workspace with the template in it. `rows` may be changed before `write`."""

    def __init__(self, folder: Path, template: str = "diagnosis") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.workspace = folder / "workspace"
        source = TEMPLATES / template
        shutil.copytree(source, self.workspace, ignore=shutil.ignore_patterns("__pycache__", "cache"))
        self.data.mkdir()
        self.rows: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.values: dict[str, int] = {}
        """Of a segmentation: structure -> value in the masks."""
        self.ordered = False

    def scans(self, count: int, shape: tuple[int, ...], names: Sequence[str] = ("plain", "block")) -> None:
        """PNG slices (3D shape) or single PNG images (2D). Each class but the first has a bright block in its place."""
        generator = np.random.default_rng(0)
        self.names = list(names)
        for number in range(count):
            label = number % len(names)
            volume = generator.normal(80, 15, shape)
            side = shape[-1] // 4
            if label:
                volume[..., side : 2 * side, label * side : (label + 1) * side] += 90
            planes = np.clip(volume, 0, 255).astype(np.uint8)
            files = []
            for position, plane in enumerate(planes if len(shape) == 3 else planes[None]):
                name = f"s{number:03d}/{position}.png" if len(shape) == 3 else f"s{number:03d}.png"
                (self.data / name).parent.mkdir(exist_ok=True)
                Image.fromarray(plane).save(self.data / name)
                files.append(name)
            split = "val" if number >= count * 2 // 3 else "train"
            self.add(f"s{number:03d}", files, names[label], split)

    def organs(self, count: int, affine: Any = None) -> None:
        """CT-like volumes of 24 x 20 x 12 with a bright ball (28) and a dark block (3) in noise, masks beside them."""
        import nibabel

        generator = np.random.default_rng(0)
        self.values = {"ball": 28, "dark block": 3}
        self.names = list(self.values)
        affine = np.diag([2.0, 2.0, 3.0, 1.0]) if affine is None else affine
        for number in range(count):
            place = np.stack(np.meshgrid(*map(np.arange, (24, 20, 12)), indexing="ij"))
            middle = generator.integers(-2, 3, 3) + np.array([7, 8, 6])
            mask = np.zeros((24, 20, 12), np.int16)
            mask[((place - middle[:, None, None, None]) ** 2).sum(0) < 20] = 28
            mask[14:20, 9:17, 3:9] = 3
            image = generator.normal(0, 15, mask.shape) + 150 * (mask == 28) - 150 * (mask == 3)
            image[:2] = -1000
            for kind, array in (("image", image.astype(np.int16)), ("mask", mask)):
                nibabel.save(nibabel.Nifti1Image(array, affine), self.data / f"{kind}{number}.nii.gz")
            split = "val" if number >= count * 2 // 3 else "train"
            self.add(f"s{number}", [f"image{number}.nii.gz"], None, split, target=f"mask{number}.nii.gz")

    def add(self, sample: str, files: Sequence[str], label: Any, split: str, **more: Any) -> None:
        row = {
            "sample_id": sample,
            "patient": f"patient-{sample}",
            "label": label,
            "files": list(files),
            "split": split,
        }
        self.rows.append(row | more)

    def write(self) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.workspace / "train_index.jsonl").write_text(lines)
        values = {key: value for key, value in (("values", self.values), ("ordered", self.ordered)) if value}
        (self.workspace / "label_map.json").write_text(json.dumps({"names": self.names, **values}))

    def configure(self, **edits: object) -> None:
        """`epochs=3` replaces the line of that key in config.yaml."""
        path = self.workspace / "config.yaml"
        lines = path.read_text().splitlines()
        for key, value in edits.items():
            found = [number for number, line in enumerate(lines) if line.strip().startswith(f"{key}:")]
            assert len(found) == 1, key
            lines[found[0]] = f"  {key}: {json.dumps(value)}"
        path.write_text("\n".join(lines) + "\n")

    def environment(self) -> dict[str, str]:
        return bare_environment(PYTHONPATH=str(ROOT), M3_DATA=str(self.data), M3_WORKSPACE=str(self.workspace))

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """A script in a process that has the frameworks loaded already, anything else (`-m`) in one of its own."""
        if command[0].endswith(".py"):
            return finished(self.start(*command))
        return subprocess.run(
            [sys.executable, *command], cwd=self.workspace, env=self.environment(), capture_output=True, text=True
        )

    def start(self, *command: str) -> Process:
        return server().start(command, self.workspace, self.environment())

    def train(self) -> "subprocess.CompletedProcess[str]":
        return self.run("train.py", "--config", "config.yaml")

    def probe(self, name: str, *arguments: str) -> dict[str, Any]:
        done = self.run(str(ROOT / "services" / "tool_runner" / "probes" / f"{name}.py"), *arguments)
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts

    def progress(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.workspace / "progress.jsonl").read_text().splitlines()]

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.workspace / "metrics.json").read_text())
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def trained_3d(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A 3D training to its end, shared by all tests that only read it."""
    made = Bench(tmp_path_factory.mktemp("trained"))
    made.scans(18, (9, 40, 40), ("plain", "left block", "right block"))
    made.ordered = True
    made.write()
    made.configure(epochs=3, width=8, input_shape=[8, 24, 24], patience=0)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def oblique() -> Any:
    """An affine turned by twelve degrees, its axes stored in another order and direction than RAS+."""
    turn = np.deg2rad(12)
    tilt = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    affine = np.eye(4)
    affine[:3, :3] = tilt @ np.array([[0, -2.0, 0], [0, 0, 2.5], [3.0, 0, 0]])
    affine[:3, 3] = (-40, 25, 300)
    return affine


@pytest.fixture
def organs(tmp_path: Path) -> Bench:
    from tests.templates.segbench import SegBench

    return SegBench(tmp_path, "segmentation")


@pytest.fixture(scope="session")
def new_bench() -> type[Bench]:
    """For tests that make several, or share one: `new_bench(folder, template)`."""
    return Bench


@pytest.fixture
def trained_masks() -> Bench:
    from tests.templates import segbench

    return segbench.trained_masks()


@pytest.fixture
def predict(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """predict.py as a stranger runs it: `python -I`, empty environment, another folder; frameworks loaded already."""

    def run(package: Path, output: Path, *inputs: Path) -> "subprocess.CompletedProcess[str]":
        argv = ["-I", str(package / "predict.py"), *map(str, inputs), "--output", str(output)]
        return finished(server().start(argv, tmp_path, {}))

    return run
