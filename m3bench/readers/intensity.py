"""A reader that sees grey values and no picture: statistics of a sample, or one voxel at a time.

It is given every advantage that needs no place: values as stored and standardised by sample, and for masks the set of
grey values that would have scored best in training, for each structure apart, overlaps allowed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from m3bench.readers.protocol import Floats, Masks
from m3bench.readers.samples import Sample

BINS = 128
_POINTS = (0.5, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5)


@dataclass(frozen=True)
class Intensity:
    """`standardised`: each sample's own brightness and contrast are taken out first."""

    standardised: bool

    def classify(self, known: Sequence[Sample], targets: Floats, asked: Sequence[Sample]) -> Floats:
        """A logistic regression a target on mean, deviation, percentiles and histogram."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        seen, new = (np.array([_statistics(sample)[self.standardised] for sample in side]) for side in (known, asked))
        chances = np.zeros((len(asked), targets.shape[1]))
        for at, target in enumerate(targets.T):
            if target.min() == target.max():
                chances[:, at] = target[0]
            else:
                model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000, C=0.3))
                chances[:, at] = model.fit(seen, target).predict_proba(new)[:, 1]
        return chances

    def segment(self, known: Sequence[Sample], values: Sequence[int], asked: Sequence[Sample]) -> Iterator[Masks]:
        greys = [self.grey(sample) for sample in known]
        edges = np.quantile(np.concatenate([grey.ravel()[::7] for grey in greys]), np.linspace(0, 1, BINS + 1)[1:-1])
        counts = np.zeros((len(values), BINS))
        voxels = np.zeros(BINS)
        for sample, grey in zip(known, greys, strict=True):
            bins, labels = np.searchsorted(edges, grey).ravel(), sample.labels().ravel()
            voxels += np.bincount(bins, minlength=BINS)
            for at, value in enumerate(values):
                counts[at] += np.bincount(bins[labels == value], minlength=BINS)
        chosen = [_best_bins(count, voxels) for count in counts]
        for sample in asked:
            bins = np.searchsorted(edges, self.grey(sample))
            yield [which[bins] for which in chosen]

    def grey(self, sample: Sample) -> NDArray[np.float32]:
        grey = sample.image().astype(np.float32)
        return _standardised(grey) if self.standardised else grey


def _standardised(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    low, high = np.percentile(grey[grey > grey.min()] if np.ptp(grey) else grey, [2, 98]).tolist()
    return np.asarray((grey - low) / (high - low + 1e-6))


@cache
def _statistics(sample: Sample) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of the values as stored, and standardised."""
    grey = sample.image().astype(np.float32).ravel()
    return _described(grey), _described(_standardised(grey))


def _described(grey: NDArray[np.float32]) -> tuple[float, ...]:
    middle, spread = float(grey.mean()), float(grey.std()) + 1e-6
    shape = (grey - middle) / spread
    histogram = np.histogram(shape, bins=16, range=(-3, 3))[0] / grey.size
    return middle, spread, float((shape**3).mean()), *np.percentile(grey, _POINTS).tolist(), *histogram.tolist()


def _best_bins(count: Floats, voxels: Floats) -> NDArray[np.bool_]:
    """The set of grey values whose Dice over all training voxels is highest: the purest, and on until it falls."""
    order = np.argsort(-count / np.maximum(voxels, 1), kind="stable")
    dice = 2 * np.cumsum(count[order]) / (np.cumsum(voxels[order]) + max(count.sum(), 1))
    chosen = np.zeros(BINS, bool)
    chosen[order[: int(dice.argmax()) + 1]] = True
    return chosen
