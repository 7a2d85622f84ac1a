"""How good weights are on the validation part: Dice by the rules of the scorer, through the functions of predict.py."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from patches import Patches
from predict import on_grid, pieces_of, probabilities, segment, without_specks

from shared.imaging.volume import spacing_dhw, to_dhw
from shared.training import ranks
from shared.training.checks import TrainingFailed
from shared.training.dice import CaseScore, of_all_cases, of_row, score_case, summary
from shared.training.saved import Best
from shared.training.told import false_parts

SHARE = 0.1
"""Part of the time that evaluations during the training may take, about."""
SPECKS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""mm3 that are tried for `prediction.min_component_mm3`."""
SURE = (0.0, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Probabilities that are tried for `prediction.min_component_score`."""
KEPT = {"min_component_mm3": 0.0, "min_component_score": 0.0}
"""Every piece."""
GAIN = 0.002
"""In Dice, for which pieces are left out."""
MARKED = 0.01
"""Of a structure's volume in training masks that pieces as small as those left out may hold."""
MASKS = 64
"""Training masks that are looked at for it."""


class Judge:
    """Measures weights on validation images at the network's spacing, which is cheap. Several processes share them."""

    def __init__(
        self, data: Patches, config: Any, device: str, image_seconds: float, seconds: float, until: float, folder: Path
    ) -> None:
        """As many evenly drawn images as can be looked at eight times in SHARE of `seconds`, four at least. `until`
        (time.monotonic) everything has to be measured; `folder` has the best weights, of earlier attempts, too."""
        self.data, self.config, self.device = data, config, device
        most = len(data) if math.isinf(seconds) else int(SHARE * seconds / 8 / max(image_seconds, 1e-6))
        count = min(len(data), max(4, most))
        self.rows = [data.rows[int(place * len(data) / count)] for place in range(count)]
        self.until = until - image_seconds * math.ceil(len(data) / ranks.count())
        self.seconds = self.comparing = 0.0
        """Of the last evaluation, and of it without the network: what each further way of leaving pieces out takes."""
        self.best = Best(folder)

    def consider(self, model: torch.nn.Module, name: str, epoch: float, step: int) -> float | None:
        """Measure weights, and keep them where they are better than all before; of equals those that are better over
        all images, healthy ones as well. -> Dice, None where no image has a structure and none was found."""
        begin = time.monotonic()
        ranks.share_buffers(model)
        (scores,) = self.scores(model, [KEPT])
        dice, every = summary(scores, self.data.label_names)["dice"], of_all_cases(scores) or 0.0
        self.seconds = time.monotonic() - begin
        self.best.consider(model, dice, 1 - every, epoch=round(epoch, 2), step=step, weights=name)
        return dice

    def chosen(self) -> dict[str, torch.Tensor]:
        """The best weights. Raises TrainingFailed."""
        if not self.best.said:
            raise TrainingFailed(
                "dice was never defined: no validation image has a structure, and none was predicted\n"
                "give the split val images that have structures"
            )
        ranks.wait()
        return safetensors.torch.load_file(self.best.weights)

    def affords(self, looks: float, ways: int = 0) -> bool:
        """Whether there is time for so many more evaluations, and so many more ways of leaving pieces out in them."""
        needed = looks * self.seconds + ways * self.comparing
        return bool(ranks.most(time.monotonic() + needed - self.until)[0] <= 0)

    def settled(self, model: torch.nn.Module, train: Patches) -> Any:
        """The configuration with the pieces that are left out, by size, then by score, where these are `auto`. Healthy
        images count. Pieces stay where leaving them out gains less than GAIN, or no more than its standard error over
        the images: of two or three, one would decide. Nothing goes that is as large as what is marked in `train`."""
        least: dict[str, float] = {}
        for key, tried in {"min_component_mm3": SPECKS, "min_component_score": SURE}.items():
            least[key] = getattr(self.config.prediction, key)
            if least[key] != "auto":
                continue
            least[key] = 0.0
            if self.affords(1, len(tried)):
                most = largest_speck(train, self.config) if key == "min_component_mm3" else 1.0
                cuts = [{**KEPT, **least, key: value} for value in tried if value <= most]
                dice = [[of_all_cases([one]) or 0.0 for one in found] for found in self.scores(model, cuts)]
                gains = [gained(one, dice[0]) for one in dice]
                least[key] = tried[gains.index(max(gains))] if max(gains) >= GAIN else 0.0
        chosen = self.config.prediction.model_copy(update=least)
        return self.config.model_copy(update={"prediction": chosen})

    def scores(self, model: torch.nn.Module, cuts: Sequence[Mapping[str, float]]) -> list[list[CaseScore]]:
        """For each way of leaving pieces out (arguments of `without_specks`), the images' scores."""
        model.eval()
        mine, self.comparing = [], 0.0
        for row in self.rows[ranks.number() :: ranks.count()]:
            image, truth = self.data.cases.load(row)
            chances = probabilities(model, image.astype(np.float32), self.config, self.device)
            found, sure = on_grid(chances, truth.shape)
            voxel = math.prod(self.config.preprocess.spacing)
            begin = time.monotonic()
            pieces = pieces_of(found, sure, voxel)
            kept = [without_specks(found, pieces, *cut.values()) for cut in cuts]
            mine.append([score_case(one, truth, len(self.data.label_names)) for one in kept])
            self.comparing += (time.monotonic() - begin) / len(cuts)
        cases = ranks.gathered(mine)
        return [[one[number] for one in cases] for number in range(len(cuts))]


def gained(after: Sequence[float], before: Sequence[float]) -> float:
    """Mean difference over images; 0 where it is no more than its standard error, or not known for want of a second."""
    differences = np.subtract(after, before)
    if len(differences) < 2:
        return 0.0
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(len(differences))
    return float(mean) if mean > error else 0.0


def largest_speck(data: Patches, config: Any) -> float:
    """mm3: in evenly drawn masks all smaller connected pieces of a structure hold no more than MARKED of its volume. Of
    all structures the least."""
    sizes: dict[int, list[np.ndarray]] = {}
    for row in data.rows[:: -(-len(data.rows) // MASKS)]:
        labels = data.cases.load(row)[1]
        pieces, volumes, _ = pieces_of(labels, np.zeros(labels.shape, np.float32), math.prod(config.preprocess.spacing))
        owner = np.zeros(len(volumes), labels.dtype)
        owner[pieces] = labels
        for number in np.unique(owner[1:]):
            sizes.setdefault(int(number), []).append(volumes[1:][owner[1:] == number])
    ordered = [np.sort(np.concatenate(found)) for found in sizes.values()]
    return float(
        min((found[np.searchsorted(found.cumsum(), MARKED * found.sum())] for found in ordered), default=math.inf)
    )


def on_own_grids(model: torch.nn.Module, data: Patches, config: Any, device: str, until: float) -> list[CaseScore]:
    """Dice of each image by structure on its own grid, as the package predicts it; the first always, others until that
    time (time.monotonic). Several processes share the images."""
    model.eval()
    mine: list[CaseScore] = []
    for row in data.rows[ranks.number() :: ranks.count()]:
        if mine and time.monotonic() > until:
            break
        image, truth = data.cases.raw(row)
        found, chances = segment(model, image, config, device)
        truth = to_dhw(truth, image)
        false = false_parts(found, truth, math.prod(spacing_dhw(image)), chances)
        mine.append(of_row(score_case(found, truth, len(data.label_names)), row, false))
    return ranks.gathered(mine)


def reserve(seconds: float | None, looking: float) -> float:
    """Of `seconds`, what is kept for after the loop, where looking at all validation images takes `looking`."""
    least = 2 + 1.3 * looking
    return least if seconds is None else min(0.3 * seconds, least + min(0.05 * seconds, 4 * looking))


def seconds_an_image(model: torch.nn.Module, data: Patches, config: Any, device: str) -> float:
    """Of reading, predicting and measuring one validation image; on a GPU of the second, as the first takes seconds."""
    for _ in range(1 if device == "cpu" else 2):
        begin = time.monotonic()
        on_own_grids(model, data, config, device, until=-math.inf)
    return time.monotonic() - begin
