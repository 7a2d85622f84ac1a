"""Classes and patients: who is on which image, whether each class has enough of them, copies among the samples."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from shared.trainkit.folders import ID_NAME, PLAIN_NAME
from shared.trainkit.gate.dataset import SPLIT_NAMES, Dataset, split_part
from shared.trainkit.gate.tables import Labels, Told, all_labels, same_parts
from shared.trainkit.index import sample_digest
from shared.trainkit.names import IMAGE_WORD
from shared.trainkit.pairs import Pair
from shared.trainkit.patients import patients_of

SUPPORT = 3
"""One patient each for train, validation and test."""
FEW = 10
_IMBALANCE = 10
_SOURCES = 8
"""Label columns that are counted."""
_CLASSES = range(2, 51)
_PERSON = re.compile(r"(?:p|pt|pat|patients?|sub|subj|subjects?|case|person)[-_ ]?\d+", re.IGNORECASE)
MOST_COPIES = 20_000
MOST_BYTES = 2 << 30


def class_folders(data: Dataset) -> Labels | None:
    """The level at which samples stand in 2 to 50 folders that are neither numbered nor named after a kind of file."""
    below: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for name in data.samples:
        parts = PurePosixPath(name).parts
        for depth, part in enumerate(parts[:-1]):
            below[parts[:depth]][part] += 1
    total = len(data.samples)
    for above, names in below.items():
        ids = [name for name in names if ID_NAME.fullmatch(name) or PLAIN_NAME.fullmatch(name)]
        split = bool(above) and above[-1].lower() in SPLIT_NAMES
        # Below `train` only a part of the samples stands; its twin `test` has the same classes.
        if len(names) in _CLASSES and not ids and (split or names.total() >= 0.8 * total):
            depth = len(above)
            found: dict[str, tuple[str, ...]] = {
                name: (PurePosixPath(name).parts[depth],)
                for name in data.samples
                if len(PurePosixPath(name).parts) > depth + 1 and (split or PurePosixPath(name).parts[:depth] == above)
            }
            return Labels(
                "folders " + ("/".join((*above[:-1], "*", "<class>")) if split else "/".join((*above, "<class>"))),
                found,
            )
    return None


def patients(data: Dataset, classes: Labels | None, told: Told) -> dict[str, str]:
    """Sample -> patient, and how that is known in the facts."""
    names = list(data.samples)
    heads = [data.heads.get(data.samples[name][0]) for name in names]
    if names and all(head and head.patient for head in heads):
        who = [head.patient for head in heads if head]
        grouping, says = "stated", "the DICOM tag PatientID"
    elif sum(name in told.patients for name in names) >= 0.8 * len(names):
        who = [told.patients.get(name, name) for name in names]
        grouping, says = "stated", told.patients_from
    elif data.pairs:
        in_folders = {pair.image: pair.case for pair in data.pairs if "/" in pair.case}
        pairs = [Pair(name, "", in_folders.get(name, name)) for name in names]
        whole = len(in_folders) == len(data.pairs) == len(names)
        who, grouping, says = patients_of(data.tree.root, pairs, data.tree.tables, whole)
    else:
        pairs, in_folders_ = _cases(names, classes)
        who, grouping, says = patients_of(data.tree.root, pairs, data.tree.tables, in_folders_)
    if grouping == "inferred" and (heads_ := _without_sequence(names)):
        who, grouping, says = heads_, "derived", "the name of the image less its sequence, up to its first number"
    data.facts["patients"] = {"number": len(set(who)), "known": grouping, "by": says}
    found = dict(zip(names, who, strict=True))
    if grouping == "inferred" and len(names) > 1:
        data.findings.add("patients_unknown", "all samples", says, len(names))
    several = Counter(who)
    for patient in dict.fromkeys(who):
        if several[patient] > 1:
            data.findings.add("several_scans", str(patient), f"{several[patient]} samples")
    data.findings.measure("several_scans", f"split by patient ({says}), never by file", patients=len(several),
                          most_samples=max(several.values(), default=0))  # fmt: skip
    if len(several) == 1 and len(names) > 1:
        data.findings.add("one_patient", str(who[0]), f"{len(names)} samples")
    return found


def _without_sequence(names: Sequence[str]) -> list[str] | None:
    """`AB-00006-000-t1n` -> AB-00006, where names fall into many groups of a few; None where they do not."""
    found = []
    for name in names:
        stem = PurePosixPath(name).name.split(".")[0]
        head, last = stem[: max(stem.rfind("-"), stem.rfind("_"), 0)], re.split(r"[-_]", stem)[-1]
        stem = head if head and IMAGE_WORD.fullmatch(last) else stem
        first = re.match(r"\D*\d+(?=[-_]\D*\d)", stem)
        found.append(first[0] if first else stem)
    sizes = Counter(found)
    few = len(sizes) >= 0.15 * len(names) and max(sizes.values()) <= max(4, 0.1 * len(names))
    return found if few and len(sizes) < 0.9 * len(names) else None


def _cases(names: Sequence[str], classes: Labels | None) -> tuple[list[Pair], bool]:
    """Samples with their path below class and split; and whether its first folder is a patient's."""
    drop = set(all_labels(classes.of)) if classes else set()
    cases, heads = [], []
    for name in names:
        parts = list(PurePosixPath(name).parts)
        while len(parts) > 1 and (parts[0] in drop or parts[0].lower() in SPLIT_NAMES or _plain(parts[0])):
            del parts[0]
        cases.append(Pair(name, "", "/".join(parts)))
        if len(parts) > 1:
            heads.append(parts[0])
    folders = set(heads)
    numbered = sum(bool(re.search(r"\d", head)) for head in heads) >= 0.8 * len(names)
    enough = len(folders) >= 0.2 * len(names) or all(_PERSON.fullmatch(head) for head in folders)
    return cases, bool(heads) and len(heads) == len(names) and numbered and enough


def _plain(name: str) -> bool:
    return bool(PLAIN_NAME.fullmatch(name)) and not re.search(r"\d", name)


def check_classes(data: Dataset, folders: Labels | None, told: Told, who: Mapping[str, str]) -> list[Labels]:
    """Patients a class; the folders count first, then each column that parts the samples another way."""
    if data.pairs:
        return []
    sources = [*([folders] if folders else [])]
    sources += [one for one in told.labels if not (folders and same_parts(one.of, folders.of))]
    for labels in sources[:_SOURCES]:
        members: dict[str, set[str]] = defaultdict(set)
        for name, own in labels.of.items():
            for label in own:
                members[label].add(who.get(name, name))
        counts = {label: len(found) for label, found in sorted(members.items())}
        data.facts.setdefault("classes", {})[labels.source] = dict(all_labels(labels.of).most_common(50))
        if len(counts) == 1 and labels is sources[0] and all(labels.of.values()):
            data.findings.add("one_class", next(iter(counts)), f"{labels.source}, {len(labels.of)} samples")
            continue
        for label, number in counts.items():
            said = f"{labels.source}: {number} patients, {all_labels(labels.of)[label]} samples"
            if number < SUPPORT:
                data.findings.add("no_support", label, said)
            elif number < FEW:
                data.findings.add("few_patients", label, said)
        if len(counts) > 1 and max(counts.values()) > _IMBALANCE * min(counts.values()):
            low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
            data.findings.add("imbalance", labels.source, f"{high} {counts[high]}, {low} {counts[low]} patients")
    for labels in sources[:1]:
        _shortcuts(data, labels)
    return sources


def _shortcuts(data: Dataset, labels: Labels) -> None:
    """A class whose files have another extension, size or pixel kind than those of the other classes."""
    for what in ("extension", "size", "pixel kind"):
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for name, own_labels in labels.of.items():
            label = ", ".join(own_labels)
            file = data.samples.get(name, [name])[0]
            head = data.heads.get(file)
            if what == "extension":
                seen[label][PurePosixPath(file).suffix] += 1
            elif head:
                seen[label]["x".join(map(str, head.shape)) if what == "size" else head.kind] += 1
        everywhere = sum(seen.values(), Counter[str]())
        for label, own in sorted(seen.items()):
            value, count = own.most_common(1)[0]
            others = everywhere.total() - own.total()
            elsewhere = everywhere[value] - count
            if own.total() >= FEW and others >= FEW and count > 0.8 * own.total() and elsewhere < 0.2 * others:
                data.findings.add("class_shortcut", label, f"{what} {value}: {count} of {own.total()} here, "
                                  f"{elsewhere} of {others} elsewhere")  # fmt: skip


def check_sides(data: Dataset, told: Told, who: Mapping[str, str]) -> None:
    """Whether the dataset's own split divides a patient."""
    sides: dict[str, set[str]] = defaultdict(set)
    for name, patient in who.items():
        said = told.splits.get(name) or split_part(name)
        if said in SPLIT_NAMES:
            sides[patient].add(SPLIT_NAMES[said])
    parts = set().union(*sides.values()) if sides else set()
    for patient, found in sides.items():
        if len(found) > 1:
            data.findings.add("both_sides", patient, " and ".join(sorted(found)))
    if len(parts) > 1:
        data.facts["split"] = sorted(parts)
        data.findings.measure("both_sides", patients=len(sides))


def check_copies(data: Dataset, labels: Sequence[Labels]) -> None:
    """Samples of the same bytes; only those of one size are read."""
    sizes: dict[tuple[int, ...], list[str]] = defaultdict(list)  # bytes of the files -> samples
    for name, files in data.samples.items():
        if not set(files) & data.bad:
            sizes[tuple(data.tree.sizes[file] for file in files)].append(name)
    candidates = [(size, names) for size, names in sizes.items() if len(names) > 1 and any(size)]
    read, count, groups, left = 0, 0, [], 0
    for size, names in candidates:
        alike: dict[str, list[str]] = defaultdict(list)
        for name in names:
            if count >= MOST_COPIES:
                left += 1
                continue
            count += 1
            alike[_begin(data.tree.root, data.samples[name])].append(name)
        for members in alike.values():
            same: dict[str, list[str]] = defaultdict(list)
            for name in members if len(members) > 1 else ():
                if read > MOST_BYTES:
                    left += 1
                    continue
                read += sum(size)
                same[sample_digest([data.tree.root / file for file in data.samples[name]])].append(name)
            groups += [found for found in same.values() if len(found) > 1]
    if left:
        data.tree.skipped.append(f"{left:,} samples of equal size were not compared for being copies")
    for found in groups:
        disagree = any(len({one.of[name] for name in found if name in one.of}) > 1 for one in labels)
        for name in found[1:]:
            data.findings.add("copies_disagree" if disagree else "copies", name, f"of {found[0]}")


def _begin(root: Path, files: Sequence[str]) -> str:
    """A cheap look that parts most files: the middle and the end of the first and the last one."""
    digest = hashlib.sha256()
    for file in {files[0]: None, files[-1]: None}:
        with (root / file).open("rb") as stream:
            size = stream.seek(0, 2)
            for start in (size // 2, max(0, size - 4096)):
                stream.seek(start)
                digest.update(stream.read(4096))
    return digest.hexdigest()
