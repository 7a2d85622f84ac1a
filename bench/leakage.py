"""How long a lock takes: 10,000 pictures of 256x256, 8 bits, compared with each other, split and sealed.

Prints a table. Exit code 1 when the bar is missed: 120 s for what copies cost (a look of each picture, made while it is
taken in, and their comparison) and for the lock, and memory that stays flat. Some minutes, most of them for making the
pictures.

    python -m bench.leakage [CASES]
"""

import hashlib
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import numpy as np
from PIL import Image as Pillow
from scipy.ndimage import gaussian_filter

from services.scorer.lock.copies import compare
from services.scorer.lock.seal import seal
from shared.contracts.base import Ref
from shared.contracts.cases import CaseRecord, CaseTable, Coverage
from shared.dataset.intake.looks_of import record_of
from shared.imaging.image import Image
from shared.looks import RECORD

SECONDS_BAR, MEMORY_BAR = 120.0, 600.0
T = TypeVar("T")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with ProcessPoolExecutor(2) as pool:
        made = list(pool.map(_look, range(count), chunksize=100))
    records = np.frombuffer(b"".join(record for record, _ in made), RECORD)
    noting = sum(seconds for _, seconds in made)
    cases = tuple(_case(number) for number in range(count))
    coverage = Coverage(
        task="diagnosis", dimensions=2, cases=count, files=count, used=count, patients=count // 2, grouping="stated",
        grouping_from="made up",
    )  # fmt: skip
    before = _resident()
    comparing, copies = _timed(lambda: compare(cases, records))
    grown = _resident() - before
    sealing, lock = _timed(lambda: seal(CaseTable(cases=cases, coverage=coverage), copies, "00" * 16))
    total = noting + comparing + sealing
    print(f"{count} pictures; found {lock.leakage.checks}, patients {lock.patients}")
    print(f"{'looks of all, in one process':52}{noting:9.2f} s")
    print(f"{'comparing all with each other':52}{comparing:9.2f} s{grown:9.0f} MB")
    print(f"{'split, gates, report and view':52}{sealing:9.2f} s")
    print(f"{'all of it':52}{total:9.2f} s; bar {SECONDS_BAR:g} s")
    return int(total > SECONDS_BAR or grown > MEMORY_BAR)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    done = work()
    return time.monotonic() - began, done


def _resident() -> float:
    """Megabytes at the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _case(number: int) -> CaseRecord:
    digest = hashlib.sha256(b"%d" % number).hexdigest()
    image = Ref(bucket="cases", key=digest, sha256=digest, size=1, media_type="image/png")
    return CaseRecord(key=f"k{number}", patient=f"p{number // 2}", label="ab"[number // 40 % 2], images=(image,))


def _look(number: int) -> tuple[bytes, float]:
    """Of a picture with one outline for all, blobs and grain of its own, as alike as those of one organ are."""
    rng = np.random.default_rng(number)
    y, x = np.indices((64, 64)) / 64 - 0.5
    outline = ((x / 0.42) ** 2 + (y / 0.45) ** 2 < 1) * (90 + 60 * (((x - 0.1) / 0.15) ** 2 + (y / 0.2) ** 2 < 1))
    own = sum(w * gaussian_filter(rng.normal(size=(64, 64)), s) * s for s, w in ((4, 25), (1.5, 15)))
    small = Pillow.fromarray((outline + own * (outline > 0)).astype(np.float32))
    large = np.asarray(small.resize((256, 256), Pillow.Resampling.BICUBIC)) + rng.normal(size=(256, 256)) * 2
    picture = Image(np.clip(large, 0, 255).astype(np.uint8)[..., None])
    seconds, record = _timed(lambda: record_of([picture]))
    return record, seconds


if __name__ == "__main__":
    sys.exit(main())
