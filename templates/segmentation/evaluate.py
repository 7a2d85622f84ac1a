"""How good weights are on the validation part: Dice by the rules of the scorer, through the functions of predict.py."""

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from patches import Patches
from predict import on_grid, pieces_of, probabilities, segment

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
FEW = 4
"""Images from which on pieces are left out: two have chosen a bound that no piece of new images came to."""
GAIN = 0.002
"""In Dice, for which pieces are left out."""
MARKED = 0.01
"""Of a structure's volume in training masks that pieces as small as those left out may hold."""
MASKS = 64
"""Training masks that are looked at for it."""


@dataclass(frozen=True)
class Pieces:
    """What Dice needs of one predicted image, whichever pieces are left out. By connected piece (the first entry is no
    piece): its class, mm3, highest probability, voxels, and those of them that are right; by class: voxels of truth."""

    owners: np.ndarray
    mm3: np.ndarray
    surest: np.ndarray
    voxels: np.ndarray
    right: np.ndarray
    wanted: np.ndarray

    def score(self, least_mm3: float, least_score: float) -> CaseScore:
        """As `score_case` has it, without the pieces that `predict.without_specks` leaves out."""
        stays = (self.mm3 >= least_mm3) & (self.surest >= least_score)
        found, right = (
            np.bincount(self.owners[1:], counts[1:] * stays[1:], len(self.wanted))[1:]
            for counts in (self.voxels, self.right)
        )
        both = found + self.wanted[1:]
        dice = tuple(float(2 * same / size) if size else None for same, size in zip(right, both, strict=True))
        return CaseScore(dice, not self.wanted[1:].any())


def counted(found: np.ndarray, truth: np.ndarray, pieces: tuple[Any, Any, Any, Any], structures: int) -> Pieces:
    """`found` and `truth` are class numbers (D, H, W), `pieces` is what `pieces_of(found, ...)` gave."""
    numbers, owners, mm3, surest = pieces
    voxels, right = (np.bincount(one.ravel(), minlength=len(owners)) for one in (numbers, numbers[found == truth]))
    return Pieces(owners, mm3, surest, voxels, right, np.bincount(truth.ravel(), minlength=structures + 1))


class Judge:
    """Measures weights on validation images at the network's spacing, which is cheap, and settles which pieces of the
    best ones are left out. Several processes share the images."""

    def __init__(
        self, data: Patches, train: Patches, config: Any, device: str, image_seconds: float, seconds: float,
        until: float, folder: Path,
    ) -> None:  # fmt: skip
        """As many evenly drawn images as can be looked at eight times in SHARE of `seconds`, four at least. `until`
        (time.monotonic) everything has to be measured; `folder` has the best weights, of earlier attempts, too. Nothing
        is left out that is as large as what is marked in `train`."""
        self.data, self.config, self.device = data, config, device
        mm3, score = config.prediction.min_component_mm3, config.prediction.min_component_score
        most = largest_speck(train, config) if mm3 == "auto" else math.inf
        self.tried = (
            [one for one in SPECKS if one <= most] if mm3 == "auto" else [mm3],
            SURE if score == "auto" else [score],
        )
        """Bounds of size and of probability that may be chosen; the first of each while weights are compared."""
        count = len(data) if math.isinf(seconds) else int(SHARE * seconds / 8 / max(image_seconds, 1e-6))
        count = min(len(data), max(4, count))
        self.rows = [data.rows[int(place * len(data) / count)] for place in range(count)]
        self.until = until - image_seconds * math.ceil(len(data) / ranks.count())
        self.seconds = 0.0
        """Of the last evaluation."""
        self.bounds: list[dict[str, float]] = []
        """Bounds of size, then of probability, and the mean Dice over all images that each came to."""
        self.best = Best(folder)

    def consider(self, model: torch.nn.Module, name: str, epoch: float, step: int) -> float | None:
        """Measure weights, and keep them where they are better than all before; of equals those that are better over
        all images, healthy ones as well. -> Dice, None where no image has a structure and none was found."""
        begin = time.monotonic()
        ranks.share_buffers(model)
        least = [tried[0] for tried in self.tried]
        scores = [look.score(*least) for look in self.looks(model)]
        dice, every = summary(scores, self.data.label_names)["dice"], of_all_cases(scores) or 0.0
        self.seconds = time.monotonic() - begin
        said = {"epoch": round(epoch, 2), "step": step, "weights": name, "images": len(self.rows)}
        self.best.consider(model, dice, 1 - every, **said)
        return dice

    def again(self, model: torch.nn.Module) -> None:
        """Measure the best weights of an earlier attempt anew where that had time for other images than this one."""
        before = self.best.said
        if before and before["images"] != len(self.rows):
            kept, self.best.said = copy.deepcopy(model.state_dict()), {}
            model.load_state_dict(safetensors.torch.load_file(self.best.weights))
            self.consider(model, before["weights"], before["epoch"], before["step"])
            model.load_state_dict(kept)

    def chosen(self) -> dict[str, torch.Tensor]:
        """The best weights. Raises TrainingFailed."""
        if not self.best.said:
            raise TrainingFailed(
                "dice was never defined: no validation image has a structure, and none was predicted\n"
                "give the split val images that have structures"
            )
        ranks.wait()
        return safetensors.torch.load_file(self.best.weights)

    def affords(self, looks: float) -> bool:
        """Whether there is time for so many more evaluations."""
        return bool(ranks.most(time.monotonic() + looks * self.seconds - self.until)[0] <= 0)

    def settled(self, model: torch.nn.Module) -> Any:
        """The configuration with the pieces that are left out, none where there is no time to look."""
        least = self.least(self.looks(model) if max(map(len, self.tried)) > 1 and self.affords(1) else ())
        update = dict(zip(("min_component_mm3", "min_component_score"), least, strict=True))
        return self.config.model_copy(update={"prediction": self.config.prediction.model_copy(update=update)})

    def least(self, looks: Sequence[Pieces]) -> list[float]:
        """mm3 and score of the smallest and least probable pieces that stay: by size, then by score, where these are
        `auto`. Healthy images count. Pieces stay where leaving them out gains less than GAIN, or no more than its
        standard error over the images: of two or three, one would decide."""
        least = [tried[0] for tried in self.tried]
        for place, tried in enumerate(self.tried):
            cuts = [[*least[:place], value, *least[place + 1 :]] for value in tried]
            dice = [[of_all_cases([look.score(*cut)]) or 0.0 for look in looks] for cut in cuts]
            gains = [gained(one, dice[0]) for one in dice]
            means = [round(float(np.mean(one)), 4) for one in dice if one]
            self.bounds.append({f"{value:g}": mean for value, mean in zip(tried, means, strict=False)})
            least[place] = tried[gains.index(max(gains))] if max(gains) >= GAIN else tried[0]
        return least

    def looks(self, model: torch.nn.Module) -> list[Pieces]:
        """Of all images of `rows`, as the network sees them."""
        model.eval()
        mine = []
        for row in self.rows[ranks.number() :: ranks.count()]:
            image, truth = self.data.cases.load(row)
            chances = probabilities(model, image.astype(np.float32), self.config, self.device)
            found, sure = on_grid(chances, truth.shape)
            pieces = pieces_of(found, sure, math.prod(self.config.preprocess.spacing))
            mine.append(counted(found, truth, pieces, len(self.data.label_names)))
        return ranks.gathered(mine)


def gained(after: Sequence[float], before: Sequence[float]) -> float:
    """Mean difference over images; 0 where it is no more than its standard error, and of fewer than FEW images."""
    differences = np.subtract(after, before)
    if len(differences) < FEW:
        return 0.0
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(len(differences))
    return float(mean) if mean > error else 0.0


def largest_speck(data: Patches, config: Any) -> float:
    """mm3: in evenly drawn masks all smaller connected pieces of a structure hold no more than MARKED of its volume. Of
    all structures the least."""
    sizes: dict[int, list[np.ndarray]] = {}
    for row in data.rows[:: -(-len(data.rows) // MASKS)]:
        labels = data.cases.load(row)[1]
        _, owners, mm3, _ = pieces_of(labels, np.zeros(labels.shape, np.float32), math.prod(config.preprocess.spacing))
        for number in np.unique(owners[1:]):
            sizes.setdefault(int(number), []).append(mm3[1:][owners[1:] == number])
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
