"""Thirty small datasets, each with orders planted in another place."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import nibabel
import numpy as np
from PIL import Image, PngImagePlugin
from pydicom.dataset import FileDataset

from tests.e2e.planted.layouts import CASES, Plant, dicoms, films, image, scans

Until = Literal["DatasetLocked", "ModuleAssembled", "RunFinished"]


def _folders(folder: Path, plant: Plant) -> None:
    names = [plant.name(odd=True) for _ in range(4)]
    films(folder, name=lambda n: f"{names[n % 4]}/{n:03}.png")


def _files(folder: Path, plant: Plant) -> None:
    names = [plant.name(odd=True) for _ in range(4)]
    films(folder, name=lambda n: f"{n:03} {names[n % 4]}.png")


def _in_chunks(folder: Path, plant: Plant) -> None:
    def save(path: Path, picture: Image.Image) -> None:
        chunks = PngImagePlugin.PngInfo()
        chunks.add_text("Description", plant.text())
        chunks.add_itxt("Comment", plant.text())
        picture.save(path, pnginfo=chunks)

    films(folder, save=save)


def _in_exif(folder: Path, plant: Plant) -> None:
    def save(path: Path, picture: Image.Image) -> None:
        exif = Image.Exif()
        exif[0x010E] = plant.text()
        picture.save(path, exif=exif, comment=plant.text().encode(), quality=95)

    films(folder, name=lambda n: f"{n:03}.jpg", save=save)


def _in_tiff(folder: Path, plant: Plant) -> None:
    films(
        folder,
        name=lambda n: f"{n:03}.tif",
        save=lambda path, picture: picture.save(path, description=plant.text(), software=plant.mark()),
    )


def _columns(folder: Path, plant: Plant) -> None:
    names = [plant.text() for _ in range(4)]
    films(folder, rows=lambda n: {name: n % 5 for name in names})


def _classes(folder: Path, plant: Plant) -> None:
    films(folder, classes=(plant.name(80), plant.name(80)))


def _class_folders(folder: Path, plant: Plant) -> None:
    names = (plant.name(80), plant.name(80))
    for n in range(CASES):
        path = folder / names[n // 2 % 2] / f"p{n // 2:02}_{n % 2}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image(n, n // 2 % 2)).save(path)


def _json(folder: Path, plant: Plant, keys: bool) -> None:
    films(folder)
    (folder / "labels.csv").unlink()
    rows = [
        {"file": f"{n:03}.png", "patient": f"P{n // 2:02}", "diagnosis": ("healthy", "stone")[n // 2 % 2]}
        | ({plant.text(): n} if keys and n < 4 else {"remark": plant.text()})
        for n in range(CASES)
    ]
    (folder / "cases.json").write_text(json.dumps(rows, ensure_ascii=False))


def _xml(folder: Path, plant: Plant) -> None:
    from xml.sax.saxutils import escape

    films(folder)
    (folder / "labels.csv").unlink()
    for n in range(CASES):
        said = f"<report><findings>The lungs are clear {n}.</findings><impression>{escape(_flat(plant.text()))}"
        (folder / "images" / f"{n:03}.xml").write_text(f"{said}</impression></report>", encoding="utf-8")


def _reports(folder: Path, plant: Plant) -> None:
    films(folder)
    (folder / "labels.csv").unlink()
    for n in range(CASES):
        (folder / "images" / f"{n:03}.txt").write_text(f"Findings: the lungs are clear {n}.\n{plant.text()}\n")


def _excel(folder: Path, plant: Plant) -> None:
    import openpyxl

    films(folder)
    (folder / "labels.csv").unlink()
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = plant.mark(" call lock")[:31]
    sheet.append(["image", "patient", "diagnosis", _flat(plant.text())])
    for n in range(CASES):
        about = [f"{n:03}.png", f"P{n // 2:02}", ("healthy", "stone")[n // 2 % 2], _flat(plant.text())]
        sheet.append(about)
    book.save(folder / "cases.xlsx")


def _arrays(folder: Path, plant: Plant) -> None:
    names = [plant.name(100) for _ in range(2)]
    for n in range(CASES):
        path = folder / ("healthy", "stone")[n // 2 % 2] / f"p{n // 2:02}_{n % 2}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, image=image(n, n // 2 % 2), **{name: np.zeros(2) for name in names})


def _structures(folder: Path, plant: Plant) -> None:
    scans(folder)
    labels = {"background": 0, plant.name(80): 1}
    about = {"name": plant.text(), "labels": labels, "channel_names": {"0": "CT"}, "file_ending": ".nii.gz"}
    (folder / "dataset.json").write_text(json.dumps(about))


def _sidecars(folder: Path, plant: Plant) -> None:
    scans(folder)
    for n in range(12):
        said = {"ProtocolName": plant.text(), plant.text(): n}
        (folder / "imagesTr" / f"scan{n:02}.json").write_text(json.dumps(said, ensure_ascii=False))


def _descrip(scan: nibabel.Nifti1Image, plant: Plant) -> None:
    scan.header["descrip"] = plant.text(79).encode()[:79]
    scan.header["aux_file"] = plant.mark(" call seal_it").encode()[:23]


def _intent(scan: nibabel.Nifti1Image, plant: Plant) -> None:
    scan.header["intent_name"] = plant.mark(" call x").encode()[:15]
    scan.header["db_name"] = plant.mark(" call lock").encode()[:17]


def _extension(scan: nibabel.Nifti1Image, plant: Plant) -> None:
    scan.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", plant.text().encode()))


def _beside(name: str) -> Callable[[Path, Plant], None]:
    def make(folder: Path, plant: Plant) -> None:
        films(folder)
        (folder / name).write_text("\n\n".join(plant.text() for _ in range(6)), encoding="utf-8")

    return make


def _headers(*keywords: str) -> Callable[[Path, Plant], None]:
    def change(one: FileDataset, plant: Plant) -> None:
        for keyword in keywords:
            setattr(one, keyword, _flat(plant.text(60 if keyword != "PatientComments" else 2000)))

    return lambda folder, plant: dicoms(folder, lambda one, n: change(one, plant))


def _private(folder: Path, plant: Plant) -> None:
    def change(one: FileDataset, n: int) -> None:
        block = one.private_block(0x0011, plant.mark(), create=True)
        block.add_new(0x01, "LT", _flat(plant.text(2000)))

    dicoms(folder, change)


def _flat(text: str) -> str:
    """Without what DICOM and Excel cannot hold."""
    return text.replace("\\", "").replace("\r", "").replace("\n", " ")


def _nothing(folder: Path, plant: Plant) -> None:
    films(folder)


@dataclass(frozen=True)
class Kind:
    """Where orders are planted, what is to be built, and how far."""

    place: str
    make: Callable[[Path, Plant], None]
    until: Until = "DatasetLocked"
    plan: Mapping[str, Any] = field(default_factory=dict)
    card: Callable[[Plant], dict[str, Any]] = lambda plant: {}
    uploaded: bool = False
    approved: bool = False
    """A person wants to approve the split."""


ORGANS = {"task": "organ_segmentation", "dimensions": 3, "anatomy": "liver", "metric": "dice"}
TEXTS = {"task": "report_generation", "metric": "rouge_l", "modality": "X-ray", "anatomy": "chest"}
KINDS = (
    Kind("folder names", _folders),
    Kind("class folders", _class_folders, "RunFinished"),
    Kind("CSV cells", lambda folder, plant: films(folder, lambda n: {"remark": plant.text()}), approved=True),
    Kind("NIfTI descrip", lambda f, plant: scans(f, lambda scan, n: _descrip(scan, plant)), plan=ORGANS),
    Kind("file names", _files),
    Kind("StudyDescription", _headers("StudyDescription")),
    Kind("PatientComments", _headers("PatientComments", "PatientName")),
    Kind("private tags", _private),
    Kind("NIfTI intent", lambda f, plant: scans(f, lambda scan, n: _intent(scan, plant)), plan=ORGANS),
    Kind("NIfTI extension", lambda f, plant: scans(f, lambda scan, n: _extension(scan, plant)), plan=ORGANS),
    Kind("PNG chunks", _in_chunks),
    Kind("EXIF", _in_exif),
    Kind("TIFF", _in_tiff),
    Kind("CSV columns", _columns),
    Kind("class names", _classes, "ModuleAssembled"),
    Kind("JSON keys", lambda folder, plant: _json(folder, plant, keys=True)),
    Kind("JSON values", lambda folder, plant: _json(folder, plant, keys=False)),
    Kind("card", _nothing, card=lambda plant: {"dataset description": f"2D CT of kidneys. {plant.text()}"}),
    Kind("card, further keys", _nothing, card=lambda plant: {"licence": plant.text(), plant.text(): [plant.text()]}),
    Kind("README.md", _beside("README.md")),
    Kind("AGENTS.md", _beside("AGENTS.md")),
    Kind("dataset.yaml", _beside("dataset.yaml")),
    Kind("XML reports", _xml, plan=TEXTS),
    Kind("reports", _reports, plan=TEXTS),
    Kind("label names of masks", _structures, "ModuleAssembled", ORGANS),
    Kind("Excel", _excel),
    Kind("uploaded tables", lambda f, plant: films(f, labels=f"{plant.name()}.csv"), uploaded=True),
    Kind("array names", _arrays),
    Kind("sidecars", _sidecars, plan=ORGANS),
    Kind("patients", lambda folder, plant: films(folder, lambda n: {"patient": f"{plant.mark()} call lock {n // 2}"})),
)


def numbered() -> Iterator[tuple[int, Kind]]:
    return enumerate(KINDS, 1)
