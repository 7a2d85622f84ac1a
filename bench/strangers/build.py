"""What the writers of all datasets here use: the register of a set, and files that several write."""

import json
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from tests.families.base import Build, Family

COLOUR = 1
_SOP = {"CT": "1.2.840.10008.5.1.4.1.1.2", "MR": "1.2.840.10008.5.1.4.1.1.4", "CR": "1.2.840.10008.5.1.4.1.1.1",
        "DX": "1.2.840.10008.5.1.4.1.1.1.1", "MG": "1.2.840.10008.5.1.4.1.1.1.2"}


class Families(dict[str, Family]):
    """Datasets by name; `family` decorates the function that writes one."""

    def family(self, name: str, task: str, dims: int, request: str, *, notes: str, patients_known: bool = True, **more: Any):
        def register(write: Callable[[Build], None]):
            def make(folder: Path, truth: Path, seed: int) -> None:
                b = Build(Path(folder), np.random.default_rng([seed, zlib.crc32(name.encode())]))
                b.truth = {"task": task, "dimensions": dims, "expect": "ready", **more, "patients_known": patients_known,
                           "notes": notes, "broken": [], "left_out": [], "cases": []}
                b.folder.mkdir(parents=True, exist_ok=True)
                write(b)
                Path(truth).write_text(json.dumps(b.truth, indent=1, ensure_ascii=False), encoding="utf-8")

            self[name] = Family(name, task, dims, request, make)
            return write

        return register


def uid(b: Build, root: str = "1.3.6.1.4.1.9590.100.1.2") -> str:
    return root + "." + ".".join(str(int(v)) for v in b.rng.integers(10000, 999999, 4))


def hexid(b: Build, n: int = 16) -> str:
    return b.rng.bytes(n).hex()


def uuid4(b: Build) -> str:
    return str(uuid.UUID(bytes=b.rng.bytes(16), version=4))


def dicom(b: Build, path: str, array: np.ndarray, modality: str, **tags: Any) -> str:
    """One frame (rows, columns), signed or not as the array is."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = _SOP[modality]
    meta.MediaStorageSOPInstanceUID = uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.Modality = modality
    ds.Rows, ds.Columns = array.shape
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    bits = array.dtype.itemsize * 8
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, bits, bits - 1
    ds.PixelRepresentation = int(array.dtype.kind == "i")
    ds.PixelData = np.ascontiguousarray(array).tobytes()
    for key, value in tags.items():
        setattr(ds, key, value)
    ds.save_as(b.at(path), enforce_file_format=True)
    return path


def tsv(b: Build, path: str, rows: list[list[Any]]) -> None:
    b.text(path, "".join("\t".join(map(str, r)) + "\n" for r in rows))
