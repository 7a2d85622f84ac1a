"""The search for rules as a program.

    python -m shared.dataset.propose ROOT --task T [--dimensions N] [--only a,b] [--target words] [--answers JSON]

The last line on stdout is one JSON object {"proposals": [...], "explain": "..."}; with `--out` the proposals are
written there, one a line, and nothing is said.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from shared.contracts.base import TaskKind
from shared.dataset.propose import explain, propose
from shared.dataset.survey.survey import survey


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m shared.dataset.propose", description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("M3_DATA"))
    parser.add_argument("--task", required=True, choices=get_args(TaskKind))
    parser.add_argument("--dimensions", type=int, choices=(2, 3))
    parser.add_argument("--only", default="", help="classes or structures that were asked for, with commas")
    parser.add_argument("--target", default="", help="the request's words for what is to be told or marked")
    parser.add_argument("--hints", type=json.loads, default={}, help='JSON: value -> name, such as {"1": "liver"}')
    parser.add_argument("--answers", type=json.loads, default={}, help="JSON: key of a question -> what was chosen")
    parser.add_argument("--limit", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(words)
    if asked.root is None:
        parser.error("say where the dataset is, or set $M3_DATA")
    try:
        seen = survey(asked.root)
    except NotADirectoryError as error:
        print(error, file=sys.stderr)
        return 2
    found = propose(
        asked.root,
        asked.task,
        dimensions=asked.dimensions,
        only=[word.strip() for word in asked.only.split(",") if word.strip()],
        target=asked.target,
        hints=asked.hints,
        answers=asked.answers,
        limit=asked.limit,
        seen=seen,
    )
    if asked.out:
        asked.out.write_text("".join(f"{one.model_dump_json()}\n" for one in found), encoding="utf-8")
        return 0
    said = explain(asked.root, asked.task, seen) if not found else ""
    print(json.dumps({"proposals": [one.model_dump(mode="json") for one in found], "explain": said}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
