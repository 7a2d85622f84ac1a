"""What predict.py of a segmentation opens: from INPUT files to a mask, and a score map where the package wants one."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from .inference import Preprocess, prepare, segment
from .masks import write_mask, write_scores
from .readers import input_files, load_scan, stem_of
from .scan import Scan


class Engine(Protocol):
    def segment(self, scan: Scan, scored: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Class numbers (i, j, k) in the axes of the scan's file; if `scored`, the probability of any class."""


class Predictor:
    """`asked` is what package_cli hands over: config, labels, package, output, device."""

    def __init__(self, asked: Any) -> None:
        names, values = asked.labels["names"], asked.labels["values"]
        self.head = {"task": asked.config["task"], "labels": names, "label_values": values}
        self.numbers = np.array([0, *(values[name] for name in names)])
        self.output: Path = asked.output
        self.scored = bool(asked.config.get("score_map"))
        self.engine = open_engine(asked, len(names))
        self.taken: set[str] = set()

    def read(self, path: Path) -> tuple[str, Scan]:
        return stem_of(path), load_scan(input_files(path))

    def answer(self, items: list[tuple[str, Scan]]) -> list[dict[str, str]]:
        return [self.write(stem, scan) for stem, scan in items]

    def write(self, stem: str, scan: Scan) -> dict[str, str]:
        classes, scores = self.engine.segment(scan, self.scored)
        name = free_name(stem, self.taken)
        answer = {"mask": write_mask(scan, self.numbers[classes], self.output, name)}
        if scores is not None:
            answer["score"] = write_scores(scan, scores, self.output, name)
        return answer


def free_name(stem: str, taken: set[str]) -> str:
    """Inputs of one name get -2, -3, ..."""
    found, number = stem, 1
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    taken.add(found)
    return found


def open_engine(asked: Any, structures: int) -> Engine:
    if asked.config["engine"] == "nnunet":
        import safetensors.torch

        from .nnunet import NnunetEngine

        weights = asked.package / "model.safetensors"
        # nnU-Net registers its layers twice; load_model knows that, a plain state dict does not.
        return NnunetEngine(asked.config, lambda net: safetensors.torch.load_model(net, weights), asked.device)
    return MonaiEngine(asked, structures)


class MonaiEngine:
    """The network of the package's model.py behind the preprocessing of its training."""

    def __init__(self, asked: Any, structures: int) -> None:
        import safetensors.torch

        model: Any = importlib.import_module("model")
        config = asked.config
        lists = {key: tuple(value) for key, value in config["preprocess"].items() if isinstance(value, list)}
        self.how = Preprocess(**{**config["preprocess"], **lists})
        rebuilt = SimpleNamespace(
            preprocess=self.how, model=model.ModelConfig(**config["model"]), loss=model.LossConfig(**config["loss"])
        )
        network = model.build(rebuilt, structures)
        network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network, self.device = network.to(asked.device).eval(), asked.device

    def segment(self, scan: Scan, scored: bool) -> tuple[np.ndarray, np.ndarray | None]:
        image, grid = prepare(scan, self.how), scan.grid
        scores = np.zeros(grid.size, np.float32) if scored else None
        classes = segment(self.network, image, grid.size, self.how, self.device, scores)
        return grid.turn_back(classes), None if scores is None else grid.turn_back(scores)
