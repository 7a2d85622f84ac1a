"""The index as an nnU-Net dataset: checked, converted, planned and preprocessed below one cache folder.

Everything here can be made again. Masks are written with the classes 1..N in place of the dataset's values, on the
image's own grid; affine, spacing and orientation are never rewritten. `plans.json` is nnU-Net's plan, there to be read
and edited: an edited one is kept and followed.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from config import Config, Nnunet
from plan import DATASET, configuration_of, plan, plans_file, preprocess

from shared.imaging.units import looks_like_hu
from shared.imaging.volume import BadImage, Image
from shared.imaging.write import write_nifti, write_png
from shared.training import masks
from shared.training.checkpoints import fingerprint
from shared.training.checks import DataProblems, Problem, read_all, refuse
from shared.training.progress import read_json, write_json

HERE = Path(__file__).resolve().parent
PLANS = Path("plans.json")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """What the trainer needs; `counts` is split -> structure -> cases that have it."""

    plans: dict[str, Any]
    dataset: dict[str, Any]
    configuration: str
    counts: dict[str, dict[str, int]]
    mark: str
    """Digest of rows, values, file sizes, code and of the settings that plans follow from."""


def case_name(row: Row) -> str:
    """Opaque, and the same whatever other rows there are."""
    return "c" + hashlib.sha256(str(row["sample_id"]).encode()).hexdigest()[:16]


def prepare(config: Config, rows: Sequence[Row], cache: Path, device: str, plans_at: Path = PLANS) -> Prepared:
    """Everything up to the training. What is there for the same data and settings is taken as it is; `plans_at` is
    written where it is missing, and followed where it was edited. Raises DataProblems with all that is wrong."""
    how, values, data = config.nnunet, masks.label_values(config), config.data_folder.resolve()
    settings = how.model_dump(include={"configuration", "modality", "memory_gb", "features"})
    code = [HERE / "cases.py", HERE / "plan.py"]
    mark = fingerprint([settings, device, data_mark(rows, values, data)], code)
    note = cache / "prepared.json"
    known = read_json(note)
    edited = edited_plans(plans_at, known)
    if known.get("mark") != mark:
        note.unlink(missing_ok=True)
        for kind in ("raw", "preprocessed"):
            shutil.rmtree(cache / kind, ignore_errors=True)
            (cache / kind).mkdir(parents=True)
        counts = convert(config, rows, values, data, cache)
        made = plan(how, cache, device)
        dataset = read_json(cache / "raw" / DATASET / "dataset.json")
        dataset.pop("dataset")  # files; all that follows goes by the preprocessed ones
        known = {"mark": mark, "made": made, "dataset": dataset, "counts": counts}
    plans = edited or known["made"]
    configuration = configuration_of(how, plans)
    if known.get("plans") != plans:
        if edited:
            print(f"{plans_at} was edited and is followed; remove it to have nnU-Net plan anew", flush=True)
        write_json(plans_file(cache), plans)
        # The one fold that there is: ours, never one of nnU-Net's random ones.
        parts = {split: sorted(case_name(row) for row in rows if row["split"] == split) for split in ("train", "val")}
        write_json(plans_file(cache).with_name("splits_final.json"), [parts])
        preprocess(plans, configuration, cache)
        known = {**known, "plans": plans, "configuration": configuration}
        write_json(note, known)
    write_json(plans_at, plans)
    return Prepared(**{name: value for name, value in known.items() if name != "made"})


def edited_plans(path: Path, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plan of a person or an agent; None where there is none but nnU-Net's. Raises DataProblems."""
    if not path.exists():
        return None
    found = read_json(path)
    if not found.get("configurations"):
        raise DataProblems([Problem(str(path), "is no plan of nnU-Net's; remove it to have it made anew")])
    return None if found == known.get("made") else found


def data_mark(rows: Sequence[Row], values: Mapping[str, int], data: Path) -> list[Any]:
    """Rows, values and the sizes of their files: cheap, and another file of the same name seldom has the same size."""
    sizes = []
    for row in rows:
        files = [data / str(file) for file in (*row["files"], row["target"])]
        sizes.append([file.stat().st_size if file.is_file() else -1 for file in files])
    return [list(rows), sizes, list(values.items())]


@dataclass(frozen=True)
class Written:
    """What is remembered of a converted sample. `hu`: whether it is in Hounsfield units."""

    channels: int
    picture: bool
    hu: bool
    present: frozenset[int]
    """Class numbers in the mask."""


def convert(
    config: Config, rows: Sequence[Row], values: Mapping[str, int], data: Path, cache: Path
) -> dict[str, Counter[str]]:
    """Write the raw dataset; the faults of all samples are collected. -> split -> structure -> samples with it."""
    how: Nnunet = config.nnunet
    raw = cache / "raw" / DATASET
    for folder in (raw / "imagesTr", raw / "labelsTr"):
        folder.mkdir(parents=True)
    written: dict[str, Written] = {}

    def write(row: Row) -> None:
        written[str(row["sample_id"])] = write_case(row, data, raw, values)

    refuse(read_all(rows, write))
    good = [written[str(row["sample_id"])] for row in rows]
    counts: dict[str, Counter[str]] = {"train": Counter(), "val": Counter()}
    for row, found in zip(rows, good, strict=True):
        counts[row["split"]].update(name for number, name in enumerate(values, 1) if number in found.present)
    refuse(kind_problems(rows, good) + masks.missing(counts, values, config.every_structure))
    ct = how.modality == "ct" or (how.modality == "auto" and 2 * sum(found.hu for found in good) > len(good))
    ending = ".png" if good[0].picture else ".nii.gz"
    write_json(
        raw / "dataset.json",
        {
            "name": DATASET,
            "channel_names": {str(number): "CT" if ct else "image" for number in range(good[0].channels)},
            # nnU-Net gives some names a meaning ("ignore"); ours need not survive in its files.
            "labels": {"background": 0, **{f"structure {number}": number for number in range(1, len(values) + 1)}},
            "numTraining": len(rows),
            "file_ending": ending,
            "overwrite_image_reader_writer": "NaturalImage2DIO" if good[0].picture else "NibabelIOWithReorient",
            # Without this list nnU-Net forks twelve processes to look for the files.
            "dataset": {
                name: {
                    "images": [f"imagesTr/{name}_{number:04d}{ending}" for number in range(good[0].channels)],
                    "label": f"labelsTr/{name}{ending}",
                }
                for name in map(case_name, rows)
            },
        },
    )
    return counts


def write_case(row: Row, data: Path, raw: Path, values: Mapping[str, int]) -> Written:
    """Channels and mask of a case as nnU-Net names them. Raises BadImage."""
    image, classes = masks.load_case(row, data, values)
    if not image.array.any():
        raise BadImage("the image is zero everywhere")
    case, channels = case_name(row), image.array.shape[-1]
    # nnU-Net reads whole 8 and 16 bit pictures as such; anything else becomes a volume of one slice.
    picture = image.affine is None and image.array.min() >= 0 and image.array.dtype.kind in "iu"
    voxels = image.array.astype(np.uint16) if picture else image.array
    for number in range(channels):
        save(voxels[..., number], image, picture, raw / "imagesTr" / f"{case}_{number:04d}")
    save(classes, image, picture, raw / "labelsTr" / case)
    present = frozenset(int(number) for number in np.unique(classes)) - {0}
    return Written(channels, picture, image.hu_known or looks_like_hu(image.array[..., 0]), present)


def save(array: np.ndarray, image: Image, picture: bool, name: Path) -> None:
    """One array on the axes of `image`, with its affine; what is flat and no `picture` to nnU-Net is one slice."""
    if picture:
        write_png(array, name)
    elif image.affine is None:
        write_nifti(array.T[..., None], np.eye(4), name)
    else:
        write_nifti(array, image.affine, name)


def kind_problems(rows: Sequence[Row], found: Sequence[Written]) -> list[Problem]:
    """Samples of another kind than the first one."""
    problems = []
    for row, case in zip(rows, found, strict=True):
        name, first = str(row["sample_id"]), rows[0]["sample_id"]
        if case.picture != found[0].picture:
            problems.append(Problem(name, f"one of it and {first} is a picture, the other a volume"))
        elif case.channels != found[0].channels:
            problems.append(Problem(name, f"has {case.channels} channel(s), {first} has {found[0].channels}"))
    return problems
