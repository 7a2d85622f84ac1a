"""Can an index be trained on and scored at all? Pure: rows and packs in, gates out."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.data import IndexMeta, IndexRow, PackedSample, PackList
from shared.contracts.scoring import Gate

SHOWN = 5
"""Offenders named in a gate's sentence."""
MAX_VALUE = 2**31 - 1
"""Of a label in a mask."""


def label_of(row: IndexRow) -> str | None:
    """The one class of a row; None when it has none or several."""
    if isinstance(row.label, tuple):
        return row.label[0] if len(row.label) == 1 else None
    return row.label


def files_of(row: IndexRow, task: TaskKind) -> tuple[str, ...]:
    """All files that belong to a row: its images, and its mask where the task has masks."""
    return (*row.files, row.target) if task in SEGMENTATIONS and row.target else row.files


def complete(
    rows: Sequence[IndexRow], meta: IndexMeta, packs: PackList, damaged: Mapping[str, str]
) -> tuple[Gate, ...]:
    """`damaged` names test samples whose mask cannot be scored against, with the reason."""
    repeated = [name for name, times in Counter(row.sample_id for row in rows).items() if times > 1]
    test_patients = len({row.patient for row in rows if row.split == "test"})
    enough = Gate(
        name="test_patients",
        passed=test_patients >= 2,
        evidence=f"{test_patients} patients in test, at least 2 are needed for an interval",
    )
    of_task = _masks(rows, meta, packs, damaged) if meta.task in SEGMENTATIONS else _classes(rows, meta)
    telling = _telling_attributes(rows, meta.label_names)
    return (
        _gate("samples_unique", repeated, "sample ids stand in several rows"),
        *of_task,
        enough,
        _gate("attributes_without_label", telling, "attributes repeat the label: inference would be given the answer"),
        _packed(rows, meta.task, packs),
    )


def _classes(rows: Sequence[IndexRow], meta: IndexMeta) -> tuple[Gate, ...]:
    unlabelled = [row.sample_id for row in rows if row.split == "test" and label_of(row) is None]
    known = set(meta.label_names)
    unknown = [row.sample_id for row in rows if label_of(row) is not None and label_of(row) not in known]
    absent = [
        f"{name} in {split}"
        for split in ("train", "test")
        for name in meta.label_names
        if not any(row.split == split and label_of(row) == name for row in rows)
    ]
    return (
        _gate("test_labelled", unlabelled, "test rows have no label, or several: each needs exactly one"),
        _gate("labels_known", unknown, "rows have a label that is not among label_names"),
        _gate("classes_present", absent, "classes have no sample where one is needed"),
    )


def _masks(rows: Sequence[IndexRow], meta: IndexMeta, packs: PackList, damaged: Mapping[str, str]) -> tuple[Gate, ...]:
    """Which structures a mask holds cannot be known from rows: that is for the probe and for the scoring."""
    without = [row.sample_id for row in rows if not row.target]
    masks = {row.target for row in rows if row.target}
    shown = [row.sample_id for row in rows if masks & set(row.files)]
    splits = {row.split for row in rows}
    names, values = meta.label_names, meta.label_values
    strange = [name for name in names if not 1 <= values.get(name, 0) <= MAX_VALUE]
    times = Counter(values[name] for name in names if name in values)
    strange += [name for name in names if name in values and times[values[name]] > 1]
    if not names:
        strange.append("label_names is empty")
    broken = [f"{name} ({why})" for name, why in damaged.items()]
    return (
        _gate("masks_given", without, "rows have no mask: each needs one as its target"),
        _gate("masks_apart", shown, "rows list a mask among their images: inference would be given the answer"),
        _gate("masks_readable", broken, "masks of test rows cannot be scored against"),
        _gate("label_values", strange, "structures have no value of their own, 1 or more, in label_values"),
        Gate(
            name="train_present",
            passed="train" in splits,
            evidence="there are training rows" if "train" in splits else "no row is for training",
        ),
    )


def _packed(rows: Sequence[IndexRow], task: TaskKind, packs: PackList) -> Gate:
    places = {row.sample_id: row.split == "test" for row in rows}
    buckets: dict[bool, set[str]] = {True: set(), False: set()}
    for pack in packs.samples:
        buckets[places.get(pack.sample_id, False)].add(pack.pack.bucket)
    in_order = [pack.sample_id for pack in packs.samples] == [row.sample_id for row in rows]
    evidence = f"{len(packs.samples)} packs for {len(rows)} rows, test packs apart from the others"
    astray: list[str] = []
    if task in SEGMENTATIONS and in_order:
        pairs = zip(rows, packs.samples, strict=True)
        astray = [row.sample_id for row, pack in pairs if row.target and not _mask_in_place(row, pack)]
        evidence += f", {len(astray)} masks not where they belong"
    return Gate(
        name="packs_complete", passed=in_order and not buckets[True] & buckets[False] and not astray, evidence=evidence
    )


def _mask_in_place(row: IndexRow, pack: PackedSample) -> bool:
    """A test row's mask is a sealed object and nothing of its pack; any other is the last member of the pack."""
    if row.split == "test":
        return pack.target is not None and pack.target.bucket == "sealed" and len(pack.files) == len(row.files)
    return pack.target is None and pack.files == (*row.files, row.target)


def _telling_attributes(rows: Sequence[IndexRow], labels: Sequence[str]) -> list[str]:
    """Attribute columns that are the label's name or number in every row that has both."""
    held: defaultdict[str, list[tuple[JsonValue, str]]] = defaultdict(list)
    for row in rows:
        label = label_of(row)
        if label is not None and label in labels:
            for key, given in row.attributes.items():
                held[key].append((given, label))
    return [
        key
        for key, entries in held.items()
        if len({label for _, label in entries}) > 1
        and (
            all(str(given).strip().lower() == label.strip().lower() for given, label in entries)
            or all(str(given) == str(labels.index(label)) for given, label in entries)
        )
    ]


def _gate(name: str, offenders: Sequence[str], what: str) -> Gate:
    examples = f": {', '.join(offenders[:SHOWN])}" if offenders else ""
    return Gate(name=name, passed=not offenders, evidence=f"{len(offenders)} {what}{examples}")
