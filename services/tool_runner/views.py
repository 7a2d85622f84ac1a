"""What later roles and the scorer's jobs see of a dataset: training views, workspace seeds, and cases without names."""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue, ValidationError

from services.tool_runner.packs import opaque_names, suffix_of, unpack
from shared.contracts.base import Ref
from shared.contracts.data import PackedSample, PackList, ViewManifest
from shared.errors import ToolBroken
from shared.store import Store
from shared.store.client import THREADS
from shared.trainkit.indexrules import counted_as


def read_view(manifest: Ref, store: Store) -> ViewManifest:
    """Blocks. Raises ToolBroken when the object is no view, or when it names a test sample or a foreign file."""
    try:
        view = ViewManifest.model_validate_json(store.get_bytes(manifest))
    except ValidationError as error:
        raise ToolBroken(f"{manifest.key} is no view manifest: {error.error_count()} faults") from None
    rows = {row.sample_id: row for row in view.rows}
    if any(row.split == "test" for row in view.rows):
        raise ToolBroken(f"the view {manifest.key} names test samples; it must never reach a runner")
    if len(rows) != len(view.rows) or {pack.sample_id for pack in view.packs} != rows.keys():
        raise ToolBroken(f"the view {manifest.key} has other packs than rows")
    for pack in view.packs:
        row = rows[pack.sample_id]
        # The text of a report is a target too, and nothing that a file is called by.
        masked = row.files if view.task == "report_generation" else (*row.files, row.target)
        if pack.files not in (row.files, masked):
            raise ToolBroken(f"the pack of {pack.sample_id} holds other files than its row")
        if pack.target is not None or pack.pack.bucket == "sealed":
            raise ToolBroken(f"the view {manifest.key} names a sealed object; it must never reach a runner")
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
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda pack: unpack(pack, store, partial), view.packs))
        _read_only(partial)
        partial.rename(folder)
        return folder


def write_build_seed(view: ViewManifest, folder: Path) -> None:
    """Write train_index.jsonl, label_map.json and counts.json: what a build workspace may start from."""
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
    label_map: dict[str, JsonValue] = {"names": list(view.label_names)}
    if view.label_values:
        label_map["values"] = dict(view.label_values)
    _write(folder / "label_map.json", json.dumps(label_map, indent=2) + "\n")
    _write(folder / "counts.json", json.dumps(how_many, indent=2) + "\n")


def materialise_cases(
    packs: PackList, attributes: Mapping[str, Mapping[str, JsonValue]], store: Store, folder: Path
) -> dict[str, str]:
    """Lay samples out for `predict.py` and return opaque name -> sample_id; blocks.

    `attributes` is by sample_id. A sample is a folder `case_<random>/`, with `attributes.json` where it has any; one
    with a single file and no attributes is that file, `case_<random><suffix>`. Neither names, order nor times of the
    files say anything of the originals.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shuffled = list(packs.samples)
    secrets.SystemRandom().shuffle(shuffled)
    cases: dict[str, PackedSample] = {}
    for sample in shuffled:
        alone = len(sample.files) == 1 and not attributes.get(sample.sample_id)
        cases[f"case_{secrets.token_hex(8)}{suffix_of(sample.files[0]) if alone else ''}"] = sample

    def lay_out(name: str) -> None:
        sample = cases[name]
        place, extra = folder / name, attributes.get(sample.sample_id)
        if len(sample.files) == 1 and not extra:
            unpack(sample, store, folder, [name])
            os.utime(place, (0, 0))
            return
        place.mkdir()
        unpack(sample, store, place, opaque_names(sample.files))
        if extra:
            (place / "attributes.json").write_text(json.dumps(dict(extra)))
        for path in (*place.iterdir(), place):
            os.utime(path, (0, 0))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lay_out, cases))
    os.utime(folder, (0, 0))
    return {name: sample.sample_id for name, sample in cases.items()}


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
