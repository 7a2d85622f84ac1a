"""The hashed locks in requirements/, read."""

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parents[1] / "requirements"


@dataclass(frozen=True)
class Pin:
    """One version of a distribution, as a lock has it."""

    name: str
    """In its canonical spelling."""
    version: str
    marker: str
    """On which machines it is installed; empty for all."""
    sha256: tuple[str, ...]
    """Of each file that is taken for it, one a platform."""
    lock: str
    """Name of the lock's file."""


def pins(lock: Path) -> list[Pin]:
    """Every pin of a lock. Raises ValueError, which names the line, for what is not pinned to a version and hashes."""
    found = []
    for entry in re.sub(r"\\\n", " ", lock.read_text()).splitlines():
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        wanted, *hashes = re.split(r"\s+--hash=sha256:", entry.strip())
        requirement = Requirement(wanted)
        versions = [one.version for one in requirement.specifier if one.operator == "=="]
        if len(versions) != 1 or not hashes:
            raise ValueError(f"{lock.name}: {wanted} has no version or no hashes; make it with `make lock`")
        marker = str(requirement.marker or "")
        found.append(Pin(canonicalize_name(requirement.name), versions[0], marker, tuple(hashes), lock.name))
    return found


def all_pins() -> list[Pin]:
    """Of all locks, each (name, version) as often as it occurs."""
    return [pin for lock in sorted(FOLDER.glob("*.lock")) for pin in pins(lock)]
