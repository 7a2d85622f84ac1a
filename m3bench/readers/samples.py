"""A replica as a list of samples with what its truth knows about each: the paper's layout, sound files only."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.readers.arrays import read
from m3bench.words.brain_words import TUMOURS
from m3bench.words.reports import RIGHT_LEFT

Truth = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    group: str
    """Whose it is: what must not be torn apart."""
    files: tuple[Path, ...]
    mask: Path | None = None
    label: str | None = None
    facts: frozenset[str] | None = None
    """What a report's image shows, such as `Lung nodule left`."""
    text: str | None = None

    def image(self) -> NDArray[Any]:
        return read(self.files)

    def labels(self) -> NDArray[np.int64]:
        """The mask's values on the image's grid."""
        assert self.mask is not None
        return np.asarray(np.rint(read([self.mask])), np.int64)


def truth_of(folder: Path) -> Truth:
    found: Truth = json.loads(folder.with_name(folder.name + ".truth.json").read_text(encoding="utf-8"))
    return found


def samples(folder: Path) -> list[Sample]:
    """Of a replica in the paper's layout with its truth beside it, in the truth's order."""
    truth = truth_of(folder)
    return list(_SAMPLES.get(truth["replica"], _segmentation)(folder, truth))


def _quirks(truth: Truth, *kinds: str) -> set[str]:
    return {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] in kinds}


def _segmentation(root: Path, truth: Truth) -> Iterator[Sample]:
    for case in truth["cases"]:
        if "mask" in case:
            yield Sample(case["group"], (root / case["image"],), mask=root / case["mask"])


def _chestx(root: Path, truth: Truth) -> Iterator[Sample]:
    for image in truth["images"]:
        name = image["file_name"]
        yield Sample(str(image["patient"]), (root / "images" / name,), mask=root / "masks" / name)


def _adni(root: Path, truth: Truth) -> Iterator[Sample]:
    for scan in truth["scans"]:
        known = scan["stored"] and scan["listed"] and scan["group"] in truth["labels"]
        if known and scan["shape"] == truth["scans"][0]["shape"]:
            yield Sample(scan["subject"], (root / "ADNI_PT" / f"{scan['image_id']}.pt",), label=scan["group"])


def _kneemri(root: Path, truth: Truth) -> Iterator[Sample]:
    for volume in truth["volumes"]:
        yield Sample(str(volume["exam"]), (root / volume["path"],), label=str(volume["diagnosis"]))


def _cc_ccii(root: Path, truth: Truth) -> Iterator[Sample]:
    skipped = _quirks(truth, "corrupt_png", "duplicate_scan")
    for scan in truth["scans"]:
        files = [f"{scan['folder']}/{name}" for name in scan["files"]]
        if scan["folder"] not in skipped:
            paths = tuple(root / path for path in files if path not in skipped)
            yield Sample(scan["patient"], paths, label=scan["label"])


def _ct_kidney(root: Path, truth: Truth) -> Iterator[Sample]:
    for study in truth["studies"]:
        label = study["label"]
        for number in range(study["first"], study["first"] + study["count"]):
            yield Sample(f"{label} {study['study']}", (root / label / f"{label}- ({number}).jpg",), label=label)


def _sided(name: str, side: int) -> str:
    return f"{name} {RIGHT_LEFT[side]}" if side else name


def _ct_rate(root: Path, truth: Truth) -> Iterator[Sample]:
    told = {row["image_path"]: row for part in ("train", "test") for row in _rows(root / f"reports_{part}.json")}
    skipped = _quirks(truth, "missing_file", "truncated_file")
    for scan in truth["scans"]:
        person = f"{scan['part']}_{scan['patient']}"
        # One reconstruction a scan: they share the report.
        names = [f"volumes/{person}/{scan['name']}/{scan['name']}_{n + 1}.nii.gz" for n in range(scan["volumes"])]
        sound = [name for name in names if name not in skipped]
        if sound and told[sound[0]]["finding"] != "Not given.":
            facts = frozenset(
                fact
                for name, side in scan["sides"].items()
                for fact in (name, _sided(name, side), f"{name} level {scan['levels'][name]}")
            )
            yield Sample(person, (root / sound[0],), facts=facts, text=told[sound[0]]["finding"])


def _braingenome(root: Path, truth: Truth) -> Iterator[Sample]:
    told = {row["image_path"]: row for part in ("train", "test") for row in _rows(root / f"reports_{part}.json")}
    patients = {case["name"]: case for case in truth["cases"]}
    for path, row in sorted(told.items()):
        name = path.removeprefix("images/").removesuffix(".nii.gz")
        case = patients[name.rpartition("-" if name.startswith("BraTS") else "_")[0]]
        lesion = case["lesion"]
        sequence = name[len(case["name"]) + 1 :]
        facts = {lesion["kind"], sequence, f"extent {lesion['grade']}", f"side {lesion['side']}", str(lesion["lobe"])}
        facts |= {sign for sign in ("hollow", "shift", "wide") if lesion[sign]}
        if lesion["kind"] in TUMOURS:
            facts.add("edema" if lesion["edema"] else "no edema")
        yield Sample(case["patient"], (root / path,), facts=frozenset(facts), text=row["finding"])


def _iu_xray(root: Path, truth: Truth) -> Iterator[Sample]:
    with (root / "indiana_samples.csv").open(newline="", encoding="utf-8") as handle:
        told = {row["filename"]: row["findings"] for row in csv.DictReader(handle)}
    for study in truth["studies"]:
        name = next(name for name, view in study["views"] if view == "Frontal")
        if told[name] and name not in _quirks(truth, "missing_file"):
            facts = frozenset(
                fact
                for name, side, zone in study["facts"]
                for fact in (name, _sided(name, side), f"{name} zone {zone}")
            )
            yield Sample(str(study["uid"]), (root / "images" / name,), facts=facts, text=told[name])


def _rows(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


_SAMPLES: Mapping[str, Callable[[Path, Truth], Iterator[Sample]]] = {
    "chestx-det10": _chestx,
    "adni": _adni,
    "kneemri": _kneemri,
    "cc-ccii": _cc_ccii,
    "ct-kidney": _ct_kidney,
    "ct-rate": _ct_rate,
    "braingenome": _braingenome,
    "iu-xray": _iu_xray,
}
