"""The gate's answer as text, for an agent; the command line draws a table of the same."""

from collections.abc import Iterator, Mapping
from typing import Any


def overview_lines(overview: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(what, found) in the words of the table's head; nothing for what the dataset does not have."""
    size = overview["bytes"]
    amount = f"{size / 1e9:.1f} GB" if size > 1e9 else f"{size / 1e6:.1f} MB"
    yield "files", f"{overview['files']:,} in {overview['folders']:,} folders, {amount}"
    masks = f", of them {overview['masks']:,} masks" if overview["masks"] else ""
    yield "images", f"{overview['images']:,}{masks} ({_counts(overview['extensions'])})"
    if overview.get("scans_of_slices"):
        yield "scans", f"{overview['scans_of_slices']:,} folders of slices; {overview['samples']:,} samples in all"
    if overview.get("pairs"):
        yield "pairs", f"{overview['pairs']:,}: {overview['paired_by']}"
    if overview.get("sizes"):
        more = overview["sizes_distinct"] - len(overview["sizes"])
        yield "sizes", _counts(overview["sizes"]) + (f" and {more} more" if more > 0 else "")
    if overview.get("spacing_mm"):
        yield "spacing", " x ".join(_range(axis) for axis in overview["spacing_mm"]) + " mm"
    if overview.get("orientations"):
        yield "axes", _counts(overview["orientations"])
    if overview.get("pixel_kinds"):
        yield "pixels", _counts(overview["pixel_kinds"]) + _within(overview)
    if overview.get("structures"):
        named = ", ".join(f"{value} {name}" for name, value in list(overview["structures"].items())[:12])
        more = len(overview["structures"]) - 12
        yield "structures", named + (f" and {more} more" if more > 0 else "") + f" (by {overview['structures_from']})"
    if overview.get("not_in_all"):
        masks = overview["masks_read"]
        absent = [f"{value} ({number} of {masks})" for value, number in list(overview["not_in_all"].items())[:10]]
        more = len(overview["not_in_all"]) - len(absent)
        yield "not in all", "mask values " + ", ".join(absent) + (f" and {more} more" if more > 0 else "")
    for source, counts in list(overview.get("classes", {}).items())[:4]:
        yield "classes", f"{_counts(counts)} ({source})"
    if who := overview.get("patients"):
        yield "patients", f"{who['number']:,}, {who['known']}: {who['by']}"
    if overview.get("tables"):
        yield "tables", ", ".join(overview["tables"][:6])
    if overview.get("texts"):
        yield "texts", ", ".join(overview["texts"][:6])
    if overview.get("images_read"):
        masks = f" and {overview['masks_read']:,} masks" if overview.get("masks_read") else ""
        yield "read", f"{overview['headers_read']:,} headers; {overview['images_read']:,} images{masks} to their end"


def finding_line(one: Mapping[str, Any]) -> str:
    """`3 x image without its mask`, with how many were looked at."""
    of = f" (of {one['looked_at']:,} looked at)" if "looked_at" in one else ""
    return f"{one['count']:,} x {one['what']}{of}"


def example_lines(one: Mapping[str, Any], most: int = 3) -> list[str]:
    return [f"{name}: {one['details'][name]}" if name in one["details"] else name for name in one["examples"][:most]]


def verdict(found: Mapping[str, Any]) -> str:
    errors, warnings = found["errors"], found["warnings"]
    kinds = f"{errors} {'kind' if errors == 1 else 'kinds'} of errors, {warnings} of warnings"
    return f"{kinds}." + ("" if errors + warnings else " Nothing was found that is wrong.")


def summary(path: str, found: Mapping[str, Any]) -> str:
    lines = [f"{path}: {verdict(found)}"]
    lines += [f"  {what}: {text}" for what, text in overview_lines(found["overview"])]
    for one in found["findings"]:
        lines.append(f"{one['severity'].upper()} {one['kind']}: {finding_line(one)}")
        lines += [f"  {text}" for text in example_lines(one)]
        lines.append(f"  repair: {one['repair']}")
    lines += [f"Not all was looked at: {text}" for text in found["skipped"]]
    return "\n".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({number:,})" for name, number in list(counts.items())[:12])


def _range(axis: Mapping[str, float]) -> str:
    return f"{axis['median']:g}" if axis["min"] == axis["max"] else f"{axis['min']:g}-{axis['max']:g}"


def _within(overview: Mapping[str, Any]) -> str:
    found = overview.get("intensities")
    return f"; {found['min']:g} to {found['max']:g}" if found else ""
