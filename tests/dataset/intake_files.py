"""Files for the tests of intake: one content under many formats, personal data in every place for it, and traps."""

import gzip
import importlib.util
import io
import os
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pydicom
import SimpleITK
from PIL import Image, PngImagePlugin
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

CANARY = "SMITH^JOHN"
DATE = "19570314"
PICTURE = np.random.default_rng(0).integers(0, 255, (30, 40)).astype(np.uint8)
VOLUME = np.random.default_rng(1).integers(-1000, 1200, (12, 10, 8)).astype(np.int16)
"""(X, Y, Z) in RAS order."""
TUMOUR = VOLUME > 900
LESION = np.zeros(VOLUME.shape, bool)
LESION[::-1, ::-1][2:6, 3:7, 4] = True
AFFINE = np.array([[0.7, 0, 0, -10], [0, 0.8, 0, -20], [0, 0, 2.5, 30], [0, 0, 0, 1.0]])


def write_all(root: Path) -> None:
    (root / CANARY).mkdir()
    pictures(root)
    volumes(root)
    dicom_masks(root)
    traps(root)


def pictures(root: Path) -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("Patient", CANARY)
    text.add_itxt("Birth", DATE, zip=False)
    exif = Image.Exif()
    exif[0x010E], exif[0x9003] = CANARY, DATE
    plain = Image.fromarray(PICTURE)
    plain.save(root / CANARY / f"{DATE}.png", pnginfo=text, exif=exif)
    plain.save(root / "copy.tif", compression="tiff_lzw", exif=exif)
    plain.convert("RGB").save(root / "copy.bmp")
    plain.save(root / "photo.jpg", exif=exif, comment=CANARY)
    Image.fromarray(PICTURE.astype(np.uint16) * 200).save(root / "sixteen.png")
    Image.fromarray(np.stack([PICTURE, PICTURE[::-1], PICTURE[:, ::-1]], -1)).save(root / "colour.png")
    Image.new("L", (40, 30), 9).save(root / "constant.png")
    (root / "cut.png").write_bytes((root / "sixteen.png").read_bytes()[:300])
    labels = np.zeros((30, 40), np.uint8)
    labels[5:15, 10:20], labels[20:25, 30:40] = 3, 200
    Image.fromarray(labels).save(root / f"labels {CANARY}.png")
    Image.fromarray(np.kron(labels, np.ones((2, 2), np.uint8))).save(root / "twice.png")
    Image.fromarray(np.stack([labels, labels * 0, labels * 0], -1)).save(root / "palette.png")


def volumes(root: Path) -> None:
    image = nibabel.Nifti1Image(VOLUME, AFFINE)
    image.header["descrip"], image.header["db_name"] = CANARY.encode(), DATE.encode()
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", CANARY.encode()))
    nibabel.save(image, root / "scan.nii.gz")
    nibabel.save(nibabel.Nifti1Image(VOLUME.astype(np.float64)[::-1], _flipped()), root / "turned.nii")
    other = SimpleITK.GetImageFromArray(VOLUME[::-1, ::-1].transpose(2, 1, 0))
    other.SetSpacing((0.7, 0.8, 2.5))
    # LPS: x and y run the other way, from the other corner.
    other.SetOrigin((10 - 0.7 * 11, 20 - 0.8 * 9, 30))
    other.SetMetaData("PatientName", CANARY)
    SimpleITK.WriteImage(other, root / "copy.nrrd")
    for z in range(VOLUME.shape[2]):
        dicom_slice(root / "series" / f"{CANARY}{z}.dcm", z)
    labels = (VOLUME > 500).astype(np.uint8) * 2
    nibabel.save(nibabel.Nifti1Image(labels[::-1], _flipped()), root / "labels.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels, AFFINE + np.eye(4, k=3) * 9), root / "elsewhere.nii.gz")
    bad = VOLUME.astype(np.float32)
    bad[1, 2, 3] = np.nan
    nibabel.save(nibabel.Nifti1Image(bad, AFFINE), root / "nan.nii.gz")


def dicom_masks(root: Path) -> None:
    """`tumour` as a segmentation object, `lesion` as a contour; in DICOM both axes of a slice run the other way."""
    place = importlib.util.spec_from_file_location("imaging_make", Path(__file__).parents[1] / "imaging" / "make.py")
    assert place is not None and place.loader is not None
    make = importlib.util.module_from_spec(place)
    place.loader.exec_module(make)
    origin = np.array([10 - 0.7 * 11, 20 - 0.8 * 9, 30])
    marks = {"tumour": TUMOUR[::-1, ::-1], CANARY: ~TUMOUR[::-1, ::-1]}
    make.seg(root / "seg.dcm", marks, make.AXIAL, (0.7, 0.8, 2.5), origin)
    corners = np.array([(1.5, 2.5, 4), (5.5, 2.5, 4), (5.5, 6.5, 4), (1.5, 6.5, 4)])
    make.rtstruct(root / "struct.dcm", {"lesion": [origin + corners * (0.7, 0.8, 2.5)]})


def _flipped() -> np.ndarray:
    affine = AFFINE.copy()
    affine[:3, 0] *= -1
    affine[0, 3] += 0.7 * (VOLUME.shape[0] - 1)
    return affine


def dicom_slice(path: Path, z: int) -> None:
    path.parent.mkdir(exist_ok=True)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    item = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    item.SOPClassUID, item.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    item.SeriesInstanceUID, item.StudyInstanceUID = "1.2.3", "1.2"
    item.PatientName, item.PatientBirthDate, item.PatientID = CANARY, DATE, f"{CANARY}-1"
    item.Modality, item.Manufacturer, item.StudyDate = "CT", "Acme", "20200101"
    item.Rows, item.Columns, item.SamplesPerPixel = VOLUME.shape[1], VOLUME.shape[0], 1
    item.PhotometricInterpretation, item.BitsAllocated, item.BitsStored, item.HighBit = "MONOCHROME2", 16, 16, 15
    item.PixelRepresentation, item.RescaleSlope, item.RescaleIntercept = 1, 1, -24
    item.PixelSpacing, item.SliceThickness = [0.8, 0.7], 2.5
    item.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    item.ImagePositionPatient = [10 - 0.7 * 11, 20 - 0.8 * 9, 30 + 2.5 * z]
    item.PixelData = (VOLUME[::-1, ::-1, z].T + np.int16(24)).tobytes()
    pydicom.dcmwrite(path, item, enforce_file_format=True)


class Shout:
    """Leaves a file where it was unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {TOUCHED}",))


TOUCHED = Path("/tmp/m3-intake-unpickled")


def traps(root: Path) -> None:
    bomb = np.empty(1, object)
    bomb[0] = Shout()
    np.save(root / "bomb.npy", bomb, allow_pickle=True)
    np.savez(root / "bomb.npz", a=bomb)
    for name in ("bomb.pkl", "bomb.pt"):
        (root / name).write_bytes(pickle.dumps({"image": Shout()}))
    header = nibabel.Nifti1Header()
    header.set_data_shape((30000, 30000, 300))
    header.set_data_dtype(np.float32)
    header["magic"], header["vox_offset"] = b"n+1", 352
    (root / "oversized.nii.gz").write_bytes(gzip.compress(header.binaryblock + b"\0" * 1000))
    (root / "oversized.png").write_bytes(_png(60_000, 60_000))
    with (
        zipfile.ZipFile(root / "zipbomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (64, 1024, 1024)})
        for _ in range(64):
            file.write(bytes(4 << 20))


def _png(width: int, height: int) -> bytes:
    """A picture of zeros, a few hundred times smaller than its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    stream, packed = zlib.compressobj(1), io.BytesIO()
    for _ in range(100):
        packed.write(stream.compress(bytes(1 + width)))
    packed.write(stream.flush())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", packed.getvalue()) + chunk(b"IEND", b"")
