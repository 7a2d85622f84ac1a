"""Write the bill of materials of this installation from the hashed locks: `python deploy/sbom.py FILE`.

CycloneDX 1.6 as JSON: each pinned package with the hashes of its files, on which machines it is installed, and its
licence where the package is installed here and says so. The same locks and packages give the same bytes.
"""

import hashlib
import json
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from locks import FOLDER, Pin, all_pins

_LONG = 100
"""Characters beyond which a licence field is the licence's text and not its name."""


def bom() -> dict[str, Any]:
    found: dict[str, list[Pin]] = {}
    for pin in all_pins():
        found.setdefault(f"pkg:pypi/{pin.name}@{pin.version}", []).append(pin)
    content = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(FOLDER.glob("*.lock")))
    version = metadata.version("m3builder")
    house = {"type": "application", "bom-ref": "m3builder", "name": "m3builder", "version": version}
    components = [_component(purl, found[purl]) for purl in sorted(found)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": house},
        "components": components,
        "dependencies": [{"ref": "m3builder", "dependsOn": sorted(found)}],
    }


def _component(purl: str, same: list[Pin]) -> dict[str, Any]:
    hashes = sorted({digest for pin in same for digest in pin.sha256})
    properties = {("m3builder:lock", pin.lock) for pin in same}
    properties |= {("m3builder:marker", pin.marker) for pin in same if pin.marker}
    made = {
        "type": "library",
        "bom-ref": purl,
        "name": same[0].name,
        "version": same[0].version,
        "purl": purl,
        # What gateway, agents and scorer need; the rest is for training, tests and the embedded system.
        "scope": "required" if any(pin.lock in ("core.lock", "score.lock") for pin in same) else "optional",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in hashes],
        "properties": [{"name": name, "value": value} for name, value in sorted(properties)],
    }
    licences = _licences(same[0])
    return made | ({"licenses": licences} if licences else {})


def _licences(pin: Pin) -> list[dict[str, Any]]:
    try:
        told = metadata.metadata(pin.name)
    except metadata.PackageNotFoundError:
        return []
    if expression := told.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier", []) if one.startswith("License ::")]
    name = (told.get("License") or "").strip()
    names = classifiers or ([name] if name and len(name) <= _LONG and "\n" not in name else [])
    return [{"license": {"name": one}} for one in names]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Name the file to write: python deploy/sbom.py FILE")
    target = Path(sys.argv[1])
    made = bom()
    partial = target.with_name(f".{target.name}.part")
    partial.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    partial.replace(target)
    unknown = sum("licenses" not in one for one in made["components"])
    print(f"{target}: {len(made['components'])} packages; of {unknown} the licence is not known here")


if __name__ == "__main__":
    main()
