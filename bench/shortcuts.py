"""How often the shortcut audit finds what was planted, and alarms where nothing was: python -m bench.shortcuts [TABLES]

`tables` are case tables made here, 60 to 100 patients with up to three cases; a planted feature goes with the class in
85 of 100 patients. `files` are small sets of pictures and volumes in which the sick have a bright spot, written
to a folder and taken in by resolver and intake; in clean ones all features differ between patients, and pictures of the
sick hold more, so that they pack worse. The bar: all planted ones found with the feature's name, no clean one.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from services.scorer.shortcuts import judge
from shared.contracts.base import Ref
from shared.contracts.cases import CaseRecord
from shared.contracts.data import DatasetFacts
from shared.contracts.rules import Rules
from shared.contracts.scoring import Gate
from shared.contracts.wrapping import Wrapping
from shared.dataset.intake.decode import take
from shared.dataset.intake.intake_records import Order
from shared.dataset.intake.wrapping import placed
from shared.dataset.rules.resolve import resolve

TABLES = 5
"""Of each planted feature; as many clean ones as planted ones."""
PLANTED = ("file size", "spacing", "file order", "scanner")
SURE = 0.85
_REF = Ref(bucket="cases", key="0" * 64, sha256="0" * 64, size=1, media_type="image/png")
_FACTS = DatasetFacts(
    task="diagnosis", dimensions=2, label_names=("ill", "well"), grouping="stated", grouping_from="", split_from="made"
)  # fmt: skip
Rng = np.random.Generator


def table(planted: str, seed: int) -> list[CaseRecord]:
    """One to three cases a patient; each feature but the planted one is the patient's own."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(60, 101))
    ill = rng.random(count) < 0.5
    if planted == "file order":
        ill = np.sort(ill) ^ (rng.random(count) > SURE)
    cases: list[CaseRecord] = []
    for patient in range(count):
        said = bool(ill[patient]) ^ (rng.random() > SURE)

        def of(feature: str, said: bool = said) -> int:
            return int(said) if planted == feature else int(rng.integers(2))

        size, spacing, scanner = of("file size"), (0.5, 0.8)[of("spacing")], ("one", "two")[of("scanner")]
        edges = tuple(float(edge) for edge in rng.integers(200, 600, 2))
        for _ in range(int(rng.integers(1, 4))):
            wrapped = Wrapping(
                numbers={
                    "file size": (float(size), size + float(rng.integers(2)) / 2),
                    "spacing": (spacing, spacing),
                    "dimensions": edges,
                    "file order": (float(len(cases)),),
                    "study date": (float(rng.integers(700000, 701000)),),
                },
                kinds={"scanner": (scanner, f"model {rng.integers(5)}"), "format": (f"{rng.integers(2)}",)},
            )
            label = "ill" if ill[patient] else "well"
            cases.append(
                CaseRecord(key=f"{len(cases)}", patient=f"{patient}", label=label, images=(_REF,), wrapping=wrapped)
            )
    return cases


def _picture(rng: Rng, ill: bool, edge: int) -> np.ndarray:
    """Structure of two scales; the ill have a spot with a grain of its own."""
    coarse = np.kron(rng.normal(100, 25, (edge // 16 + 1,) * 2), np.ones((16, 16)))[:edge, :edge]
    pixels = coarse + rng.normal(0, 6, (edge, edge))
    if ill:
        top, left = rng.integers(4, edge - 28, 2)
        pixels[top : top + 24, left : left + 24] += 50 + rng.normal(0, 12, (24, 24))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _films(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """The films of the ill were saved as JPEG, or half of all were."""
    from PIL import Image

    for patient, sick in enumerate(ill):
        jpeg = sick if planted else bool(rng.integers(2))
        image = Image.fromarray(_picture(rng, sick, int(rng.choice([96, 112, 128]))))
        image.save(root / f"p{patient:03d}.{'jpg' if jpeg else 'png'}")


def _packed(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """One format, and the quality at which it was saved."""
    from PIL import Image

    for patient, sick in enumerate(ill):
        low = sick if planted else bool(rng.integers(2))
        Image.fromarray(_picture(rng, sick, 112)).save(root / f"p{patient:03d}.jpg", quality=60 if low else 95)


def _volumes(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """Distance of slices."""
    import nibabel

    for patient, sick in enumerate(ill):
        thick = 5.0 if (sick if planted else rng.integers(2)) else 2.5
        array = np.stack([_picture(rng, sick, 48) for _ in range(int(rng.integers(4, 8)))], axis=2)
        nibabel.save(nibabel.Nifti1Image(array, np.diag([0.8, 0.8, thick, 1.0])), root / f"p{patient:03d}.nii.gz")


def _scans(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """Maker of the scanner in the header."""
    import pydicom
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    for patient, sick in enumerate(ill):
        pixels = _picture(rng, sick, 112)
        item = pydicom.Dataset()
        item.file_meta = pydicom.dataset.FileMetaDataset()
        item.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        item.SOPClassUID, item.SOPInstanceUID, item.Modality = SecondaryCaptureImageStorage, generate_uid(), "DX"
        item.Rows, item.Columns, item.SamplesPerPixel, item.PhotometricInterpretation = 112, 112, 1, "MONOCHROME2"
        item.BitsAllocated, item.BitsStored, item.HighBit, item.PixelRepresentation = 8, 8, 7, 0
        item.Manufacturer = "SIEMENS" if (sick if planted else rng.integers(2)) else "Philips"
        item.StudyDate = f"20{rng.integers(10, 24)}0{rng.integers(1, 10)}1{rng.integers(10)}"
        item.PixelData = pixels.tobytes()
        pydicom.dcmwrite(root / f"p{patient:03d}.dcm", item, enforce_file_format=True)


def _ordered(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """The ill were numbered first: nothing but the place tells."""
    _sized(root, rng, sorted(ill, reverse=True) if planted else ill, planted)


def _sized(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """Pictures of all sizes, none of which goes with the class."""
    from PIL import Image

    for patient, sick in enumerate(ill):
        Image.fromarray(_picture(rng, sick, int(rng.integers(80, 160)))).save(root / f"p{patient:03d}.png")


def _raw(root: Path, rng: Rng, ill: Sequence[bool], planted: bool) -> None:
    """Not packed: the canonical copies of the ill are larger, their files are not."""
    from PIL import Image

    for patient, sick in enumerate(ill):
        Image.fromarray(_picture(rng, sick, 96)).save(root / f"p{patient:03d}.bmp")


SETS: dict[str, tuple[Callable[[Path, Rng, Sequence[bool], bool], None], str, str]] = {
    "films as PNG and JPEG": (_films, "{patient}.*", "format"),
    "JPEG of two qualities": (_packed, "{patient}.jpg", "file size"),
    "volumes of two spacings": (_volumes, "{patient}.nii.gz", "spacing"),
    "DICOM of two makers": (_scans, "{patient}.dcm", "scanner"),
    "patients numbered by class": (_ordered, "{patient}.png", "file order"),
    "pictures of all sizes": (_sized, "{patient}.png", ""),
    "raw pictures": (_raw, "{patient}.bmp", ""),
}
"""Name -> what writes it, pattern of its files, the feature that may be planted."""


def write(name: str, root: Path, planted: bool, seed: int, patients: int = 60) -> Rules:
    """Write a set below `root`; the rules that find its cases."""
    rng = np.random.default_rng(seed)
    writer, pattern, feature = SETS[name]
    ill = [bool(one) for one in rng.random(patients) < 0.5]
    writer(root, rng, ill, planted)
    said = sorted(ill, reverse=True) if planted and feature == "file order" else ill
    lines = [f"p{number:03d},{'ill' if sick else 'well'}" for number, sick in enumerate(said)]
    (root / "labels.csv").write_text("\n".join(["patient,finding", *lines]) + "\n")
    return Rules.model_validate(
        {
            "task": "diagnosis", "dimensions": 3 if pattern.endswith("nii.gz") else 2, "images": [{"files": pattern}],
            "tables": {"labels": {"file": "labels.csv", "key": "patient"}}, "patient": {"field": "patient"},
            "label": {"source": {"table": "labels", "column": "finding"}},
        }
    )  # fmt: skip


def taken_in(root: Path, rules: Rules) -> list[CaseRecord]:
    """The case table as an intake job makes it."""
    found = []
    for number, spec in enumerate(resolve(rules, root).cases):
        with tempfile.TemporaryDirectory() as folder:
            taken, _ = take(number, spec, root, Order(dimensions=rules.dimensions), Path(folder))
        around = placed(rules, spec, taken.wrapping, number)
        found.append(CaseRecord(key=spec.key, patient=spec.patient, label=spec.label, images=(_REF,), wrapping=around))
    return found


def audit(cases: Sequence[CaseRecord]) -> Gate:
    return judge(cases, [case.patient for case in cases], _FACTS)


def main(tables: int) -> int:
    missed = alarms = 0

    def told(what: str, feature: str, gate: Gate) -> None:
        nonlocal missed, alarms
        right = gate.passed if not feature else not gate.passed and feature in gate.evidence
        missed, alarms = missed + (bool(feature) and not right), alarms + (not feature and not right)
        print(f"{what:34} {feature or 'clean':12} {'right' if right else 'WRONG'}  {gate.evidence}", flush=True)

    for number, feature in enumerate(PLANTED):
        for seed in range(tables):
            told(f"table {number * tables + seed}", feature, audit(table(feature, 100 * number + seed)))
            told(f"table {number * tables + seed}", "", audit(table("", 1000 + 100 * number + seed)))
    for name, (_, _, feature) in SETS.items():
        for planted in (True, False) if feature else (False,):
            with tempfile.TemporaryDirectory() as folder:
                rules = write(name, Path(folder), planted, seed=len(name))
                told(f"files: {name}", feature if planted else "", audit(taken_in(Path(folder), rules)))
    print(f"planted and not found: {missed}; alarms of clean sets: {alarms}")
    return int(missed + alarms > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TABLES))
