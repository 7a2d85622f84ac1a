"""The table of replicas, and how one gets onto the disk: whole or not at all, with its truth beside it."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from m3bench import cards
from shared.errors import UserError

LAYOUTS = ("paper", "distributed")

GENERATORS: Mapping[str, str] = {
    # Card id -> module with a `REPLICA`. A replica is registered by one line here.
    "btcv": "m3bench.datasets.btcv",
    "covid19": "m3bench.datasets.covid19",
    "oasis": "m3bench.datasets.oasis",
    "verse": "m3bench.datasets.verse",
    "instance2022": "m3bench.datasets.instance",
    "msd-pancreas": "m3bench.datasets.msd_pancreas",
    "adni": "m3bench.datasets.adni",
    "braingenome": "m3bench.datasets.braingenome",
    "cc-ccii": "m3bench.datasets.cc_ccii",
    "ct-rate": "m3bench.datasets.ct_rate",
    "iu-xray": "m3bench.datasets.iu_xray",
    "chestx-det10": "m3bench.datasets.chestx_det10",
    "ct-kidney": "m3bench.datasets.ct_kidney",
    "kneemri": "m3bench.datasets.kneemri",
}


class ReplicaError(UserError):
    """Nothing was written; the message says what to do."""


class Generator(Protocol):
    def __call__(
        self, root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int
    ) -> Mapping[str, object]:
        """Write the dataset into the empty `root` and return the truth about it. Same arguments, same bytes."""
        ...


@dataclass(frozen=True)
class Replica:
    """What a generator's module has under the name REPLICA."""

    summary: str
    make: Generator
    patients: Mapping[str, int]
    """Size -> how many `unit`s; the keys are the sizes that there are."""
    megabytes: Mapping[str, float]
    """Size -> megabytes on disk, rounded up: what must be free before anything is written."""
    unit: str = "patients"


@dataclass(frozen=True)
class Made:
    """One replica that is on the disk now."""

    key: str
    folder: Path
    truth: Path
    files: int
    megabytes: float
    seconds: float


class Mapper(Protocol):
    def __call__(self, work: Any, jobs: Iterable[Any], /) -> Iterator[Any]: ...


@contextmanager
def processes(workers: int) -> Iterator[Mapper]:
    """A `map` over so many processes, results in order; with one worker it is the builtin."""
    if workers == 1:
        yield map
        return
    # spawn: a forked copy of a threaded parent may hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield lambda work, jobs: pool.map(work, jobs, chunksize=2)


def find(name: str) -> tuple[str, Replica]:
    """A replica by its card's id or name, in any case: (id, replica). Raises ReplicaError."""
    names = {json.loads(path.read_text(encoding="utf-8"))["dataset name"].lower(): path.stem for path in cards.paths()}
    key = names.get(name.lower(), name.lower())
    if key not in GENERATORS:
        raise ReplicaError(f"there is no replica {name!r}; there are: {', '.join(sorted(GENERATORS))}")
    replica = import_module(GENERATORS[key]).REPLICA
    assert isinstance(replica, Replica)
    return key, replica


def make(
    name: str,
    folder: Path,
    *,
    size: str = "tiny",
    seed: int = 0,
    patients: int | None = None,
    layout: str = "paper",
    workers: int | None = None,
) -> Path:
    """Write the replica into `folder` and `<folder>.truth.json` beside it, which is returned. Seconds to a minute.

    `layout` is the paper's tree or that of the original distribution. The same arguments give byte-identical files,
    whatever `workers` (processes; the default fits the size) is. `folder` must be new or empty. Raises ReplicaError
    before anything is written; an interrupted call leaves no dataset.
    """
    key, replica = find(name)
    _check_choice(key, replica, size, layout, patients)
    folder = folder.absolute()
    _check_empty(folder)
    truth = folder.with_name(folder.name + ".truth.json")
    if truth.exists():
        raise ReplicaError(
            f"{truth} is there already, from an earlier replica; name another folder or remove that file"
        )
    count = patients or replica.patients[size]
    _check_space(folder, _megabytes(replica, size, patients))
    if workers is None:
        # Starting processes takes longer than a few scans.
        workers = 1 if count < 20 else min(4, os.cpu_count() or 1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        root = staging / "data"
        root.mkdir()
        facts = replica.make(root, size=size, seed=seed, patients=patients, layout=layout, workers=workers)
        head = {"replica": key, "size": size, "seed": seed, "patients": count, "layout": layout}
        text = json.dumps({**head, **facts}, indent=1) + "\n"
        (staging / "truth.json").write_text(text, encoding="utf-8")
        # Onto an empty folder, rename replaces it.
        root.rename(folder)
        (staging / "truth.json").rename(truth)
    finally:
        shutil.rmtree(staging)
    return truth


def make_all(
    folder: Path, *, size: str = "tiny", seed: int = 0, patients: int | None = None, layout: str = "paper"
) -> Iterator[Made]:
    """Write every replica into `<folder>/<card id>`, the truth of each beside it; yields one after the other.

    `patients` is in each replica's own unit. Raises ReplicaError before anything is written. Where it is interrupted,
    the replicas that are there are whole.
    """
    found = [find(key) for key in sorted(GENERATORS)]
    for key, replica in found:
        _check_choice(key, replica, size, layout, patients)
    folder = folder.absolute()
    _check_empty(folder)
    _check_space(folder, sum(_megabytes(replica, size, patients) for _, replica in found))
    for key, _ in found:
        yield measured(key, folder / key, size=size, seed=seed, patients=patients, layout=layout)


def measured(name: str, folder: Path, *, size: str, seed: int, layout: str, patients: int | None = None) -> Made:
    """`make`, and what it took."""
    began = time.monotonic()
    truth = make(name, folder, size=size, seed=seed, patients=patients, layout=layout)
    seconds = time.monotonic() - began
    sizes = [entry.stat().st_size for entry in folder.rglob("*") if entry.is_file()]
    return Made(find(name)[0], folder, truth, len(sizes), sum(sizes) / 1e6, seconds)


def _megabytes(replica: Replica, size: str, patients: int | None) -> float:
    return replica.megabytes[size] * (patients or replica.patients[size]) / replica.patients[size]


def _check_choice(key: str, replica: Replica, size: str, layout: str, patients: int | None) -> None:
    if size not in replica.patients:
        raise ReplicaError(f"there is no size {size!r} of {key}; there are: {', '.join(replica.patients)}")
    if layout not in LAYOUTS:
        raise ReplicaError(f"there is no layout {layout!r}; there are: {', '.join(LAYOUTS)}")
    if patients is not None and patients < 4:
        raise ReplicaError(f"at least 4 {replica.unit} are needed for train, val and test parts")


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReplicaError(f"{folder} exists and is not an empty folder; name a new one")


def _check_space(folder: Path, megabytes: float) -> None:
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    free = shutil.disk_usage(there).free / 1e6
    if free < megabytes:
        raise ReplicaError(
            f"this needs about {megabytes:.0f} MB and {there} has {free:.0f} MB free; "
            "make room, choose a smaller size, or name a folder on another disk"
        )
