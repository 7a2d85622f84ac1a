"""From pairs of image and mask to the rows of a segmentation's index. Runs in the sandbox."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from shared.trainkit.collect import VOLUME_4D, Collection, reason_of, stem_of
from shared.trainkit.imagefile import suffix_of
from shared.trainkit.index import Row
from shared.trainkit.labelnames import Named, Names, name_values, names_in_dataset
from shared.trainkit.listings import listed_pairs
from shared.trainkit.masks import MASK_SUFFIXES, MaskInvalid, axes_problem, grid_of, grid_problem, mask_values, middle
from shared.trainkit.pairs import NO_IMAGE, Finder, Pair, Pairing
from shared.trainkit.patients import patients_of
from shared.trainkit.split import split_by_patient

FORMAT = "format that is not read for segmentations: convert it to NIfTI (.nii.gz)"
PICTURE = "picture beside volumes: nothing to do, a 3D case is made of volumes"
GRID = "mask on another grid than its image: resample the mask onto the image's grid, or export it again"
BAD_VALUES = "mask whose values are no labels: save it with whole numbers, 0 for background"
NOT_THE_AXES = "image with the wrong number of axes for this request: export it as one 2D picture or 3D volume"
UNSEEN = "case with a structure that no training case has: add training cases with it"
_LOOKED_AT = 24
"""Images whose intensities are looked at."""
_VOLUMES = {".nii", ".nii.gz"}


@dataclass(frozen=True)
class Look:
    values: frozenset[int] = frozenset()
    fault: str | None = None
    """Reason with its remedy."""
    detail: str = ""


def find_pairs(found: Collection, tables: Sequence[str], dimensions: int, hints: str) -> Pairing:
    """By the dataset's own list if it has one, else by the names. What is in no pair is accounted for in `excluded`."""
    usable = [name for name in found.files if suffix_of(name) in MASK_SUFFIXES]
    found.excluded[FORMAT] += [name for name in found.files if suffix_of(name) not in MASK_SUFFIXES]
    volumes = [name for name in usable if suffix_of(name) in _VOLUMES]
    if dimensions == 3 and volumes:
        found.excluded[PICTURE] += [name for name in usable if suffix_of(name) not in _VOLUMES]
        usable = volumes
    named = Finder(found.data, usable, stem_of, hints).find()
    listed = listed_pairs(found.data, tables, usable)
    if listed.pairs and len(listed.pairs) >= 0.8 * len(named.pairs):
        used = {name for pair in listed.pairs for name in (pair.image, pair.mask)}
        for reason, names in named.unused.items():
            listed.unused[reason] += [name for name in names if name not in used]
        told = used | {name for names in listed.unused.values() for name in names}
        rest = [name for pair in named.pairs for name in (pair.image, pair.mask) if name not in told]
        listed.unused["file that the dataset's own list leaves out: add it to the list to use it"] += rest
        named = listed
    for reason, names in named.unused.items():
        found.excluded[reason] += names
    return named


def check_pairs(found: Collection, pairs: Sequence[Pair], dimensions: int) -> list[tuple[Pair, frozenset[int]]]:
    """Pairs that hold, with the values in their masks. Every image and mask is read to its end, as time allows."""
    found.open_all(name for pair in pairs for name in (pair.image, pair.mask))
    with ThreadPoolExecutor(4) as pool:
        looks = list(pool.map(lambda pair: _look(found, pair, dimensions), pairs))
    sound = []
    for pair, look in zip(pairs, looks, strict=True):
        if look.fault is None:
            sound.append((pair, look.values))
            continue
        found.excluded[look.fault].append(look.detail)
    return sound


def _look(found: Collection, pair: Pair, dimensions: int) -> Look:
    for name in (pair.image, pair.mask):
        if name in found.unreadable:
            return Look(fault=found.unreadable[name], detail=name)
    try:
        image, mask = grid_of(found.data / pair.image), grid_of(found.data / pair.mask)
        if problem := axes_problem(image, dimensions):
            fault = VOLUME_4D if len(image.shape) > 3 else NOT_THE_AXES
            return Look(fault=fault, detail=f"{pair.image}: {problem}")
        if problem := grid_problem(image, mask):
            return Look(fault=GRID, detail=f"{pair.mask}: {problem}")
        if not found.in_time():
            return Look()
        return Look(frozenset(mask_values(found.data / pair.mask)))
    except MaskInvalid as error:
        return Look(fault=BAD_VALUES, detail=f"{pair.mask}: {error}")
    except Exception as error:  # whatever a reader trips over in a foreign file is the file's fault
        return Look(fault=reason_of(str(error)), detail=f"{pair.image} or its mask: {type(error).__name__}")


def name_structures(
    found: Collection, values: Iterable[frozenset[int]], tables: Sequence[str], card: Sequence[Names]
) -> Named:
    """Names for all values that occur; the dataset's own files come before the datacard."""
    named = name_values(set().union(*values), [*names_in_dataset(found.data, tables), *card])
    found.warnings += named.warnings
    return named


def make_rows(
    found: Collection, pairing: Pairing, sound: Sequence[tuple[Pair, frozenset[int]]], tables: Sequence[str]
) -> tuple[list[Row], str, str]:
    """Rows with `place` and `values`, and how patients were told apart."""
    patients, grouping, says = patients_of(found.data, [pair for pair, _ in sound], tables, pairing.in_folders)
    rows = [
        {
            "sample_id": pair.image,
            "patient": patient,
            "label": None,
            "target": pair.mask,
            "files": [pair.image],
            "place": pair.place,
            "values": values,
        }
        for (pair, values), patient in zip(sound, patients, strict=True)
    ]
    return rows, grouping, says


def split_rows(
    found: Collection, rows: Sequence[Row], seed: int, max_train: int | None, max_test: int | None
) -> tuple[list[Row], str]:
    """Structures are spread over the sides as classes are, so that a rare one is trained on before it is tested.

    A case with a structure that no training case has is left out: nothing could be learned of it.
    """
    several = len(set().union(*(row["values"] or {0} for row in rows)) - {0}) > 1
    spread = [{**row, "label": tuple(map(str, sorted(row["values"] - {0}))) if several else None} for row in rows]
    spread = [{**row, "label": row["label"] or None} for row in spread]
    divided, split_from = found.split(spread, seed=seed)
    sides = {row["sample_id"]: row["split"] for row in divided}
    plain = [{key: row[key] for key in ("sample_id", "patient", "label", "target", "files")} for row in rows]
    capped = split_by_patient(plain, val=0, keep=sides, seed=seed, max_train=max_train, max_test=max_test)
    values = {row["sample_id"]: row["values"] for row in rows}
    trained = {0}.union(*(values[row["sample_id"]] for row in capped if row["split"] == "train"))
    kept = [row for row in capped if values[row["sample_id"]] <= trained]
    found.excluded[UNSEEN] += [row["sample_id"] for row in capped if not values[row["sample_id"]] <= trained]
    return kept, split_from


def end_if_hopeless(
    found: Collection, pairing: Pairing, rows: Sequence[Row], values: Mapping[str, frozenset[int]]
) -> None:
    """Nothing to train on, or one patient: no index can be made, and here is why."""
    if not pairing.pairs:
        if not found.files:
            found.end_without_rows("")
        found.open_all(found.files)
        if len(found.unreadable) < len(found.files) and not pairing.unused.get(NO_IMAGE):
            found.cannot("no image has a mask: the dataset holds images only", "no_labels")
        found.end_without_rows("no mask belongs to an image by its name, folder or a list of the dataset")
    if not rows:
        found.end_without_rows("no pair of image and mask can be used")
    if len({row["patient"] for row in rows}) == 1:
        problem = f"all {len(rows)} usable cases belong to the one patient {rows[0]['patient']!r}"
        readable = [pair for pair in pairing.pairs if not {pair.image, pair.mask} & set(found.unreadable)]
        found.cannot(problem, "one_patient" if len(readable) == len(rows) else None, rows)
    if not set().union(*values.values()) - {0}:
        found.cannot("all masks are empty: there is no structure to segment. Export the masks again")


def _intensities(found: Collection, rows: Sequence[Row]) -> list[str]:
    """Whether some images are in Hounsfield units and others in grey values, by the middle slices of a few."""
    wide, grey = 0, 0
    for row in rows[:: max(1, len(rows) // _LOOKED_AT)][: _LOOKED_AT if found.in_time() else 0]:
        try:
            slice_ = middle(found.data / row["files"][0])
        except Exception:  # told elsewhere
            continue
        wide += bool(slice_.min() < -100)
        grey += bool(slice_.min() >= 0 and slice_.max() <= 255)
    if not (wide and grey):
        return []
    return [
        f"intensities of two kinds: of {wide + grey} images looked at {wide} reach below -100, {grey} hold 0 to 255"
    ]


def oddities(found: Collection, rows: Sequence[Row], values: Mapping[str, frozenset[int]], named: Named) -> list[str]:
    """What a later role should know of the cases."""
    said = []
    empty = [row["sample_id"] for row in rows if not values[row["sample_id"]] - {0}]
    if empty:
        said.append(f"{len(empty)} cases have an empty mask, such as {empty[0]}")
    cases = Counter(value for row in rows for value in values[row["sample_id"]])
    rare = [f"{name} in {cases[value]}" for name, value in named.label_values.items() if cases[value] < len(rows)]
    if rare:
        said.append(f"structures that not all {len(rows)} cases have: {', '.join(rare[:20])}")
    said += _intensities(found, rows)
    numbers = sorted(named.label_values.values())
    if numbers != list(range(1, len(numbers) + 1)):
        said.append(f"mask values are not contiguous: {', '.join(map(str, numbers[:40]))}")
    return said


def meta_of(named: Named, **fields: Any) -> dict[str, Any]:
    return {"label_names": list(named.label_values), "label_values": named.label_values, **fields}
