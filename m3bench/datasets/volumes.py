"""What the replicas of segmentation datasets have in common: records of cases, label lists, the score of no reader."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume

COARSE = 24
DESKTOP = b"\0\0\0\1Bud1\0" + bytes(64)
"""The start of a `.DS_Store`."""


@dataclass(frozen=True)
class Scale:
    """How large a replica is: labelled and unlabelled volumes, and how large one is (least and most per axis)."""

    labelled: int
    unlabelled: int
    plane: tuple[int, int]
    slices: tuple[int, int]

    def but(self, labelled: int | None) -> "Scale":
        """With another number of labelled cases and as many unlabelled ones in proportion."""
        if labelled is None:
            return self
        return Scale(labelled, -(-self.unlabelled * labelled // self.labelled), self.plane, self.slices)

    def shape(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """(Z, Y, X) of one square-plane volume."""
        plane, slices = (int(rng.integers(low, high + 1)) for low, high in (self.plane, self.slices))
        return slices, plane, plane


@dataclass(frozen=True)
class Written:
    """One case on the disk."""

    facts: Mapping[str, object]
    """For the truth: at least `case`, `group` (what must not be torn apart) and `image`; `mask` where there is one."""
    coarse: NDArray[np.uint8] | None = None
    """The mask on a grid of 24 voxels a side, axes as in the phantom."""


def as_xyz(volume: NDArray[Any]) -> NDArray[Any]:
    """From the phantoms' (Z, Y, X) to NIfTI's (x, y, z): axes run to the left, the back and the head."""
    return volume.transpose(2, 1, 0)


def hounsfield(density: Volume) -> NDArray[np.int16]:
    rounded: NDArray[np.int16] = np.rint(density).astype(np.int16)
    return rounded


def coarse(labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    picks = [((np.arange(COARSE) + 0.5) * size / COARSE).astype(int) for size in labels.shape]
    return labels[np.ix_(*picks)]


def mean_mask_dice(masks: Sequence[NDArray[np.uint8]], values: Sequence[int]) -> float:
    """Dice of answering each case with the vote of all other masks, over the structures present; measured coarsely."""
    place = np.zeros(256, np.int64)
    place[list(values)] = np.arange(1, len(values) + 1)
    flat = [place[mask.ravel()] for mask in masks]
    every, voxels = len(values) + 1, np.arange(flat[0].size)
    votes = np.zeros((flat[0].size, every), np.int32)
    for mask in flat:
        votes[voxels, mask] += 1
    scores = []
    for mask in flat:
        votes[voxels, mask] -= 1
        joint = np.bincount(mask * every + votes.argmax(axis=1), minlength=every * every).reshape(every, every)
        votes[voxels, mask] += 1
        true, guessed = joint.sum(axis=1)[1:], joint.sum(axis=0)[1:]
        dice = 2 * joint.diagonal()[1:][true > 0] / (true + guessed)[true > 0]
        scores += [float(dice.mean())] if dice.size else []
    return round(float(np.mean(scores or [0.0])), 3)


def write_labels(path: Path, names: Sequence[str]) -> None:
    """The paper's ordered label list: a JSON list of names."""
    path.write_text(json.dumps(list(names), indent=2) + "\n", encoding="utf-8")


def clutter(root: Path, folder: str) -> dict[str, str]:
    """Leave in a folder of the dataset what a desktop computer leaves there; returns the quirk."""
    (root / folder / ".DS_Store").write_bytes(DESKTOP)
    return quirk("hidden_file", f"{folder}/.DS_Store")


def quirk(kind: str, path: object) -> dict[str, str]:
    """A planted oddity for the truth; `path` is relative to the dataset."""
    return {"quirk": kind, "path": str(path)}


def truth(
    cases: Sequence[Written],
    labels: Mapping[str, int],
    quirks: Sequence[Mapping[str, str]],
    *,
    split_unit: str,
    ideal: Mapping[str, object],
) -> dict[str, object]:
    """What a generator returns. `labels` is structure -> value in the masks."""
    masks = [case.coarse for case in cases if case.coarse is not None]
    return {
        "labels": list(labels),
        "label_values": dict(labels),
        "sample_unit": "volume",
        "split_unit": split_unit,
        "cases": [dict(case.facts) for case in cases],
        "quirks": [dict(each) for each in quirks],
        "ideal": dict(ideal),
        "trivial": {"empty_mask_dice": 0.0, "mean_mask_dice": mean_mask_dice(masks, list(labels.values()))},
    }
