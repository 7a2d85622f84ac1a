"""Whether files of a replica open, and which are clutter."""

from pathlib import Path

from shared.imaging.errors import BadImage
from shared.imaging.volume import read


def readable(path: Path) -> str | None:
    """None when the image can be decoded as a whole, else why not."""
    try:
        read([path])
    except BadImage as error:
        return str(error)
    return None


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in ("__macosx", "thumbs.db", "desktop.ini")
