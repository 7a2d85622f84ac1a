"""One of several DICOM series of each examination: which folder or name part tells them apart, and what each is."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from shared.dataset.files.series import headers
from shared.dataset.rules.by_headers import ABOUT_SERIES, no_image
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.survey import Survey

_MOST_KINDS = 8
_MOST_LOOKS = 160
_FEWEST = 3


def kinds_of_series(piece: Piece, survey: Survey) -> dict[str, Piece]:
    """What the headers call a series -> the part of the piece that has it, where a field tells the series of an
    examination apart; without those that are no images. Empty where there is one kind, or where no two are of
    most examinations, so that nothing is to be chosen."""
    if piece.family.kind != "slices" or not piece.family.folders:
        return {}
    if not any(look.header and look.header.kind == "dicom" for look in piece.family.looks):
        return {}
    folders = re.findall(r"\{(\w+)\}", piece.pattern.rpartition("/")[0])
    few = [name for name in dict.fromkeys(folders) if 2 <= len(set(piece.column(name))) <= _MOST_KINDS]
    if not few or len(piece.rows) < 2 * _FEWEST:
        return {}
    looked = evenly(list(zip(piece.sample, piece.rows, strict=True)), _MOST_LOOKS)
    read = headers(survey.root, [file for file, _ in looked], (*ABOUT_SERIES, "ProtocolName"))
    for name in few:
        said: dict[str, Counter[str]] = defaultdict(Counter)
        aside = {row[name] for file, row in looked if no_image(read[file])}
        for file, row in looked:
            told = read[file]
            said[row[name]][told.get("SeriesDescription") or told.get("ProtocolName") or ""] += 1
        called = {value: counts.most_common(1)[0][0] for value, counts in said.items()}
        sure = sum(counts.most_common(1)[0][1] for counts in said.values()) >= 0.9 * len(looked)
        told_apart = len({text.lower() for text in called.values()}) == len(called) > 1
        if sure and told_apart and _chosen_from(piece, name, folders, aside):
            parts = piece.split(name)
            kept = {text: parts[value] for value, text in called.items() if value in parts and value not in aside}
            return kept if len(kept) > 1 else {}
    return {}


def _chosen_from(piece: Piece, name: str, folders: Sequence[str], aside: Collection[str]) -> bool:
    """Whether most examinations, as the folders above tell them, have more than one value of a field, and some still do
    without those set `aside`."""
    above = folders[: folders.index(name)]
    held: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in piece.rows:
        held[tuple(row[one] for one in above)].add(row[name])
    common = Counter(value for values in held.values() for value in values)
    several = any(len(values.difference(aside)) > 1 for values in held.values())
    return several and sum(count * 2 > len(held) for count in common.values()) > 1
