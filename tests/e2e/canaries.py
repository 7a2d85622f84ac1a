"""Two datasets with a canary in every place that could carry personal data, and the search for them in bytes."""

import csv
import gzip
import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import nibabel
import numpy as np
import pydicom
from PIL import Image, PngImagePlugin
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter

PLACES = (
    "folder", "file", "header", "cell", "column", "report", "exif", "chunk", "comment", "descrip", "extension",
    "sidecar",
)  # fmt: skip
WORDS = {place: f"Zqx{place}Vwk" for place in PLACES}
"""Place -> the word that stands there."""
BORN, SEEN = "19070314", "1908-11-27"
"""Dates of birth and of visits, of no other time than that of the canaries."""
STUDY = "1.2.840.99190731"
"""What every UID begins with."""
PATIENTS = 40
PLANTED = {
    "pictures": {*map(WORDS.__getitem__, PLACES[:2] + PLACES[3:9]), BORN, SEEN},
    "scans": {*map(WORDS.__getitem__, PLACES[:3] + PLACES[9:]), STUDY, BORN, SEEN, SEEN.replace("-", "")},
}
"""Dataset -> the canaries in it."""


def pictures(folder: Path) -> None:
    """2D: PNG and JPEG by turns, class and report in a table; bright spots in one class."""
    rows = []
    for number in range(PATIENTS):
        ill = number % 2
        suffix = "png" if number // 2 % 2 else "jpg"
        place = folder / f"images {WORDS['folder']}" / f"{WORDS['file']}{number:03}_{BORN}.{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        image, exif, text = Image.fromarray(_content(number, ill, (64, 64))), Image.Exif(), PngImagePlugin.PngInfo()
        exif[0x010E], exif[0x9003] = WORDS["exif"], SEEN
        text.add_text("Patient", WORDS["chunk"])
        text.add_itxt("Born", BORN, zip=True)
        more = {"pnginfo": text} if suffix == "png" else {"comment": WORDS["comment"], "quality": 95}
        image.save(place, exif=exif, **more)
        said = f"{WORDS['report']} was seen on {SEEN}: the kidney is {'enlarged' if ill else 'normal'}."
        rows.append([place.name, f"{WORDS['cell']} {number:03}", BORN, ("healthy", "stone")[ill], said])
    with (folder / "patients.csv").open("w", newline="") as table:
        csv.writer(table).writerows([["image", "patient", WORDS["column"], "diagnosis", "report"], *rows])


def scans(folder: Path) -> None:
    """3D: a DICOM series or a NIfTI file a patient by turns, in folders of the patient; class in a table."""
    rows = [["patient", "seen", "diagnosis"]]
    for number in range(PATIENTS):
        ill = number % 2
        patient = f"{WORDS['folder']}{number:03}"
        volume = _content(number, ill, (24, 24, 12)).astype(np.int16) * 8 - 1000
        if number // 2 % 2:
            _nifti(folder / patient / f"{WORDS['file']}{number:03}.nii.gz", volume)
        else:
            _series(folder / patient, volume, number)
        rows.append([patient, SEEN, ("healthy", "stone")[ill]])
    with (folder / "patients.csv").open("w", newline="") as table:
        csv.writer(table).writerows(rows)


def _content(seed: int, ill: int, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes: a texture of its own, and in the ill a bright spot."""
    rng = np.random.default_rng(seed)
    grey = gaussian_filter(rng.normal(size=shape), 2) * 300 + rng.normal(90, 5, shape)
    if ill:
        grey[tuple(slice(edge // 3, edge // 3 * 2) for edge in shape)] += 90
    return grey.clip(0, 255).astype(np.uint8)


def _nifti(path: Path, volume: np.ndarray) -> None:
    path.parent.mkdir(parents=True)
    image = nibabel.Nifti1Image(volume, np.diag([-1.0, -1.0, 3.0, 1.0]))
    image.header["descrip"], image.header["db_name"] = WORDS["descrip"].encode(), BORN.encode()
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", WORDS["extension"].encode()))
    nibabel.save(image, path)
    said = {"PatientName": WORDS["sidecar"], "AcquisitionDate": SEEN}
    path.with_name(path.name.replace(".nii.gz", ".json")).write_text(json.dumps(said))


def _series(folder: Path, volume: np.ndarray, number: int) -> None:
    folder.mkdir(parents=True)
    study = f"{STUDY}.{number}"
    for z in range(volume.shape[2]):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.TransferSyntaxUID = CTImageStorage, ExplicitVRLittleEndian
        meta.MediaStorageSOPInstanceUID = f"{study}.1.{z}"
        item = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
        item.SOPClassUID, item.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        item.StudyInstanceUID, item.SeriesInstanceUID = study, f"{study}.1"
        item.PatientName, item.PatientID, item.PatientBirthDate = WORDS["header"], f"{WORDS['header']}{number}", BORN
        item.InstitutionName = item.SeriesDescription = item.ReferringPhysicianName = WORDS["header"]
        item.StudyDate = item.SeriesDate = SEEN.replace("-", "")
        item.Modality, item.Manufacturer, item.InstanceNumber = "CT", WORDS["header"], z + 1
        item.Rows, item.Columns, item.SamplesPerPixel = volume.shape[1], volume.shape[0], 1
        item.PhotometricInterpretation, item.BitsAllocated, item.BitsStored, item.HighBit = "MONOCHROME2", 16, 16, 15
        item.PixelRepresentation, item.RescaleSlope, item.RescaleIntercept = 1, 1, 0
        item.PixelSpacing, item.SliceThickness = [1, 1], 3
        item.ImageOrientationPatient, item.ImagePositionPatient = [1, 0, 0, 0, 1, 0], [0, 0, 3 * z]
        item.PixelData = np.ascontiguousarray(volume[:, :, z].T).tobytes()
        pydicom.dcmwrite(folder / f"{WORDS['file']}{z}.dcm", item, enforce_file_format=True)


def found_in(data: bytes) -> set[str]:
    """Canaries in bytes and in whatever is packed in them, in the codings that files use."""
    canaries = {*WORDS.values(), STUDY, BORN, SEEN, SEEN.replace("-", "")}
    codings = ("utf-8", "utf-16-le", "utf-16-be")
    return {
        word
        for content in unpacked(data)
        for lower in (content.lower(),)
        for word in canaries
        if any(word.lower().encode(coding) in lower for coding in codings)
    }


def unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes themselves and what gzip, zip, tar, PNG and zlib hold, at any depth."""
    yield data
    for inner in _inside(data):
        yield from unpacked(inner)


def _inside(data: bytes) -> Iterable[bytes]:
    if data[:2] == b"\x1f\x8b":
        return [gzip.decompress(data)]
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [archive.read(name) for name in archive.namelist()]
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = [archive.extractfile(member) for member in archive if member.isfile()]
            return [file.read() for file in files if file]
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return [_inflated(chunk) for kind, chunk in _chunks(data) if kind in (b"zTXt", b"iTXt", b"iCCP")]
    return []


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += size + 12


def _inflated(chunk: bytes) -> bytes:
    """What a chunk of text holds, packed or not; the packed part is the one that can be unpacked."""
    for start in range(min(len(chunk), 100)):
        try:
            return zlib.decompress(chunk[start:])
        except zlib.error:
            continue
    return chunk
