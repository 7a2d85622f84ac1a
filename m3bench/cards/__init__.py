"""One datacard for each of the benchmark's 14 datasets, in the free-text manner of the paper (appendix 0.A.2), and
distractors: datasets of other organs, modalities and tasks, and near misses, that no task of the benchmark is about."""

from importlib.resources import files
from pathlib import Path


def paths() -> list[Path]:
    """The card files, sorted. Their `/path/to/...` is a placeholder: register a card with the folder it is about."""
    folder = Path(str(files(__name__)))
    return sorted(folder.glob("*.json"))


def distractors() -> list[Path]:
    """Card files of datasets that are described and not here."""
    return sorted(Path(str(files(__name__)), "distractors").glob("*.json"))
