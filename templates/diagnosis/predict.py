"""Predict from a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is an image (imaging/formats.py lists what is read), or a folder of slices (DICOM, or others in natural order),
or one with a file a channel in natural order where the model takes several channels that are no colours.
DIR/predictions.json has one entry an INPUT: label and probabilities, or an error. package_cli.py has the rest.
"""

import sys
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out

from shared.training.exported import package_cli  # noqa: E402


class Classifier:
    """The model of the package, as package_cli asks for it."""

    def __init__(self, asked: package_cli.Asked) -> None:
        import model
        import safetensors.torch

        config = asked.settings
        self.labels: list[str] = asked.labels["names"]
        self.multi_label, self.device, self.how = config.multi_label, asked.device, config.preprocess
        self.temperature = config.temperature
        self.head = {"task": config.task, "labels": self.labels, "multi_label": self.multi_label}
        network = model.build(config, len(self.labels))
        network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network = network.to(asked.device).eval()

    def read(self, path: Path) -> Any:
        """A tensor, as in training: float32 (views * C, D, H, W) or (views * C, H, W)."""
        import images

        from shared.imaging.inputs import input_files

        return images.as_tensor(images.read(input_files(path), self.how))

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        import torch

        batch = torch.stack(items).to(self.device)
        with torch.inference_mode():
            logits = self.network(batch)["logits"].double().cpu() / self.temperature
        chances = logits.sigmoid() if self.multi_label else logits.softmax(1)
        return [self.named(row) for row in chances.tolist()]

    def named(self, row: list[float]) -> dict[str, Any]:
        chances = dict(zip(self.labels, row, strict=True))
        if self.multi_label:
            return {"label": [name for name in self.labels if chances[name] >= 0.5], "probabilities": chances}
        return {"label": max(self.labels, key=lambda name: chances[name]), "probabilities": chances}


if __name__ == "__main__":
    sys.exit(package_cli.main(__doc__, Classifier, batch=8))
