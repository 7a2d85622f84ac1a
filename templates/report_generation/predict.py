"""Write reports with a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is one case: an image (imaging/formats.py lists what is read), or a folder with its views in natural order (of
3D also the slices of one; or a file a channel where the model takes several channels that are no colours).
DIR/predictions.json has one entry an INPUT: its report, or an error. package_cli.py has the rest.
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out
# Nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from shared.training.exported import package_cli  # noqa: E402


class Reporter:
    """The model of the package, as package_cli asks for it."""

    def __init__(self, asked: package_cli.Asked) -> None:
        import model
        import safetensors.torch
        import telling
        import words

        config = asked.settings
        self.head = {"task": config.task}
        self.device, self.how = asked.device, config.preprocess
        self.length, self.writer = config.text.max_tokens, config.text.writer
        self.words = words.load(asked.package / "tokenizer.json")
        self.telling = telling.load(asked.package / "telling.json")
        network = model.build(config, len(self.words), len(self.telling))
        network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network = network.to(asked.device).eval()

    def read(self, path: Path) -> Any:
        """A tensor, as in training: float32 (views * C, D, H, W) or (views * C, H, W)."""
        import images

        from shared.imaging.inputs import input_files

        return images.as_tensor(images.read(input_files(path), self.how))

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        import telling
        import torch

        batch = torch.stack(items).to(self.device)
        written = telling.reports_of(self.network, batch, self.length, self.writer, self.words, self.telling)
        return [{"report": text} for text in written]


if __name__ == "__main__":
    sys.exit(package_cli.main(__doc__, Reporter, batch=8))
