"""Augmentation of one image, by modality: MONAI's transforms on preprocessed values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from shared.trainkit.exported.imaging.inference import Preprocess
from shared.trainkit.images.settings import Augmentation

MODALITIES: dict[str, dict[str, float]] = {
    # HU mean the same on every scanner: no more than its calibration drifts, about a hundredth of the window.
    "ct": {"brightness": 0.01, "gamma": 0.0, "bias_field": 0.0, "noise": 0.05},
    # No scale of its own; contrast differs by sequence and scanner, brightness by the place in the coil.
    "mr": {"brightness": 0.1, "gamma": 0.3, "bias_field": 0.3, "noise": 0.05},
    # Exposure and the maker's curve differ.
    "xray": {"brightness": 0.1, "gamma": 0.2, "bias_field": 0.0, "noise": 0.05},
    # Gain and the depth's compensation of it differ, and speckle is the picture.
    "ultrasound": {"brightness": 0.1, "gamma": 0.2, "bias_field": 0.2, "noise": 0.1},
    "other": {"brightness": 0.1, "gamma": 0.0, "bias_field": 0.0, "noise": 0.05},
}
NAMES = {"mri": "mr", "cr": "xray", "dx": "xray", "rx": "xray", "x-ray": "xray", "us": "ultrasound"}
"""Of DICOM and of tables."""


def settle(wanted: Augmentation, rows: Sequence[Mapping[str, Any]], how: Preprocess, sided: bool) -> Augmentation:
    """No `auto` left. `rows` are the training rows; `sided`: left and right mean something else."""
    modality = wanted.modality if wanted.modality != "auto" else modality_of(rows, how)
    values: dict[str, Any] = {"modality": modality}
    values |= {key: value for key, value in MODALITIES[modality].items() if getattr(wanted, key) == "auto"}
    if wanted.flip_axes == "auto":
        values["flip_axes"] = () if sided else ("W",)
    return wanted.model_copy(update=values)


def modality_of(rows: Sequence[Mapping[str, Any]], how: Preprocess) -> str:
    said = {str(value).lower() for row in rows for key, value in row["attributes"].items() if key.lower() == "modality"}
    name = said.pop() if len(said) == 1 else ""
    if NAMES.get(name, name) in MODALITIES:
        return NAMES.get(name, name)
    return "ct" if how.intensity == "window" and how.window is not None and how.window[0] < 0 else "other"


class Augment:
    """Each image of a sample by itself: (views, D, H, W) or (views, H, W); a view of zeros is none and stays so."""

    def __init__(self, steps: Sequence[Any]) -> None:
        from monai.transforms import Compose

        self.transforms = Compose(steps)
        # One for all steps: seeding each by itself costs a third of a small image's augmentation.
        self.state = np.random.RandomState()
        for step in steps:
            step.set_random_state(state=self.state)

    def __call__(self, views: torch.Tensor) -> torch.Tensor:
        # From torch's generator, which differs by worker and is part of a checkpoint.
        self.state.seed(int(torch.randint(2**31, ())))
        done = [self.transforms(view[None]).as_tensor()[0] if view.any() else view for view in views]
        return torch.stack(done).contiguous()


def make(wanted: Augmentation, shape: Sequence[int]) -> Augment | None:
    """`wanted` is settled; None where all is switched off."""
    dims = len(shape)
    axes = [{"D": 0, "H": dims - 2, "W": dims - 1}[axis] for axis in wanted.flip_axes if axis != "D" or dims == 3]
    chance, turn = wanted.probability, math.radians(wanted.rotate_degrees)
    moved = turn or wanted.scale or wanted.shift
    if not (axes or moved or wanted.brightness or wanted.gamma or wanted.bias_field or wanted.noise):
        return None
    from monai import transforms as T

    steps: list[Any] = [T.RandFlip(prob=0.5, spatial_axis=axis) for axis in axes]
    if moved:
        steps.append(
            T.RandAffine(
                prob=chance,
                rotate_range=(turn, 0.0, 0.0) if dims == 3 else (turn,),
                scale_range=(wanted.scale,) * dims,
                translate_range=[wanted.shift * int(size) for size in shape],
                padding_mode="border",
            )
        )
    if wanted.bias_field:
        steps.append(from_zero(T.RandBiasField(prob=chance, coeff_range=(0.0, float(wanted.bias_field)))))
    if wanted.gamma:
        bend = float(wanted.gamma)
        steps.append(T.RandAdjustContrast(prob=chance, gamma=(1 - bend, 1 / (1 - bend))))
    if wanted.brightness:
        steps.append(T.RandScaleIntensity(factors=wanted.brightness, prob=chance))
        steps.append(T.RandShiftIntensity(offsets=wanted.brightness, prob=chance))
    if wanted.noise:
        steps.append(T.RandGaussianNoise(prob=chance / 2, std=wanted.noise))
    return Augment(steps)


def from_zero(step: Any) -> Any:
    """A field multiplies what was measured, which begins at zero; preprocessed values do not."""
    from monai import transforms as T

    class FromZero(T.Randomizable):  # type: ignore[misc]
        def set_random_state(self, seed: Any = None, state: Any = None) -> Any:
            step.set_random_state(seed, state)
            return self

        def __call__(self, image: Any) -> Any:
            least = image.min()
            return step(image - least) + least

    return FromZero()
