"""What a structure is called that files only mark: as the request does, where it names one thing."""

import re
from collections.abc import Sequence

from shared.contracts.base import TaskKind
from shared.vocabulary.reading import found, read, special

USUAL = "structure"


def structure(only: Sequence[str], task: TaskKind, target: str) -> str:
    """The one name that was asked for, else that of the one organ or finding of the request, else `structure`."""
    if len(only) == 1:
        return only[0]
    seen, organ = read(target), task == "organ_segmentation"
    concepts = special(seen.concepts("anatomy" if organ else "finding")) or ({"lesion"} if not organ else set())
    # `cardiac` is no name, and may stand for a part of the heart.
    name = next(iter(concepts)).rpartition("/")[2] if len(concepts) == 1 else ""
    said = re.search(rf"\b{re.escape(name)}(?:e?s)?\b", seen.text, re.IGNORECASE) if name else None
    if said is None:
        return USUAL
    whose = [seen.text[start:end].lower() for start, end, _ in found("anatomy", seen.text) if end + 1 == said.start()]
    return " ".join([*(() if organ else whose), name])
