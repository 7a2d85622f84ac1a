"""Segment with a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

segmenting.py says what an INPUT is and what DIR gets, package_cli.py the rest.
Training evaluates by these functions. Of `shared` this file may import `shared.imaging`, `shared.training.exported`.
"""

import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out

from shared.training.exported.package_cli import Asked, main  # noqa: E402
from shared.training.exported.segmenting import Segmenter  # noqa: E402

SLICES = 16
"""That a 2D network sees at once."""
STITCHED = 2**31
"""Bytes of probabilities that are put together on a GPU; more are on the CPU."""


class Predictor(Segmenter):
    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        import safetensors.torch
        from model import build

        self.config, self.device = asked.settings, asked.device
        self.channels = self.config.preprocess.channels
        self.network = build(self.config, len(asked.labels["names"]))
        self.network.load_state_dict(safetensors.torch.load_file(asked.package / "model.safetensors"))
        self.network.to(asked.device).eval()

    def segment(self, image: Any) -> tuple[Any, Any]:
        from shared.imaging.volume import from_dhw

        classes, scores = segment(self.network, image, self.config, self.device)
        return from_dhw(classes, image), from_dhw(scores, image)


def segment(network: Any, image: Any, config: Any, device: str) -> tuple[Any, Any]:
    """Class numbers, 0 background, and the probability that a voxel is none: both (D, H, W) of the image itself."""
    from data import prepare, spacing_of

    from shared.imaging.volume import size_dhw

    chances = probabilities(network, prepare(image, config.preprocess), config, device)
    classes, scores = on_grid(chances, size_dhw(image))
    how, voxel = config.prediction, math.prod(spacing_of(image, config.preprocess))
    least = [0.0 if least == "auto" else least for least in (how.min_component_mm3, how.min_component_score)]
    if any(least):  # auto: not chosen yet
        kept = without_specks(classes, pieces_of(classes, scores, voxel), *least)
        scores[kept != classes] = 0
        classes = kept
    return classes, scores


def probabilities(network: Any, image: Any, config: Any, device: str) -> Any:
    """Image (C, D, H, W) as `data.prepare` has it -> probability of each class (1 + N, D, H, W), background first, by
    overlapping windows with Gaussian weights, averaged over mirrored ones where `prediction.flips` names axes."""
    import torch
    from data import AXES, margins, pad, patch_edges, seen_axes
    from monai_parts import sliding_window_inference

    how, wanted = config.preprocess, config.prediction
    flat, seen = how.dimensions == 2, seen_axes(how)
    across = 1 + AXES.index(how.slices) if flat else 0
    axes = [seen.index(axis) - len(seen) for axis in wanted.flips if axis in seen]
    mirrored = [some for many in range(len(axes) + 1) for some in itertools.combinations(axes, many)]
    # As in training, never float16, whose largest number is small.
    mixed = device == "cuda" and config.training.precision != "fp32" and torch.cuda.is_bf16_supported(False)

    def chances(windows: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            found = [network(windows.flip(some))["logits"].flip(some) for some in mirrored]
        return torch.stack([logits.float().softmax(1) for logits in found]).mean(0)

    edges, shape = patch_edges(how), image.shape[1:]
    widths = margins(shape, edges)
    full = torch.from_numpy(pad(image, widths))
    # In 2D slices are a batch: (slices, C, H, W).
    batches = full.movedim(across, 0).split(SLICES) if flat else [full[None]]
    parts = []
    with torch.inference_mode():
        for batch in batches:
            roomy = 4 * 32 * batch[:, :1].numel() < STITCHED
            found = sliding_window_inference(
                batch.float(), tuple(how.patch_size), 1, chances, wanted.overlap, "gaussian",
                sw_device=device, device=device if roomy else "cpu",
            )  # fmt: skip
            parts.append(found.movedim(0, across) if flat else found[0])
    window = tuple(slice(before, before + size) for (before, _), size in zip(widths, shape, strict=True))
    return torch.cat(parts, max(across, 1))[(slice(None), *window)]


def on_grid(chances: Any, size: Sequence[int]) -> tuple[Any, Any]:
    """Class numbers and the probability of any class on a grid (D, H, W) of `size` over the same extent. Probabilities
    are interpolated before the largest is taken, so that edges are not those of the coarser grid."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    classes = np.zeros(tuple(size), np.uint8 if len(chances) <= 256 else np.uint16)
    scores = np.zeros(tuple(size), np.float32)
    depth = chances.shape[1]
    for number in range(size[0]):
        place = min(max((number + 0.5) * depth / size[0] - 0.5, 0.0), depth - 1)
        low = int(place)
        here = torch.lerp(chances[:, low], chances[:, min(low + 1, depth - 1)], place - low)
        if tuple(here.shape[1:]) != tuple(size[1:]):
            here = F.interpolate(here[None], tuple(size[1:]), mode="bilinear")[0]
        classes[number] = here.argmax(0).cpu().numpy()
        scores[number] = (1 - here[0]).cpu().numpy()
    return classes, scores


def pieces_of(classes: Any, scores: Any, voxel_mm3: float) -> tuple[Any, Any, Any, Any]:
    """Connected pieces of each structure in class numbers (D, H, W): the number of each voxel's piece, 0 background;
    and of each piece the class, mm3, and the highest of `scores`, the probability that a voxel is no background."""
    import numpy as np
    from scipy.ndimage import find_objects, label

    pieces, owners = np.zeros(classes.shape, np.int32), [0]
    for number, box in enumerate(find_objects(classes), 1):
        if box is not None:
            found, more = label(classes[box] == number, np.ones((3, 3, 3)))
            pieces[box] += np.where(found, found + len(owners) - 1, 0).astype(np.int32)
            owners += [number] * more
    inside = np.flatnonzero(pieces)
    numbers, surest = pieces.ravel()[inside], np.zeros(len(owners), scores.dtype)
    np.maximum.at(surest, numbers, scores.ravel()[inside])
    return pieces, np.array(owners), np.bincount(numbers, minlength=len(owners)) * voxel_mm3, surest


def without_specks(classes: Any, pieces: tuple[Any, Any, Any, Any], least_mm3: float, least_score: float) -> Any:
    """Class numbers without those of `pieces_of` that are smaller, or nowhere so probable."""
    numbers, _, sizes, surest = pieces
    stays = (sizes >= least_mm3) & (surest >= least_score)
    return classes * stays[numbers]


if __name__ == "__main__":
    sys.exit(main(__doc__, Predictor))
