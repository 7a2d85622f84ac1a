"""DICOM headers of many files, and where the files of a series lie."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.imaging.headers import BadImage, dicom_values, peek


def headers(root: Path, files: Sequence[str], keywords: Sequence[str]) -> dict[str, dict[str, str]]:
    """DICOM elements of files; none of those that cannot be read (`unreadable`)."""

    def one(file: str) -> dict[str, str]:
        try:
            return dicom_values(root / file, keywords)
        except BadImage:
            return {}

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(files, pool.map(one, files), strict=True))


def unreadable(root: Path, file: str) -> bool:
    """Whether not even the head of an image can be read."""
    try:
        peek(root / file)
    except BadImage:
        return True
    return False


def common(files: Sequence[str]) -> str:
    """The folders that all files share; the first file where they share none."""
    first, *others = ({file.rpartition("/")[0] for file in files}) or {""}
    if not others:
        return first or files[0]
    parts = [file.split("/")[:-1] for file in files]
    common = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
    return "/".join(common) or files[0]
