"""MONAI transforms that do what a template's dataset does, in MONAI's own way."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Steps(NamedTuple):
    items: list[Any]
    """What the first transform is given, one a sample."""
    still: list[Any]
    """Deterministic, so that their result is cached."""
    drawn: list[Any]
    """Drawing a patch, where there is one."""
    augmented: list[Any]
    """The same and augmentation."""


def classified(config: Any, rows: Sequence[Row]) -> Steps:
    """Of the template diagnosis; `config` is resolved."""
    from monai import transforms as T

    shape, wanted = config.preprocess.input_shape, config.augmentation
    dims, chance = len(shape), wanted.probability
    still = [
        T.LoadImage(image_only=True),
        T.EnsureChannelFirst(),
        *([T.Orientation("RAS", labels=None)] if dims == 3 else []),
    ]
    # (D, H, W) here, (x, y, z) there: the same voxels.
    still += [T.Resize(tuple(shape)[::-1], mode="trilinear" if dims == 3 else "bilinear"), T.NormalizeIntensity()]
    turn = math.radians(wanted.rotate_degrees)
    augmented = [
        T.RandFlip(prob=0.5, spatial_axis=0),
        T.RandAffine(
            prob=chance,
            rotate_range=(0.0, 0.0, turn) if dims == 3 else (turn,),
            scale_range=(wanted.scale,) * dims,
            translate_range=[wanted.shift * size for size in tuple(shape)[::-1]],
            padding_mode="border",
        ),
        T.RandScaleIntensity(factors=wanted.brightness, prob=chance),
        T.RandShiftIntensity(offsets=wanted.brightness, prob=chance),
        T.RandGaussianNoise(prob=chance / 2, std=wanted.noise),
    ]
    root = Path(config.data_root)
    return Steps([str(root / row["files"][0]) for row in rows], still, [], augmented)


def segmented(config: Any, rows: Sequence[Row]) -> Steps:
    """Of organ_segmentation with one channel; `config` is resolved."""
    import json

    from monai import transforms as T

    how, wanted, both = config.preprocess, config.augmentation, ("image", "label")
    volumes, chance = how.dimensions == 3, wanted.probability
    values = list(json.loads(Path(config.label_map).read_text(encoding="utf-8"))["values"].values())
    still = [T.LoadImaged(both), T.EnsureChannelFirstd(both)]
    if volumes:
        still += [
            T.Orientationd(both, "RAS", labels=None),
            T.Spacingd(both, tuple(how.spacing)[::-1], mode=("bilinear", "nearest")),
        ]
    still += [
        T.NormalizeIntensityd("image", nonzero=True, channel_wise=True),
        T.MapLabelValued("label", values, list(range(1, len(values) + 1))),
    ]
    patch, share = tuple(how.patch_size)[::-1], config.sampling.foreground
    drawn = [
        T.SpatialPadd(both, patch),
        T.RandCropByPosNegLabeld(both, "label", patch, pos=share, neg=1 - share, num_samples=1),
    ]
    turn = math.radians(wanted.rotate_degrees)
    augmented = [
        *drawn,
        T.RandFlipd(both, prob=0.5, spatial_axis=0),
        T.RandAffined(
            both,
            prob=chance,
            rotate_range=(0.0, 0.0, turn) if volumes else (turn,),
            scale_range=(wanted.scale, wanted.scale, 0.0)[: how.dimensions],
            mode=("bilinear", "nearest"),
            padding_mode="border",
        ),
        T.RandScaleIntensityd("image", factors=wanted.brightness, prob=chance),
        T.RandShiftIntensityd("image", offsets=wanted.brightness, prob=chance),
        T.RandGaussianNoised("image", prob=chance / 2, std=wanted.noise),
    ]
    root = Path(config.data_root)
    items = [{"image": str(root / row["files"][0]), "label": str(root / row["target"])} for row in rows]
    return Steps(items, still, drawn, augmented)
