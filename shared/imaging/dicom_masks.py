"""DICOM SEG and RTSTRUCT: structures by name, on the grid of an image."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .dicom_headers import frames_of, numbers, opened, shared_group, text_of
from .dicom_pixels import decoded
from .errors import BadImage, guarded
from .grid import TOLERANCE, directions
from .image import Image

BETWEEN = 0.25
"""Parts of the slice distance by which a contour may lie off its slice."""


def read_seg(path: Path, image: Image) -> dict[str, np.ndarray]:
    """Name of each segment -> (X, Y, Z) bool on the axes of `image`; segments of one name are one structure.

    Fractional segments count from a half on. Raises BadImage where a frame lies on another grid.
    """
    return guarded(path, lambda: segments(opened(path, pixels=True), image))


def read_rtstruct(path: Path, image: Image) -> dict[str, np.ndarray]:
    """Name of each structure with closed contours -> (X, Y, Z) bool on the axes of `image`: voxels whose middle lies
    inside; a contour in another one is a hole. Raises BadImage for contours off the image or between its slices."""
    return guarded(path, lambda: structures(opened(path), image))


def to_voxels(image: Image, points: np.ndarray) -> np.ndarray:
    """(n, 3) points in DICOM's LPS mm -> voxel coordinates of `image`."""
    if image.affine is None:
        raise BadImage("marks a volume in space, but the image is a picture without a place; give the whole series")
    directions(image.affine)
    back = np.linalg.inv(image.affine)
    found: np.ndarray = (points * (-1, -1, 1)) @ back[:3, :3].T + back[:3, 3]
    return found


def segments(dataset: Any, image: Image) -> dict[str, np.ndarray]:
    if text_of(dataset, "Modality") != "SEG":
        raise BadImage(f"is no segmentation object but {text_of(dataset, 'Modality') or 'of no modality'}")
    names = {int(item.SegmentNumber): segment_name(item) for item in dataset.SegmentSequence}
    pixels = decoded(dataset).reshape(frames_of(dataset), int(dataset.Rows), int(dataset.Columns))
    kind = str(getattr(dataset, "SegmentationType", "BINARY"))
    half = float(getattr(dataset, "MaximumFractionalValue", 1)) / 2 if kind == "FRACTIONAL" else 0.5
    found = {name: np.zeros(image.array.shape[:3], bool) for name in names.values()}
    for number, frame in enumerate(pixels):
        if kind == "LABELMAP":
            marked = {segment: frame == segment for segment in names}
        else:
            marks = shared_group(dataset, "SegmentIdentificationSequence", number)
            segment = int(getattr(marks, "ReferencedSegmentNumber", 0))
            if segment not in names:
                raise BadImage(f"has a frame of the segment {segment}, which it does not name")
            marked = {segment: frame >= half}
        for segment, mask in marked.items():
            rows, columns = np.nonzero(mask)
            if len(rows):
                at = placed(dataset, number, frame.shape, rows, columns, image)
                found[names[segment]][tuple(at.T)] = True
    return found


def segment_name(item: Any) -> str:
    label = text_of(item, "SegmentLabel") or text_of(item, "SegmentDescription")
    return label or f"segment {int(item.SegmentNumber)}"


def placed(
    dataset: Any, number: int, shape: tuple[int, ...], rows: np.ndarray, columns: np.ndarray, image: Image
) -> np.ndarray:
    """(n, 3) voxel indices of pixels of a frame. Raises BadImage where its corners are on no voxels of the image."""
    position = numbers(getattr(shared_group(dataset, "PlanePositionSequence", number), "ImagePositionPatient", ()), 3)
    across = numbers(
        getattr(shared_group(dataset, "PlaneOrientationSequence", number), "ImageOrientationPatient", ()), 6
    )
    spacing = numbers(getattr(shared_group(dataset, "PixelMeasuresSequence", number), "PixelSpacing", ()), 2)
    if position is None or across is None or spacing is None:
        raise BadImage(f"says nothing of the place of frame {number + 1}")
    right, down = np.array(across[:3]) * spacing[1], np.array(across[3:]) * spacing[0]

    def voxels(row: np.ndarray, column: np.ndarray) -> np.ndarray:
        return to_voxels(image, np.array(position) + column[:, None] * right + row[:, None] * down)

    ends = np.array([(0, 0), (0, shape[1] - 1), (shape[0] - 1, 0), (0, 1), (1, 0)])
    corners = voxels(ends[:, 0], ends[:, 1])
    edges = np.linalg.norm(np.asarray(image.affine)[:3, :3], axis=0)
    off = np.linalg.norm((corners - np.rint(corners)) * edges, axis=1).max()
    steps = np.abs(np.rint(corners[3:]) - np.rint(corners[0])).sum(1)
    if off > TOLERANCE * edges.min() or (steps != 1).any():
        raise BadImage(f"has frame {number + 1} on another grid than the image; give the series that was segmented")
    found: np.ndarray = np.rint(voxels(rows, columns)).astype(int)
    if (found < 0).any() or (found >= image.array.shape[:3]).any():
        raise BadImage(f"marks voxels outside of the image in frame {number + 1}; give the whole series")
    return found


def structures(dataset: Any, image: Image) -> dict[str, np.ndarray]:
    if text_of(dataset, "Modality") != "RTSTRUCT":
        raise BadImage(f"is no structure set but {text_of(dataset, 'Modality') or 'of no modality'}")
    names = {int(item.ROINumber): text_of(item, "ROIName") for item in dataset.StructureSetROISequence}
    found: dict[str, np.ndarray] = {}
    for roi in getattr(dataset, "ROIContourSequence", None) or []:
        number = int(roi.ReferencedROINumber)
        name = names.get(number) or f"structure {number}"
        marked: np.ndarray | None = None
        for points in contours(roi, name):
            if marked is None:
                marked = np.zeros(image.array.shape[:3], bool)
            add_contour(marked, to_voxels(image, points), name)
        if marked is not None:
            found[name] = found[name] | marked if name in found else marked
    if not found:
        raise BadImage("holds no closed contour")
    return found


def contours(roi: Any, name: str) -> Iterator[np.ndarray]:
    """(n, 3) points of each closed contour; points and open lines enclose nothing."""
    for item in getattr(roi, "ContourSequence", None) or []:
        if not text_of(item, "ContourGeometricType").startswith("CLOSED"):
            continue
        data = getattr(item, "ContourData", None) or ()
        points = numbers(data, len(data))
        if points is None or len(points) % 3 or len(points) < 9:
            raise BadImage(f"has a contour of {name} that is no closed line")
        yield np.array(points).reshape(-1, 3)


def add_contour(marked: np.ndarray, points: np.ndarray, name: str) -> None:
    """Turn over the voxels inside one contour, so that one within another makes a hole."""
    from skimage.draw import polygon

    axis = int(np.ptp(points, axis=0).argmin())
    place = float(np.median(points[:, axis]))
    index = round(place)
    if np.abs(points[:, axis] - index).max() > BETWEEN or not 0 <= index < marked.shape[axis]:
        raise BadImage(
            f"has a contour of {name} at {place:.2f} slices, which is on no slice of the image (0 to "
            f"{marked.shape[axis] - 1}); give the series on which it was drawn"
        )
    plane = marked[tuple(index if other == axis else slice(None) for other in range(3))]
    flat = np.delete(points, axis, axis=1)
    if (flat.max(0) < -0.5).any() or (flat.min(0) > np.array(plane.shape) - 0.5).any():
        raise BadImage(f"has a contour of {name} outside of the image; give the series on which it was drawn")
    first, second = polygon(flat[:, 0], flat[:, 1], plane.shape)
    plane[first, second] ^= True
