"""What is wrong with a file, in words for the person who has it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

LARGEST = 8 << 30
"""Bytes of decoded voxels above which an image is refused before it is decoded."""


class BadImage(ValueError):
    """The file cannot be used as it is; the text names it, says why and what to do, and is safe to show."""


def guarded(path: Path, read: Callable[[], Result], others: Sequence[Path] = ()) -> Result:
    """What `read` returns; what it raises becomes a BadImage that names the file, or one of `others` read with it."""
    if not path.is_file():
        raise BadImage(f"{path.name} does not exist")
    if path.stat().st_size == 0:
        raise BadImage(f"{path.name} is empty; copy it again from where it came from")
    try:
        return read()
    except BadImage as error:
        text = str(error).replace(str(path), path.name)
        named = text.startswith(tuple(file.name for file in (path, *others)))
        raise BadImage(text if named else f"{path.name} {text}") from error
    except MemoryError as error:
        raise BadImage(f"{path.name} does not fit into memory; crop it, or take a machine with more") from error
    except Exception as error:  # a damaged file fails in as many ways as there are formats
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        reason = reason.replace(str(path), path.name)[:200]
        raise BadImage(f"{path.name} cannot be read ({reason}); it is damaged or of another format") from error


def bounded(shape: Sequence[int], itemsize: int, most: int = LARGEST) -> None:
    """Raises BadImage where an array of `shape` takes more than `most` bytes, or no values at all."""
    size = itemsize
    for edge in shape:
        size *= int(edge)
    if size <= 0:
        raise BadImage(f"has shape {shown(shape)}, which holds nothing")
    if size > most:
        raise BadImage(
            f"says that it holds {shown(shape)} values, {size / 2**30:.1f} GB; at most {most / 2**30:.1f} GB are read: "
            "crop it or reduce its resolution"
        )


def shown(shape: Sequence[int]) -> str:
    return " x ".join(str(int(size)) for size in shape)
