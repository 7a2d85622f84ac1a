"""Work handed back: the same index without the samples that a later role could not use, or with patients joined.

Runs in the sandbox.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from shared.trainkit.collect import report
from shared.trainkit.index import SPLITS, Row, labels_of, read_index, write_index
from shared.trainkit.split import split_by_patient, split_shares

_RANK = {"test": 0, "val": 1, "train": 2}
"""Of two samples that must not stand on two sides, the one further back goes: the test set stays as it is."""


def leave_out(
    samples: Mapping[str, str], pairs: Iterable[tuple[str, str, str]] = (), folder: Path | None = None
) -> None:
    """Write the index in `folder` anew without `samples` (id -> what is wrong) and one of each pair (check, id, id).

    All others keep their side. Ends with a sentence and exit code 1 where nothing is left to work with.
    """
    folder = folder or Path()
    rows, meta, before = _earlier(folder)
    side = {row["sample_id"]: row["split"] for row in rows}
    wrong = dict(samples)
    for check, one, other in pairs:
        if one in side and other in side and not {one, other} & set(wrong):
            goes = max((one, other), key=lambda name: _RANK[side[name]])
            wrong[goes] = f"{check.replace('_', ' ')} as {other if goes == one else one} on another side of the split"
    gone = sorted(wrong.keys() & side.keys())
    if not gone:
        _end(f"none of the samples that were handed back is in the index, such as {next(iter(wrong), 'none')}")
    kept = [row for row in rows if row["sample_id"] not in wrong]
    lost = [name for name in SPLITS if name in side.values() and not any(row["split"] == name for row in kept)]
    if lost:
        _end(f"all samples of {' and '.join(lost)} were handed back, such as {gone[0]}: {wrong[gone[0]]}")
    reasons: dict[str, list[str]] = defaultdict(list)
    for name in gone:
        reasons[f"handed back: {' '.join(wrong[name].split())[:200]}"].append(name)
    counts = dict(meta["excluded_counts"])
    for reason, names in reasons.items():
        meta["excluded"][reason] = [*meta["excluded"].get(reason, []), *names][:20]
        counts[reason] = counts.get(reason, 0) + len(names)
    write_index(folder, kept, {**meta, "excluded_counts": counts})
    report(kept, before["found"], counts, before["layout"], before["warnings"], before["oddities"])


def join_patients(pairs: Iterable[tuple[str, str]], folder: Path | None = None, **options: Any) -> None:
    """Write the index in `folder` anew, split again so that the patients of each pair of samples stay on one side.

    Where that would leave a side without one of its classes, or no split at all, the earlier split is kept and a
    warning says so: the scorer then states what crosses it. `options` are those of `split_by_patient` (seed, caps,
    balance). Ends with a sentence and exit code 1 where no pair is in the index.
    """
    folder = folder or Path()
    rows, meta, before = _earlier(folder)
    known = {row["sample_id"] for row in rows}
    same = [(one, other) for one, other in pairs if one in known and other in known]
    if not same:
        _end("none of the pairs of samples that were handed back is in the index")
    shares = split_shares(len({row["patient"] for row in rows}))
    pairs_said = f"{len(same)} pairs of patients who show the same image"
    try:
        split = split_by_patient(rows, same=same, **{**shares, **options})
        problem = _lost(rows, split)
    except ValueError as error:
        split, problem = rows, str(error)
    if problem:
        said = f"{pairs_said} stay on two sides, such as {same[0][0]} and {same[0][1]}: kept on one side, {problem}"
        warnings = [*before["warnings"], said]
        report(rows, before["found"], meta["excluded_counts"], before["layout"], warnings, before["oddities"])
        return
    said = f"{pairs_said} stay on one side, such as {same[0][0]} and {same[0][1]}"
    write_index(folder, split, {**meta, "split_from": "made", "grouping_from": f"{meta['grouping_from']}; {said}"})
    oddities = [*before["oddities"], said]
    report(split, before["found"], meta["excluded_counts"], before["layout"], before["warnings"], oddities)


def _lost(before: Sequence[Row], after: Sequence[Row]) -> str:
    """Which class a side has no more; empty where each side has all that it had."""
    had, has = ({(row["split"], name) for row in rows for name in labels_of(row)} for rows in (before, after))
    gone = [f"{name} has no sample in {side}" for side, name in sorted(had - has) if side != "val"]
    return ", ".join(gone)


def _earlier(folder: Path) -> tuple[list[Row], dict[str, Any], dict[str, Any]]:
    """Rows, meta and report of the index that was handed back."""
    try:
        rows = read_index(folder / "index.jsonl")
        meta = json.loads((folder / "index_meta.json").read_text(encoding="utf-8"))
        return rows, meta, json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        _end(f"the earlier index is gone ({error.filename}); start a new run")


def _end(problem: str) -> NoReturn:
    print(json.dumps({"problem": problem}))
    raise SystemExit(1)
