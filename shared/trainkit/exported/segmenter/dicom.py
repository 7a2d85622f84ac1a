"""DICOM slices of one series -> one scan."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .scan import BadImage, Grid, Scan, shown

UNEVEN = 0.25
"""Parts of the slice distance by which a slice may lie off its place: more, and a grid of even slices is not true."""


def read_series(paths: Sequence[Path]) -> Scan:
    """DICOM slices of one series, sorted by position along the slice normal, rescaled; axes (column, row, slice)."""
    import pydicom

    slices = []
    for path in paths:
        try:
            found = pydicom.dcmread(path)
            planes = found.pixel_array.astype(np.float32)
        except Exception as error:
            raise BadImage(f"{path.name} cannot be read as DICOM ({str(error).splitlines()[0]})") from error
        if planes.ndim != 2:
            raise BadImage(f"{path.name} holds {shown(planes.shape)} values; expected one grey slice a file")
        rescaled = planes * float(getattr(found, "RescaleSlope", 1) or 1) + float(
            getattr(found, "RescaleIntercept", 0) or 0
        )
        slices.append((found, rescaled))
    if len({str(getattr(found, "SeriesInstanceUID", "")) for found, _ in slices}) > 1:
        raise BadImage("the files belong to several series; list the files of one")
    if len({(plane.shape, tuple(getattr(found, "ImageOrientationPatient", ()))) for found, plane in slices}) > 1:
        raise BadImage("the slices of the series differ in size or orientation")
    first = slices[0][0]
    if not all("ImagePositionPatient" in found for found, _ in slices) or "PixelSpacing" not in first:
        raise BadImage("the DICOM files say nothing of their position; give a NIfTI instead")
    across, down = np.array(first.ImageOrientationPatient, dtype=float).reshape(2, 3)
    normal = np.cross(across, down)
    slices.sort(key=lambda item: float(normal @ np.array(item[0].ImagePositionPatient, dtype=float)))
    places = np.array([found.ImagePositionPatient for found, _ in slices], dtype=float)
    thick = float(getattr(first, "SpacingBetweenSlices", None) or getattr(first, "SliceThickness", None) or 1.0)
    step = (places[-1] - places[0]) / (len(slices) - 1) if len(slices) > 1 else normal * thick
    if not np.abs(step).sum():
        raise BadImage("several slices of the series lie in the same place")
    even = places[0] + np.arange(len(slices))[:, None] * step
    if float(np.linalg.norm(places - even, axis=1).max()) > UNEVEN * float(np.linalg.norm(step)):
        raise BadImage(
            f"the {len(slices)} slices of the series are not evenly spaced: one is missing or there twice; "
            "give the whole series, or a NIfTI resampled to an even one"
        )
    row_mm, column_mm = (float(value) for value in first.PixelSpacing)
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1], affine[:3, 2] = across * column_mm, down * row_mm, step
    affine[:3, 3] = places[0]
    # DICOM counts to the patient's left and back, NIfTI to right and front.
    affine[:2] *= -1
    data = np.stack([plane for _, plane in slices]).transpose(2, 1, 0)
    return Scan(data[None], Grid.of(data.shape, affine), "dicom", data.shape)
