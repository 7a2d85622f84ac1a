"""Trusted probe: is the package what it has to be? Reads only; runs in the sandbox, in the workspace.

    python verify_package.py --package package --index train_index.jsonl     (data below $M3_DATA)
    python verify_package.py --package package --sample PATH [--sample PATH ...]

predict.py runs as a process of its own (`python -I`, another folder, none of our code in reach) on samples as they are
and on altered copies. The last line of stdout is one JSON object, whatever happens.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import _classes
import _reports
import _segmentation
from _paths import reason

from shared.imaging.formats import kind_of
from shared.imaging.order import natural_key
from shared.imaging.volume import read
from shared.imaging.write import write_image

OURS = re.compile(r"^\s*(?:from|import)\s+(?:shared|services|m3bench)\b", re.MULTILINE)
NEEDED = ("model.safetensors", "config.json", "label_map.json", "predict.py", "metadata.json", "MODEL_CARD.md")
SAMPLES = 2
REPORTS = 8
"""Samples where the answer is a text: it changes with what is seen, not with every value."""
SECONDS = 240
FORM = "change `head` and `answer` in predict.py; REFERENCE.md says under `package/` what predictions.json must hold"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", default="package")
    parser.add_argument("--sample", action="append", default=[])
    parser.add_argument("--index", help="take validation rows of this index as samples")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    facts: dict[str, Any] = {
        "errors": [],
        "files": [],
        "checksums_hold": None,
        "schema_valid": None,
        "output_follows_image": None,
        "imports_of_ours": [],
        "cases": 0,
    }
    try:
        with tempfile.TemporaryDirectory(prefix="package-") as made:
            gather(options, facts, Path(made))
    except Exception as error:  # a stranger's package may break anything; what was seen until then still counts
        facts["errors"].append(f"the probe itself failed: {reason(error)}")
    facts["seconds"] = round(time.monotonic() - begin, 2)
    facts["ok"] = not facts["errors"]
    print(json.dumps(facts), flush=True)


def gather(options: argparse.Namespace, facts: dict[str, Any], scratch: Path) -> None:
    errors: list[str] = facts["errors"]
    package = real(options.package).resolve()
    if not package.is_dir():
        errors.append(f"{options.package} is no folder")
        return
    facts["files"] = sorted(str(item.relative_to(package)) for item in package.rglob("*") if item.is_file())[:100]
    errors += [f"the package has no {name}" for name in NEEDED if not (package / name).is_file()]
    for file in sorted(package.rglob("*.py")):
        if found := OURS.search(file.read_text(encoding="utf-8", errors="replace")):
            facts["imports_of_ours"].append(f"{file.relative_to(package)}: {found.group().strip()}")
    errors += [f"the package must run without our code: {line}" for line in facts["imports_of_ours"]]
    faults = checksum_faults(package)
    facts["checksums_hold"] = not faults
    errors += [f"checksums: {fault}" for fault in faults[:10]]
    if errors:
        return
    config = json.loads((package / "config.json").read_text())
    task, rows = str(config.get("task")), rows_of(options)
    inputs = prepare(options, rows, scratch, errors, task)
    if errors:
        return
    # The index knows best; without one the package is held to what it says of itself.
    several = _classes.are_several(rows)
    run(package, inputs, scratch, facts, task, bool(config.get("multi_label")) if several is None else several)


def real(path: str) -> Path:
    for top, variable in (("/workspace", "M3_WORKSPACE"), ("/data", "M3_DATA"), ("/package", "M3_PACKAGE")):
        if path == top or path.startswith(top + "/"):
            return Path(os.environ.get(variable) or top, path.removeprefix(top).lstrip("/"))
    return Path(path)


def checksum_faults(package: Path) -> list[str]:
    if not (package / "SHA256SUMS").is_file():
        return ["SHA256SUMS is missing"]
    listed = {}
    for line in (package / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    faults = [f"{name} is not listed" for name in NEEDED if name not in listed and (package / name).is_file()]
    for name, digest in listed.items():
        file = package / name
        if not file.is_file():
            faults.append(f"{name} is missing")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            faults.append(f"{name} is not the file that was packaged")
    return faults


def rows_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Validation rows of the index, if one is given."""
    lines = real(options.index).read_text(encoding="utf-8").split("\n") if options.index else []
    return [row for row in map(json.loads, filter(str.strip, lines)) if row.get("split") == "val"]


def prepare(
    options: argparse.Namespace, rows: Sequence[dict[str, Any]], scratch: Path, errors: list[str], task: str
) -> list[tuple[str, str]]:
    """(sample as it is, altered copy) pairs; the copies have the same files with other values."""
    wanted = REPORTS if task == _reports.TASK else SAMPLES
    samples: list[list[Path]] = []
    for given in options.sample:
        path = real(given)
        if not path.exists():
            errors.append(f"the sample {given} does not exist")
            continue
        files = sorted(path.iterdir(), key=lambda f: natural_key(f.name)) if path.is_dir() else [path]
        samples.append([file for file in files if file.is_file()])
    root = Path(os.environ.get("M3_DATA") or ".")
    for row in rows[:wanted]:
        samples.append([root / file for file in row["files"]])
    if not samples and not errors:
        errors.append("there is no sample to try the package on; give --sample or an --index with val rows")
    pairs = []
    for number, files in enumerate(samples[: max(wanted, len(options.sample))]):
        plain, altered = scratch / f"case_{number}", scratch / f"altered_{number}"
        for folder in (plain, altered):
            folder.mkdir()
        for position, file in enumerate(files):
            name = f"{position:04d}{''.join(file.suffixes[-2:]) if file.name.endswith('.nii.gz') else file.suffix}"
            shutil.copyfile(file, plain / name)
            alter(file, altered / name)
        pairs.append((plain.name, altered.name))
    return pairs


def alter(source: Path, target: Path) -> None:
    """The same image with half of it turned over in its values, so that no normalisation can undo it: each channel by
    itself. DICOM stays a series, NIfTI and npy keep their axes, anything else becomes canonical."""
    import numpy as np

    kind, name = kind_of(source), source.name.lower()
    if kind == "dicom":
        _segmentation.alter_dicom(source, target, turned)
    elif name.endswith((".nii", ".nii.gz")):
        import nibabel

        volume: Any = nibabel.load(source)
        array = np.asarray(volume.dataobj, dtype=np.float32)
        changed = turned_channels(array) if array.ndim > 3 else turned(array)
        nibabel.save(nibabel.Nifti1Image(changed, volume.affine), target)
    elif name.endswith(".npy"):
        np.save(target, turned(np.load(source, allow_pickle=False).astype(np.float32)))
    else:
        image = read([source], axis4="channels")
        write_image(replace(image, array=turned_channels(image.array)), target.parent / target.name.partition(".")[0])


def turned(image: Any) -> Any:
    changed = image.copy()
    half = changed.shape[-1] // 2
    changed[..., :half] = image.max() + image.min() - image[..., :half]
    return changed


def turned_channels(image: Any) -> Any:
    """Channels are the last axis."""
    import numpy as np

    return np.stack([turned(image[..., number]) for number in range(image.shape[-1])], -1)


def run(
    package: Path, pairs: list[tuple[str, str]], scratch: Path, facts: dict[str, Any], task: str, several: bool
) -> None:
    errors: list[str] = facts["errors"]
    masks, reports = task in _segmentation.TASKS, task == _reports.TASK
    names = [name for pair in pairs for name in pair]
    out, elsewhere = scratch / "out", scratch / "elsewhere"
    elsewhere.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "M3_"))}
    command = [
        sys.executable,
        "-I",
        str(package / "predict.py"),
        *(str(scratch / n) for n in names),
        "--output",
        str(out),
    ]
    try:
        done = subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        errors.append(f"predict.py took more than {SECONDS} s for {len(names)} inputs")
        return
    if done.returncode:
        tail = (done.stderr or done.stdout).strip().splitlines()[-6:]
        said = " | ".join(tail)[:1500]
        errors.append(f"predict.py ended with {done.returncode}: {said}\n{direction(said)}")
        return
    try:
        found = json.loads((out / "predictions.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        errors.append(f"predictions.json cannot be read: {reason(error)}")
        facts["schema_valid"] = False
        return
    label_map = json.loads((package / "label_map.json").read_text())
    labels = label_map["names"]
    if masks:
        faults = _segmentation.schema_faults(found, names, label_map, out)
    elif reports:
        faults = _reports.schema_faults(found, names)
    else:
        faults = _classes.schema_faults(found, names, labels, several)
    facts["schema_valid"] = not faults
    errors += [f"{fault}\n{FORM}" for fault in faults]
    if faults:
        return
    facts["cases"] = len(names)
    if masks:
        inputs = {name: images_in(scratch / name) for name in names}
        _segmentation.judge(found["cases"], inputs, pairs, label_map["values"], out, facts)
        return
    if reports:
        _reports.judge(found["cases"], pairs, facts)
        return
    chances = {case["input"]: [case["probabilities"][label] for label in labels] for case in found["cases"]}
    moved = [max(abs(a - b) for a, b in zip(chances[p], chances[q], strict=True)) for p, q in pairs]
    facts["largest_change"] = max(moved)
    facts["output_follows_image"] = max(moved) > 1e-6
    if not facts["output_follows_image"]:
        errors.append("the prediction does not change when the image does: the model does not use it")


def direction(said: str) -> str:
    """What to change after predict.py ended with these words."""
    if missing := re.search(r"No module named '([\w.]+)'", said):
        return f"write `import {missing[1]}` in predict.py or a file that it imports, so that the package gets it"
    return "mend predict.py or a file that it imports, and package again"


def images_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


if __name__ == "__main__":
    main()
