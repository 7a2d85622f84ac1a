"""Reading the names of images and masks: which words say what a file is, and what is left to say whose it is."""

import re
from collections.abc import Callable

_TAIL = r"s?(?:tr|ts|va)?\d{0,2}"
MASK_WORD = re.compile(
    r"(?:mask|msk|seg|segm|segmentation|label|lbl|gt|groundtruth|truth|annotation|annot|roi|contour|delineation"
    rf"|derivative){_TAIL}",
    re.IGNORECASE,
)
IMAGE_WORD = re.compile(
    r"(?:img|image|im|picture|scan|vol|volume|raw|rawdata|orig|original|norm|ct|cta|cbct|mr|mri|t1w?|t2w?|t1ce|t1gd|t1c"
    rf"|t1n|t2f|flair|dwi|adc|pet|us|xray|cxr|data|source|input){_TAIL}",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"_(000\d)$")

Reading = Callable[[str], tuple[str, str]]
"""Stem -> key and role."""


def words_of(text: str) -> str | None:
    """`mask` or `image` by the words in a name, None when there are none or both."""
    tokens = [token for token in re.split(r"[^A-Za-z0-9]+", text) if token]
    mask = any(MASK_WORD.fullmatch(token) for token in tokens)
    image = any(IMAGE_WORD.fullmatch(token) for token in tokens)
    return None if mask == image else "mask" if mask else "image"


def whole_name(stem: str) -> tuple[str, str]:
    return stem.lower(), ""


def without_words(stem: str) -> tuple[str, str]:
    """`label0001` -> 0001, label; `sub-1_seg-vert_msk` -> sub-1, seg-vert-msk; `aligned_seg35` -> aligned, seg35."""
    if (found := re.fullmatch(r"([A-Za-z]+)(\d{3,})", stem)) and words_of(found[1]):
        return found[2], found[1].lower()
    tokens = [token for token in re.split(r"[^A-Za-z0-9]+", stem) if token]
    is_role = [bool(MASK_WORD.fullmatch(token) or IMAGE_WORD.fullmatch(token)) for token in tokens]
    last = max((n for n, token in enumerate(tokens) if not is_role[n] and re.search(r"\d", token)), default=-1)
    first = next((n for n in range(len(tokens)) if is_role[n] and n > last), len(tokens))
    key = [token for n, token in enumerate(tokens) if n < first and not is_role[n]]
    role = [token for n, token in enumerate(tokens) if n >= first or is_role[n]]
    return "-".join(key).lower(), "-".join(role).lower()


def without_channel(stem: str) -> tuple[str, str]:
    """As `without_words`, and a channel such as `_0000` at the end belongs to the role."""
    found = _CHANNEL.search(stem)
    key, role = without_words(stem[: found.start()] if found else stem)
    return key, f"{role}-{found[1]}".strip("-") if found else role


def numbers_only(stem: str) -> tuple[str, str]:
    role = re.sub(r"\d+", "", without_words(stem)[1])
    return "-".join(str(int(number)) for number in re.findall(r"\d+", stem)), role


def folder_only(stem: str) -> tuple[str, str]:
    """For folders that each hold one case in files of the same names: `aligned_norm`, `seg35`."""
    return "", stem.lower()


READINGS: tuple[tuple[Reading, str], ...] = (
    (whole_name, "the same name"),
    (without_words, "the same name less words such as img, label or seg"),
    (without_channel, "the same name less words such as img, label or seg, and the channel"),
    (numbers_only, "the same numbers in the name"),
    (folder_only, "names that recur"),
)
