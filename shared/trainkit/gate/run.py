"""All checks in their order, and what they found as plain values."""

from pathlib import Path
from typing import Any

from shared.trainkit.gate.dataset import Dataset, group_samples
from shared.trainkit.gate.findings import Findings
from shared.trainkit.gate.geometry import check_heads
from shared.trainkit.gate.heads import Reader
from shared.trainkit.gate.pairing import check_grids, pair
from shared.trainkit.gate.people import check_classes, check_copies, check_sides, class_folders, patients
from shared.trainkit.gate.tables import check_tables
from shared.trainkit.gate.tree import look_at_ends, walk
from shared.trainkit.gate.values import check_masks, check_voxels

_LONGEST = 400


def examine(root: Path, reader: Reader) -> dict[str, Any]:
    """`overview`, `findings` (errors first), `errors` and `warnings` (kinds of each), `skipped`. Only reads."""
    findings = Findings()
    tree = walk(root, findings)
    bad = look_at_ends(tree, findings)
    data = Dataset(tree, findings, reader, bad)
    if not tree.images:
        findings.add("no_images", ".", f"{tree.files} files, none with the extension of an image")
    else:
        pair(data)
        group_samples(data)
        check_grids(data)
        check_heads(data)
        check_masks(data)
        check_voxels(data)
        told = check_tables(data)
        # Where texts are the answer, folders are sites or series, not classes.
        folders = None if data.pairs or data.facts.get("texts") else class_folders(data)
        who = patients(data, folders, told)
        labels = check_classes(data, folders, told, who)
        check_sides(data, told, who)
        check_copies(data, labels)
    listed = findings.listed()
    overview = {
        "files": tree.files,
        "folders": tree.folders,
        "bytes": tree.bytes,
        "images": len(tree.images),
        "masks": len(data.masks),
        "extensions": dict(tree.suffixes.most_common(12)),
        **data.facts,
    }
    return {
        "overview": plain(overview),
        "findings": plain(listed),
        "errors": sum(one["severity"] == "error" for one in listed),
        "warnings": sum(one["severity"] == "warning" for one in listed),
        "skipped": plain(tree.skipped[:20]),
    }


def plain(value: Any) -> Any:
    """Names and cells of a foreign dataset end in a terminal: no control characters, no endless text."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return "".join(char if char.isprintable() else "?" for char in value[:_LONGEST])
    return value
