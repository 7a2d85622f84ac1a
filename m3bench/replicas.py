"""The table of replicas, and how one gets onto the disk: whole or not at all, with its truth beside it."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from m3bench import cc_ccii

SIZES = ("tiny", "small")


class ReplicaError(ValueError):
    """The message says what to do."""


class Generator(Protocol):
    def __call__(
        self, root: Path, *, size: str, seed: int, patients: int | None, workers: int
    ) -> Mapping[str, object]: ...


@dataclass(frozen=True)
class Replica:
    summary: str
    make: Generator
    patients: Mapping[str, int]
    """Size -> patients a class."""


REPLICAS: Mapping[str, Replica] = {
    "cc-ccii": Replica("CC-CCII: chest CT as slices, CP / NCP / Normal", cc_ccii.make, cc_ccii.PATIENTS),
}


def make(
    name: str,
    folder: Path,
    *,
    size: str = "tiny",
    seed: int = 0,
    patients: int | None = None,
    workers: int | None = None,
) -> Path:
    """Write the replica into `folder` and `<folder>.truth.json` beside it, which is returned. Seconds to a minute.

    The same arguments give byte-identical files, whatever `workers` (processes; the default fits the size) is. `folder`
    must be new or empty. Raises ReplicaError before anything is written; an interrupted call leaves no dataset.
    """
    replica = REPLICAS.get(name)
    if replica is None:
        raise ReplicaError(f"there is no replica {name!r}; there are: {', '.join(sorted(REPLICAS))}")
    if size not in SIZES:
        raise ReplicaError(f"there is no size {size!r}; there are: {', '.join(SIZES)}")
    if patients is not None and patients < 4:
        raise ReplicaError("at least 4 patients a class are needed for train, val and test parts")
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReplicaError(f"{folder} exists and is not an empty folder; name a new one")
    truth = folder.with_name(folder.name + ".truth.json")
    if truth.exists():
        raise ReplicaError(
            f"{truth} is there already, from an earlier replica; name another folder or remove that file"
        )
    count = patients or replica.patients[size]
    if workers is None:
        # Starting processes takes longer than a few scans.
        workers = 1 if count < 20 else min(4, os.cpu_count() or 1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        root = staging / "data"
        root.mkdir()
        facts = replica.make(root, size=size, seed=seed, patients=patients, workers=workers)
        text = json.dumps({"replica": name, "size": size, "seed": seed, "patients": count, **facts}, indent=1) + "\n"
        (staging / "truth.json").write_text(text, encoding="utf-8")
        # Onto an empty folder, rename replaces it.
        root.rename(folder)
        (staging / "truth.json").rename(truth)
    finally:
        shutil.rmtree(staging)
    return truth
