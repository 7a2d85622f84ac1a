"""The profile of a large dataset beside `find -printf '%s %p'` on the same tree, and its memory.

    python -m bench.profile_speed [FILES ...]

Makes so many small pictures (200,000 and 1,000,000 unless told), in three sides, two classes and a folder for twenty,
with a table that names all of them. `find` runs before and after the profile, after a first run that nobody times;
`looks` are the seconds that the profile spent in files (bounded, whatever their number), `names` all the others. Exit
code 1 where names of the last count take more than three times as long as find, or its memory is more than 1.2 times
that of the first. A million files: about ten minutes, 4 GB of disk.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

BAR, FLAT = 3.0, 1.2
FOLDER = 20
"""Pictures of one patient."""
PROGRAM = """
import json, resource, sys, time
from shared.dataset.profile.profile import profile
began = time.perf_counter()
found = profile(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - began, "looks": found.measured["seconds_looking"],
                  "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "files": found.files,
                  "images": found.images, "tasks": found.tasks}))
"""


def main() -> int:
    counts = [int(text) for text in sys.argv[1:]] or [200_000, 1_000_000]
    print(f"{'files':>10}{'find s':>9}{'profile s':>11}{'looks s':>9}{'names s':>9}{'names/find':>12}{'memory MB':>11}")
    ratio = 0.0
    memory: list[float] = []
    for count in counts:
        root = Path(tempfile.mkdtemp(prefix="m3-profile-"))
        try:
            make(root, count)
            found(root)
            before = found(root)
            told = profiled(root)
            bare = (before + found(root)) / 2
        finally:
            shutil.rmtree(root)
        assert told["files"] == count + 1 and told["images"] == count, told
        names = told["seconds"] - told["looks"]
        ratio = names / bare
        memory.append(told["memory"])
        print(
            f"{count:10,}{bare:9.1f}{told['seconds']:11.1f}{told['looks']:9.1f}{names:9.1f}{ratio:12.2f}"
            f"{told['memory']:11.0f}",
            flush=True,
        )
    grown = memory[-1] / memory[0]
    good = ratio <= BAR and grown <= FLAT
    print(f"load {os.getloadavg()[0]:.1f}; memory of the last {grown:.2f} times that of the first")
    print(f"the last: at most {BAR:g} times find and {FLAT:g} times the memory: {'yes' if good else 'no'}")
    return 0 if good else 1


def make(root: Path, count: int) -> None:
    start, end = picture()
    with (root / "labels.csv").open("w") as table:
        table.write("file,grade\n")
        for number in range(count):
            if number % FOLDER == 0:
                patient = number // FOLDER
                side, kind = ("train", "train", "val", "test")[patient % 4], ("normal", "pneumonia")[patient // 4 % 2]
                folder = root / side / kind / f"patient{patient:06d}"
                folder.mkdir(parents=True)
            with open(f"{folder}/img_{number:07d}.png", "wb") as file:  # noqa: PTH123 - a million times
                file.write(start + number.to_bytes(4, "big") + end)
            table.write(f"img_{number:07d}.png,{number % 4}\n")


def picture() -> tuple[bytes, bytes]:
    """A small PNG, before and after four bytes that may be any."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + bytes((row * 7 + place * 3) % 256 for place in range(12)) for row in range(12))
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 12, 8, 0, 0, 0, 0))
    # Readers pass over what stands behind the end.
    return start + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""), b""


def found(root: Path) -> float:
    """Seconds of find."""
    began = time.perf_counter()
    subprocess.run(["find", str(root), "-printf", "%s %p\n"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def profiled(root: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(root)], capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


if __name__ == "__main__":
    raise SystemExit(main())
