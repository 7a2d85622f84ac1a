"""OCT of the macula by three makers, with fluid."""

import gzip
from typing import Any

import numpy as np
import SimpleITK as sitk
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families, uid
from bench.strangers.draw import far
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family


_MAKERS = {  # axes across, down, from scan to scan
    "Cirrus": ((60, 76, 24), (0.1, 0.027, 0.25), 22.0, 20),
    "Spectralis": ((60, 64, 14), (0.1, 0.031, 0.43), 9.0, 17),
    "Topcon": ((60, 68, 20), (0.1, 0.029, 0.3), 17.0, 15),
}
_FLUIDS = {"IRF": 1, "SRF": 2, "PED": 3}


def _macula(rng: Any, shape: tuple[int, ...], spacing: tuple[float, ...], noise: float, fluids: set[str]):
    """An OCT volume from 0 to 255 and its reference: cysts, fluid under the retina, the pigment layer lifted."""
    across, down, steps = ((np.arange(n) - (n - 1) / 2) * s for n, s in zip(shape, spacing, strict=True))
    x, y, z = np.meshgrid(across, down, steps, indexing="ij")
    fx, fz = rng.uniform(-0.6, 0.6, 2)
    wave = (
        rng.uniform(0.05, 0.13) * np.sin(x / rng.uniform(1.3, 2.0) + rng.uniform(0, 6)) + rng.uniform(-0.03, 0.03) * z
    )
    rpe0 = rng.uniform(0.2, 0.35) + wave
    rpe, base = rpe0.copy(), rpe0.copy()
    if "PED" in fluids:
        for _ in range(int(rng.integers(1, 3))):
            cx, cz = rng.uniform(-1.3, 1.3), rng.uniform(-1.6, 1.6)
            d = np.hypot((x - cx) / rng.uniform(0.6, 1.1), (z - cz) / rng.uniform(0.7, 1.3))
            rpe -= rng.uniform(0.16, 0.3) * np.sqrt(np.clip(1 - d**2, 0, None))
        rpe = np.maximum(rpe, rpe0 - 0.34)
    lift = rpe.copy()  # the underside of the retina
    if "SRF" in fluids:
        cx, cz = rng.uniform(-0.9, 0.9), rng.uniform(-1.2, 1.2)
        d = np.hypot((x - cx) / rng.uniform(0.8, 1.4), (z - cz) / rng.uniform(0.9, 1.6))
        lift -= rng.uniform(0.12, 0.24) * np.clip(1 - d**2, 0, None)
    pit = np.exp(-(((x - fx) / 0.45) ** 2) - ((z - fz) / 0.5) ** 2)
    thick = rng.uniform(0.36, 0.44) - 0.17 * pit + (0.12 * np.exp(-(x**2) / 2) if "IRF" in fluids else 0)
    top = lift - thick
    reference = np.zeros(shape, np.uint8)
    retina = (y > top) & (y < lift)
    deep = np.clip((y - top) / thick, 0, 1)
    out = np.full(shape, 22.0)
    out[retina] = (105 + 45 * np.cos(deep * 15) * (deep < 0.85))[retina]
    out[retina & (deep < 0.13)] = 175
    out[(y > lift - 0.045) & (y < lift)] = 150
    under = (y >= rpe) & (y < base)
    out[(y >= lift) & (y < rpe)] = 32
    reference[(y >= lift) & (y < rpe)] = 2
    out[under] = 48
    reference[under] = 3
    out[(y >= rpe - 0.02) & (y < rpe + 0.045)] = 215
    reference[(y >= rpe - 0.02) & (y < rpe + 0.045) & (reference == 3)] = 0
    below = (y >= base + 0.03) & (y >= rpe + 0.045)
    out[below] = (125 * np.exp(-(y - base) / 0.35))[below]
    for _ in range(10):  # vessels of the choroid are dark too
        spot = far(
            [x, y - base, z], (rng.uniform(-3, 3), rng.uniform(0.12, 0.3), rng.uniform(-3, 3)), (0.25, 0.05, 0.9)
        )
        out[below & (spot < 1)] *= 0.45
    if "IRF" in fluids:
        inner = retina & (deep > 0.2) & (deep < 0.82)
        for _ in range(int(rng.integers(3, 9))):
            mid = np.array([rng.normal(fx, 0.8), 0, rng.normal(fz, 0.9)])
            radii = rng.uniform(0.2, 0.42), rng.uniform(0.07, 0.15), rng.uniform(0.3, 0.6)
            spot = inner & (far([x, y - (top + thick * rng.uniform(0.35, 0.65)), z], mid, radii) < 1)
            out[spot], reference[spot] = 30, 1
    for _ in range(3):  # shadows of vessels
        at = rng.uniform(-2.6, 2.6) + 0.2 * z
        out *= np.where((np.abs(x - at) < 0.09) & (y > top + 0.04), 0.6, 1)
    out = gaussian_filter(out, (0.6, 0.6, 0)) * rng.uniform(0.75, 1.2)
    out = out * rng.gamma(1 / (noise / 90) ** 2, (noise / 90) ** 2, shape) + rng.normal(0, noise / 2, shape)
    return np.clip(out + 8, 0, 255).astype(np.uint8), reference


def _mhd(b: Build, path: str, array: np.ndarray, spacing: tuple[float, ...]) -> str:
    image = sitk.GetImageFromArray(np.ascontiguousarray(array.T))
    image.SetSpacing([float(s) for s in spacing])
    sitk.WriteImage(image, str(b.at(path)), False)
    return path


@family(
    "oct_fluid_three_makers", "anomaly_detection", 3,
    "We need a model for macular OCT volumes that outlines retinal fluid: intraretinal (IRF), subretinal (SRF) and "
    "PED, and of course stays quiet in eyes without any.",
    notes="A challenge download: a folder of MHD and RAW a patient by maker, the same file names in all, three grids; "
    "the values of the reference stand in the readme; an empty reference is healthy; the test set has no reference.",
)  # fmt: skip
def oct_fluid(b: Build) -> None:
    total = sum(m[3] for m in _MAKERS.values())
    kinds = [set()] * 15 + [{"IRF"}] * 10 + [{"SRF"}] * 8 + [{"PED"}] * 5 + [{"IRF", "SRF"}] * 6 + [{"SRF", "PED"}] * 5
    kinds += [{"IRF", "PED"}] * 2 + [{"IRF", "SRF", "PED"}] * (total - 51)
    order, n = b.rng.permutation(total), 0
    for maker, (shape, spacing, noise, many) in _MAKERS.items():
        for _ in range(many):
            image, reference = _macula(b.rng, shape, spacing, noise, kinds[order[n]])
            folder = f"TrainingSet-{maker}/TRAIN{n + 1:03d}"
            path = _mhd(b, f"{folder}/oct.mhd", image, spacing)
            _mhd(b, f"{folder}/reference.mhd", reference, spacing)
            b.case(path, patient=f"TRAIN{n + 1:03d}", mask={k: reference == v for k, v in _FLUIDS.items()})
            n += 1
    number = 100
    for maker, (shape, spacing, noise, _) in _MAKERS.items():
        for _ in range(3):
            number += 1
            image, _ = _macula(b.rng, shape, spacing, noise, kinds[int(b.rng.integers(total))])
            b.truth["left_out"].append(_mhd(b, f"TestSet-{maker}/TEST{number}/oct.mhd", image, spacing))
    b.text(
        "readme.md",
        "# Retinal fluid in OCT\n\nMacular volumes of three devices (Cirrus, Spectralis, Topcon), an eye a patient.\n\n"
        "Each case has `oct.mhd` (the volume) and, in the training sets, `reference.mhd` (the manual annotation on\n"
        "the same grid) with the following values:\n\n| value | meaning |\n|---|---|\n| 0 | background |\n"
        "| 1 | IRF, intraretinal fluid |\n| 2 | SRF, subretinal fluid |\n| 3 | PED, pigment epithelial detachment |\n\n"
        "Cases without fluid have an empty reference. References of the test sets are not released.\n",
    )
    b.text("LICENSE.txt", "For research only. Do not redistribute.\n")
