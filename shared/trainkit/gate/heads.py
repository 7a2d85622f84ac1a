"""What a file's header tells, in one shape for all formats, and what its voxels tell where they are read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_AXES = {"L": 0, "R": 0, "A": 1, "P": 1, "S": 2, "I": 2}


@dataclass(frozen=True)
class Head:
    """A header. Axes as stored, channels of pictures apart."""

    format: str
    shape: tuple[int, ...]
    channels: int = 1
    kind: str = ""
    """Pixel kind in words: `8 bit grey`, `int16`."""
    spacing: tuple[float, ...] = ()
    """Millimetres an axis, as stored; empty where the format has none."""
    orientation: str = ""
    """Axis codes such as RAS."""
    oblique: float = 0.0
    """Degrees."""
    placed: bool = True
    """False for a NIfTI with neither sform nor qform."""
    patient: str = ""
    series: str = ""
    """DICOM SeriesInstanceUID."""

    @property
    def axes(self) -> int:
        """Axes that are longer than 1; a volume of one slice counts as one of three."""
        return (
            max(len(self.shape[:3]), sum(size > 1 for size in self.shape)) if len(self.shape) > 3 else len(self.shape)
        )

    @property
    def patient_spacing(self) -> tuple[float, ...]:
        """Spacing along left-right, front-back and up-down; as stored where the orientation is not known."""
        where = [_AXES.get(code) for code in self.orientation]
        if len(self.spacing) < 3 or sorted(axis for axis in where if axis is not None) != [0, 1, 2]:
            return self.spacing[:3]
        return tuple(self.spacing[where.index(axis)] for axis in range(3))


@dataclass(frozen=True)
class Voxels:
    """Of the whole image, or of some of its slices."""

    low: float
    high: float
    not_finite: int = 0
    whole: bool = True


@dataclass(frozen=True)
class Fault:
    """Why a file could not be read: a kind of finding, and the detail."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Reader:
    """Opens files; handed in, since the readers of unsafe formats are probes' own."""

    head: Callable[[Path], Head | Fault]
    """Cheap: no pixels are decoded where the format allows it."""
    voxels: Callable[[Path], Voxels | Fault]
    """Reads to the end, so that a file which is cut off is found out."""
