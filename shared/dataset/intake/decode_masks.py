"""Masks of a case, in whatever form they come, as one label map on the grid of its image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.contracts.cases import CaseSpec, MaskSpec
from shared.dataset.shapes.decode_shapes import draw
from shared.imaging.dicom_masks import read_rtstruct, read_seg
from shared.imaging.masks import mapped, on_image, read_label_map, read_palette
from shared.imaging.volume import BadImage, Image

Labels = npt.NDArray[Any]

LARGEST = (1 << 16) - 1


def label_map(spec: CaseSpec, image: Image, root: Path) -> Labels:
    """(X, Y, Z) or (H, W) on the axes of `image`: all masks of the case, the later on top; zeros where it has none.

    Raises BadImage, also where a mask lies on another grid.
    """
    found: Labels = np.zeros(image.array.shape[:-1], np.int32)
    for mask in spec.masks:
        labels = _one(mask, spec, image, root)
        if (low := int(labels.min())) < 0 or int(labels.max()) > LARGEST:
            raise BadImage(
                f"a mask holds values such as {low if low < 0 else int(labels.max())}; give them 0 to {LARGEST}"
            )
        marked = labels > 0
        found[marked] = labels[marked]
    return found


def _one(mask: MaskSpec, spec: CaseSpec, image: Image, root: Path) -> Labels:
    # An array may stand beside the image, in its own file.
    files = [root / file for file in mask.files or spec.images[0][0].files]
    if mask.kind in ("file", "array"):
        labels, grid = read_label_map(files, mask.array, image.order, mask.index)
        return mapped(on_image(labels, grid, image, files[0].name), mask.values or {"*": 1}, files[0].name)
    if mask.kind == "palette":
        return _palette(files, mask.values, image)
    if mask.kind in ("dicom_seg", "rtstruct"):
        read = read_seg if mask.kind == "dicom_seg" else read_rtstruct
        return _named([read(file, image) for file in files], mask.values, image)
    if image.affine is not None:
        raise BadImage("boxes, polygons and runs of pixels mark pictures, and this is a volume; give masks as volumes")
    return draw(mask, width=image.array.shape[1], height=image.array.shape[0])


def _palette(files: Sequence[Path], colors: Mapping[str, int], image: Image) -> Labels:
    planes = [read_palette(file, colors) for file in files]
    if image.affine is None:
        return on_image(planes[0], None, image, files[0].name)
    if len({plane.shape for plane in planes}) > 1 or len(image.order or planes) != len(planes):
        raise BadImage(f"{files[0].name} and the others are not one picture of one size for each slice of the image")
    order = list(image.order or range(len(planes)))
    return on_image(np.stack(planes).transpose(2, 1, 0)[:, :, order], None, image, files[0].name)


def _named(found: Sequence[Mapping[str, Labels]], values: Mapping[str, int], image: Image) -> Labels:
    """Structures by name; those that overlap: in the order of `values`, the later on top."""
    labels: Labels = np.zeros(image.array.shape[:-1], np.int32)
    for structures in found:
        for name in (*(name for name in structures if name not in values), *values):
            if name in structures and (value := values.get(name, values.get("nonzero", 0))):
                labels[structures[name]] = value
    return labels
