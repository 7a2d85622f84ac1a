"""What an engineer writes in an hour: a classifier from scratch in one file, without anything of ours.

python plain_classifier.py ORDER.json ANSWERS.json
"""

import copy
import json
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F

BEGAN = time.monotonic()
VOLUME, PICTURE, BATCH, PATIENCE = (32, 64, 64), (128, 128), 8, 30


def load(file: str) -> torch.Tensor:
    """(1, slices, rows, columns) or (1, rows, columns), resampled to one shape, mean 0 and variance 1."""
    array = np.asarray(Image.open(file)) if file.endswith(".png") else nibabel.load(file).get_fdata().T
    image = torch.tensor(np.array(array, np.float32))[None, None]
    shape, mode = (PICTURE, "bilinear") if array.ndim == 2 else (VOLUME, "trilinear")
    image = F.interpolate(image, shape, mode=mode, align_corners=False)[0]
    return (image - image.mean()) / (image.std() + 1e-6)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, dims: int) -> None:
        super().__init__()
        conv, norm = (nn.Conv3d, nn.BatchNorm3d) if dims == 3 else (nn.Conv2d, nn.BatchNorm2d)
        self.main = nn.Sequential(
            conv(inputs, outputs, 3, 2, 1, bias=False), norm(outputs), nn.ReLU(),
            conv(outputs, outputs, 3, 1, 1, bias=False), norm(outputs),
        )  # fmt: skip
        self.side = nn.Sequential(conv(inputs, outputs, 1, 2, bias=False), norm(outputs))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return F.relu(self.main(image) + self.side(image))


class Network(nn.Module):
    def __init__(self, dims: int, classes: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(a, b, dims) for a, b in ((1, 16), (16, 32), (32, 64), (64, 128))))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(128, classes))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(image).flatten(2).mean(2))


def augmented(batch: torch.Tensor) -> torch.Tensor:
    shifts = [int(n) for n in torch.randint(-3, 4, (2,))]
    batch = batch.roll(shifts, (-2, -1))
    many = (len(batch),) + (1,) * (batch.ndim - 1)
    return batch * (0.9 + 0.2 * torch.rand(many)) + 0.1 * torch.randn(many) + 0.05 * torch.randn_like(batch)


def chances(network: nn.Module, images: torch.Tensor) -> np.ndarray:
    network.eval()
    with torch.no_grad():
        return torch.cat([network(part).softmax(1) for part in images.split(BATCH)]).numpy()


def auc(found: np.ndarray, truth: np.ndarray) -> float:
    held = np.eye(found.shape[1])[truth]
    some = [n for n in set(truth.tolist()) if 0 < held[:, n].sum() < len(truth)]
    return float(np.mean([roc_auc_score(held[:, n], found[:, n]) for n in some]))


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    torch.manual_seed(order["seed"])
    parts = {}
    for part in ("train", "val"):
        rows = [row for row in order["rows"] if row["split"] == part]
        labels = torch.tensor([order["names"].index(str(row["label"])) for row in rows])
        parts[part] = torch.stack([load(row["files"][0]) for row in rows]), labels
    images, labels = parts["train"]
    network = Network(images.ndim - 2, len(order["names"]))
    weight = len(labels) / labels.bincount(minlength=len(order["names"])).clamp(min=1) / len(order["names"])
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3, weight_decay=0.05)
    best, kept, waited, epoch = -1.0, copy.deepcopy(network.state_dict()), 0, 0
    limit = order["seconds"] - 5
    while (spent := time.monotonic() - BEGAN) < limit and waited < PATIENCE:
        network.train()
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * max(0.02, 1 - spent / limit)
        for part in torch.randperm(len(labels)).split(BATCH):
            if len(part) > 1:
                loss = F.cross_entropy(network(augmented(images[part])), labels[part], weight.float())
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epoch, waited = epoch + 1, waited + 1
        found = auc(chances(network, parts["val"][0]), parts["val"][1].numpy())
        if found > best:
            best, kept, waited = found, copy.deepcopy(network.state_dict()), 0
    network.load_state_dict(kept)
    tests = torch.stack([load(file) for file in order["tests"]])
    Path(sys.argv[2]).write_text(json.dumps({"chances": chances(network, tests).tolist(), "epochs": epoch}))


if __name__ == "__main__":
    main()
