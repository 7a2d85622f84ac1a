"""DICOM headers of many files, and where the files of a series lie."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.imaging.headers import BadImage, dicom_values, peek


def headers(root: Path, files: Sequence[str], keywords: Sequence[str]) -> dict[str, dict[str, str]]:
    """DICOM elements of files; none of those that cannot be read (`unreadable`). Of a keyword `A|B` the first that has
    a value counts: makers of machines write some things in one of two."""
    asked = {keyword: keyword.split("|") for keyword in keywords}
    single = list(dict.fromkeys(one for several in asked.values() for one in several))

    def one(file: str) -> dict[str, str]:
        try:
            read = dicom_values(root / file, single)
        except BadImage:
            return {}
        told = {keyword: next((read[one] for one in several if one in read), "") for keyword, several in asked.items()}
        return {keyword: text for keyword, text in told.items() if text}

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
