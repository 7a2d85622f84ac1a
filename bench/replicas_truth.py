"""Every case of a replica as its generator planted it, in either layout: files, whose it is, label, mask, text."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from m3bench.datasets.braingenome import SEQUENCES, Case
from m3bench.datasets.chestx_det10 import masks
from m3bench.datasets.ct_kidney import WRAPPER
from m3bench.datasets.ct_rate import MISSING_TEXT, Scan
from m3bench.readers.arrays import read

PICTURES = ("chestx-det10", "ct-kidney", "iu-xray")
"""Replicas of pictures; the others are of volumes."""


@dataclass(frozen=True)
class Planted:
    files: tuple[str, ...]
    """Relative to the dataset, in natural order."""
    patient: str | None
    """None where nothing in the dataset could tell."""
    label: str | None = None
    text: str | None = None
    mask: Callable[[], np.ndarray] | None = None
    """Label values on the image's grid: (rows, columns), or (slices, rows, columns) from the head down."""
    intercept: float = 0.0
    """To be added to stored numbers, by a table."""
    doubtful: bool = False
    """Whether it may as well be left out: its class is beside those that the benchmark asks for, or it is no scan."""


def planted(folder: Path) -> list[Planted]:
    """The cases of a replica with its truth beside it; damaged and missing files are in none."""
    truth = json.loads(folder.with_name(folder.name + ".truth.json").read_text(encoding="utf-8"))
    return list(_CASES.get(truth["replica"], _segmentation)(folder, truth))


def _named(truth: Mapping[str, Any], *quirks: str) -> set[str]:
    return {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] in quirks}


def _segmentation(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    for case in truth["cases"]:
        if "mask" in case:
            file = root / case["mask"]
            yield Planted((case["image"],), case["group"], mask=lambda file=file: np.rint(read([file])).astype(int))


def _chestx(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    for image in truth["images"]:
        part = "images" if truth["layout"] == "paper" else f"{image['part']}_data"
        file = f"{part}/{image['file_name']}"
        shape = read([root / file]).shape
        boxes, names = [tuple(box) for box in image["boxes"]], image["syms"]
        yield Planted((file,), str(image["patient"]), mask=lambda b=boxes, n=names, s=shape: masks(b, n, s).astype(int))


def _adni(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    archive = {path.name: path for path in root.glob("ADNI/*/*/*/*")}
    for scan in truth["scans"]:
        if not (scan["stored"] and scan["listed"]):
            continue
        name = scan["image_id"]
        files = [f"ADNI_PT/{name}.pt"]
        if truth["layout"] != "paper":
            files = [path.relative_to(root).as_posix() for path in archive[name].iterdir()]
        doubtful = scan["group"] not in truth["labels"] or scan["description"] == "3-plane localizer"
        yield Planted(tuple(sorted(files)), scan["subject"], label=scan["group"], doubtful=doubtful)


def _kneemri(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    for volume in truth["volumes"]:
        yield Planted((volume["path"],), str(volume["exam"]), label=str(volume["diagnosis"]))


def _cc_ccii(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    damaged = {Path(path).parent.as_posix() for path in _named(truth, "corrupt_png")}
    for scan in truth["scans"]:
        if scan["folder"] not in damaged:
            yield Planted(tuple(f"{scan['folder']}/{name}" for name in scan["files"]), scan["patient"], scan["label"])


def _ct_kidney(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    top = "" if truth["layout"] == "paper" else f"{WRAPPER}/{WRAPPER}/"
    for label, many in truth["images"].items():
        for number in range(1, many + 1):
            yield Planted((f"{top}{label}/{label}- ({number}).jpg",), None, label=label)


def _ct_rate(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    paper = truth["layout"] == "paper"
    said: dict[str, str] = {}
    shift: dict[str, float] = {}
    if paper:
        for part in ("train", "test"):
            said |= {
                Path(row["image_path"]).name: _joined(row, "finding", "impression")
                for row in _json(root / f"reports_{part}.json")
            }
    else:
        for table in (root / "dataset/radiology_text_reports").iterdir():
            said |= {row["VolumeName"]: _joined(row, "Findings_EN", "Impressions_EN") for row in _csv(table)}
        for table in (root / "dataset/metadata").iterdir():
            shift |= {row["VolumeName"]: float(row["RescaleIntercept"]) for row in _csv(table)}
    gone = _named(truth, "missing_file", "truncated_file")
    for facts in truth["scans"]:
        scan = Scan(**{key: value for key, value in facts.items() if key != "name"})
        for name in scan.volume_names():
            file = f"{scan.folder(truth['layout'])}/{name}"
            if file not in gone:
                doubtful = MISSING_TEXT in said[name]
                patient = f"{scan.part}_{scan.patient}"
                yield Planted((file,), patient, text=said[name], intercept=shift.get(name, 0), doubtful=doubtful)


def _braingenome(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    said: dict[str, str] = {}
    if truth["layout"] == "paper":
        for part in ("train", "test"):
            said |= {
                row["image_path"]: _joined(row, "finding", "impression") for row in _json(root / f"reports_{part}.json")
            }
    else:
        for table in root.glob("*/modal_wise_finding.json"):
            said |= json.loads(table.read_text(encoding="utf-8"))
    for facts in truth["cases"]:
        case = Case(**facts)
        for sequence in SEQUENCES[case.kind]:
            name = case.image_id(sequence)
            file = f"images/{name}.nii.gz" if truth["layout"] == "paper" else case.path(sequence)
            yield Planted((file,), case.patient, text=said[file if truth["layout"] == "paper" else name])


def _iu_xray(root: Path, truth: Mapping[str, Any]) -> Iterator[Planted]:
    tables = [root / name for name in ("indiana_samples.csv", "indiana_reports.csv")]
    said = {
        row["uid"]: _joined(row, "findings", "impression") for table in tables if table.exists() for row in _csv(table)
    }
    folder = "images" if truth["layout"] == "paper" else "images/images_normalized"
    gone = _named(truth, "missing_file")
    for study in truth["studies"]:
        files = tuple(f"{folder}/{name}" for name, _ in study["views"] if name not in gone)
        if text := said[str(study["uid"])]:
            yield Planted(files, str(study["uid"]), text=text)


def _joined(row: Mapping[str, str], *columns: str) -> str:
    return "\n\n".join(row[name] for name in columns if row[name] not in ("", "nan"))


def _json(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


_CASES: Mapping[str, Callable[[Path, Mapping[str, Any]], Iterator[Planted]]] = {
    "chestx-det10": _chestx,
    "adni": _adni,
    "kneemri": _kneemri,
    "cc-ccii": _cc_ccii,
    "ct-kidney": _ct_kidney,
    "ct-rate": _ct_rate,
    "braingenome": _braingenome,
    "iu-xray": _iu_xray,
}
