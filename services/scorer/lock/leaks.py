"""What stands on two sides of a split and must not. Pure: rows and the copies that were found in, a report out."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic import JsonValue

from services.scorer.lock.complete import SHOWN
from services.scorer.lock.copies import SIDES, SPLITS, Copies, Pair
from services.scorer.rows import files_of
from services.scorer.texts.tokens import words
from shared.contracts.base import TaskKind
from shared.contracts.data import IndexMeta, IndexRow, LeakageReport, Split
from shared.contracts.scoring import Gate

_PAIRS = 50
"""Of each check in the report."""
_WHAT = {
    "same_patient": "pairs of samples of one patient stand on two sides of the split",
    "same_study": "pairs of samples of one study stand on two sides of the split",
    "same_file": "pairs of samples on two sides of the split list the same file",
    "same_content": "pairs of samples on two sides of the split are exact copies",
    "test_file_named_in_train": "pairs of a training sample whose attributes or target name a file of a test sample",
}


def leaks_of(rows: Sequence[IndexRow], copies: Copies, meta: IndexMeta) -> tuple[LeakageReport, tuple[Gate, ...]]:
    """The report, and a gate for each check that fails a lock: all but near-duplicates, which may be false alarms."""
    patients_of_study: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.study:
            patients_of_study[(row.split, row.study)].add(row.patient)
    # Some datasets number the studies of each patient from 1: such an id tells nothing across patients.
    local = any(len(patients) > 1 for patients in patients_of_study.values())
    found = {
        "same_patient": _across(rows, lambda row: (row.patient,)),
        "same_study": _across(rows, lambda row: _study(row, local)),
        "same_file": _across(rows, lambda row: files_of(row, meta.task)),
        "same_content": (len(copies.pairs), copies.pairs[:_PAIRS]),
        "test_file_named_in_train": _named(rows, meta.task),
    }
    near = "near_duplicate" if meta.split_from == "made" else "near_duplicate_in_given_split"
    checks = {name: count for name, (count, _) in found.items()} | {
        near: len(copies.near),
        "content_not_compared": 0 if copies.compared else len(rows),
        "look_not_compared": copies.no_look,
    }
    listed = found | {near: (len(copies.near), copies.near[:_PAIRS])}
    report = LeakageReport(
        checks=checks,
        pairs=tuple((name, *pair) for name, (_, pairs) in listed.items() for pair in pairs),
        notes=(*_notes(len(rows), copies, meta), *(_repeated(rows) if meta.task == "report_generation" else ())),
    )
    gates = []
    for name, (count, pairs) in found.items():
        examples = "; ".join(f"{left} and {right}" for left, right in pairs[:SHOWN])
        evidence = f"{count} {_WHAT[name]}" + (f": {examples}" if examples else "")
        gates.append(Gate(name=f"no_{name}", passed=not count, evidence=evidence))
    return report, tuple(gates)


def _notes(samples: int, copies: Copies, meta: IndexMeta) -> Iterator[str]:
    yield "Compared across train, val and test: patients, studies, files, and files named in training attributes."
    if not copies.compared:
        yield "Contents were not compared: the pack job noted no digests."
        return
    yield f"Contents of {samples} samples were compared for exact copies, by digest."
    seen = samples - copies.no_look
    yield (
        f"Looks of {seen} samples were compared for near-duplicates between different patients (saved again, resized, "
        "slightly cropped or brightened; mirrored or turned images do not count, cropped volumes are mostly not found)."
    )
    if copies.no_look:
        yield (
            f"{copies.no_look} samples have no look (a format that is not read, damaged, or flat): near-duplicates of "
            "them would not be found."
        )
    if copies.near and meta.split_from == "dataset":
        yield f"{len(copies.near)} near-duplicates cross the split that came with the dataset; it was left as it is."


def _repeated(rows: Sequence[IndexRow]) -> Iterator[str]:
    """Equal reports of different patients are the custom of the trade, not a leak; a reader has to know how many."""
    texts = {split: [words(row.target or "") for row in rows if row.split == split] for split in SPLITS}
    train, every = set(texts["train"]), [text for found in texts.values() for text in found]
    again = sum(text in train for text in texts["test"])
    yield (
        f"{len(every) - len(set(every))} of {len(every)} reports repeat another one word for word; {again} of "
        f"{len(texts['test'])} test reports stand in training too. Equal reports are no leak by themselves."
    )


def _named(rows: Sequence[IndexRow], task: TaskKind) -> tuple[int, tuple[Pair, ...]]:
    """(training sample, test sample) where the first's attributes or target name a file that only the second has."""
    owner: dict[str, str] = {}
    for row in rows:
        if row.split == "test":
            for path in files_of(row, task):
                owner |= {path: row.sample_id, path.rpartition("/")[2]: row.sample_id}
    for row in rows:
        if row.split != "test":
            for path in files_of(row, task):
                # A shared path is another check's, and a name that both sides use ("image.png") names nobody.
                owner.pop(path, None)
                owner.pop(path.rpartition("/")[2], None)
    pairs: list[Pair] = []
    for row in rows:
        if row.split != "test":
            told: list[JsonValue] = [row.attributes, None if task == "report_generation" else row.target]
            spoken = [word for text in _texts(told) for word in text.split()]
            names = {part for word in spoken for part in (word, word.replace("\\", "/").rpartition("/")[2])}
            pairs += [(row.sample_id, sample) for sample in sorted({owner[name] for name in names if name in owner})]
    return len(pairs), tuple(pairs[:_PAIRS])


def _texts(given: JsonValue) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, list):
        for item in given:
            yield from _texts(item)
    elif isinstance(given, dict):
        for key, item in given.items():
            yield key
            yield from _texts(item)


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
