"""Trusted probe: does a claim that these data cannot support a request hold? Looks at the dataset itself; reads only.

    verify_infeasible.py --claim CLAIM --task TASK [--rules FILE]        (data below $M3_DATA)

The last line of stdout is one JSON object: {"holds", "errors", "saw"}. `one_class` and `one_patient` are judged by the
rules that the claim rests on, the second also without any where names say so. `no_targets` holds where nothing in the
files may say what is to be learned; `not_supported` where something is not read, or may hold targets that no rules were
found for.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from resolve_rules import load

from shared.contracts.profile import Profile
from shared.dataset.files.listing import Changing
from shared.dataset.profile.profile import profile
from shared.dataset.propose import propose
from shared.dataset.propose.patients import person_of_all
from shared.dataset.rules.resolve import RulesError, resolve
from shared.dataset.survey.survey import survey

NAMED = 0.2
"""Share of image files that a column has to name for its table to speak of them."""


def judge(root: Path, claim: str, task: Any, rules: str) -> tuple[bool, str]:
    """Whether the claim holds, and what was seen."""
    seen = profile(root)
    if claim == "no_images":
        return seen.images == 0 and not seen.not_read, f"{seen.images} images among {seen.files} files"
    if claim == "not_supported":
        unread = "; ".join(f"{what}: {remedy}" for what, remedy in seen.not_read.items())
        holds = bool(unread or (hints(seen) and not propose(root, task, limit=1)))
        return holds, unread or hints(seen) or in_short(seen)
    if claim == "nothing_readable":
        looked = sum(group.looked_at for group in seen.groups)
        bad = sum(group.unreadable for group in seen.groups)
        return 0 < looked == bad and not seen.not_read, f"{bad} of {looked} images looked at cannot be read"
    if claim == "no_targets":
        if said := hints(seen):
            return False, f"the files may hold targets, though no rules were found for them: {said}"
        found = propose(root, task, limit=1)
        return not found and not seen.not_read, found[0].says if found else in_short(seen)
    if claim == "one_patient" and not rules:
        person = person_of_all(survey(root))
        return (
            person is not None,
            f"one patient: {person}" if person else "nothing says that all images are of one patient",
        )
    if not rules:
        return False, f"the claim {claim} rests on rules: give the path of yours"
    coverage = resolve(load(Path(os.environ.get("M3_WORKSPACE") or Path.cwd()) / rules), root).coverage
    classes = [name for name, many in coverage.counts.items() if many]
    if claim == "one_class":
        return coverage.cases > 0 and len(classes) == 1, f"classes: {', '.join(classes)}"
    if claim == "one_patient":
        return coverage.cases > 0 and coverage.patients == 1, f"{coverage.patients} patients: {coverage.grouping_from}"
    return False, f"{claim} is no claim that can be looked at"


def hints(seen: Profile) -> str:
    """What in the files may say what is to be learned: empty where nothing does."""
    found = [one.where for one in (*seen.labels, *seen.texts)] + list(seen.masks)
    for table in seen.tables:
        found += [f"column {one.name} of {table.file}" for one in table.columns if one.names_files >= NAMED]
    return "; ".join(found[:8])


def in_short(seen: Profile) -> str:
    return f"{seen.images} images; targets in the files for: {', '.join(seen.tasks) or 'no task'}"


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--claim", required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--rules", default="")
    asked = parser.parse_args()
    try:
        holds, saw = judge(Path(os.environ["M3_DATA"]), asked.claim, asked.task, asked.rules)
    except (RulesError, Changing) as error:
        return {"holds": False, "errors": [str(error)], "saw": ""}
    errors = [] if holds else [f"the dataset does not bear the claim {asked.claim} out: {saw}"]
    return {"holds": holds, "errors": errors, "saw": saw}


if __name__ == "__main__":
    print(json.dumps(main(), ensure_ascii=True))
