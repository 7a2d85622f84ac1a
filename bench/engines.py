"""How long the templates segmentation and nnunet take to a Dice, on a replica of M3Bench.

    python -m bench.engines [--replica covid19] [--bars 0.7 0.8 0.9] [--seconds 480] [--structures NAME ...]

Both train through train.py with the template's own defaults and the same `train_seconds`, one after the other; a third
of the patients is for validation. `to 0.9` counts from the command to the first validation record in progress.jsonl
that reaches it: MONAI's is the Dice of whole validation images at the network's spacing, nnU-Net's that of validation
patches. `at end` is the Dice of the delivered weights on the images' own grids, the same measure for both. Either rate
falls with the time, so another --seconds changes when a bar is reached. With --structures the masks hold these alone.
Exit code 1 if an engine fails.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from bench.rig.workspace import Workspace
from m3bench import replicas
from m3bench.readers.samples import samples, truth_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replica", default="covid19", help="of a segmentation")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--bars", type=float, nargs="+", default=[0.7, 0.8, 0.9])
    parser.add_argument("--seconds", type=float, default=480, help="of each training, packaging included")
    parser.add_argument("--engines", nargs="+", default=["segmentation", "nnunet"])
    parser.add_argument("--structures", nargs="+", default=[], help="of the replica (all)")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    given = parser.parse_args()
    threads, failed = len(os.sched_getaffinity(0)), 0
    print(
        f"{given.replica} at {given.size}, {given.seconds:g} s each, {threads} threads, load {os.getloadavg()[0]:.1f}"
    )
    reached = [f"to {bar:g}" for bar in given.bars]
    heads = ("first record", *reached, "best record", "epochs", "at end", "whole s")
    print(f"{'':10}" + "".join(f"{head:>14}" for head in heads), flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-engines-", dir=given.folder) as scratch:
        data = Path(scratch) / given.replica
        replicas.make(given.replica, data, size=given.size)
        for engine in given.engines:
            # Longer than the time that it is given: what it then has not done, it never would.
            patience = {"patience": 0} if engine == "segmentation" else {}
            config = {"every_structure": False, "training": {"train_seconds": given.seconds, **patience}}
            space = Workspace(Path(scratch) / engine, engine, config, threads, data)
            write_index(data, space.folder, given.structures)
            failed += not line(engine, space, given.bars, 3 * given.seconds)
    return int(failed > 0)


def write_index(replica: Path, folder: Path, structures: list[str]) -> None:
    """Index and label map of a replica of a segmentation; each third patient is for validation."""
    found, values = samples(replica), truth_of(replica)["label_values"]
    if unknown := set(structures) - set(values):
        raise SystemExit(f"no structure of {replica.name}: {', '.join(sorted(unknown))}; there are {', '.join(values)}")
    values = {name: value for name, value in values.items() if name in structures or not structures}
    held = set(sorted({sample.group for sample in found})[2::3])
    rows = []
    for number, sample in enumerate(found):
        assert sample.mask is not None
        row = {
            "sample_id": f"s{number:03d}",
            "patient": sample.group,
            "split": "val" if sample.group in held else "train",
        }
        target = kept(sample.mask, list(values.values())) if structures else sample.mask
        row |= {"target": str(target.relative_to(replica))}
        rows.append({**row, "files": [str(file.relative_to(replica)) for file in sample.files]})
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = json.dumps({"names": list(values), "values": values})
    (folder / "label_map.json").write_text(text, encoding="utf-8")


def kept(mask: Path, values: list[int]) -> Path:
    """A copy beside a NIfTI mask, with these values alone."""
    image = nibabel.load(mask)
    found = np.asanyarray(image.dataobj)
    copy = mask.with_name(f"kept_{mask.name}")
    nibabel.save(nibabel.Nifti1Image(np.where(np.isin(found, values), found, 0), image.affine, image.header), copy)
    return copy


def line(engine: str, space: Workspace, bars: list[float], most: float) -> bool:
    """Train, print what was seen. -> whether it came to its end."""
    began = time.monotonic()
    process = space.start()
    records = [(seconds, entry["metric"]) for seconds, entry in space.watch(process, most) if is_record(entry)]
    seconds_taken = time.monotonic() - began
    if process.returncode:
        print(f"{engine:10}  ended with {process.returncode}: {space.said()}", flush=True)
        return False
    reached = [next((f"{seconds:.0f} s" for seconds, metric in records if metric >= bar), "never") for bar in bars]
    best = max((metric for _, metric in records), default=float("nan"))
    found = space.metrics()
    cells = (f"{records[0][0]:.0f} s" if records else "-", *reached, f"{best:.3f}", f"{found['epochs']:g}")
    end = found["metrics"]["dice"]
    shown = ("-" if end is None else f"{end:.3f}", f"{seconds_taken:.0f}")
    print(f"{engine:10}" + "".join(f"{cell:>14}" for cell in (*cells, *shown)), flush=True)
    return True


def is_record(entry: dict[str, Any]) -> bool:
    """Of an evaluation; the line `done` repeats what was delivered."""
    return entry.get("metric") is not None and entry.get("text") != "done"


if __name__ == "__main__":
    sys.exit(main())
