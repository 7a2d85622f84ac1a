"""How long finding leaks takes: 10,000 pictures of 256x256, 8 bits, packed and locked with a real object store.

Prints a table and the ratio to just reading the files. Exit code 1 when the bar of the design is missed: 60 s for what
is added to packing and for the lock, and memory that stays flat. Some minutes, most of them for making and storing the
pictures.

    python -m bench.leakage [SAMPLES]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from services.scorer.lock.copies import find_copies
from services.scorer.lock.seal import check_and_seal
from services.tool_runner.looking import Looks
from services.tool_runner.packs import pack_samples
from shared.contracts.data import IndexMeta, IndexRow
from shared.embedded.s3 import start_s3
from shared.settings import Settings
from shared.store import Store
from shared.store.client import THREADS

SECONDS_BAR, MEMORY_BAR = 60.0, 400.0
UID = 64321
T = TypeVar("T")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="m3-bench-") as name:
        folder = Path(name)
        (folder / "images").mkdir()
        (folder / "s3").mkdir()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda number: _picture(folder / "images" / f"{number}.png", number), range(count)))
        server = start_s3(folder / "s3")
        try:
            settings = Settings(
                home=folder, s3_endpoint=server.endpoint, s3_access_key=server.access_key,
                s3_secret_key=server.secret_key,
            )  # fmt: skip
            store = Store.connect(settings)
            store.ensure_buckets()
            return _measure(store, folder / "images", _rows(count))
        finally:
            server.stop()


def _measure(store: Store, root: Path, rows: list[IndexRow]) -> int:
    names = [row.files[0] for row in rows]

    def read(name: str) -> int:
        return len((root / name).read_bytes())

    with ThreadPoolExecutor(THREADS) as pool:
        reading, _ = _timed(lambda: sum(pool.map(read, names)))
    noting, level = _timed(lambda: _looks_in_a_sandbox(root.parent))
    with (root.parent / "looks").open("rb") as made:
        looks = Looks(made)
        packing, packs = _timed(
            lambda: pack_samples(root, rows, store, lambda r: "sealed" if r.split == "test" else "data", looks=looks)
        )
    before = _resident()
    comparing, copies = _timed(lambda: find_copies(store, rows, packs))
    grown = _resident() - before
    meta = IndexMeta(
        task="diagnosis", dimensions=2, label_names=("a", "b"), grouping="stated", grouping_from="made up",
        split_from="made",
    )  # fmt: skip
    sealing, sealed = _timed(lambda: check_and_seal(rows, meta, packs, copies=copies))
    total = noting + comparing + sealing
    print(f"{len(rows)} pictures; found {sealed.leakage.checks}")
    print(f"{'reading all files':52}{reading:9.2f} s")
    print(f"{f'looks of all, in the sandbox ({level})':52}{noting:9.2f} s")
    print(f"{'packing all of it with digests into the object store':52}{packing:9.2f} s")
    print(f"{'comparing across the sides of the split':52}{comparing:9.2f} s{grown:9.0f} MB")
    print(f"{'gates, report and view':52}{sealing:9.2f} s")
    missed = total > SECONDS_BAR or grown > MEMORY_BAR
    print(f"{'looks, comparison, lock':52}{total:9.2f} s, {total / reading:.0f} times reading; bar {SECONDS_BAR:g} s")
    return int(missed)


def _looks_in_a_sandbox(folder: Path) -> str:
    """In a process of its own, since it drops root; the looks lie in `folder` afterwards."""
    if os.geteuid() == 0:
        os.chown(folder, UID, UID)
    argv = [sys.executable, "-m", "bench.leakage_looks", str(folder), str(UID)]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    done = work()
    return time.monotonic() - began, done


def _resident() -> float:
    """Megabytes at the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _picture(path: Path, number: int) -> None:
    """One outline for all, blobs and grain of its own: as alike as pictures of one organ are."""
    rng = np.random.default_rng(number)
    y, x = np.indices((64, 64)) / 64 - 0.5
    outline = ((x / 0.42) ** 2 + (y / 0.45) ** 2 < 1) * (90 + 60 * (((x - 0.1) / 0.15) ** 2 + (y / 0.2) ** 2 < 1))
    own = sum(w * gaussian_filter(rng.normal(size=(64, 64)), s) * s for s, w in ((4, 25), (1.5, 15)))
    small = Image.fromarray((outline + own * (outline > 0)).astype(np.float32)).resize(
        (256, 256), Image.Resampling.BICUBIC
    )
    grain = rng.normal(size=(256, 256)) * 2
    Image.fromarray(np.clip(np.asarray(small) + grain, 0, 255).astype(np.uint8)).save(path)


def _rows(count: int) -> list[IndexRow]:
    sides = ("train",) * 13 + ("val",) * 3 + ("test",) * 4
    return [
        IndexRow(
            sample_id=f"s{number}", patient=f"p{number // 2}", label="ab"[number // 40 % 2], files=(f"{number}.png",),
            split=sides[number // 2 % 20],
        )
        for number in range(count)
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
