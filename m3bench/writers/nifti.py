"""Writing NIfTI files the way scanners and archives leave them: any orientation, tilted, the same bytes every time."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Affine = NDArray[np.float64]
APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        " + bytes(140)
"""What the Mac's archiver puts beside each file, as `._name`."""


def affine(
    shape: tuple[int, int, int],
    spacing: tuple[float, float, float],
    *,
    tilt: float = 0.0,
    centre: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Affine:
    """Voxel to RAS millimetres, of an array (x, y, z) whose axes run to the patient's left, back and head.

    `tilt` turns the stack about the left-right axis (a gantry's or a positioning angle), in degrees; `centre` is where
    the middle of the volume lies, in millimetres.
    """
    sine, cosine = np.sin(np.deg2rad(tilt)), np.cos(np.deg2rad(tilt))
    turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    matrix = np.eye(4)
    matrix[:3, :3] = turn @ np.diag([-spacing[0], -spacing[1], spacing[2]])
    matrix[:3, 3] = np.array(centre) - matrix[:3, :3] @ ((np.array(shape) - 1) / 2)
    return matrix


def oriented(volume: NDArray[Any], matrix: Affine, codes: str) -> tuple[NDArray[Any], Affine]:
    """The same volume with its axes in another order and direction, such as "PIR"; nothing is resampled."""
    from nibabel import orientations as turns

    now = turns.io_orientation(matrix)
    change = turns.ornt_transform(now, turns.axcodes2ornt(tuple(codes)))
    return turns.apply_orientation(volume, change), matrix @ turns.inv_ornt_aff(change, volume.shape)


def write(path: Path, volume: NDArray[Any], matrix: Affine, *, qform: int = 1, sform: int = 1) -> None:
    """Write `.nii` or `.nii.gz` in the array's own dtype; a form's code 0 leaves that form out."""
    import nibabel

    image = nibabel.Nifti1Image(np.ascontiguousarray(volume), None)
    image.header.set_xyzt_units("mm", "sec")
    image.set_sform(matrix if sform else None, sform)
    # Zooms come with the qform; without one they are set from the lengths of the columns.
    image.set_qform(matrix, qform)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = image.to_bytes()
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)


def write_twin(path: Path) -> Path:
    """Put the Mac archiver's `._` file beside `path`; it ends on .nii.gz and is no image."""
    twin = path.with_name("._" + path.name)
    twin.write_bytes(APPLE_DOUBLE)
    return twin
