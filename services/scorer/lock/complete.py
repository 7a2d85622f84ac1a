"""Can an index be trained on and scored at all? Pure: rows and packs in, gates out."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from services.scorer.rows import label_of, several_labels
from services.scorer.texts.tokens import words
from shared.contracts.base import SEGMENTATIONS, TaskKind
from shared.contracts.data import IndexMeta, IndexRow, PackedSample, PackList
from shared.contracts.scoring import Gate
from shared.reporttext import MAX_CHARACTERS
from shared.trainkit.checks import repeats_labels

SHOWN = 5
"""Offenders named in a gate's sentence."""
MAX_VALUE = 2**31 - 1
"""Of a label in a mask."""
PASSAGE = 5
"""So many words in a row are taken for a quotation."""

_PATH = re.compile(r"\s*(?:\S+[/\\]\S*|\S+\.[A-Za-z]\w{0,4})\s*")


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
    if meta.task in SEGMENTATIONS:
        of_task = _masks(rows, meta, damaged)
    elif meta.task == "report_generation":
        of_task = _reports(rows)
    elif several_labels(rows):
        of_task = _labels(rows, meta)
    else:
        of_task = _classes(rows, meta)
    telling = _repeating_attributes(rows) if several_labels(rows) else _telling_attributes(rows, meta.label_names)
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
        _gate("test_labelled", unlabelled, "test rows have no label: each needs exactly one"),
        _gate("labels_known", unknown, "rows have a label that is not among label_names"),
        _gate("classes_present", absent, "classes have no sample where one is needed"),
    )


def _labels(rows: Sequence[IndexRow], meta: IndexMeta) -> tuple[Gate, ...]:
    """Of a rare label the test set may hold no case: it is then no part of the means, and the scores say so."""
    alone = [row.sample_id for row in rows if isinstance(row.label, str)]
    unlabelled = [row.sample_id for row in rows if row.split == "test" and row.label is None]
    twice = [row.sample_id for row in rows if isinstance(row.label, tuple) and len(set(row.label)) < len(row.label)]
    known = set(meta.label_names)
    unknown = [row.sample_id for row in rows if isinstance(row.label, tuple) and set(row.label) - known]
    held = {split: [row.label or () for row in rows if row.split == split] for split in ("train", "test")}
    alike = {
        split: [name for name in meta.label_names if len({name in labels for labels in held[split]}) < 2]
        for split in held
    }
    absent = [f"{name} in train" for name in alike["train"]]
    absent += ["any label in test"] if len(alike["test"]) == len(meta.label_names) else []
    return (
        _gate("labels_alike", alone, "rows have a label as a text where others have lists: all rows must be alike"),
        _gate("test_labelled", unlabelled, "test rows have no list of labels: each needs one, `[]` where none holds"),
        _gate("labels_once", twice, "rows list a label twice"),
        _gate("labels_known", unknown, "rows have a label that is not among label_names"),
        _gate("labels_vary", absent, "labels that some rows have and others lack are missing where one is needed"),
    )


def _masks(rows: Sequence[IndexRow], meta: IndexMeta, damaged: Mapping[str, str]) -> tuple[Gate, ...]:
    """Which structures a mask holds cannot be known from rows: that is for the probe and for the scoring."""
    without = [row.sample_id for row in rows if not row.target]
    masks = {row.target for row in rows if row.target}
    shown = [row.sample_id for row in rows if masks & set(row.files)]
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
        _train_present(rows),
    )


def _reports(rows: Sequence[IndexRow]) -> tuple[Gate, ...]:
    empty = [row.sample_id for row in rows if not words(row.target or "")]
    long = [row.sample_id for row in rows if len(row.target or "") > MAX_CHARACTERS]
    files = {path for row in rows for path in row.files}
    paths = [row.sample_id for row in rows if row.target and (row.target in files or _PATH.fullmatch(row.target))]
    telling = sorted({key for row in rows for key, given in row.attributes.items() if _quoted(row.target or "", given)})
    return (
        _gate("reports_given", empty, "rows have no report: each needs a text of at least one word as its target"),
        _gate("reports_bounded", long, f"rows have a report of more than {MAX_CHARACTERS} characters"),
        _gate("reports_are_texts", paths, "rows have the path of a file where the report's text belongs: read it in"),
        _gate("reports_apart", telling, "attributes repeat the report: inference would be given the answer"),
        _train_present(rows),
    )


def _quoted(report: str, given: JsonValue) -> bool:
    """Whether an attribute is the report or holds all of it, or is a passage of it."""
    if isinstance(given, list | Mapping):
        return any(_quoted(report, item) for item in (given.values() if isinstance(given, Mapping) else given))
    whole, part = words(report), words(given) if isinstance(given, str) else ()
    if not whole or not part:
        return False
    text, said = f" {' '.join(whole)} ", f" {' '.join(part)} "
    # A short report ("Normal.") may well stand in some remark, and few words of a report in any.
    return text == said or (len(whole) >= PASSAGE and text in said) or (len(part) >= PASSAGE and said in text)


def _train_present(rows: Sequence[IndexRow]) -> Gate:
    there = any(row.split == "train" for row in rows)
    return Gate(
        name="train_present",
        passed=there,
        evidence="there are training rows" if there else "no row is for training",
    )


def _packed(rows: Sequence[IndexRow], task: TaskKind, packs: PackList) -> Gate:
    places = {row.sample_id: row.split == "test" for row in rows}
    buckets: dict[bool, set[str]] = {True: set(), False: set()}
    for pack in packs.samples:
        buckets[places.get(pack.sample_id, False)].add(pack.pack.bucket)
    in_order = [pack.sample_id for pack in packs.samples] == [row.sample_id for row in rows]
    evidence = f"{len(packs.samples)} packs for {len(rows)} rows, test packs apart from the others"
    astray: list[str] = []
    pairs = zip(rows, packs.samples, strict=True) if in_order else ()
    if task in SEGMENTATIONS:
        astray = [row.sample_id for row, pack in pairs if row.target and not _mask_in_place(row, pack)]
        evidence += f", {len(astray)} masks not where they belong"
    elif task == "report_generation":
        # A text is in the index alone: taken for a path, it would have put a file of the dataset into a pack.
        astray = [row.sample_id for row, pack in pairs if pack.target or len(pack.files) != len(row.files)]
        evidence += f", {len(astray)} packs with more than the images"
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


def _repeating_attributes(rows: Sequence[IndexRow]) -> list[str]:
    """The same where several labels may hold: columns that are one of them, or all."""
    columns: defaultdict[str, list[tuple[JsonValue, tuple[str, ...]]]] = defaultdict(list)
    for row in rows:
        if isinstance(row.label, tuple):
            for key, given in row.attributes.items():
                columns[key].append((given, row.label))
    return [
        key
        for key, entries in columns.items()
        if repeats_labels([given for given, _ in entries], [held for _, held in entries])
    ]


def _gate(name: str, offenders: Sequence[str], what: str) -> Gate:
    examples = f": {', '.join(offenders[:SHOWN])}" if offenders else ""
    return Gate(name=name, passed=not offenders, evidence=f"{len(offenders)} {what}{examples}")
