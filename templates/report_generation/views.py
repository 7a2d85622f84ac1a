"""The files of one case -> its views, each an image of one channel. Training and the package run this same file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shared.trainkit.exported.imaging.inference import Preprocess, input_files, load_image, preprocess


@dataclass(frozen=True)
class Views:
    """`files`: what several files of a case are: `views` (each an image or volume by itself) or `slices` of one volume.

    `most`: views of a case that are looked at, in their order; further ones are left out. auto is settled in training.
    """

    __pydantic_config__ = {"extra": "forbid"}
    files: Literal["auto", "views", "slices"] = "auto"
    most: int | Literal["auto"] = "auto"


def load_case(files: Sequence[Path], attributes: Mapping[str, Any], how: Preprocess, views: Views) -> np.ndarray:
    """float32 (most, D, H, W) or (most, H, W). A view that the case has not is zeros. Raises BadImage."""
    if views.most == "auto" or views.files == "auto":
        raise ValueError("the views still say auto; training resolves them first")
    found = [
        preprocess(load_image(group, attributes)[0], attributes, how)[0]
        for group in grouped(files, views)[: views.most]
    ]
    missing = [np.zeros_like(found[0])] * (views.most - len(found))
    return np.stack([*found, *missing])


def grouped(files: Sequence[Path], views: Views) -> list[list[Path]]:
    """The files of each view."""
    paths = list(files)
    if len(paths) == 1 and paths[0].is_dir():
        paths = input_files(paths[0])[0]
    return [[path] for path in paths] if views.files == "views" else [paths]
