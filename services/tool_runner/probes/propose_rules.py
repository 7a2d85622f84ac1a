"""Trusted program: the search for a dataset's rules, as one JSON line {"summary", "data"}. Reads only.

propose_rules.py ARGUMENTS          (the arguments of the tool as JSON; data below $M3_DATA)
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from resolve_rules import in_words

import shared.dataset
from shared.contracts.tools import ProposeRules
from shared.dataset.profile import damaged
from shared.dataset.propose import explain, propose
from shared.dataset.survey.survey import survey
from shared.dataset.tables.words import meant

MOST = 0.8
"""Share of the image files that the first proposal takes, below which rules are likely to be written by hand."""
SHOWN = 1
"""Proposals whose text is shown then, before the page of rules; there is no room for more."""


def rules_page() -> str:
    return Path(str(shared.dataset.__path__[0]), "rules.md").read_text(encoding="utf-8")


def main() -> dict[str, Any]:
    asked = ProposeRules.model_validate_json(sys.argv[1])
    root = Path(os.environ["M3_DATA"])
    seen = survey(root)
    found = propose(
        root,
        asked.task,
        dimensions=asked.dimensions,
        only=asked.only,
        target=asked.target,
        answers=asked.answers,
        limit=asked.limit,
        seen=seen,
    )
    faults = {look.file: look.fault for look in seen.looker.known.values() if look.fault}
    unread = damaged.in_words(seen.listing, set(seen.listing.images), faults)
    if not found:
        why = explain(root, asked.task, seen)
        told = f"No rules explain these files for {asked.task}. {why} {unread}".rstrip()
        return {"summary": f"{told}\n\n{rules_page()}", "data": {"proposals": [], "why": why}}
    best = found[0].coverage
    # A class that was asked for and is not there means that another column tells it.
    by_hand = best.used < MOST * best.files or bool(meant(asked.only, best.label_names)[1])
    parts = []
    for number, one in enumerate(found, 1):
        text = yaml.safe_dump(one.rules, sort_keys=False, allow_unicode=True, width=110)
        alternative = f" (a choice of {one.key}: {one.choice})" if one.key else ""
        rest = "" if by_hand and number > SHOWN else f"\n{text}{in_words(one.coverage)}"
        parts.append(f"## {number}. {one.says}{alternative}{rest}")
    return {
        "summary": "\n\n".join(filter(None, [unread, *parts, rules_page() if by_hand else ""])),
        "data": {"proposals": [one.model_dump(mode="json") for one in found]},
    }


if __name__ == "__main__":
    print(json.dumps(main(), ensure_ascii=True))
