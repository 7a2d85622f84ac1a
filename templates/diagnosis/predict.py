"""Predict from a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is a folder of slices (natural order, `attributes.json` read if there), a NIfTI, DICOM, PNG, JPG, npy or pt
file. DIR/predictions.json has one entry an INPUT: label and probabilities, or an error. Exit code 0 if any INPUT could
be predicted, else 1. The package's checksums are verified first. Nothing is written beside the package.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out

import package_cli  # noqa: E402


class Classifier:
    def __init__(self, asked: package_cli.Asked) -> None:
        import model
        import safetensors.torch
        from imaging.inference import Preprocess

        config = asked.config
        self.labels: list[str] = asked.labels["names"]
        self.multi_label, self.device = bool(config["multi_label"]), asked.device
        self.head = {"task": config["task"], "labels": self.labels, "multi_label": self.multi_label}
        self.how = Preprocess(**{**config["preprocess"], "input_shape": tuple(config["preprocess"]["input_shape"])})
        rebuilt = SimpleNamespace(
            preprocess=self.how,
            model=model.ModelConfig(**config["model"]),
            loss=model.LossConfig(**config["loss"]),
            multi_label=config["multi_label"],
        )
        network = model.build(rebuilt, len(self.labels))
        network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network = network.to(asked.device).eval()

    def read(self, path: Path) -> Any:
        """float32 (1, D, H, W) or (1, H, W)."""
        import numpy as np
        from imaging.inference import input_files, load_image, preprocess

        files, attributes = input_files(path)
        # float16 as in training, where preprocessed samples are cached.
        return preprocess(load_image(files, attributes)[0], attributes, self.how).astype(np.float16).astype(np.float32)

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        import numpy as np
        import torch

        batch = torch.from_numpy(np.stack(items)).to(self.device)
        with torch.inference_mode():
            logits = self.network(batch)["logits"].double().cpu()
        chances = logits.sigmoid() if self.multi_label else logits.softmax(1)
        return [self.named(row) for row in chances.tolist()]

    def named(self, row: list[float]) -> dict[str, Any]:
        chances = dict(zip(self.labels, row, strict=True))
        if self.multi_label:
            return {"label": [name for name in self.labels if chances[name] >= 0.5], "probabilities": chances}
        return {"label": max(self.labels, key=lambda name: chances[name]), "probabilities": chances}


if __name__ == "__main__":
    sys.exit(package_cli.main(__doc__, Classifier, batch=8))
