"""A reader with a small network of its own: a CNN for classes and facts, a U-Net over slices for masks.

Nothing here is shared with the templates that the agents start from: it is a second opinion on the content.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from m3bench.readers.protocol import Floats, Masks
from m3bench.readers.samples import Sample

LARGEST = {2: (128, 128), 3: (32, 64, 64)}
"""Pictures and volumes are brought to the median size of the known ones, or to this where that is larger."""


@dataclass(frozen=True)
class Network:
    """Trained for so many steps, never until a score is reached. Same seed, same answers on one machine."""

    steps: int = 500
    """Of eight samples, or of eight slices."""
    seed: int = 0

    def classify(self, known: Sequence[Sample], targets: Floats, asked: Sequence[Sample]) -> Floats:
        torch.manual_seed(self.seed)
        images = [_standard(sample.image()) for sample in known]
        rank = images[0].ndim - 1
        shape = tuple(
            min(most, int(np.median([image.shape[1 + axis] for image in images])))
            for axis, most in enumerate(LARGEST[rank])
        )
        seen = torch.stack([_resized(image, shape) for image in images])
        net = Classifier(rank, targets.shape[1])
        net.to(memory_format=torch.channels_last if rank == 2 else torch.channels_last_3d)
        _fit_classifier(net, seen, torch.from_numpy(targets).float(), self.steps)
        net.eval()
        with torch.inference_mode():
            answers = [net(_resized(_standard(sample.image()), shape)[None])[0] for sample in asked]
        return np.asarray(torch.stack(answers).double().sigmoid().numpy())

    def segment(self, known: Sequence[Sample], values: Sequence[int], asked: Sequence[Sample]) -> Iterator[Masks]:
        net = self._learnt(known, values)
        for sample in asked:
            guess = _segmented(net, sample.image())
            yield [guess == number for number in range(1, len(values) + 1)]

    def _learnt(self, known: Sequence[Sample], values: Sequence[int]) -> "UNet":
        torch.manual_seed(self.seed)
        place = np.zeros(max(values) + 1, np.int64)
        place[list(values)] = np.arange(1, len(values) + 1)
        stacks = []
        for sample in known:
            slices, axis = _slices(sample.image())
            labels = sample.labels()
            turned = place[np.moveaxis(labels.reshape((1, *labels.shape)[-3:]), axis, 0)]
            stacks.append((slices, _padded(torch.from_numpy(turned))))
        net = UNet(stacks[0][0].shape[1], len(values) + 1)
        net.to(memory_format=torch.channels_last)
        _fit_unet(net, stacks, self.steps, np.random.default_rng(self.seed))
        net.eval()
        return net


def _segmented(net: "UNet", image: NDArray[Any]) -> NDArray[np.int64]:
    """Structure numbers from 1 on, 0 for none, on the image's grid."""
    slices, axis = _slices(image)
    with torch.inference_mode():
        guess = torch.cat([net(part).argmax(dim=1) for part in slices.split(16)]).numpy()
    flat = np.moveaxis(image.reshape((1, *image.shape)[-3:]), axis, 0).shape
    return np.asarray(np.moveaxis(guess[:, : flat[1], : flat[2]], 0, axis).reshape(image.shape))


class Classifier(nn.Module):  # type: ignore[misc]
    """Strided convolutions over the image and its coordinates; means and maxima of the last features decide."""

    def __init__(self, rank: int, targets: int) -> None:
        super().__init__()
        convolution, norm = (nn.Conv2d, nn.BatchNorm2d) if rank == 2 else (nn.Conv3d, nn.BatchNorm3d)
        widths = (2 + rank, 16, 32, 48, 64)
        layers: list[nn.Module] = []
        for level, (before, after) in enumerate(pairwise(widths)):
            layers += [convolution(before, after, 3, stride=2, padding=1), norm(after), nn.ReLU()]
            if level:
                layers += [convolution(after, after, 3, padding=1), norm(after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * widths[-1], targets))

    def forward(self, images: Tensor) -> Tensor:
        """(samples, 2, ...) to logits (samples, targets)."""
        found = self.features(torch.cat([images, _places(images)], dim=1)).flatten(2)
        logits: Tensor = self.head(torch.cat([found.mean(dim=2), found.amax(dim=2)], dim=1))
        return logits


class UNet(nn.Module):  # type: ignore[misc]
    """Three levels down; sides are multiples of eight."""

    def __init__(self, channels: int, classes: int, width: int = 16) -> None:
        super().__init__()
        widths = [width, 2 * width, 3 * width, 4 * width]
        self.down = nn.ModuleList(
            _block(before, after) for before, after in zip([channels, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(_block(widths[at] + widths[at + 1], widths[at]) for at in (2, 1, 0))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, slices: Tensor) -> Tensor:
        """(slices, channels, rows, columns) to logits (slices, classes, rows, columns)."""
        kept: list[Tensor] = []
        for number, block in enumerate(self.down):
            slices = block(functional.max_pool2d(slices, 2) if number else slices)
            kept.append(slices)
        for number, block in enumerate(self.up):
            larger = functional.interpolate(slices, scale_factor=2.0, mode="nearest")
            slices = block(torch.cat([larger, kept[2 - number]], dim=1))
        logits: Tensor = self.last(slices)
        return logits


def _block(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
    )  # fmt: skip


def _fit_classifier(net: Classifier, images: Tensor, targets: Tensor, steps: int, batch: int = 8) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    order = torch.cat([torch.randperm(len(images)) for _ in range(-(-steps * batch // len(images)))])
    for chosen in order.split(batch)[:steps]:
        loss = functional.binary_cross_entropy_with_logits(net(_varied(images[chosen])), targets[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()


def _fit_unet(
    net: UNet, stacks: Sequence[tuple[Tensor, Tensor]], steps: int, rng: np.random.Generator, batch: int = 8
) -> None:
    counts = sum(torch.bincount(labels.flatten(), minlength=net.last.out_channels) for _, labels in stacks)
    assert isinstance(counts, Tensor)
    # Small structures count more, though not as much more as they are smaller.
    weight = (counts + 10.0).rsqrt()
    loss_of = nn.CrossEntropyLoss(weight / weight.sum())
    optimiser = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    marked = [np.flatnonzero(labels.flatten(1).amax(dim=1).numpy()) for _, labels in stacks]
    for _ in range(steps):
        at = int(rng.integers(len(stacks)))
        slices, labels = stacks[at]
        if len(slices) == 1:
            # Pictures of one size are a batch; others are taken alone.
            same = [n for n, (other, _) in enumerate(stacks) if other.shape == slices.shape]
            picked = rng.choice(same, batch).tolist()
            inputs = torch.cat([stacks[n][0] for n in picked])
            wanted = torch.cat([stacks[n][1] for n in picked])
        else:
            # Half of them with a structure in it.
            half = rng.choice(marked[at], batch // 2) if marked[at].size else rng.integers(len(slices), size=batch // 2)
            chosen = np.concatenate([half, rng.integers(len(slices), size=batch - batch // 2)])
            inputs, wanted = slices[chosen], labels[chosen]
        dim = inputs[:, :-2] * (0.8 + 0.4 * torch.rand(1)) + 0.3 * (torch.rand(1) - 0.5)
        loss = loss_of(net(torch.cat([dim, inputs[:, -2:]], dim=1)), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()


def _standard(image: NDArray[Any]) -> Tensor:
    """(2, ...): without the brightness and contrast of this one, extremes cut; and as ranks, so that what is hardly
    brighter than its surroundings shows beside bone and air, too."""
    values = image.astype(np.float32)
    low, *steps, high = np.percentile(values, np.linspace(1, 99, 129)).tolist()
    window = np.clip((values - low) / (high - low + 1e-6), -0.5, 2) * 2 - 1
    ranks = np.searchsorted(steps, values.ravel()).reshape(values.shape).astype(np.float32) / 64 - 1
    return torch.from_numpy(np.stack([window, ranks]))


def _resized(image: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(2, *shape)."""
    mode = "bilinear" if image.ndim == 3 else "trilinear"
    return functional.interpolate(image[None], shape, mode=mode, align_corners=False)[0]


def _varied(images: Tensor) -> Tensor:
    """Each moved by up to a twelfth of its size, brighter or darker."""
    moved = []
    for image in images:
        shifts = [int(torch.randint(-(size // 12), size // 12 + 1, (1,))) for size in image.shape[1:]]
        moved.append(torch.roll(image, shifts, dims=tuple(range(1, image.ndim))))
    ones = (len(images), *(1,) * (images.ndim - 1))
    return torch.stack(moved) * (0.8 + 0.4 * torch.rand(ones)) + 0.4 * (torch.rand(ones) - 0.5)


def _places(images: Tensor) -> Tensor:
    """-1..1 along each axis: left and right look alike otherwise."""
    lines = [torch.linspace(-1, 1, size) for size in images.shape[2:]]
    grid = torch.stack(torch.meshgrid(*lines, indexing="ij"))
    return grid[None].expand(len(images), *grid.shape)


def _slices(image: NDArray[Any]) -> tuple[Tensor, int]:
    """((slices, channels, rows, columns), axis): cut along the shortest axis; neighbours, position and place as
    channels. A picture is its only slice."""
    shape = (1, *image.shape)[-3:]
    axis = int(np.argmin(shape))
    both = [torch.moveaxis(part.reshape(shape), axis, 0) for part in _standard(image)]
    stack, count = both[0], len(both[0])
    around = torch.arange(count)
    near = [part[(around + step).clamp(0, count - 1)] for part in both for step in ((-1, 0, 1) if count > 1 else (0,))]
    level = torch.linspace(-1, 1, count).view(-1, 1, 1).expand_as(stack)
    places = [place.expand_as(stack) for place in _places(stack[None, :1])[0]]
    return _padded(torch.stack([*near, level, *places], dim=1)), axis


def _padded(slices: Tensor) -> Tensor:
    """Rows and columns up to multiples of eight."""
    rows, columns = ((-size) % 8 for size in slices.shape[-2:])
    return functional.pad(slices, (0, columns, 0, rows))
