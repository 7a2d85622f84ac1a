"""Small clean datasets of real files, in which the tests plant one fault each."""

import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SHAPE = (12, 10, 8)
AFFINE = np.diag([0.8, 0.8, 2.0, 1.0])


def volume(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).integers(-900, 900, shape).astype(np.int16)


def mask(shape: tuple[int, ...] = SHAPE, values: tuple[int, ...] = (1, 2)) -> np.ndarray:
    found = np.zeros(shape, np.uint8)
    for number, value in enumerate(values):
        found[2 : shape[0] // 2, 2:6, number : number + 1] = value
    return found


def nifti(path: Path, voxels: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(voxels, affine), path)
    return path


def picture(path: Path, seed: int, size: tuple[int, int] = (16, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, size, dtype=np.uint8)).save(path)
    return path


def scans(root: Path) -> Path:
    """Eight volumes with their masks, two structures that a list names."""
    for name, content in _scans().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@cache
def _scans() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="m3-gate-scans-") as name:
        root = _make_scans(Path(name))
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _make_scans(root: Path) -> Path:
    for number in range(1, 9):
        nifti(root / "images" / f"case_{number:02d}.nii.gz", volume(number))
        nifti(root / "masks" / f"case_{number:02d}.nii.gz", mask())
    (root / "labels.json").write_text('["liver", "spleen"]')
    return root


def films(root: Path) -> Path:
    """Two classes of twelve pictures, each of a patient of its own, and a table that names all of them."""
    rows = ["filename,patient_id,label"]
    for number in range(24):
        name = ("sick", "well")[number % 2]
        path = picture(root / name / f"img{number:03d}.png", number)
        rows.append(f"{path.name},P{number:03d},{name}")
    (root / "table.csv").write_text("\n".join(rows) + "\n")
    return root


def dicom(path: Path, number: int, series: str, patient: str, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    data.PatientID, data.SeriesInstanceUID, data.InstanceNumber, data.Modality = patient, series, number, "CT"
    data.Rows = data.Columns = 16
    data.BitsAllocated = data.BitsStored = 16
    data.HighBit, data.PixelRepresentation, data.SamplesPerPixel = 15, 0, 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.PixelSpacing, data.SliceThickness = [0.7, 0.7], 3
    voxels = np.random.default_rng(seed * 100 + number).integers(0, 900, (16, 16)).astype(np.uint16)
    data.PixelData = voxels.tobytes()
    pydicom.dcmwrite(path, data, enforce_file_format=True)
    return path


def dicoms(root: Path) -> Path:
    """Six scans of six slices; the patients stand in the files."""
    for number in range(6):
        for slice_ in range(6):
            folder = root / f"scan{number + 1:02d}"
            dicom(folder / f"{slice_ + 1:03d}.dcm", slice_, f"1.2.{number + 1}", f"PAT{number}", number)
    return root


def crowd(root: Path, number: int) -> Path:
    """So many small pictures in two classes, each with other bytes."""
    raw = b"".join(b"\0" + bytes(range(12 * row, 12 * row + 12)) for row in range(12))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 12, 12, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(c)) + n + c + struct.pack(">I", zlib.crc32(n + c)) for n, c in chunks)
    for name in ("sick", "well"):
        (root / name).mkdir(parents=True)
    for count in range(number):
        (root / ("sick", "well")[count % 2] / f"{count:06d}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + body + count.to_bytes(4, "big")
        )
    return root
