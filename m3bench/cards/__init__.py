"""One datacard for each of the benchmark's 14 datasets, in the free-text manner of the paper (appendix 0.A.2)."""

from importlib.resources import files
from pathlib import Path


def paths() -> list[Path]:
    """The card files, sorted. Their `/path/to/...` is a placeholder: register a card with the folder it is about."""
    folder = Path(str(files(__name__)))
    return sorted(folder.glob("*.json"))
