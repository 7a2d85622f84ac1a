"""Write reports with a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is one case: a NIfTI, DICOM, PNG, JPG, npy or pt file, or a folder with its views or slices (natural order,
`attributes.json` read if there). DIR/predictions.json has one entry an INPUT: its report, or an error. Exit code 0 if
any INPUT could be predicted, else 1. The package's checksums are verified first. Nothing is written beside the package.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out
# Nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: a report is many small steps, and on a machine shared with others spinning costs most.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import package_cli  # noqa: E402


class Reporter:
    def __init__(self, asked: package_cli.Asked) -> None:
        import model
        import safetensors.torch
        from imaging.inference import Preprocess
        from views import Views
        from words import load

        config = asked.config
        self.head = {"task": config["task"]}
        self.device = asked.device
        self.words = load(asked.package / "tokenizer.json")
        self.length, self.generation = config["text"]["max_tokens"], config["generation"]
        self.how = Preprocess(**{**config["preprocess"], "input_shape": tuple(config["preprocess"]["input_shape"])})
        self.views = Views(**config["views"])
        rebuilt = SimpleNamespace(
            preprocess=self.how,
            views=self.views,
            text=SimpleNamespace(special=model.Special(**config["text"]["special"])),
            model=model.ModelConfig(**config["model"]),
            loss=model.LossConfig(**config["loss"]),
        )
        network = model.build(rebuilt, len(self.words))
        network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network = network.to(asked.device).eval()

    def read(self, path: Path) -> Any:
        """float32 (views, D, H, W) or (views, H, W)."""
        import numpy as np
        from imaging.inference import input_files
        from views import load_case

        files, attributes = input_files(path)
        # float16 as in training, where preprocessed samples are cached.
        return load_case(files, attributes, self.how, self.views).astype(np.float16).astype(np.float32)

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        import numpy as np
        import torch

        batch = torch.from_numpy(np.stack(items)).to(self.device)
        return [
            {"report": self.words.decode(line)} for line in self.network.write(batch, self.length, **self.generation)
        ]


if __name__ == "__main__":
    sys.exit(package_cli.main(__doc__, Reporter, batch=8))
