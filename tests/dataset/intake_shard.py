"""The intake program on a folder of files, as a process of its own, without the sandbox around it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shared.contracts.cases import CaseSpec, MaskSpec, Part
from shared.dataset.intake.intake_records import LOOKS, OUT, RECORDS, SPECS, Order, Taken
from shared.looks import RECORD

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    folder: Path
    taken: dict[str, Taken]
    """Key -> record."""
    looks: dict[str, np.void]

    def files(self, key: str) -> dict[str, Path]:
        folder = self.folder / OUT / str(self.taken[key].n)
        return {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}


def case(
    key: str, *files: str | Sequence[str], masks: Sequence[MaskSpec] = (), slope: float | None = None, array: str = ""
) -> CaseSpec:
    """One view; each entry of `files` is a channel: a file, or slices."""
    parts = [Part(files=(file,) if isinstance(file, str) else tuple(file), array=array or None) for file in files]
    return CaseSpec(key=key, images=(tuple(parts),), patient=key, label="x", masks=tuple(masks), slope=slope)


def run(data: Path, folder: Path, specs: Sequence[CaseSpec], order: Order) -> Ran:
    folder.mkdir()
    (folder / SPECS).write_text("".join(f"{spec.model_dump_json()}\n" for spec in specs))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "shared.dataset.intake.intake", order.model_dump_json()],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"M3_DATA": str(data), "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(done.stderr, end="")
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(len(specs)))
    looks = np.frombuffer((folder / LOOKS).read_bytes(), RECORD)
    assert len(looks) == len(specs)
    taken = [Taken.model_validate(line) for line in lines]
    return Ran(
        folder,
        {spec.key: item for spec, item in zip(specs, taken, strict=True)},
        {spec.key: look for spec, look in zip(specs, looks, strict=True)},
    )
