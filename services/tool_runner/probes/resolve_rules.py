"""Trusted program: rules carried out on the dataset, as one JSON line. Reads only.

    resolve_rules.py RULES [--facts]        (data below $M3_DATA, RULES in $M3_WORKSPACE or the current folder)

Without --facts the line is {"summary", "data"} for a core; with it, what `verify_rules` tells a check: {"errors",
"coverage", "listed"}.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from shared.contracts.cases import Coverage
from shared.contracts.rules import Rules
from shared.dataset.files.listing import list_files
from shared.dataset.profile import damaged
from shared.dataset.rules.coverage import files_of
from shared.dataset.rules.reading import read_rules
from shared.dataset.rules.resolve import RulesError, resolve

SHOWN = 4


def load(path: Path) -> Rules:
    """Raises RulesError in words that a core can act on."""
    try:
        return read_rules(path.read_bytes(), path.name)
    except OSError as error:
        raise RulesError(f"{path.name} cannot be read ({error.strerror}); write it into the workspace first") from None


def in_words(coverage: Coverage) -> str:
    """What a core reads of a coverage: a line a fact, problems first."""
    lines = [f"PROBLEM: {text}" for text in coverage.problems]
    lines += [f"CONFLICT: {text}" for text in coverage.conflicts[:SHOWN]]
    if (more := len(coverage.conflicts) - SHOWN) > 0:
        lines.append(f"CONFLICT: and {more} more like these")
    lines.append(
        f"{coverage.cases} cases ({coverage.dimensions}D) of {coverage.used} of {coverage.files} image files; "
        f"{coverage.patients} patients, {coverage.grouping}: {coverage.grouping_from}"
    )
    if coverage.counts:
        lines.append("counts: " + ", ".join(f"{name} {many}" for name, many in list(coverage.counts.items())[:40]))
    if coverage.ordered:
        lines.append(f"grades, from least to most: {', '.join(coverage.label_names)}")
    if coverage.label_values:
        lines.append("values: " + ", ".join(f"{name} {value}" for name, value in coverage.label_values.items()))
    if coverage.views:
        lines.append("views: " + ", ".join(f"{many} cases of {views}" for views, many in coverage.views.items()))
    if coverage.added_up:
        lines.append(f"in {coverage.added_up} cases several masks mark one structure, and add up")
    if coverage.stood_in:
        lines.append("stands in: " + ", ".join(f"{which} in {many} cases" for which, many in coverage.stood_in.items()))
    if coverage.splits:
        lines.append("split of the dataset: " + ", ".join(f"{side} {many}" for side, many in coverage.splits.items()))
    if coverage.channels:
        lines.append("channels: " + ", ".join(coverage.channels))
    for reason, many in coverage.left_out.items():
        examples = ", ".join(coverage.left_out_examples.get(reason, ()))
        lines.append(f"left out, {many} x {reason}" + (f": {examples}" if examples else ""))
    for table, names in coverage.unnamed.items():
        lines.append(f"no row of table {table} names, such as: {', '.join(names)}")
    lines += [f"example: {json.dumps(example, ensure_ascii=False)[:300]}" for example in coverage.examples[:3]]
    return "\n".join(lines)


def main() -> dict[str, Any]:
    name, facts = sys.argv[1].removeprefix("/workspace/"), "--facts" in sys.argv[2:]
    workspace = Path(os.environ.get("M3_WORKSPACE") or Path.cwd())
    try:
        rules = load(workspace / name)
        listing = list_files(os.environ["M3_DATA"])
        done = resolve(rules, listing.root, listing, workspace)
    except RulesError as error:
        return {"errors": [str(error)]} if facts else {"summary": str(error), "data": {}, "failed": True}
    coverage = done.coverage
    if facts:
        return {"errors": [], "coverage": coverage.model_dump(mode="json"), "listed": rules.listed}
    unread = damaged.in_words(listing, files_of(done.cases))
    return {
        "summary": "\n".join(filter(None, [unread, in_words(coverage)])),
        "data": {"coverage": coverage.model_dump(mode="json")},
    }


if __name__ == "__main__":
    print(json.dumps(main(), ensure_ascii=True))
