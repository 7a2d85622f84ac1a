"""Taking the test set away: what must hold of an index before it is sealed, and what later roles may see.

Pure: rows and packs in, a `Sealed` out. The same inputs give the same seal, so it is derived again when it is needed.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from services.scorer.lock.complete import complete
from services.scorer.lock.copies import SPLITS, Copies, Pair
from services.scorer.lock.leaks import leaks_of
from services.scorer.rows import files_of
from shared.contracts.base import TaskKind
from shared.contracts.data import (
    Handoff,
    IndexMeta,
    IndexRow,
    LeakageReport,
    PackedSample,
    PackList,
    ViewManifest,
)
from shared.contracts.scoring import Gate
from shared.trainkit.indexrules import counted_as


@dataclass(frozen=True)
class Sealed:
    """An index parted in two: `test` with its answers stays with the scorer, `view` is for later roles."""

    gates: tuple[Gate, ...]
    leakage: LeakageReport
    """Names samples on both sides: for the Data Engineer. `told` is for everybody."""
    merge: tuple[Pair, ...]
    """Pairs of samples whose patients belong on one side, where the split that was made parts them."""
    view: ViewManifest
    test: tuple[IndexRow, ...]
    test_packs: tuple[PackedSample, ...]
    manifest_sha256: str
    counts: dict[str, dict[str, int]]
    """split -> class -> samples; beside several labels that may hold `all` is how many samples there are."""
    patients: dict[str, int]
    """split -> patients."""

    @property
    def problems(self) -> dict[str, str]:
        return {gate.name: gate.evidence for gate in self.gates if not gate.passed}

    @property
    def told(self) -> LeakageReport:
        """The report without the names of test samples."""
        test = {row.sample_id for row in self.test}
        pairs = tuple(
            (check, *("[sealed]" if name in test else name for name in pair)) for check, *pair in self.leakage.pairs
        )
        return self.leakage.model_copy(update={"pairs": pairs})


def read_index(data: bytes) -> tuple[IndexRow, ...]:
    """Rows of an `index.jsonl`; ValueError names the first line that is none."""
    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                rows.append(IndexRow.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "line"
                raise ValueError(f"line {number} of the index is no row: {where}: {first['msg']}") from None
    if not rows:
        raise ValueError("the index has no rows")
    return tuple(rows)


def check_and_seal(
    rows: Sequence[IndexRow],
    meta: IndexMeta,
    packs: PackList,
    handoff: Handoff | None = None,
    copies: Copies | None = None,
    damaged: Mapping[str, str] | None = None,
) -> Sealed:
    """Judge an index and part it. Never raises for what the index holds: problems are failed gates.

    `packs` covers all rows; `copies` is what a comparison of the samples' contents found, `damaged` the test samples
    whose mask cannot be scored against, with the reason.
    """
    copies = copies or Copies()
    test = tuple(row for row in rows if row.split == "test")
    seen = tuple(row for row in rows if row.split != "test")
    pack_of = {pack.sample_id: pack for pack in packs.samples}
    view = ViewManifest(
        rows=seen,
        packs=tuple(pack_of[row.sample_id] for row in seen if row.sample_id in pack_of),
        label_names=meta.label_names,
        label_values={name: meta.label_values[name] for name in meta.label_names if name in meta.label_values},
        task=meta.task,
        dimensions=meta.dimensions,
        handoff=_without(handoff or Handoff(), test, seen, meta.task),
    )
    leakage, leaks = leaks_of(rows, copies, meta)
    lines = sorted(f"{row.sample_id} {row.patient} {row.split}" for row in rows)
    return Sealed(
        gates=(*complete(rows, meta, packs, damaged or {}), *leaks),
        leakage=leakage,
        merge=copies.merge if meta.split_from == "made" else (),
        view=view,
        test=test,
        test_packs=tuple(pack_of[row.sample_id] for row in test if row.sample_id in pack_of),
        manifest_sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        counts={
            split: dict(Counter(name for row in rows if row.split == split for name in counted_as(row.label)))
            for split in SPLITS
        },
        patients={split: len({row.patient for row in rows if row.split == split}) for split in SPLITS},
    )


def _without(handoff: Handoff, test: Sequence[IndexRow], seen: Sequence[IndexRow], task: TaskKind) -> Handoff:
    """The hand-off with the names of test samples, patients and files masked, and what test reports say.

    What train rows use too stays.
    """
    train_names = _names(seen, task)
    # What several patients share ("images") and what is very short ("7") tells nothing about a patient.
    names = {
        name
        for name, patients in _names(test, task).items()
        if len(patients) == 1 and len(name) >= 4 and name not in train_names
    }

    if task == "report_generation":
        kept = {part for row in seen for part in _sentences(row.target)}
        names |= {part for row in test for part in _sentences(row.target)} - kept

    def mask(text: str) -> str:
        for name in sorted((name for name in names if name in text), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[sealed]", text)
        return text

    return Handoff(
        layout=mask(handoff.layout),
        geometry={mask(key): _deep(given, mask) for key, given in handoff.geometry.items()},
        oddities=tuple(map(mask, handoff.oddities)),
    )


def _sentences(report: str | None) -> set[str]:
    """A report's text and its sentences; those of a word or two tell nothing."""
    text = (report or "").strip()
    return {part for part in (text, *map(str.strip, re.split(r"[.;!?\n]", text))) if len(part.split()) > 2}


def _deep(given: JsonValue, mask: Callable[[str], str]) -> JsonValue:
    if isinstance(given, str):
        return mask(given)
    if isinstance(given, list):
        return [_deep(item, mask) for item in given]
    if isinstance(given, Mapping):
        return {mask(key): _deep(item, mask) for key, item in given.items()}
    return given


def _names(rows: Iterable[IndexRow], task: TaskKind) -> dict[str, set[str]]:
    """Name (of a sample, patient, study, file or folder, with and without suffixes) -> patients it belongs to."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        paths = files_of(row, task)
        parts = {part for path in paths for part in path.split("/")}
        stems = {part.split(".")[0] for part in parts}
        for name in {row.sample_id, row.patient, row.study or "", *paths} | parts | stems:
            found[name].add(row.patient)
    return found
