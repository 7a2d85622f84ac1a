"""Which of several sequences masks were drawn on: they lie on its grid."""

from collections.abc import Sequence

from shared.dataset.files.patterns import compile
from shared.dataset.survey.mask_looks import GRIDS, off_grid
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.survey import Survey

_NAMES = 6
"""Of one sequence, as each machine calls it."""


def drawn_on(images: Sequence[Piece], survey: Survey) -> list[Piece]:
    """Images on whose grid the mask of their folder lies, where that of all others lies elsewhere; else none."""
    masks = [one for one in survey.families if one.role == "mask"]
    if len(masks) != 1 or len(images) < 2:
        return []
    mask_in = {_folder(file): file for file in masks[0].files}
    if len(mask_in) < len(masks[0]):
        return []  # of several masks nobody knows whose they are
    found: list[Piece] = []
    for piece in images:
        beside = [(file, mask_in[_folder(file)]) for file in piece.files if _folder(file) in mask_in]
        lie = [off_grid(*pair, survey.looker) for pair in evenly(beside, GRIDS)]
        if lie and not any(lie) and None not in lie:
            found.append(piece)
        elif not lie or not all(lie):
            return []
    if len(found) == len(images):
        return []
    rest = [file for piece in images if piece not in found for file in evenly(piece.files, GRIDS)]
    return [part for piece in found for part in _narrow(piece, [*rest, *evenly(masks[0].files, GRIDS)])]


def _narrow(piece: Piece, rest: Sequence[str]) -> list[Piece]:
    """By its few names, where the pattern takes other files of the folders, too."""
    names = compile(piece.pattern)
    if any(names.match(file) is not None for file in rest):
        for field in reversed(piece.fields):
            if len(set(piece.column(field))) <= _NAMES:
                return list(piece.split(field).values())
    return [piece]


def _folder(file: str) -> str:
    return file.rpartition("/")[0]
