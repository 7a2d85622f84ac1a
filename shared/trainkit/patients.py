"""Who is on an image of a segmentation: by a table, a folder, or the pattern of the names. Runs in the sandbox."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from shared.trainkit.listings import Places, read_table
from shared.trainkit.pairs import Pair

COLUMN = re.compile(
    r"(?:patient|subject|person|participant)s?(?:[ _-]?(?:id|nr|no|number|code|key|identifier|uid))?$|\bptid\b|\bmrn\b",
    re.IGNORECASE,
)
"""Says who somebody is; `PatientSex` and `PatientAge` do not."""
_VISIT = re.compile(r"[-_](?:MR|CT|ses|session|visit|scan|tp|timepoint|day)[-_]?\d+$", re.IGNORECASE)

Grouping = tuple[list[str], str, str]
"""A patient for each pair; `stated`, `derived` or `inferred`; the sentence that says how."""


def patients_of(root: Path, pairs: Sequence[Pair], tables: Iterable[str], in_folders: bool) -> Grouping:
    """Merges rather than parts: two scans of one patient on two sides of a split are worse than a smaller choice."""
    if stated := _from_tables(root, pairs, tables):
        return stated
    subjects = [re.search(r"(?:^|[/_])(sub-[A-Za-z0-9]+)", pair.image) for pair in pairs]
    if all(subjects):
        return [found[1] for found in subjects if found], "derived", "the part sub-... of the path"
    if in_folders:
        folders = [_VISIT.sub("", pair.case.split("/")[0]) for pair in pairs]
        return folders, "derived", "the folder of a case, less the number of a visit"
    stems = [re.sub(r"_000\d$", "", PurePosixPath(pair.image).name.split(".")[0]) for pair in pairs]
    heads = [_VISIT.sub("", stem) for stem in stems]
    if _plausible(heads, stems):
        return heads, "derived", "the name of the image, less the number of a visit"
    heads = [found[0] if (found := re.match(r"\D*\d+(?=[-_]\D*\d)", stem)) else stem for stem in stems]
    if _plausible(heads, stems):
        return heads, "derived", "the name of the image up to its first number"
    if len(set(stems)) < len(stems):  # numbered from 1 again in another folder
        stems = [str(PurePosixPath(pair.image).with_name(stem)) for pair, stem in zip(pairs, stems, strict=True)]
    return stems, "inferred", "each case counts as a patient of its own; nothing tells them apart"


def _plausible(heads: Sequence[str], stems: Sequence[str]) -> bool:
    """Whether names fall into small groups: one group for all would mean that the number is no patient's."""
    sizes = Counter(heads)
    return len(set(stems)) == len(stems) and len(stems) > len(sizes) >= 0.5 * len(stems)


def _from_tables(root: Path, pairs: Sequence[Pair], tables: Iterable[str]) -> Grouping | None:
    for table in tables:
        if Path(table).suffix.lower() not in (".csv", ".tsv"):
            continue
        try:
            rows = read_table(root / table)
        except (OSError, ValueError):
            continue
        column = next((name for name in rows[0] if COLUMN.search(name)), None) if rows else None
        if column is None:
            continue
        places = Places([pair.image for pair in pairs])
        stems = {PurePosixPath(pair.image).name.split(".")[0].lower(): pair.image for pair in pairs}
        patient: dict[str, str] = {}
        for row in rows:
            for name, value in row.items():
                text = str(value or "")
                image = places.find(text, PurePosixPath(table).parent) or stems.get(text.strip().lower())
                if name != column and image and (row[column] or "").strip():
                    patient[image] = row[column].strip()
        if len(patient) == len(pairs):
            return [patient[pair.image] for pair in pairs], "stated", f"column {column!r} of {table}"
    return None
