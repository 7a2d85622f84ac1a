"""The index as an nnU-Net dataset: checked, converted, planned and preprocessed below one cache folder.

Everything here can be made again. Images are links where they can be; masks are written with the classes 1..N in place
of the dataset's values, on the image's own grid; affine, spacing and orientation are never rewritten.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shared.trainkit.checkpoints import fingerprint
from shared.trainkit.checks import Problem, refuse
from shared.trainkit.exported import SEGMENTER
from shared.trainkit.exported.segmenter.masks import load_mask
from shared.trainkit.exported.segmenter.readers import input_files, load_scan
from shared.trainkit.exported.segmenter.scan import BadImage, Scan
from shared.trainkit.progress import write_json
from shared.trainkit.segmentation.nnunet_config import NnunetConfig
from shared.trainkit.segmentation.nnunet_plan import DATASET, known_json, load_note, plan, preprocess
from shared.trainkit.segmentation.template import Template

HERE = Path(__file__).resolve().parent
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """What the trainer needs; `counts` is split -> structure -> samples that have it."""

    plans: dict[str, Any]
    dataset: dict[str, Any]
    configuration: str
    counts: dict[str, dict[str, int]]
    mark: str
    """Digest of rows, values, file sizes, code and of the settings that plans follow from."""


def case_name(row: Row) -> str:
    """Opaque, and the same whatever other rows there are."""
    return "c" + hashlib.sha256(str(row["sample_id"]).encode()).hexdigest()[:16]


def read_row(row: Row, data: Path) -> tuple[Scan, np.ndarray]:
    """Image and mask, both on the axes of the image's file: (C, i, j, k) and (i, j, k) values. Raises BadImage."""
    paths = [data / str(file) for file in row["files"]]
    scan = load_scan(input_files(paths[0]) if len(paths) == 1 else paths)
    mask, grid = load_mask(data / str(row["target"]))
    if difference := scan.grid.difference(grid):
        raise BadImage(f"the mask {Path(str(row['target'])).name} {difference}")
    return scan, scan.grid.turn_back(grid.turn(mask))


def prepare(
    template: Template,
    how: NnunetConfig,
    rows: Sequence[Row],
    values: Mapping[str, int],
    data: Path,
    cache: Path,
    device: str,
) -> Prepared:
    """Everything up to the training. What is there for the same data and settings is taken as it is.

    Raises DataProblems with all that is wrong, TrainingFailed where nnU-Net fails for lack of memory.
    """
    settings = how.model_dump(include={"configuration", "modality", "memory_gb", "features"})
    code = [HERE / "nnunet_data.py", HERE / "nnunet_plan.py", *sorted(SEGMENTER.glob("*.py"))]
    mark = fingerprint([settings, device, data_mark(rows, values, data)], code)
    note = cache / "prepared.json"
    known = load_note(note)
    if known.get("mark") != mark:
        note.unlink(missing_ok=True)
        for kind in ("raw", "preprocessed"):
            shutil.rmtree(cache / kind, ignore_errors=True)
            (cache / kind).mkdir(parents=True)
        counts = convert(template, how, rows, values, data, cache)
        plans, configuration = plan(how, cache, device)
        write_splits(rows, cache)
        preprocess(plans, configuration, cache)
        dataset = known_json(cache / "raw" / DATASET / "dataset.json")
        dataset.pop("dataset")  # files; all that follows goes by the preprocessed ones
        known = {"mark": mark, "plans": plans, "dataset": dataset, "configuration": configuration, "counts": counts}
        write_json(note, known)
    fields = ("plans", "dataset", "configuration", "counts", "mark")
    return Prepared(**{field: known[field] for field in fields})


def data_mark(rows: Sequence[Row], values: Mapping[str, int], data: Path) -> list[Any]:
    """Rows, values and the sizes of their files: cheap, and another file of the same name seldom has the same size."""
    sizes = []
    for row in rows:
        files = [data / str(file) for file in (*row["files"], row["target"])]
        sizes.append([file.stat().st_size if file.is_file() else -1 for file in files])
    kept = [[row["sample_id"], row["patient"], row["split"], row["files"], row["target"]] for row in rows]
    return [kept, sizes, list(values.items())]


@dataclass(frozen=True)
class Written:
    """What is remembered of a converted sample. `low` is the smallest value of its first channel."""

    channels: int
    picture: bool
    low: float
    present: frozenset[int]
    """Values in the mask."""


def convert(
    template: Template, how: NnunetConfig, rows: Sequence[Row], values: Mapping[str, int], data: Path, cache: Path
) -> dict[str, dict[str, int]]:
    """Write the raw dataset; the faults of all samples are collected. -> split -> structure -> samples with it."""
    raw = cache / "raw" / DATASET
    for folder in (raw / "imagesTr", raw / "labelsTr"):
        folder.mkdir(parents=True)
    classes = {value: number for number, value in enumerate(values.values(), 1)}

    def one(row: Row) -> Written | Problem:
        try:
            return write_case(row, data, raw, classes)
        except (BadImage, OSError) as error:
            return Problem(str(row["sample_id"]), str(error))

    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        made = list(pool.map(one, rows))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a signal does not wait for all images
    refuse([found for found in made if isinstance(found, Problem)])
    good = [found for found in made if isinstance(found, Written)]
    counts: dict[str, dict[str, int]] = {"train": {}, "val": {}}
    for row, found in zip(rows, good, strict=True):
        for name, value in values.items():
            if value in found.present:
                counts[row["split"]][name] = counts[row["split"]].get(name, 0) + 1
    refuse(kind_problems(rows, good) + template.missing(counts, values))
    ct = how.modality == "ct" or (how.modality == "auto" and 2 * sum(found.low < -500 for found in good) > len(good))
    ending = ".png" if good[0].picture else ".nii.gz"
    write_json(
        raw / "dataset.json",
        {
            "name": DATASET,
            "channel_names": {str(number): "CT" if ct else "image" for number in range(good[0].channels)},
            # nnU-Net gives some names a meaning ("ignore"); ours need not survive in its files.
            "labels": {"background": 0, **{f"structure {number}": number for number in classes.values()}},
            "numTraining": len(rows),
            "file_ending": ending,
            "overwrite_image_reader_writer": "NaturalImage2DIO" if good[0].picture else "NibabelIOWithReorient",
            # Without this list nnU-Net forks twelve processes to look for the files.
            "dataset": {name: case_files(name, good[0].channels, ending) for name in map(case_name, rows)},
        },
    )
    return counts


def case_files(name: str, channels: int, ending: str) -> dict[str, Any]:
    images = [f"imagesTr/{name}_{number:04d}{ending}" for number in range(channels)]
    return {"images": images, "label": f"labelsTr/{name}{ending}"}


def write_case(row: Row, data: Path, raw: Path, classes: Mapping[int, int]) -> Written:
    """Channels and mask of a sample as nnU-Net names them. Raises BadImage."""
    scan, mask = read_row(row, data)
    if not scan.data.any():
        raise BadImage("the image is zero everywhere")
    present = frozenset(int(value) for value in np.unique(mask)) - {0}
    if unknown := sorted(present - set(classes)):
        raise BadImage(
            f"the mask holds the value(s) {', '.join(map(str, unknown[:5]))}, which no structure has; "
            f"known are 0, {', '.join(map(str, classes))}"
        )
    mapped = np.zeros(mask.shape, np.uint8 if len(classes) < 256 else np.uint16)
    for value in present:
        mapped[mask == value] = classes[value]
    case, files = case_name(row), [data / str(file) for file in row["files"]]
    # nnU-Net reads whole 8 and 16 bit pictures as such; anything else becomes a volume of one slice.
    picture = scan.kind == "picture" and scan.data.min() >= 0 and bool((scan.data == np.rint(scan.data)).all())
    linked = may_link(scan, files)
    for number, channel in enumerate(scan.data):
        name = raw / "imagesTr" / f"{case}_{number:04d}"
        if linked:
            name.with_suffix(".nii.gz").symlink_to(files[number].resolve())
        else:
            save(channel if not picture else channel.astype(np.uint16), scan, picture, name)
    save(mapped, scan, picture, raw / "labelsTr" / case)
    return Written(len(scan.data), picture, float(scan.data[0].min()), present)


def may_link(scan: Scan, files: Sequence[Path]) -> bool:
    """Whether nnU-Net reads the files as we do: it takes the spacing from where the header says it once more, and wants
    it the same to the last digit in all channels."""
    import nibabel
    from nibabel.affines import voxel_sizes

    if scan.kind != "nifti" or len(scan.shape) != 3 or not all(f.name.lower().endswith(".nii.gz") for f in files):
        return False
    images = [nibabel.load(file) for file in files]
    zooms, wanted = images[0].header.get_zooms(), voxel_sizes(scan.grid.affine)
    same = all(np.array_equal(image.affine, images[0].affine) for image in images)
    return same and all(image.header.get_zooms() == zooms for image in images) and np.allclose(zooms, wanted, rtol=1e-4)


def save(array: np.ndarray, scan: Scan, picture: bool, name: Path) -> None:
    """(i, j, k) in the axes of the scan's file, with its affine."""
    if picture:
        from PIL import Image

        Image.fromarray(array[0]).save(name.with_suffix(".png"))
        return
    import nibabel

    affine = scan.grid.affine
    if affine is None:  # (D, H, W) already; NIfTI counts the other way
        array, affine = array.transpose(2, 1, 0), np.eye(4)
    nibabel.save(nibabel.Nifti1Image(np.ascontiguousarray(array), affine), name.with_suffix(".nii.gz"))


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


def write_splits(rows: Sequence[Row], cache: Path) -> None:
    """The one fold that there is: ours, never one of nnU-Net's random ones."""
    parts = {split: sorted(case_name(row) for row in rows if row["split"] == split) for split in ("train", "val")}
    write_json(cache / "preprocessed" / DATASET / "splits_final.json", [parts])


def largest_image(rows: Sequence[Row], data: Path) -> int:
    """Bytes on disk of the largest sample's files."""
    files = [[data / str(file) for file in row["files"]] for row in rows]
    return max(sum(path.stat().st_size for path in paths if path.is_file()) for paths in files)
