"""Masks that stand as arrays: beside the image in its file, or one for each entry in a file of their own."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from shared.contracts.rules import MaskRule
from shared.dataset.files.held import SUFFIXES, held
from shared.dataset.files.inside import filled
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner import LABEL_ARRAY, beside, partners
from shared.dataset.survey.survey import Survey
from shared.imaging.arrays import arrays_of
from shared.imaging.errors import BadImage

_LOOKED_AT = 4
_MOST_BYTES = 1 << 29
"""Of an array of masks whose values are looked at."""
_MOST_VALUES = 300


def array_masks(draft: Draft, survey: Survey) -> tuple[MaskRule, set[int]] | None:
    """A rule without names, and the values that occur in a few files; None where no array has the image's shape."""
    channel = draft.channels[0]
    piece = channel.pieces[0]
    if piece.family.suffix not in SUFFIXES or len(draft.channels) > 1:
        return None
    rule: MaskRule | None = None
    values: set[int] = set()
    rows = list(zip(piece.sample, piece.rows, strict=True))
    for path, fields in rows[:: max(1, len(rows) // _LOOKED_AT)]:
        file, _, array, index = channel.parts(path, draft.case == "entry")
        image = held(survey.root / file).images.get(array)
        if image is None:
            continue
        inner = {name: text for name, text in fields.items() if name in channel.fields and name != "entry"}
        outer = {name: text for name, text in fields.items() if name not in channel.fields}
        if rule is None:
            own = _alike(survey.root / file, image.shape, but=array)
            if own is not None and (channel.array is not None or channel.inside):
                rule = MaskRule(kind="array", array=beside(own, inner))
            elif index is not None:
                rule = _in_other(survey, file, image.shape, outer, inner)
        if rule is None:
            return None
        other = filled(rule.files[0], outer) if rule.files else file
        values |= _occurring(survey.root / (other or ""), filled(rule.array or "", inner) or "")
    return (rule, values) if rule is not None and len(values) <= _MOST_VALUES else None


def _in_other(
    survey: Survey, file: str, shape: tuple[int, ...], outer: dict[str, str], inner: dict[str, str]
) -> MaskRule | None:
    for other in partners(survey, file, masks=True):
        every = held(survey.root / other).images
        name = next((name for name, one in every.items() if _same(one.shape, shape)), None)
        if name is not None:
            return MaskRule(kind="array", files=(beside(other, outer),), array=beside(name, inner) or None)
    return None


def _alike(path: Path, shape: tuple[int, ...], but: str) -> str | None:
    names = [name for name, one in held(path).images.items() if name != but and _same(one.shape, shape)]
    return next((name for name in names if LABEL_ARRAY.search(name)), None)


def _same(one: tuple[int, ...], image: tuple[int, ...]) -> bool:
    """A colour image has one axis more than its mask."""
    return one[:2] == image[:2] and len(image) - 1 <= len(one) <= len(image) + 1


@lru_cache(maxsize=64)
def _occurring(path: Path, array: str) -> frozenset[int]:
    try:
        stored = next(one for one in arrays_of(path) if one.name == array)
        if float(np.prod(stored.shape, dtype=float)) * stored.dtype.itemsize > _MOST_BYTES:
            return frozenset()
        loaded = np.asarray(stored.load()).ravel()
    except (BadImage, OSError, ValueError, StopIteration):
        return frozenset()
    return frozenset(int(value) for value in np.unique(loaded[:: max(1, loaded.size // 200_000)]))
