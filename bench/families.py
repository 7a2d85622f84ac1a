"""Which of the dataset families of tests/families the search finds rules for: python -m bench.families [NAME ...]

`--of second`, `third` and so on to `twelfth` takes the datasets of bench/strangers, which nobody tunes for.

Each family is written anew, its rules are searched for as the Data Engineer's playbook does, and the cases that they
give are held against the truth file: files of a case, patients, labels, structures, texts. A family is `right` when all
agree, `asked` when the proposals leave the decision to a person and the right one is among them, `ended` when there is
no model to be had and none was proposed, `not` else. `patients`: ok, merged (safe: people who are two count as one), or
TORN (one person counts as two, which could stand on both sides of a split); JOINED where what the files say
(`shared.dataset.rules.persons`) would make two people one.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from shared.contracts.cases import CaseSpec, Proposal
from shared.contracts.rules import Rules
from shared.dataset.files.listing import list_files
from shared.dataset.propose import propose
from shared.dataset.rules.persons import persons
from shared.dataset.rules.resolve import resolve
from shared.dataset.tables.narrowing import narrowed
from tests.families import FAMILIES


def compare(cases: Sequence[CaseSpec], truth: Mapping[str, Any]) -> dict[str, str]:
    """What differs; empty when the cases are those of the truth."""
    inside = len({str(case["files"]) for case in truth["cases"]}) < len(truth["cases"])
    wanted = {_true_place(case, inside): case for case in truth["cases"]}
    found = {_place(case, inside): case for case in cases}
    unsure = {file for file in truth.get("uncertain", ())} | set(truth.get("broken", ()))
    lost = [files for files in wanted.keys() - found.keys() if not unsure & set(files)]
    more = [files for files in found.keys() - wanted.keys() if not unsure & set(files)]
    faults: dict[str, str] = {}
    if lost or more:
        faults["cases"] = f"{len(found)} of {len(wanted)}; lost {lost[:1]}, more {more[:1]}"
    both = [(found[files], wanted[files]) for files in found.keys() & wanted.keys()]
    if fault := _labels(both):
        faults["labels"] = fault
    if fault := _texts(both):
        faults["texts"] = fault
    if fault := _masks(both):
        faults["masks"] = fault
    return faults


def _place(case: CaseSpec, inside: bool) -> tuple[str, ...]:
    """Files of a case; where files hold several (`inside`), also the array and its entry."""
    parts = [part for view in case.images for part in view]
    array = (parts[0].array or "", "" if parts[0].index is None else str(parts[0].index)) if inside else ()
    return (*sorted({file for part in parts for file in part.files}), *array)


def _true_place(case: Mapping[str, Any], inside: bool) -> tuple[str, ...]:
    array = (case.get("array") or "", str(case.get("index", ""))) if inside else ()
    return (*sorted(case["files"]), *array)


def patients(cases: Sequence[CaseSpec], truth: Mapping[str, Any]) -> str:
    if not truth["patients_known"]:
        return "-"
    true, found = _people(cases, truth)
    if not true:
        return "?"
    if any(len(names) > 1 for names in true.values()):
        return "TORN"
    return "merged" if any(len(names) > 1 for names in found.values()) else "ok"


def _people(cases: Sequence[CaseSpec], truth: Mapping[str, Any]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """True patient -> patients of the cases, and the other way round."""
    inside = len({str(case["files"]) for case in truth["cases"]}) < len(truth["cases"])
    wanted = {_true_place(case, inside): case["patient"] for case in truth["cases"]}
    of_true: defaultdict[str, set[str]] = defaultdict(set)
    of_found: defaultdict[str, set[str]] = defaultdict(set)
    for case in cases:
        files = _place(case, inside)
        if wanted.get(files) is not None:
            of_true[wanted[files]].add(case.patient)
            of_found[case.patient].add(wanted[files])
    return of_true, of_found


def _joined(folder: Path, cases: Sequence[CaseSpec], truth: Mapping[str, Any]) -> bool:
    """Whether a source that is trusted would make two people one."""
    for source in persons(folder, list_files(folder), cases):
        told = [
            case.model_copy(update={"patient": str(source.of[case.key])}) for case in cases if case.key in source.of
        ]
        if truth["patients_known"] and any(len(names) > 1 for names in _people(told, truth)[1].values()):
            return True
    return False


def _labels(both: Sequence[tuple[CaseSpec, Any]]) -> str:
    """Names may differ in writing, but one has to stand for one."""
    pairs: Counter[tuple[str, str]] = Counter()
    for case, true in both:
        told, meant = case.label, true.get("label")
        if isinstance(meant, list):
            if set(told if isinstance(told, tuple) else [told] if told else []) != set(meant):
                return f"{told} where {meant} is meant"
        elif meant is not None:
            pairs[(str(told), str(meant))] += 1
    if len(pairs) > len({meant for _, meant in pairs}) or len(pairs) > len({told for told, _ in pairs}):
        return ", ".join(f"{told} for {meant} x{many}" for (told, meant), many in pairs.most_common(4))
    return ""


def _texts(both: Sequence[tuple[CaseSpec, Any]]) -> str:
    def plain(text: str | None) -> str:
        return " ".join((text or "").split()).casefold()

    wrong = [case for case, true in both if true.get("text") and plain(true["text"]) not in plain(case.text)]
    return f"{len(wrong)} of {len(both)}, such as {wrong[0].text!r:.60}" if wrong else ""


def _masks(both: Sequence[tuple[CaseSpec, Any]]) -> str:
    marked = [(case, true["mask"]) for case, true in both if true.get("mask") is not None]
    bare = sum(1 for case, mask in marked if sum(mask.values()) and not case.masks)
    if bare:
        return f"{bare} of {len(marked)} without a mask"
    held: defaultdict[str, set[str]] = defaultdict(set)
    for case, mask in marked:
        for file in (file for one in case.masks if one.kind == "file" for file in one.files):
            held[file].add(json.dumps(mask, sort_keys=True))
    if several := [file for file, masks in held.items() if len(masks) > 1]:
        return f"{several[0]} and {len(several) - 1} more mark several images that differ"
    known = {value for case, _ in marked for mask in case.masks for value in mask.values.values()}
    known |= {shape.value for case, _ in marked for mask in case.masks for shape in mask.shapes}
    known -= {0}  # background
    named = {name for _, mask in marked for name, many in mask.items() if many}
    every = any("*" in mask.values for case, _ in marked for mask in case.masks)
    return (
        f"{len(known)} structures, {len(named)} are meant" if marked and not every and len(known) != len(named) else ""
    )


def judge(folder: Path, truth: Mapping[str, Any], request: str) -> tuple[str, str, str]:
    """(outcome, patients, why)"""
    expect = truth.get("expect", "ready")
    found = propose(folder, truth["task"], dimensions=truth.get("dimensions"), target=request)
    hopeless = not found or bool(found[0].coverage.problems)
    if expect in ("not_supported", "infeasible"):
        return ("ended" if hopeless else "not"), "-", "" if hopeless else f"proposed: {found[0].says}"
    if not found:
        return "not", "-", "nothing was proposed"
    masks, lesions = truth["task"] != "diagnosis", truth["task"] == "anomaly_detection"
    names = found[0].coverage.label_names
    only = narrowed(request, names, masks=masks, lesions=lesions)
    if len(only) > (not masks) and only != names:  # as the Data Engineer's playbook does
        found = propose(folder, truth["task"], dimensions=truth.get("dimensions"), target=request, only=only)
    rivals = [one for one in found if found[0].key and one.key == found[0].key]
    tried = rivals if len(rivals) > 1 else found[:1]
    judged = [(_tried(folder, one, truth), one) for one in tried]
    for (faults, who), _ in judged:
        if not faults:
            if len(tried) > 1:
                return "asked", who, f"{found[0].key}: {', '.join(one.choice for one in tried)}"
            return "right", who, "but a person should have been asked" if expect == "ask" else ""
    (faults, who), _ = judged[0]
    asked = f"asked for {found[0].key}; " if len(tried) > 1 else ""
    return "not", who, asked + "; ".join(f"{what}: {fault}" for what, fault in faults.items())


def _tried(folder: Path, one: Proposal, truth: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    cases = resolve(Rules.model_validate(one.rules), folder).cases
    return compare(cases, truth), "JOINED" if _joined(folder, cases, truth) else patients(cases, truth)


ROOMS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--of", choices=ROOMS)
    asked = parser.parse_args(words)
    families = import_module(f"bench.strangers.{asked.of}").FAMILIES if asked.of else FAMILIES
    outcomes: Counter[str] = Counter()
    people: Counter[str] = Counter()
    print(f"{'family':28} {'outcome':8} {'patients':9} {'s':>5}  why")
    for name in asked.names or families:
        family = families[name]
        with tempfile.TemporaryDirectory() as home:
            folder, truth = Path(home, "data"), Path(home, "truth.json")
            family.make(folder, truth, 7)
            began = time.monotonic()
            try:
                outcome, who, why = judge(folder, json.loads(truth.read_text()), family.request)
            except Exception as error:  # a defect is a row of the table, not its end
                outcome, who, why = "BROKEN", "-", f"{type(error).__name__}: {error}"
            outcomes[outcome] += 1
            people[who] += 1
            print(f"{name:28} {outcome:8} {who:9} {time.monotonic() - began:5.1f}  {why[:150]}", flush=True)
    print(f"\n{sum(outcomes.values())} families: {dict(outcomes)}; patients: {dict(people)}")


if __name__ == "__main__":
    main(sys.argv[1:])
