"""What a person points at: a file, or a folder that holds an image or the views of an examination."""

from collections.abc import Sequence
from pathlib import Path

from .errors import BadImage
from .formats import format_of, is_image, kind_of, stem_of
from .order import natural_key


def input_files(path: Path) -> list[Path]:
    """A file is itself, a folder its images in natural order; hidden files and all that is no image are passed over.

    Raises BadImage where there is none.
    """
    if not path.exists():
        raise BadImage(f"{path.name} does not exist")
    if path.is_file():
        return [path]
    listed = [item for item in path.iterdir() if item.is_file() and not item.name.startswith(".")]
    images = [item for item in listed if item.name.upper() != "DICOMDIR" and is_image(item)]
    if not images:
        raise BadImage(f"the folder {path.name} holds no image that can be read")
    return sorted(images, key=lambda item: natural_key(item.name))


def input_name(path: Path) -> str:
    """Name of an input without its suffix; of a folder its name."""
    name = path.name or path.resolve().name
    return name if path.is_dir() else stem_of(name)


def views_of(files: Sequence[Path], dimensions: int) -> list[list[Path]]:
    """The files of each view of an examination, in the order of their first files.

    In 2D each file is one. In 3D so is each volume; DICOM slices are one by series, and pictures are slices of one.
    Files that hold the voxels of another are passed over. Raises BadImage.
    """
    formats = [format_of(path) for path in files] if len(files) > 1 else [None]
    kept = [path for path, one in zip(files, formats, strict=True) if one is None or not one.companion]
    if dimensions == 2:
        return [[path] for path in kept]
    found: dict[str, list[Path]] = {}
    for number, path in enumerate(kept):
        kind = kind_of(path)
        if kind == "dicom":
            from .headers import dicom_values

            name = f"series {dicom_values(path, ['SeriesInstanceUID']).get('SeriesInstanceUID', '')}"
        else:
            name = "slices" if kind == "picture" else f"file {number}"
        found.setdefault(name, []).append(path)
    return list(found.values())
