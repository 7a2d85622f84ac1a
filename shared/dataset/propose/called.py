"""What a structure is called that files only mark: as the request does, where it names one thing."""

from collections.abc import Sequence

from shared.contracts.base import TaskKind
from shared.vocabulary.reading import found, read, singular, special

USUAL = "structure"


def structure(only: Sequence[str], task: TaskKind, target: str) -> str:
    """The one name that was asked for, else that of the one organ or finding of the request, else `structure`."""
    if len(only) == 1:
        return only[0]
    seen, kind = read(target), "anatomy" if task == "organ_segmentation" else "finding"
    concepts = special(seen.concepts(kind))
    if not concepts and kind == "finding" and "lesion" in seen.concepts("task"):
        kind, concepts = "task", {"lesion"}
    # `cardiac` is no name, and may stand for a part of the heart.
    name = next(iter(concepts)).rpartition("/")[2] if len(concepts) == 1 else ""
    starts = [start for start, end, _ in found(kind, seen.text) if singular(seen.text[start:end].lower()) == name]
    if not starts:
        return USUAL
    whose = [seen.text[start:end].lower() for start, end, _ in found("anatomy", seen.text) if end + 1 == starts[0]]
    return " ".join([*(whose if kind != "anatomy" else ()), name])
