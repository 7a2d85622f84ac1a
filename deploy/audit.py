"""Compare the hashed locks with advisories that an operator supplies: `python deploy/audit.py FILE`.

FILE is one record of the OSV format as JSON, a list of them, a folder of such files, or a zip as osv.dev exports one
for PyPI. Nothing is asked of a network. Exit codes: 0 nothing is affected, 1 something is, 2 wrong input.
"""

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from locks import Pin, all_pins
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version


def records(place: Path) -> Iterator[dict[str, Any]]:
    """Every record of a file, folder or zip. Raises ValueError, which names the file, for what is no JSON."""
    if place.is_dir():
        for file in sorted(place.rglob("*.json")):
            yield from _parsed(file.name, file.read_bytes())
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json"):
                    yield from _parsed(name, archive.read(name))
    else:
        yield from _parsed(place.name, place.read_bytes())


def _parsed(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from None
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, dict) or "id" not in one or "affected" not in one:
            raise ValueError(f"{name} is no record of the OSV format: `id` and `affected` are wanted")
        if not one.get("withdrawn"):
            yield one


def affected(pin: Pin, record: dict[str, Any]) -> list[str] | None:
    """Versions in which it is mended, if the record speaks of this pin; None where it does not."""
    for one in record["affected"]:
        package = one.get("package", {})
        if package.get("ecosystem") != "PyPI" or canonicalize_name(package.get("name", "")) != pin.name:
            continue
        ranges = [one["events"] for one in one.get("ranges", []) if one.get("type") == "ECOSYSTEM"]
        # A build tag such as +cpu says nothing about faults.
        version = Version(Version(pin.version).public)
        if str(version) in one.get("versions", []) or any(_inside(version, events) for events in ranges):
            fixes = {event["fixed"] for events in ranges for event in events if "fixed" in event}
            return sorted((fix for fix in fixes if Version(fix) > version), key=Version)
    return None


def _inside(version: Version, events: list[dict[str, str]]) -> bool:
    """By the format's own rule: the last event that applies decides."""
    inside = False
    for kind, at in sorted(
        ((kind, value) for event in events for kind, value in event.items() if kind != "limit"),
        key=lambda event: (Version(event[1]), event[0] == "introduced"),
    ):
        if kind == "introduced" and version >= Version(at):
            inside = True
        elif (kind == "fixed" and version >= Version(at)) or (kind == "last_affected" and version > Version(at)):
            inside = False
    return inside


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).exists():
        print(
            "Name a file, folder or zip of OSV records: make audit ADVISORIES=FILE. osv.dev exports them for PyPI as "
            "PyPI/all.zip; fetch it where there is a network.",
            file=sys.stderr,
        )
        return 2
    versions: dict[str, list[Pin]] = {}
    for pin in all_pins():
        versions.setdefault(pin.name, []).append(pin)
    lines, read, unread = set(), 0, []
    try:
        for record in records(Path(sys.argv[1])):
            read += 1
            names = {canonicalize_name(one.get("package", {}).get("name", "")) for one in record["affected"]}
            for pin in (pin for name in names for pin in versions.get(name, [])):
                try:
                    fixes = affected(pin, record)
                except (InvalidVersion, KeyError, TypeError) as error:
                    unread.append(f"{record['id']} about {pin.name} cannot be judged: {error}")
                    continue
                if fixes is not None:
                    mended = f"mended in {', '.join(fixes)}" if fixes else "not mended yet"
                    told = " ".join(str(record.get("summary") or "").split())[:100]
                    lines.add(f"{pin.name} {pin.version}: {record['id']}, {mended}. {told}".rstrip())
        if not read:
            raise ValueError("there is no record in it")
    except (ValueError, OSError) as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    print("\n".join((*sorted(lines), *sorted(set(unread)))), end="\n" if lines or unread else "")
    count = len({(pin.name, pin.version) for found in versions.values() for pin in found})
    print(f"{count} pinned packages, {read} advisories: {len(lines)} found, {len(set(unread))} not to be judged")
    return 1 if lines or unread else 0


if __name__ == "__main__":
    sys.exit(main())
