"""What differs from one acquisition to the next and has nothing to do with the disease."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from m3bench.scanners.noise import Volume, blurred


@dataclass(frozen=True)
class Acquisition:
    """Drawn anew for each scan. Lengths are in half image widths, densities in HU, grey values in 0..255."""

    slices: int
    zoom: float
    shift: tuple[float, float]
    top: float
    """Where the scan starts and ends between the tips (0) and the bases (1) of the lungs."""
    bottom: float
    inspiration: float
    """Added to the density of the lungs."""
    gravity: float
    """How much denser the back of the lungs is than their front."""
    window_low: float
    window_width: float
    gamma: float
    noise: float
    blur: float

    @classmethod
    def draw(cls, rng: np.random.Generator, slices: tuple[int, int] = (12, 40)) -> "Acquisition":
        return cls(
            slices=int(rng.integers(slices[0], slices[1] + 1)),
            zoom=float(rng.uniform(0.9, 1.2)),
            shift=(float(rng.uniform(-0.07, 0.07)), float(rng.uniform(-0.07, 0.07))),
            top=float(rng.uniform(0.0, 0.1)),
            bottom=float(rng.uniform(0.88, 1.0)),
            inspiration=float(rng.uniform(-60, 140)),
            gravity=float(rng.uniform(20, 260)),
            window_low=float(rng.uniform(-1200, -950)),
            window_width=float(rng.uniform(1150, 1800)),
            gamma=float(rng.uniform(0.75, 1.3)),
            noise=float(rng.uniform(15, 75)),
            blur=float(rng.uniform(0.0, 0.8)),
        )


def export(density: Volume, acquisition: Acquisition, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Add noise and the reconstruction kernel, then window to 8 bits as a viewer's export does."""
    noisy = density + acquisition.noise * rng.standard_normal(density.shape, dtype=np.float32)
    grey = (blurred(noisy, acquisition.blur) - acquisition.window_low) / acquisition.window_width
    pixels: NDArray[np.uint8] = (255 * np.clip(grey, 0, 1) ** acquisition.gamma + 0.5).astype(np.uint8)
    return pixels
