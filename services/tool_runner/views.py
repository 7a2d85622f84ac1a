"""What later roles and the scorer's jobs see of a dataset: training views, workspace seeds, and cases without names."""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue, ValidationError

from shared.contracts.base import SEGMENTATIONS, Ref
from shared.contracts.data import CaseList, StoredCase, ViewManifest
from shared.errors import ToolBroken
from shared.store import Store
from shared.store.client import THREADS
from shared.store.paths import make_parents, parts_of

BUCKET = "cases"
SUFFIXES = {"image/png": ".png", "image/tiff": ".tif", "application/x-nifti": ".nii.gz"}
"""Media type of a canonical file -> suffix."""


def read_view(manifest: Ref, store: Store) -> ViewManifest:
    """Blocks. Raises ToolBroken when the object is no view, or when it names a test case or a foreign object."""
    try:
        view = ViewManifest.model_validate_json(store.get_bytes(manifest))
    except ValidationError as error:
        raise ToolBroken(f"{manifest.key} is no view manifest: {error.error_count()} faults") from None
    if any(row.split == "test" for row in view.rows):
        raise ToolBroken(f"the view {manifest.key} names test cases; it must never reach a runner")
    if [row.sample_id for row in view.rows] != [case.sample_id for case in view.stored]:
        raise ToolBroken(f"the view {manifest.key} has other files than rows")
    masks = view.facts.task in SEGMENTATIONS
    for row, case in zip(view.rows, view.stored, strict=True):
        if len(row.files) != len(case.images) or bool(case.mask) != masks:
            raise ToolBroken(f"{row.sample_id} has other files than its row says")
        if any(ref.bucket != BUCKET for ref in (*case.images, *filter(None, [case.mask]))):
            raise ToolBroken(f"the view {manifest.key} names an object that is no case")
    return view


async def materialise_view(manifest: Ref, store: Store, home: Path) -> Path:
    """A read-only folder with the training and validation files at their relative paths and nothing else.

    Made once for each manifest, by whichever caller comes first, also over several processes; the others wait.
    """
    return await asyncio.to_thread(_materialise_view, manifest, store, home / "runner" / "views")


def _materialise_view(manifest: Ref, store: Store, views: Path) -> Path:
    folder = views / manifest.sha256
    views.mkdir(parents=True, exist_ok=True)
    with (views / f"{manifest.sha256}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        view = read_view(manifest, store)
        partial = views / f"{manifest.sha256}.part"
        if partial.exists():
            # Left by a runner that was killed; we hold the lock, so nobody else is at it.
            _writable(partial)
            shutil.rmtree(partial)
        partial.mkdir()
        wanted: list[tuple[Ref, str]] = []
        for row, case in zip(view.rows, view.stored, strict=True):
            wanted += zip(case.images, row.files, strict=True)
            if case.mask and row.target:
                wanted.append((case.mask, row.target))
        for _, name in wanted:
            parts_of(name)
            make_parents(partial, name)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda item: store.get_file(item[0], partial / item[1]), wanted))
        _read_only(partial)
        partial.rename(folder)
        return folder


def write_build_seed(view: ViewManifest, folder: Path) -> None:
    """Write train_index.jsonl, label_map.json, counts.json, facts.json: what a build workspace may start from."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    patients: defaultdict[str, set[str]] = defaultdict(set)
    for row in view.rows:
        counts[row.split].update(counted_as(row.label))
        patients[row.split].add(row.patient)
    how_many = {
        "samples": {split: dict(sorted(found.items())) for split, found in counts.items()},
        "patients": {split: len(found) for split, found in patients.items()},
    }
    _write(folder / "train_index.jsonl", "".join(f"{row.model_dump_json()}\n" for row in view.rows))
    label_map: dict[str, JsonValue] = {"names": list(view.facts.label_names)}
    if view.facts.ordered:
        label_map["ordered"] = True
    if view.facts.label_values:
        label_map["values"] = dict(view.facts.label_values)
    if len(view.facts.channels) > 1:
        label_map["channels"] = list(view.facts.channels)
    if view.facts.stood_in:
        label_map["stood_in"] = dict(view.facts.stood_in)
    _write(folder / "label_map.json", json.dumps(label_map, indent=2) + "\n")
    _write(folder / "counts.json", json.dumps(how_many, indent=2) + "\n")
    _write(folder / "facts.json", view.facts.model_dump_json(indent=2) + "\n")
    for name, exported in paper_exports(view).items():
        _write(folder / name, json.dumps(exported, ensure_ascii=False, indent=1) + "\n")


def paper_exports(view: ViewManifest) -> dict[str, JsonValue]:
    """The cases in the shapes that the paper's own tools read: train.json, and label_dict.json for a diagnosis.

    A diagnosis: path -> [labels]. Segmentations and reports: a list of objects, one a case.
    """
    names = list(view.facts.label_names)
    task = view.facts.task
    if task == "diagnosis":
        labelled: JsonValue = {
            row.files[0]: [row.label] if isinstance(row.label, str) else list(row.label or ()) for row in view.rows
        }
        return {"train.json": labelled, "label_dict.json": {name: number for number, name in enumerate(names)}}
    if task == "report_generation":
        return {
            "train.json": [{"image_path": row.files[0], "findings": row.target, "impression": ""} for row in view.rows]
        }
    return {
        "train.json": [
            {"image_path": row.files[0], "label_path": row.target, "labels": list(names)} for row in view.rows
        ]
    }


def counted_as(label: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The names under which a case is counted: its class; where several may hold all of them and `all`."""
    if label is None:
        return ("all",)
    return (label,) if isinstance(label, str) else (*label, "all")


def materialise_cases(cases: CaseList, store: Store, folder: Path) -> dict[str, str]:
    """Lay cases out for `predict.py` and return opaque name -> sample_id; blocks.

    A case is the file `case_<random><suffix>`, or a folder `case_<random>/` of its views. Neither names, order nor
    times of the files say anything of the originals.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shuffled = list(cases.samples)
    secrets.SystemRandom().shuffle(shuffled)
    named: dict[str, StoredCase] = {}
    for case in shuffled:
        alone = len(case.images) == 1
        named[f"case_{secrets.token_hex(8)}{suffix_of(case.images[0]) if alone else ''}"] = case

    def lay_out(name: str) -> None:
        case, place = named[name], folder / name
        if len(case.images) == 1:
            store.get_file(case.images[0], place)
        else:
            lay_out_views(case, store, place)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lay_out, named))
    forget_times(folder, named)
    return {name: case.sample_id for name, case in named.items()}


def forget_times(folder: Path, names: Iterable[str]) -> None:
    """Set the times of cases laid out in `folder` to 0; those that cannot be set follow the order of `names`."""
    for place in (folder / name for name in names):
        for path in (*(place.iterdir() if place.is_dir() else ()), place):
            os.utime(path, (0, 0))
    os.utime(folder, (0, 0))


def lay_out_views(case: StoredCase, store: Store, folder: Path) -> None:
    """Write the images of a case as `000.png`, `001.png`, ... below a new folder; blocks."""
    folder.mkdir()
    for number, ref in enumerate(case.images):
        store.get_file(ref, folder / f"{number:03d}{suffix_of(ref)}")


def suffix_of(ref: Ref) -> str:
    """Raises ToolBroken for what is no canonical file."""
    if ref.media_type not in SUFFIXES or ref.bucket != BUCKET:
        raise ToolBroken(f"{ref.key} of {ref.bucket} is no file of a case ({ref.media_type})")
    return SUFFIXES[ref.media_type]


def _read_only(folder: Path) -> None:
    for place, folders, files in os.walk(folder):
        for name in files:
            Path(place, name).chmod(0o444)
        for name in folders:
            Path(place, name).chmod(0o755)
    for place, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            Path(place, name).chmod(0o555)
    folder.chmod(0o555)


def _writable(folder: Path) -> None:
    folder.chmod(0o700)
    for place, folders, _ in os.walk(folder):
        for name in folders:
            Path(place, name).chmod(0o700)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text)
    partial.replace(path)
