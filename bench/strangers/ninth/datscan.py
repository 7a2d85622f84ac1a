"""DaTSCAN as LONI sends it."""

import gzip
from typing import Any

import numpy as np
import SimpleITK as sitk
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families, uid
from bench.strangers.draw import far
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family


_DAT = (44, 52, 28), 4.0


def _dat(rng: Any, sick: float, worse: int) -> np.ndarray:
    """Counts, axes left, back, up; `sick` 0 shows two commas, 1 two dots, one side more than the other."""
    shape, step = _DAT
    shift = rng.uniform(-5, 5, 3)
    at = [(np.arange(n) - (n - 1) / 2) * step + d for n, d in zip(shape, shift, strict=True)]
    at = [a.astype(np.float32) for a in np.meshgrid(*at, indexing="ij")]
    turn = rng.uniform(-0.1, 0.1)
    at = [at[0] * np.cos(turn) - at[1] * np.sin(turn), at[0] * np.sin(turn) + at[1] * np.cos(turn), at[2]]
    size, back = rng.uniform(0.92, 1.08), rng.uniform(0.2, 0.32)
    at = [a / size for a in at]
    out = np.where(far(at, (0, 0, 0), (68, 84, 54)) < 1, back, 0.02)
    out[far(at, (0, 62, -6), (48, 18, 20)) < 1] *= 1.15
    out[far(at, (0, 5, 6), (6, 18, 8)) < 1] *= 0.5
    first = rng.choice([-1, 1])
    full = rng.uniform(0.9, 1.25)
    for side in (-1, 1):
        heavy = side == first
        caudate, putamen = full * rng.uniform(0.92, 1.05), full * rng.uniform(0.85, 1.02)
        if sick:
            caudate *= rng.uniform(0.6, 0.8) if heavy else rng.uniform(0.72, 0.95)
            putamen *= (rng.uniform(0.05, 0.25) if heavy else rng.uniform(0.2, 0.48)) * (0.85 if worse else 1)
        for k in range(7):  # the comma, from the head of the caudate to the tail of the putamen
            mid = side * (13 + 2.4 * k), -22 + 6.2 * k, 4 - 0.8 * k
            much = caudate if k < 2 else caudate + (putamen - caudate) * min(1, (k - 1) / 2)
            spot = far(at, mid, (7.5 - 0.3 * k, 7.5, 10 - 0.5 * k)) < 1
            out[spot] = np.maximum(out[spot], back + much)
    out = gaussian_filter(out, 1.15)
    return rng.poisson(np.clip(out, 0, None) * 260).astype(float)


def _nuclear(b: Build, path: str, counts: np.ndarray, **tags: Any) -> str:
    """One file that holds all slices, as gamma cameras write reconstructions."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.20"
    meta.MediaStorageSOPInstanceUID = uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, "NM"
    ds.ImageType = ["DERIVED", "PRIMARY", "RECON TOMO", "EMISSION"]
    ds.StudyInstanceUID, ds.SeriesInstanceUID, ds.FrameOfReferenceUID = uid(b), uid(b), uid(b)
    ds.SeriesNumber, ds.InstanceNumber = 1, 1
    n = counts.shape[2]
    ds.NumberOfFrames, ds.Rows, ds.Columns = n, counts.shape[1], counts.shape[0]
    ds.FrameIncrementPointer = 0x00540080
    ds.NumberOfSlices, ds.SliceVector = n, list(range(1, n + 1))
    ds.PixelSpacing, ds.SliceThickness, ds.SpacingBetweenSlices = [4.0, 4.0], 4.0, 4.0
    head = Dataset()
    head.ImagePositionPatient = [-2.0 * (counts.shape[0] - 1), -2.0 * (counts.shape[1] - 1), -2.0 * (n - 1)]
    head.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    ds.DetectorInformationSequence = Sequence([head])
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated = ds.BitsStored = 16
    ds.HighBit, ds.PixelRepresentation = 15, 0
    ds.PixelData = np.ascontiguousarray(np.clip(counts, 0, 65535).astype(np.uint16).transpose(2, 1, 0)).tobytes()
    for key, value in tags.items():
        setattr(ds, key, value)
    ds.save_as(b.at(path), enforce_file_format=True)
    return path


@family(
    "datscan_from_loni", "diagnosis", 3,
    "Can you train a classifier that tells Parkinson's disease from healthy controls on these DaTSCAN SPECT scans?",
    notes="As the LONI archive downloads: subject / description / time / image ID, one multi-frame NM file a scan, "
    "an XML each and one CSV joined by image ID; SWEDD is a third group not asked for; some come back for a visit; "
    "a few rows of the CSV were not downloaded.",
)  # fmt: skip
def datscan(b: Build) -> None:
    groups = b.rng.permutation(["PD"] * 24 + ["Control"] * 21 + ["SWEDD"] * 6)
    subjects = np.sort(b.rng.choice(np.arange(3100, 4130), len(groups), replace=False))
    visits = {"SC": 0, "V04": 1, "V06": 2}
    again = set(b.rng.choice(len(groups), 13, replace=False))
    numbers = iter(np.sort(b.rng.choice(np.arange(224500, 489000), 90, replace=False))[b.rng.permutation(90)])
    missing, rows, kind = set(b.rng.choice(len(groups), 3, replace=False)), [], "Reconstructed_DaTSCAN"
    for n, group in enumerate(groups):
        age, sex, month = int(b.rng.integers(48, 79)), b.pick("M", "F"), int(b.rng.integers(1, 13))
        for visit, later in visits.items():
            if later and (n not in again or (later == 2 and n % 3)):
                continue
            image, day, year = int(next(numbers)), int(b.rng.integers(1, 28)), 2011 + n % 3 + later
            rows.append(
                [f"I{image}", subjects[n], group, sex, age + later, visit, "NM", kind.replace("_", " "),
                 "Pre-processed", f"{month}/{day:02d}/{year}", "DCM", "3/12/2024"]
            )  # fmt: skip
            if n in missing and not later:
                rows[-1][-1] = ""
                continue
            time = f"{b.rng.integers(8, 17):02d}_{b.rng.integers(0, 60):02d}_{b.rng.integers(0, 60):02d}.0"
            folder = f"PPMI/{subjects[n]}/{kind}/{year}-{month:02d}-{day:02d}_{time}/I{image}"
            series = int(b.rng.integers(110000, 260000))
            name = f"PPMI_{subjects[n]}_NM_{kind}_Br_{year + 1}0714{b.rng.integers(100000, 999999)}_S{series}_I{image}"
            gain = b.rng.uniform(0.5, 2.2)
            path = _nuclear(
                b, f"{folder}/{name}.dcm", np.round(_dat(b.rng, float(group == "PD"), later) * gain),
                PatientID=str(subjects[n]), PatientName=str(subjects[n]), PatientSex=sex, SeriesDescription="DaTSCAN",
                StudyDate=f"{year}{month:02d}{day:02d}", Manufacturer=b.pick("SIEMENS NM", "GE MEDICAL SYSTEMS"),
            )  # fmt: skip
            b.text(
                f"PPMI/PPMI_{subjects[n]}_{kind}_S{series}_I{image}.xml",
                '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<idaxs><project>\n'
                "  <projectIdentifier>PPMI</projectIdentifier>\n  <subject>\n"
                f"    <subjectIdentifier>{subjects[n]}</subjectIdentifier>\n    <subjectSex>{sex}</subjectSex>\n"
                f"    <visit><visitIdentifier>{visit}</visitIdentifier></visit>\n    <study><series>"
                f"<modality>NM</modality><imageUID>{image}</imageUID></series></study>\n"
                "  </subject>\n</project></idaxs>\n",
            )
            if group == "SWEDD":
                b.truth["left_out"].append(path)
            else:
                b.case(path, patient=str(subjects[n]), label=str(group))
    header = ["Image Data ID", "Subject", "Group", "Sex", "Age", "Visit", "Modality", "Description", "Type",
              "Acq Date", "Format", "Downloaded"]  # fmt: skip
    lines = [header] + [rows[i] for i in b.rng.permutation(len(rows))]
    b.text("DaTSCAN_recon_3_12_2024.csv", "".join(",".join(f'"{v}"' for v in r) + "\n" for r in lines))
