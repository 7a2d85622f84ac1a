"""What a report shows of its cases, read back out of the page, and a series of slices to be shown."""

import base64
import html
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from shared.contracts.pictures import MAX_PNG


@dataclass
class Tile:
    words: str
    picture: np.ndarray | None
    """(height, width, 3)"""

    def box(self, colour: str, left: int = 0, right: int | None = None) -> tuple[int, int]:
        """Width and height of what has this colour between two columns."""
        assert self.picture is not None
        rows, columns = np.nonzero((self.picture[:, left:right] == rgb(colour)).all(axis=2))
        return int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1


def tiles(page: str) -> dict[str, Tile]:
    """Case -> its tile, in the order of the page."""
    found = {}
    for figure in re.findall(r'<figure class="case">.*?</figure>', page):
        data = re.search(r'src="data:image/png;base64,([^"]+)"', figure)
        picture = None
        if data:
            png = base64.b64decode(data[1])
            assert len(png) <= MAX_PNG
            with Image.open(io.BytesIO(png)) as opened:
                picture = np.asarray(opened.convert("RGB"))
        words = " ".join(html.unescape(re.sub("<[^>]+>", " ", figure)).split())
        number = re.search(r"Case (\d+)", words)
        assert number
        found[number[1]] = Tile(words, picture)
    return found


def rgb(colour: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8)


def dicom_series(folder: Path, body: np.ndarray) -> list[str]:
    """(slice, row, column) as axial DICOM, feet first, under names whose order is not that of the slices."""
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    folder.mkdir(parents=True)
    order = np.random.default_rng(1).permutation(len(body))
    for place, name in enumerate(order):
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = pydicom.uid.CTImageStorage, generate_uid()
        image = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        image.SOPClassUID, image.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        image.Modality, image.PhotometricInterpretation = "CT", "MONOCHROME2"
        image.Rows, image.Columns = body.shape[1:]
        image.SamplesPerPixel, image.BitsAllocated, image.BitsStored, image.HighBit = 1, 16, 16, 15
        image.PixelRepresentation, image.PixelSpacing, image.SliceThickness = 1, [1, 1], 4
        image.ImageOrientationPatient, image.ImagePositionPatient = [1, 0, 0, 0, 1, 0], [-16, -12, 4 * place]
        image.PixelData = body[place].tobytes()
        image.save_as(folder / f"{name}.dcm", enforce_file_format=True)
    return [f"{number}.dcm" for number in range(len(body))]
