"""Can a table of cases be trained on and scored at all? Pure: cases and their sides in, gates out.

Gates name cases by their keys, as the Data Engineer knows them: their evidence goes back to it and to nobody else.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from services.scorer.lock.facts import labels_of
from services.scorer.texts.tokens import words
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cases import CaseRecord, unfit
from shared.contracts.data import DatasetFacts
from shared.contracts.rules import Split
from shared.contracts.scoring import Gate
from shared.reporttext import MAX_CHARACTERS

SHOWN = 5
"""Offenders named in a gate's sentence."""
MAX_VALUE = 2**31 - 1
"""Of a label in a mask."""

_PATH = re.compile(r"\s*(?:\S+[/\\]\S*|\S+\.[A-Za-z]\w{0,4})\s*")


def complete(
    cases: Sequence[CaseRecord], sides: Sequence[Split], patients: Sequence[object], facts: DatasetFacts
) -> Iterator[Gate]:
    """`patients` (cases,) are those that the split keeps together."""
    twice = [key for key, times in Counter(case.key for case in cases).items() if times > 1]
    yield _gate("cases_unique", twice, "keys name several cases")
    test = len({patient for patient, side in zip(patients, sides, strict=True) if side == "test"})
    yield Gate(
        name="test_patients",
        passed=test >= 2,
        evidence=f"{test} patients in test, at least 2 are needed for an interval",
    )
    yield names_bounded(facts)
    train = [case for case, side in zip(cases, sides, strict=True) if side == "train"]
    tested = [case for case, side in zip(cases, sides, strict=True) if side == "test"]
    chosen_by = [case for case, side in zip(cases, sides, strict=True) if side == "val"]
    if facts.task in SEGMENTATIONS:
        yield from _masks(cases, train, facts)
    elif facts.task == "report_generation":
        yield from _reports(cases)
    elif any(isinstance(case.label, tuple) for case in cases):
        yield from _several(cases, train, tested, facts.label_names)
    else:
        yield from _classes(cases, train, tested, chosen_by, facts.label_names)


def names_bounded(facts: DatasetFacts) -> Gate:
    why = unfit(facts.label_names)
    return Gate(
        name="names_bounded",
        passed=not why,
        evidence=why or f"{len(facts.label_names)} names of classes or structures, each of them short",
    )


def _classes(
    cases: Sequence[CaseRecord],
    train: Sequence[CaseRecord],
    test: Sequence[CaseRecord],
    val: Sequence[CaseRecord],
    names: Sequence[str],
) -> Iterator[Gate]:
    yield _gate("cases_labelled", [case.key for case in cases if not case.label], "cases have no label")
    held = {"train": {case.label for case in train}, "test": {case.label for case in test}}
    absent = [f"{name} in {side}" for side in held for name in names if name not in held[side]]
    absent += ["a second class"] if len(names) < 2 else []
    # Without two classes there the weights cannot be chosen.
    absent += ["a second class in val"] if len(names) > 1 and len({case.label for case in val}) < 2 else []
    needed = "each class needs two patients, and two of the classes need three"
    yield _gate("classes_present", absent, f"classes have no case where one is needed ({needed})")


def _several(
    cases: Sequence[CaseRecord], train: Sequence[CaseRecord], test: Sequence[CaseRecord], names: Sequence[str]
) -> Iterator[Gate]:
    """Of a rare label the test set may hold no case: it is then no part of the means, and the scores say so."""
    alone = [case.key for case in cases if not isinstance(case.label, tuple)]
    yield _gate("labels_alike", alone, "cases have one label or none where others have lists: all must be alike")
    alike = {
        side: [name for name in names if len({name in labels_of(case) for case in here}) < 2]
        for side, here in (("train", train), ("test", test))
    }
    absent = [f"{name} in train" for name in alike["train"]]
    absent += ["any label in test"] if len(alike["test"]) == len(names) else []
    absent += ["a label that is not called all"] if "all" in names else []
    yield _gate("labels_vary", absent, "labels that some cases have and others lack are missing where one is needed")


def _masks(cases: Sequence[CaseRecord], train: Sequence[CaseRecord], facts: DatasetFacts) -> Iterator[Gate]:
    yield _gate("masks_given", [case.key for case in cases if case.mask is None], "cases have no mask")
    values = facts.label_values
    strange = [name for name, value in values.items() if not 1 <= value <= MAX_VALUE]
    strange += [f"value {value}" for value, times in Counter(values.values()).items() if times > 1]
    strange += [] if values else ["no structure occurs in any mask"]
    yield _gate("label_values", strange, "structures have no value of their own")
    unknown = [case.key for case in cases if set(case.values) - set(values.values())]
    yield _gate("values_known", unknown, "masks hold a value that no structure has")
    trained = {value for case in train for value in case.values}
    absent = [name for name, value in values.items() if value not in trained]
    yield _gate("structures_present", absent, "structures are marked in no training case: leave them out with `only`")


def _reports(cases: Sequence[CaseRecord]) -> Iterator[Gate]:
    texts = [(case.key, case.text or "") for case in cases]
    yield _gate("reports_given", [key for key, text in texts if not words(text)], "cases have no report")
    long = [key for key, text in texts if len(text) > MAX_CHARACTERS]
    yield _gate("reports_bounded", long, f"reports have more than {MAX_CHARACTERS} characters")
    paths = [key for key, text in texts if _PATH.fullmatch(text)]
    yield _gate(
        "reports_are_texts", paths, "reports are the path of a file: name the table or file that holds the text"
    )


def _gate(name: str, offenders: Sequence[str], what: str) -> Gate:
    examples = f": {', '.join(offenders[:SHOWN])}" if offenders else ""
    return Gate(name=name, passed=not offenders, evidence=f"{len(offenders)} {what}{examples}")
