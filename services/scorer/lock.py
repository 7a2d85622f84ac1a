"""Taking the test set away: what must hold of an index before it is sealed, and what later roles may see.

Pure: rows and packs in, a `Sealed` out. The same inputs give the same seal, so it is derived again when it is needed.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from services.scorer.complete import SHOWN, complete, files_of, label_of
from shared.contracts.base import TaskKind
from shared.contracts.data import (
    Handoff,
    IndexMeta,
    IndexRow,
    LeakageReport,
    PackedSample,
    PackList,
    Split,
    ViewManifest,
)
from shared.contracts.scoring import Gate

SPLITS: tuple[Split, ...] = ("train", "val", "test")
SIDES: tuple[tuple[Split, Split], ...] = (("train", "test"), ("val", "test"), ("train", "val"))
_PAIRS = 50
"""Of each check in the report."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Copies:
    """Samples with the same content on two sides, and how many candidates were too large to be compared."""

    pairs: tuple[Pair, ...] = ()
    not_compared: int = 0


@dataclass(frozen=True)
class Sealed:
    """An index parted in two: `test` with its answers stays with the scorer, `view` is for later roles."""

    gates: tuple[Gate, ...]
    leakage: LeakageReport
    view: ViewManifest
    test: tuple[IndexRow, ...]
    test_packs: tuple[PackedSample, ...]
    manifest_sha256: str
    counts: dict[str, dict[str, int]]
    """split -> class -> samples."""
    patients: dict[str, int]
    """split -> patients."""

    @property
    def problems(self) -> dict[str, str]:
        return {gate.name: gate.evidence for gate in self.gates if not gate.passed}


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

    `packs` covers all rows; `copies` is what a comparison of the packs' contents found, `damaged` the test samples
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
    leakage, leaks = _leaks(rows, copies, meta.task)
    lines = sorted(f"{row.sample_id} {row.patient} {row.split}" for row in rows)
    return Sealed(
        gates=(*complete(rows, meta, packs, damaged or {}), *leaks),
        leakage=leakage,
        view=view,
        test=test,
        test_packs=tuple(pack_of[row.sample_id] for row in test if row.sample_id in pack_of),
        manifest_sha256=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        counts={split: dict(Counter(label_of(row) or "all" for row in rows if row.split == split)) for split in SPLITS},
        patients={split: len({row.patient for row in rows if row.split == split}) for split in SPLITS},
    )


def _leaks(rows: Sequence[IndexRow], copies: Copies, task: TaskKind) -> tuple[LeakageReport, tuple[Gate, ...]]:
    patients_of_study: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.study:
            patients_of_study[(row.split, row.study)].add(row.patient)
    # Some datasets number the studies of each patient from 1: such an id tells nothing across patients.
    local = any(len(patients) > 1 for patients in patients_of_study.values())
    found = {
        "same_patient": _across(rows, lambda row: (row.patient,)),
        "same_study": _across(rows, lambda row: _study(row, local)),
        "same_file": _across(rows, lambda row: files_of(row, task)),
        "same_content": (len(copies.pairs), copies.pairs[:_PAIRS]),
    }
    report = LeakageReport(
        checks={name: count for name, (count, _) in found.items()} | {"content_not_compared": copies.not_compared},
        pairs=tuple((name, *pair) for name, (_, pairs) in found.items() for pair in pairs),
    )
    what = {
        "same_patient": "pairs of samples of one patient stand on two sides of the split",
        "same_study": "pairs of samples of one study stand on two sides of the split",
        "same_file": "pairs of samples on two sides of the split list the same file",
        "same_content": "pairs of samples on two sides of the split are exact copies",
    }
    gates = []
    for name, (count, pairs) in found.items():
        examples = "; ".join(f"{left} and {right}" for left, right in pairs[:SHOWN])
        evidence = f"{count} {what[name]}" + (f": {examples}" if examples else "")
        gates.append(Gate(name=f"no_{name}", passed=not count, evidence=evidence))
    return report, tuple(gates)


def _study(row: IndexRow, local: bool) -> tuple[str, ...]:
    if not row.study:
        return ()
    return (f"{row.patient}\0{row.study}",) if local else (row.study,)


def _across(rows: Iterable[IndexRow], keys: Callable[[IndexRow], Iterable[str]]) -> tuple[int, tuple[Pair, ...]]:
    """How many pairs of samples share a key across splits (once for each key), and the first of them."""
    holders: defaultdict[str, dict[Split, list[str]]] = defaultdict(lambda: {split: [] for split in SPLITS})
    for row in rows:
        for key in set(keys(row)):
            holders[key][row.split].append(row.sample_id)
    count = 0
    shown: list[Pair] = []
    for sides in holders.values():
        for left, right in SIDES:
            pairs = len(sides[left]) * len(sides[right])
            count += pairs
            if pairs and len(shown) < _PAIRS:
                shown.append((sides[left][0], sides[right][0]))
    return count, tuple(shown)


def _without(handoff: Handoff, test: Sequence[IndexRow], seen: Sequence[IndexRow], task: TaskKind) -> Handoff:
    """The hand-off with the names of test samples, patients and files masked; what train rows use too stays."""
    train_names = _names(seen, task)
    # What several patients share ("images") and what is very short ("7") tells nothing about a patient.
    names = {
        name
        for name, patients in _names(test, task).items()
        if len(patients) == 1 and len(name) >= 4 and name not in train_names
    }

    def mask(text: str) -> str:
        for name in sorted((name for name in names if name in text), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[sealed]", text)
        return text

    return Handoff(
        layout=mask(handoff.layout),
        geometry={mask(key): _deep(given, mask) for key, given in handoff.geometry.items()},
        oddities=tuple(map(mask, handoff.oddities)),
    )


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
