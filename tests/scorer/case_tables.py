"""Case tables as intake makes them, without any image: refs to contents that nobody fetches, unless they are masks."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from services.scorer.lock.copies import Copies, compare
from services.scorer.lock.seal import CannotLock, Lock, seal
from shared.contracts.base import Ref, TaskKind
from shared.contracts.cases import CaseRecord, CaseTable, Coverage, Proposal
from shared.contracts.data import DatasetFacts, IndexRow, SealedSplit, StoredCase
from shared.contracts.rules import Rules
from shared.dataset.intake.looks_of import record_of
from shared.dataset.rules.reasons import lossless
from shared.imaging.image import Image
from shared.looks import RECORD

GIVEN = ["train"] * 12 + ["val"] * 4 + ["test"] * 4
SEED, OTHER = "5eed" * 8, "0dd5" * 8
NIFTI = "application/x-nifti"


def ref(content: object, media: str = "image/png", bucket: str = "cases") -> Ref:
    digest = hashlib.sha256(repr(content).encode()).hexdigest()
    return Ref(bucket=bucket, key=digest, sha256=digest, size=1000, media_type=media)


def case(number: int, **changes: object) -> CaseRecord:
    fields = {"key": f"key{number}", "patient": f"name{number}", "images": (ref(number),)}
    return CaseRecord(**fields | changes)


def labelled(count: int, names: Sequence[str] = ("normal", "covid"), **changes: object) -> list[CaseRecord]:
    """One case a patient, classes in turn."""
    return [case(number, label=names[number % len(names)], **changes) for number in range(count)]


def coverage(cases: Sequence[CaseRecord], /, task: TaskKind = "diagnosis", **changes: object) -> Coverage:
    fields: dict[str, object] = {
        "task": task, "dimensions": 2, "cases": len(cases), "files": len(cases), "used": len(cases),
        "patients": len({case.patient for case in cases}), "grouping": "stated", "grouping_from": "column id",
        "lossless": lossless(changes.get("left_out", {})),
    }  # fmt: skip
    return Coverage(**fields | changes)


def table(cases: Sequence[CaseRecord], /, task: TaskKind = "diagnosis", **changes: object) -> CaseTable:
    """`changes` are of the coverage, and of the table by their names there."""
    own = {name: changes.pop(name) for name in ("left_out_here", "by_script", "looks") if name in changes}
    own = {("left_out" if name == "left_out_here" else name): value for name, value in own.items()}
    return CaseTable(cases=tuple(cases), coverage=coverage(cases, task, **changes), **own)


def by_rules(given: CaseTable, rules: Mapping[str, object], proposed: Sequence[Mapping[str, object]]) -> CaseTable:
    """With the rules that were carried out, and those that trusted code proposes."""
    found = tuple(Proposal(rules=one, coverage=given.coverage, share=1, score=1, says="") for one in proposed)
    return given.model_copy(update={"rules": Rules.model_validate(rules), "proposals": found})


def locked(given: CaseTable, seed: str = SEED, last: SealedSplit | None = None, copies: Copies | None = None) -> Lock:
    return seal(given, copies or compare(given.cases), seed, last)


def problems(given: CaseTable) -> dict[str, str]:
    """Gates that keep a table from being locked, with their evidence."""
    try:
        locked(given)
    except CannotLock as error:
        return dict(error.evidence["gates"])
    return {}


def sides(lock: Lock) -> dict[str, str]:
    """Key -> side."""
    return {key: row.split for key, row in zip(lock.sealed.keys, lock.sealed.rows, strict=True)}


def sealed_of(
    rows: Sequence[IndexRow],
    task: TaskKind = "diagnosis",
    names: Sequence[str] = (),
    values: dict[str, int] | None = None,
    masks: Sequence[Ref | None] | None = None,
) -> SealedSplit:
    """A split as it is, with the names of its rows."""
    facts = DatasetFacts(
        task=task, dimensions=3 if values else 2, label_names=tuple(values or names), label_values=values or {},
        grouping="stated", grouping_from="column id", split_from="made",
    )  # fmt: skip
    stored = tuple(
        StoredCase(sample_id=row.sample_id, images=(ref(row.sample_id),), mask=mask)
        for row, mask in zip(rows, masks or [None] * len(rows), strict=True)
    )
    return SealedSplit(rows=tuple(rows), stored=stored, keys=tuple(map(str, range(len(rows)))), facts=facts, seed=SEED)


def looks(pictures: Sequence[np.ndarray], affine: np.ndarray | None = None) -> np.ndarray:
    """Records of arrays: of pictures (H, W), of volumes with an affine (X, Y, Z)."""
    return np.frombuffer(b"".join(record_of([Image(array[..., None], affine)]) for array in pictures), RECORD)


def changed(cases: list[CaseRecord], number: int, **changes: object) -> list[CaseRecord]:
    return [*cases[:number], cases[number].model_copy(update=changes), *cases[number + 1 :]]


def split_as(cases: list[CaseRecord], given: list[str | None]) -> list[CaseRecord]:
    return [one.model_copy(update={"split": side}) for one, side in zip(cases, given, strict=True)]
