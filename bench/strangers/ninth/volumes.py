"""Volumes: DaTSCAN as LONI sends it, OCT of three makers, pelves of two programs, PET and CT of two centres."""

import gzip
from typing import Any

import numpy as np
import SimpleITK as sitk
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families, uid
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family


def _far(at: list[np.ndarray], mid: Any, radii: Any) -> np.ndarray:
    """Below 1 inside the ellipsoid."""
    radii = np.broadcast_to(radii, (3,))
    return np.sqrt(sum(((a - m) / r) ** 2 for a, m, r in zip(at, mid, radii, strict=True)))


# ---------------------------------------------------------------------------------------------- DaTSCAN, diagnosis

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
    out = np.where(_far(at, (0, 0, 0), (68, 84, 54)) < 1, back, 0.02)
    out[_far(at, (0, 62, -6), (48, 18, 20)) < 1] *= 1.15
    out[_far(at, (0, 5, 6), (6, 18, 8)) < 1] *= 0.5
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
            spot = _far(at, mid, (7.5 - 0.3 * k, 7.5, 10 - 0.5 * k)) < 1
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


# ------------------------------------------------------------------------------------------------- OCT, anomalies

_MAKERS = {  # axes across, down, from scan to scan
    "Cirrus": ((60, 76, 24), (0.1, 0.027, 0.25), 22.0, 20),
    "Spectralis": ((60, 64, 14), (0.1, 0.031, 0.43), 9.0, 17),
    "Topcon": ((60, 68, 20), (0.1, 0.029, 0.3), 17.0, 15),
}
_FLUIDS = {"IRF": 1, "SRF": 2, "PED": 3}


def _macula(rng: Any, shape: tuple[int, ...], spacing: tuple[float, ...], noise: float, fluids: set[str]):
    """An OCT volume from 0 to 255 and its reference: cysts, fluid under the retina, the pigment layer lifted."""
    across, down, steps = ((np.arange(n) - (n - 1) / 2) * s for n, s in zip(shape, spacing, strict=True))
    x, y, z = np.meshgrid(across, down, steps, indexing="ij")
    fx, fz = rng.uniform(-0.6, 0.6, 2)
    wave = (
        rng.uniform(0.05, 0.13) * np.sin(x / rng.uniform(1.3, 2.0) + rng.uniform(0, 6)) + rng.uniform(-0.03, 0.03) * z
    )
    rpe0 = rng.uniform(0.2, 0.35) + wave
    rpe, base = rpe0.copy(), rpe0.copy()
    if "PED" in fluids:
        for _ in range(int(rng.integers(1, 3))):
            cx, cz = rng.uniform(-1.3, 1.3), rng.uniform(-1.6, 1.6)
            d = np.hypot((x - cx) / rng.uniform(0.6, 1.1), (z - cz) / rng.uniform(0.7, 1.3))
            rpe -= rng.uniform(0.16, 0.3) * np.sqrt(np.clip(1 - d**2, 0, None))
        rpe = np.maximum(rpe, rpe0 - 0.34)
    lift = rpe.copy()  # the underside of the retina
    if "SRF" in fluids:
        cx, cz = rng.uniform(-0.9, 0.9), rng.uniform(-1.2, 1.2)
        d = np.hypot((x - cx) / rng.uniform(0.8, 1.4), (z - cz) / rng.uniform(0.9, 1.6))
        lift -= rng.uniform(0.12, 0.24) * np.clip(1 - d**2, 0, None)
    pit = np.exp(-(((x - fx) / 0.45) ** 2) - ((z - fz) / 0.5) ** 2)
    thick = rng.uniform(0.36, 0.44) - 0.17 * pit + (0.12 * np.exp(-(x**2) / 2) if "IRF" in fluids else 0)
    top = lift - thick
    reference = np.zeros(shape, np.uint8)
    retina = (y > top) & (y < lift)
    deep = np.clip((y - top) / thick, 0, 1)
    out = np.full(shape, 22.0)
    out[retina] = (105 + 45 * np.cos(deep * 15) * (deep < 0.85))[retina]
    out[retina & (deep < 0.13)] = 175
    out[(y > lift - 0.045) & (y < lift)] = 150
    under = (y >= rpe) & (y < base)
    out[(y >= lift) & (y < rpe)] = 32
    reference[(y >= lift) & (y < rpe)] = 2
    out[under] = 48
    reference[under] = 3
    out[(y >= rpe - 0.02) & (y < rpe + 0.045)] = 215
    reference[(y >= rpe - 0.02) & (y < rpe + 0.045) & (reference == 3)] = 0
    below = (y >= base + 0.03) & (y >= rpe + 0.045)
    out[below] = (125 * np.exp(-(y - base) / 0.35))[below]
    for _ in range(10):  # vessels of the choroid are dark too
        spot = _far(
            [x, y - base, z], (rng.uniform(-3, 3), rng.uniform(0.12, 0.3), rng.uniform(-3, 3)), (0.25, 0.05, 0.9)
        )
        out[below & (spot < 1)] *= 0.45
    if "IRF" in fluids:
        inner = retina & (deep > 0.2) & (deep < 0.82)
        for _ in range(int(rng.integers(3, 9))):
            mid = np.array([rng.normal(fx, 0.8), 0, rng.normal(fz, 0.9)])
            radii = rng.uniform(0.2, 0.42), rng.uniform(0.07, 0.15), rng.uniform(0.3, 0.6)
            spot = inner & (_far([x, y - (top + thick * rng.uniform(0.35, 0.65)), z], mid, radii) < 1)
            out[spot], reference[spot] = 30, 1
    for _ in range(3):  # shadows of vessels
        at = rng.uniform(-2.6, 2.6) + 0.2 * z
        out *= np.where((np.abs(x - at) < 0.09) & (y > top + 0.04), 0.6, 1)
    out = gaussian_filter(out, (0.6, 0.6, 0)) * rng.uniform(0.75, 1.2)
    out = out * rng.gamma(1 / (noise / 90) ** 2, (noise / 90) ** 2, shape) + rng.normal(0, noise / 2, shape)
    return np.clip(out + 8, 0, 255).astype(np.uint8), reference


def _mhd(b: Build, path: str, array: np.ndarray, spacing: tuple[float, ...]) -> str:
    image = sitk.GetImageFromArray(np.ascontiguousarray(array.T))
    image.SetSpacing([float(s) for s in spacing])
    sitk.WriteImage(image, str(b.at(path)), False)
    return path


@family(
    "oct_fluid_three_makers", "anomaly_detection", 3,
    "We need a model for macular OCT volumes that outlines retinal fluid: intraretinal (IRF), subretinal (SRF) and "
    "PED, and of course stays quiet in eyes without any.",
    notes="A challenge download: a folder of MHD and RAW a patient by maker, the same file names in all, three grids; "
    "the values of the reference stand in the readme; an empty reference is healthy; the test set has no reference.",
)  # fmt: skip
def oct_fluid(b: Build) -> None:
    total = sum(m[3] for m in _MAKERS.values())
    kinds = [set()] * 15 + [{"IRF"}] * 10 + [{"SRF"}] * 8 + [{"PED"}] * 5 + [{"IRF", "SRF"}] * 6 + [{"SRF", "PED"}] * 5
    kinds += [{"IRF", "PED"}] * 2 + [{"IRF", "SRF", "PED"}] * (total - 51)
    order, n = b.rng.permutation(total), 0
    for maker, (shape, spacing, noise, many) in _MAKERS.items():
        for _ in range(many):
            image, reference = _macula(b.rng, shape, spacing, noise, kinds[order[n]])
            folder = f"TrainingSet-{maker}/TRAIN{n + 1:03d}"
            path = _mhd(b, f"{folder}/oct.mhd", image, spacing)
            _mhd(b, f"{folder}/reference.mhd", reference, spacing)
            b.case(path, patient=f"TRAIN{n + 1:03d}", mask={k: reference == v for k, v in _FLUIDS.items()})
            n += 1
    number = 100
    for maker, (shape, spacing, noise, _) in _MAKERS.items():
        for _ in range(3):
            number += 1
            image, _ = _macula(b.rng, shape, spacing, noise, kinds[int(b.rng.integers(total))])
            b.truth["left_out"].append(_mhd(b, f"TestSet-{maker}/TEST{number}/oct.mhd", image, spacing))
    b.text(
        "readme.md",
        "# Retinal fluid in OCT\n\nMacular volumes of three devices (Cirrus, Spectralis, Topcon), an eye a patient.\n\n"
        "Each case has `oct.mhd` (the volume) and, in the training sets, `reference.mhd` (the manual annotation on\n"
        "the same grid) with the following values:\n\n| value | meaning |\n|---|---|\n| 0 | background |\n"
        "| 1 | IRF, intraretinal fluid |\n| 2 | SRF, subretinal fluid |\n| 3 | PED, pigment epithelial detachment |\n\n"
        "Cases without fluid have an empty reference. References of the test sets are not released.\n",
    )
    b.text("LICENSE.txt", "For research only. Do not redistribute.\n")


# ------------------------------------------------------------------------------------------ pelvic MRI, organs

_PELVIS = (68, 60, 22), (3.6, 3.6, 5.0)
_BACK_DOWN_LEFT = np.array([[0.0, 0, -1], [-1, 0, 0], [0, -1, 0]])  # of the axes, in RAS


def _pelvis(rng: Any, uterus: bool, cyst: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sagittal T2, axes back, down, left, and what a reader would outline."""
    shape = _PELVIS[0]
    h, v, w = shape
    at = [a.astype(float) for a in np.meshgrid(*map(np.arange, shape), indexing="ij")]
    px, pz, py = rng.uniform(-2.5, 2.5, 3)
    at = [at[0] - px, at[1] - pz, at[2] - py * 0.5]
    out = np.where(_far(at, (h * 0.5, v * 0.5, w * 0.5), (h * 0.47, v * 0.75, w * 0.56)) < 1, 470.0, 5.0)
    inside = _far(at, (h * 0.5, v * 0.5, w * 0.5), (h * 0.4, v * 0.7, w * 0.48)) < 1
    out[inside] = 330
    out[inside & (_far(at, (h * 0.5, v * 0.98, w * 0.5), (h * 0.36, v * 0.17, w * 0.5)) < 1)] = 130
    out[_far(at, (h * 0.17, v * 0.72, w * 0.5), (h * 0.06, v * 0.1, w * 0.25)) < 1] = 190
    for k in range(5):  # sacrum
        out[_far(at, (h * (0.80 + 0.02 * k), v * (0.05 + 0.14 * k), w * 0.5), (4.6, 3.4, w * 0.3)) < 1] = 210
    for _ in range(9):  # bowel
        mid = h * rng.uniform(0.2, 0.62), v * rng.uniform(0.02, 0.2), w * rng.uniform(0.15, 0.85)
        out[_far(at, mid, (rng.uniform(3, 5.5), rng.uniform(3, 5), 2.6)) < 1] = rng.choice([60, 240, 420])
    organs: dict[str, np.ndarray] = {}
    full, rise = rng.uniform(0.75, 1.25), rng.uniform(-0.25, 0.6)
    bladder = _far(
        at, (h * 0.34, v * (0.66 - 0.05 * (full - 1)), w * 0.5), (h * 0.12 * full, v * 0.12 * full, w * 0.24 * full)
    )
    out[bladder < 1.18] = 140
    out[bladder < 1] = rng.uniform(560, 720)
    organs["bladder"] = bladder < 1
    bend = rng.uniform(-2.5, 2.5)
    middle = h * 0.69 + bend * np.sin(at[1] / v * 6)
    tube = np.hypot((at[0] - middle) / 4.6, (at[2] - w * 0.5) / rng.uniform(2.8, 3.6))
    rectum = (tube < 1) & (at[1] > v * 0.36) & (at[1] < v * 0.92)
    out[rectum] = 150
    filling = rng.normal(0, 1, shape)
    core = rectum & (tube < 0.7)
    out[core] = (rng.choice([40, 230, 330]) + 160 * gaussian_filter(filling, 1.5) * 3)[core]
    if uterus:
        size = rng.uniform(0.82, 1.2)
        mid = h * 0.49, v * 0.42, w * 0.5 + rng.uniform(-1.5, 1.5)
        turned = [(at[0] - mid[0]) * np.cos(rise) + (at[1] - mid[1]) * np.sin(rise)]
        turned += [-(at[0] - mid[0]) * np.sin(rise) + (at[1] - mid[1]) * np.cos(rise), at[2] - mid[2]]
        body = _far(turned, (-2, -2, 0), (h * 0.13 * size, v * 0.105 * size, w * 0.19 * size))
        neck = _far(turned, (h * 0.085, v * 0.095, 0), (4.6, 6.0, 2.6))
        womb = ((body < 1) | (neck < 1)) & ~organs["bladder"] & ~rectum
        out[womb] = 225
        out[womb & (body < 0.62)] = 120
        out[womb & (body < 0.42)] = 520
        for _ in range(int(rng.integers(0, 3))):  # fibroids belong to the uterus
            spot = rng.uniform(-6, 6), rng.uniform(-4, 4), rng.uniform(-3, 3)
            out[womb & (_far(turned, spot, (3.2, 3.2, 1.8)) < 1)] = 75
        organs["uterus"] = womb
    else:
        organs["uterus"] = np.zeros(shape, bool)
    organs["rectum"] = rectum & ~organs["bladder"]
    if cyst:
        mid = h * 0.5, v * 0.24, w * 0.5 + rng.choice([-1, 1]) * w * 0.27
        spot = (_far(at, mid, (5, 5, 2.8)) < 1) & ~organs["uterus"] & ~organs["rectum"] & ~organs["bladder"]
        out[spot] = 690
        organs["cyst"] = spot
    out = gaussian_filter(out, (0.6, 0.6, 0.3))
    coil = 1 + 0.35 * np.sin(at[0] / h * 3.1 + rng.uniform(-0.7, 0.7)) * rng.uniform(-1, 1)
    return np.clip((out * coil + rng.normal(0, 24, shape)) * rng.uniform(0.4, 1.6), 0, 4000), organs


def _nrrd(b: Build, path: str, array: np.ndarray, directions: np.ndarray, origin: Any, more: dict[str, str]) -> str:
    """Writes NRRD as 3D Slicer does; directions a row an axis and origin in LPS."""
    kind = {"int16": "short", "uint8": "unsigned char"}[array.dtype.name]
    vectors = " ".join("(" + ",".join(f"{v:g}" for v in row) + ")" for row in directions)
    head = [
        "NRRD0004", "# Complete NRRD file format specification at:",
        "# http://teem.sourceforge.net/nrrd/format.html", f"type: {kind}", "dimension: 3",
        "space: left-posterior-superior", "sizes: " + " ".join(map(str, array.shape)),
        f"space directions: {vectors}", "kinds: domain domain domain", "endian: little", "encoding: gzip",
        "space origin: (" + ",".join(f"{v:.6g}" for v in origin) + ")",
    ]  # fmt: skip
    head += [f"{k}:={v}" for k, v in more.items()]
    b.raw(path, ("\n".join(head) + "\n\n").encode() + gzip.compress(array.tobytes(order="F"), 6, mtime=0))
    return path


_NAMES = {
    "LV": {"bladder": "blaas", "uterus": "uterus", "rectum": "rectum", "cyst": "ovariumcyste"},
    "JH": {"bladder": "Bladder", "uterus": "Uterus", "rectum": "Rectum", "cyst": "Ovarian cyst"},
}
_COLOURS = {"bladder": "0.87 0.71 0.18", "uterus": "0.9 0.45 0.55", "rectum": "0.55 0.35 0.2", "cyst": "0.3 0.6 0.9"}
_SNAP = {"rectum": 1, "uterus": 2, "bladder": 4, "cyst": 5}


def _slicer(b: Build, path: str, organs: dict[str, np.ndarray], reader: str, image: str, place: Any) -> None:
    """A segmentation of 3D Slicer: values as the segments were made, sometimes cropped to what is drawn."""
    directions, origin = place
    values, more = np.zeros(_PELVIS[0], np.uint8), {}
    order = b.rng.permutation(sorted(organs))
    for k, name in enumerate(order):
        values[organs[name]] = k + 1
    low = np.zeros(3, int)
    if b.rng.random() < 0.5:
        where = np.argwhere(values)
        low, high = where.min(0), where.max(0) + 1
        values = values[tuple(slice(a, c) for a, c in zip(low, high, strict=True))]
    for k, name in enumerate(order):
        more |= {
            f"Segment{k}_Color": _COLOURS[name], f"Segment{k}_ColorAutoGenerated": "0",
            f"Segment{k}_ID": f"Segment_{k + 1}", f"Segment{k}_LabelValue": str(k + 1), f"Segment{k}_Layer": "0",
            f"Segment{k}_Name": _NAMES[reader][name], f"Segment{k}_NameAutoGenerated": "0",
        }  # fmt: skip
    more |= {
        "Segmentation_ContainedRepresentationNames": "Binary labelmap|",
        "Segmentation_MasterRepresentation": "Binary labelmap",
        "Segmentation_ReferenceImageExtentOffset": " ".join(map(str, low)),
        "Segmentation_SourceVolume": image,
    }
    _nrrd(b, path, values, directions, np.asarray(origin) + low @ directions, more)


def _sloppy(b: Build, organs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same organs, drawn by someone else."""
    out, taken = {}, np.zeros(_PELVIS[0], bool)
    cut, move = b.rng.uniform(0.3, 0.65), b.rng.integers(-1, 2, 2)
    for name, mask in organs.items():
        soft = np.roll(gaussian_filter(mask.astype(float), (1.2, 1.2, 0.5)), move, (0, 1))
        out[name] = (soft > cut) & ~taken
        taken |= out[name]
    return out


@family(
    "pelvis_slicer_and_itksnap", "organ_segmentation", 3,
    "Goal: automatic contours of bladder, uterus and rectum on the sagittal T2 of our pelvic MRIs.",
    notes="Phase 1 in ITK-SNAP (NIfTI, a label file), phase 2 in 3D Slicer (.seg.nrrd whose values differ by case and "
    "that may be cropped); two readers, the register says whose is used; other series lie beside; some are busy, "
    "to be redone or excluded; a practice folder repeats a case; patients come twice; after hysterectomy no uterus.",
)  # fmt: skip
def pelvis(b: Build) -> None:
    total, snap = 58, 15
    patients = [f"Z{n}" for n in b.rng.choice(np.arange(20110, 29870), total - 7, replace=False)]
    patients = [str(p) for p in b.rng.permutation(patients + patients[:7])]
    odd = [int(v) for v in b.rng.permutation(np.arange(total))]
    busy, redo, excluded, womanless = odd[:3], odd[3:5], odd[5:8], odd[8:10]
    broken = next(v for v in odd[10:] if v >= snap)
    practice = next(v for v in odd[11:] if v >= snap and v != broken)
    cases, contours = [], []
    for n in range(total):
        phase1 = n < snap
        code = f"PELV{n + 1:03d}"
        uterus = n not in womanless
        image, organs = _pelvis(b.rng, uterus, bool(b.rng.random() < 0.25))
        image = np.round(image).astype(np.int16)
        spacing = np.array(_PELVIS[1])
        middle = b.rng.uniform(-15, 15, 3)
        ras = np.eye(4)
        ras[:3, :3] = _BACK_DOWN_LEFT * spacing
        ras[:3, 3] = middle - ras[:3, :3] @ ((np.array(image.shape) - 1) / 2)
        place = (np.diag([-1, -1, 1]) @ ras[:3, :3]).T, np.diag([-1, -1, 1]) @ ras[:3, 3]
        scanner = b.pick("Aera", "Ingenia", "Signa")
        used = b.pick("LV", "JH")
        both = bool(b.rng.random() < 0.4) and n not in busy
        drawn = {used: organs}
        if both:
            drawn["JH" if used == "LV" else "LV"] = _sloppy(b, organs)
        if n in busy:
            drawn = {used: {k: v for k, v in organs.items() if k in ("bladder", "cyst")}}
        elif n in redo:
            drawn = {used: _sloppy(b, {k: np.roll(v, 6, 0) for k, v in organs.items()})}
        extra = []
        if phase1:
            path = f"fase1_itksnap/images/{code}_T2sag.nii.gz"
            b.nifti(path, image, ras)
            for reader, those in drawn.items():
                values = np.zeros(image.shape, np.uint8)
                for name, mask in those.items():
                    values[mask] = _SNAP[name]
                b.nifti(f"fase1_itksnap/segmentations/{code}_{reader}.nii.gz", values, ras, np.uint8)
        else:
            folder = f"fase2_slicer/{b.pick('PELV-', 'PELV-', 'PELV_', 'pelv ')}{n + 1:03d}"
            number = int(b.rng.integers(3, 9))
            series = {
                "Aera": f"{number} t2_tse_sag_p2",
                "Ingenia": f"{number}01 T2W_TSE_SAG",
                "Signa": f"{number} SAG T2 FRFSE",
            }[scanner]
            path = f"{folder}/{series}.nrrd"
            if n == broken:
                b.broken(path, b"NRRD0004\ntype: short\ndimension: 3\nspace: left-posterior-superior\nsizes: 68 60")
            else:
                _nrrd(b, path, image, *place, {})
            if b.rng.random() < 0.7:  # the transverse T2, axes left, back, up
                tra = np.ascontiguousarray(image.transpose(2, 0, 1)[:, :, ::-3])
                turn = np.array([place[0][2], place[0][0], -3 * place[0][1]])
                name = {"Aera": "t2_tse_tra", "Ingenia": "T2W_TSE_TRA", "Signa": "AX T2 FRFSE"}[scanner]
                corner = place[1] + place[0][1] * (image.shape[1] - 1)
                extra.append(_nrrd(b, f"{folder}/{number + 2} {name}.nrrd", tra, turn, corner, {}))
            if b.rng.random() < 0.5:
                soft = gaussian_filter(image.astype(float), 1.5)[::2, ::2].max() - gaussian_filter(
                    image.astype(float), 1.5
                )
                dwi = np.round(soft[::2, ::2] * 0.6 + b.rng.normal(0, 8, soft[::2, ::2].shape)).astype(np.int16)
                twice = place[0] * np.array([[2], [2], [1]])
                extra.append(_nrrd(b, f"{folder}/{number + 5} ep2d_diff_b1000.nrrd", dwi, twice, place[1], {}))
            for k, (reader, those) in enumerate(drawn.items()):
                name = b.pick(f"Segmentation_{reader}", f"Segmentation {reader}", f"{reader}_Segmentation" + "_1" * k)
                _slicer(b, f"{folder}/{name}.seg.nrrd", those, reader, series, place)
            day = f"2022-{n % 12 + 1:02d}-{n % 27 + 1:02d}"
            b.text(
                f"{folder}/{day}-Scene.mrml",
                '<MRML  version="Slicer 5.0.3" userTags="">\n'
                f'  <VolumeArchetypeStorage id="vtkMRMLVolumeArchetypeStorageNode1" fileName="{series}.nrrd"/>\n'
                "</MRML>\n",
            )
            if n == practice:
                again = f"fase2_slicer/oefenmap/{series}.nrrd"
                b.truth["left_out"].append(_nrrd(b, again, image, *place, {}))
                _slicer(b, "fase2_slicer/oefenmap/Segmentation.seg.nrrd", _sloppy(b, organs), "LV", series, place)
        b.truth["left_out"] += extra
        if n in busy or n in redo or n in excluded:
            if n != broken:
                b.truth["left_out"].append(path)
        elif n != broken:
            b.case(path, patient=patients[n], mask={k: organs[k] for k in ("bladder", "uterus", "rectum")})
        remark = (
            "status after hysterectomy, no uterus" if not uterus else b.pick("", "", "", "fibroids", "endometriosis")
        )
        if n in excluded:
            remark = b.pick("hip prosthesis, artefacts", "consent withdrawn", "outside protocol")
        year = 2019 + (n * 4) // total + (patients.index(patients[n]) != n)
        date = f"{year}-{b.rng.integers(1, 13):02d}-{b.rng.integers(1, 28):02d}"
        cases.append([code, patients[n], date, scanner, "n" if n in excluded else "y", remark])
        for reader in sorted(drawn):
            state = "b" if n in busy else "r" if n in redo else "d"
            tool = "SNAP" if phase1 else "Slicer"
            contours.append([code, reader, tool, state, "x" if both and reader == used and state == "d" else ""])
    b.xlsx(
        "register_pelvis.xlsx",
        {
            "cases": [["case", "patnr", "exam_date", "scanner", "incl", "remark"], *cases],
            "contours": [["case", "reader", "tool", "status", "use"]]
            + [contours[i] for i in b.rng.permutation(len(contours))],
            "codes": [["column", "code", "meaning"], ["incl", "y / n", "included / excluded, do not use"],
                      ["status", "d", "done"], ["status", "b", "busy, not all organs drawn yet"],
                      ["status", "r", "wrong, to be redone"], ["use", "x", "contour to use where both readers drew"]],
        },
    )  # fmt: skip
    b.text(
        "fase1_itksnap/labels.txt",
        "################################################\n# ITK-SnAP Label Description File\n# File format:\n"
        "# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL\n################################################\n"
        '    0     0    0    0        0  0  0    "Clear Label"\n    1   140   90   50        1  1  1    "Rectum"\n'
        '    2   230  115  140        1  1  1    "Uterus"\n    4   222  181   46        1  1  1    "Bladder"\n'
        '    5    77  153  230        1  1  1    "Ovarian cyst"\n',
    )
    b.text(
        "README.txt",
        "Pelvic MRI. Readers: LV and JH. LV named her segments in Dutch: blaas bladder, ovariumcyste ovarian cyst.\n"
        "Fase 1 was done in ITK-SNAP, fase 2 in 3D Slicer; everything was drawn on the sagittal T2.\n"
        "Who drew what, and what may be used: register_pelvis.xlsx. Fibroids are part of the uterus.\n"
        "Cysts were drawn for another project. oefenmap is where new readers practise on a copy, not data.\n",
    )


# ------------------------------------------------------------------------------------- PET and CT, two channels

_CT = (56, 42, 40), (7.2, 6.6, 13.0)
_PET = (40, 30, 36), (10.0, 9.2, 14.4)


class _Trunk:
    """One patient on one day, that can be looked at on any grid (millimetres to the left, to the back, up)."""

    def __init__(self, rng: Any, build: dict[str, Any], active: bool) -> None:
        """Draws what differs from day to day: uptake of bowel, heart, bladder; which nodes are alive."""
        self.rng, self.build = rng, build
        self.heart, self.bladder = rng.choice([1.6, rng.uniform(3, 9)]), rng.uniform(8, 35)
        self.bowel = [
            ((rng.uniform(-75, 75), rng.uniform(-60, -20), rng.uniform(-150, -60)), rng.uniform(1, 4.5))
            for _ in range(5)
        ]
        nodes = build["nodes"]
        alive = rng.permutation(len(nodes))[: int(rng.integers(1, len(nodes) + 1))] if active else []
        self.nodes = [
            (
                mid,
                r * (1 if k in alive else rng.uniform(0.6, 1.0)),
                rng.uniform(4.5, 12) if k in alive else rng.uniform(0.7, 1.5),
            )
            for k, (mid, r) in enumerate(nodes)
        ]

    def scan(self, grid: tuple[Any, Any], pet: bool) -> np.ndarray:
        shape, spacing = grid
        steps = [((np.arange(n) - (n - 1) / 2) * s).astype(np.float32) for n, s in zip(shape, spacing, strict=True)]
        at, k = np.meshgrid(*steps, indexing="ij"), self.build["size"]
        at = [at[0] / k, at[1] / k, at[2]]
        out = np.full(shape, 0.02 if pet else -1000.0)

        def put(mid: Any, radii: Any, hu: float, suv: float) -> None:
            out[_far(at, mid, radii) < 1] = suv if pet else hu

        trunk = np.hypot(at[0] / 172, at[1] / 112) < np.where(at[2] > 190, 0.55, 1)
        out[trunk] = 0.35 if pet else -95
        out[np.hypot(at[0] / 148, at[1] / 92) < np.where(at[2] > 190, 0.5, 1)] = 0.7 if pet else 35
        for side in (-1, 1):
            put((side * 72, 0, 95), (52, 72, 98), -820, 0.35)
            put((side * 62, 45, -70), (24, 22, 46), 32, self.build["kidney"])
        put((0, -5, 110), (26, 50, 75), -30, 0.9)
        put((22, -22, 62), (44, 40, 46), 42, self.heart)
        put((22, -22, 62), (24, 20, 26), 42, 1.5)
        put((-62, -8, -12), (76, 72, 50), 62, self.build["liver"])
        put((98, 30, -12), (28, 38, 42), 52, self.build["liver"] * 0.75)
        put((0, -20, -225), (34, 34, 30), 6, self.bladder)
        for mid, suv in self.bowel:
            put(mid, (18, 16, 20), 20, suv)
        out[np.hypot(at[0] / 20, (at[1] - 68) / 20) < 1] = 1.1 if pet else 330
        for mid, r, suv in self.nodes:
            put(mid, (r, r * 0.85, r * 1.1), 48, suv)
        if pet:
            out = gaussian_filter(out, 0.55)
            return np.clip(
                out * self.build["gain"] + self.rng.normal(0, 0.06 + 0.07 * np.sqrt(np.clip(out, 0, None))), 0, None
            )
        return gaussian_filter(out, (0.5, 0.5, 0.2)) + self.rng.normal(0, 18, shape)


_SITES = ((0, -30, 135), (-15, -10, 105), (18, 8, 150), (-118, -5, 165), (118, -5, 165), (-38, 0, 225), (40, 5, 225),
          (8, 38, -110), (-12, 36, -140), (-75, -45, -235), (75, -45, -235))  # fmt: skip


def _person(rng: Any) -> dict[str, Any]:
    sites = rng.permutation(len(_SITES))[: int(rng.integers(2, 5))]
    nodes = [(tuple(np.array(_SITES[s]) + rng.uniform(-7, 7, 3)), rng.uniform(17, 27)) for s in sites]
    return {"nodes": nodes, "size": rng.uniform(0.9, 1.08), "liver": rng.uniform(1.7, 2.6), "kidney": rng.uniform(2, 6),
            "gain": rng.uniform(0.85, 1.2)}  # fmt: skip


def _volume(b: Build, path: str, array: np.ndarray, spacing: tuple[float, ...]) -> str:
    """NIfTI or MHA around the same middle, PET in float, CT in short."""
    corner = -(np.array(array.shape) - 1) / 2 * spacing
    if path.endswith(".nii.gz"):
        return b.nifti(path, array, lps(spacing, (-corner[0], -corner[1], corner[2])), array.dtype)
    image = sitk.GetImageFromArray(np.ascontiguousarray(array.T))
    image.SetSpacing([float(s) for s in spacing])
    image.SetOrigin([float(c) for c in corner])
    sitk.WriteImage(image, str(b.at(path)), True)
    return path


@family(
    "tep_lymphome_deux_centres", "diagnosis", 3,
    "Using the FDG PET together with its CT, predict if a lymphoma patient under treatment has a complete metabolic "
    "response or still active residual disease.",
    notes="Centre A keeps CT by examination number and PET by patient and date, centre B a folder a person and a day; "
    "a workbook joins them; readings are a row a reader, the consensus counts where they differ; 9 is not "
    "readable; baselines are not read; excluded patients, a copy, a broken CT, a CT that is missing.",
)  # fmt: skip
def tep(b: Build) -> None:
    total = 54
    at_b = b.rng.permutation(total) < 22
    twice, first = b.rng.permutation(total) < 15, b.rng.permutation(total) < 11
    reasons = "retrait du consentement", "glycemie > 11 mmol/l", "diagnostic revise : sarcoidose"
    excluded = dict(zip(b.rng.permutation(total)[:3].tolist(), reasons, strict=True))
    when = [{1: first[n], 2: twice[n] or n % 2 == 1, 3: twice[n] or n % 2 == 0} for n in range(total)]
    plan = [(n, time) for n in range(total) for time in (1, 2, 3) if when[n][time]]
    read = [e for e in plan if e[1] > 1]
    sick = dict(zip(read, b.rng.permutation(np.arange(len(read)) % 2), strict=True))
    free = [read[i] for i in b.rng.permutation(len(read)) if read[i][0] not in excluded]
    in_a = [e for e in free if not at_b[e[0]]]
    unreadable, open_, absent = free[:2], free[2:4], free[4]
    broken = next(e for e in in_a if e not in free[:5])
    copied = next(e for e in in_a if e not in [*free[:5], broken])
    numbers = [int(v) for v in b.rng.choice(np.arange(181040, 229990), len(plan), replace=False)]
    codes = [
        f"B{v}" if at_b[n] else f"NHN-{v}"
        for n, v in enumerate(b.rng.choice(np.arange(4100, 9800), total, replace=False))
    ]
    people, exams, readings = [_person(b.rng) for _ in range(total)], [], []
    starts = [
        (2018 + int(b.rng.integers(0, 3)), int(b.rng.integers(1, 5)), int(b.rng.integers(1, 28))) for _ in range(total)
    ]
    for number, (n, time) in zip(numbers, plan, strict=True):
        year, month, day = starts[n]
        month += {1: 0, 2: 3, 3: 7}[time]
        person, active = f"L{n + 1:02d}", bool(time == 1 or sick[n, time])
        body = _Trunk(b.rng, people[n], active)
        ct = np.round(np.clip(body.scan(_CT, False), -1024, 2000)).astype(np.int16)
        pet = np.round(body.scan(_PET, True), 2).astype(np.float32)
        if at_b[n]:
            folder = f"centre_B/{codes[n]}/{year}-{month:02d}-{day:02d}"
            paths = f"{folder}/TDM.mha", f"{folder}/TEP_SUV.mha"
            if b.rng.random() < 0.5:
                mip = np.clip(255 - pet.max(1).T[::-1] * 28, 0, 255).astype(np.uint8)
                b.truth["left_out"].append(b.picture(f"{folder}/MIP.png", mip.repeat(3, 0).repeat(3, 1)))
        else:
            stamp = f"{year % 100}{month:02d}{day:02d}"
            paths = (
                f"centre_A/TDM/{number}_ctac.nii.gz",
                f"centre_A/TEP/{b.pick(person, person, person.lower())}_{stamp}_suvbw.nii.gz",
            )
        files = []
        if (n, time) == broken:
            b.broken(paths[0], b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(90))
        elif (n, time) != absent:
            files.append(_volume(b, paths[0], ct, _CT[1]))
        files.append(_volume(b, paths[1], pet, _PET[1]))
        if (n, time) == copied:
            other = paths[1].replace(".nii.gz", " (1).nii.gz")
            b.raw(other, b.at(paths[1]).read_bytes())
            b.truth["left_out"].append(other)
        exams.append([number, person, f"{day:02d}/{month:02d}/{year}", time, b.pick("Biograph", "Discovery 690")])
        good = len(files) == 2 and n not in excluded and time > 1 and (n, time) not in (*unreadable, *open_)
        if time > 1:
            result = 2 if active else 1
            seen = {"L1": result, "L2": result}
            if (n, time) in open_ or b.rng.random() < 0.22:
                seen[b.pick("L1", "L2")] = 3 - result
                if (n, time) not in open_:
                    seen["C"] = result
            if (n, time) in unreadable:
                seen = {"L1": 9, "L2": 9}
            said = f"{b.rng.integers(1, 28):02d}/{b.rng.integers(1, 13):02d}/2022"
            readings += [[number, who, value, said] for who, value in seen.items()]
        if good:
            b.case(sorted(files), patient=person, label=str(2 if active else 1), channels=2)
        else:
            b.truth["left_out"] += files
    people_rows = [
        [f"L{n + 1:02d}", "B" if at_b[n] else "A", codes[n], b.pick("H", "F"), int(b.rng.integers(1940, 2000)),
         b.pick("LDGCB", "LH", "LF"), 1 if n in excluded else 0, excluded.get(n, "")]
        for n in range(total)
    ]  # fmt: skip
    b.xlsx(
        "base_lymphome.xlsx",
        {
            "inclusions": [
                ["id_patient", "centre", "code_local", "sexe", "annee_naiss", "histologie", "exclu", "motif"],
                *people_rows,
            ],
            "examens": [["no_examen", "id_patient", "date_examen", "temps", "camera"],
                        *[exams[i] for i in b.rng.permutation(len(exams))]],
        },
    )  # fmt: skip
    header = ["no_examen", "lecteur", "resultat", "date_lecture"]
    shuffled = [readings[i] for i in b.rng.permutation(len(readings))]
    b.csv("relecture.csv", header, shuffled, sep=";", end="\r\n", encoding="cp1252")
    b.csv(
        "dictionnaire.csv",
        ["fichier", "variable", "code", "signification"],
        [
            ["inclusions", "exclu", "1", "patient exclu de l'étude, ne pas utiliser"],
            ["examens", "temps", "1", "TEP initiale, avant traitement (non relue)"],
            ["examens", "temps", "2", "TEP intermédiaire"],
            ["examens", "temps", "3", "TEP de fin de traitement"],
            ["relecture", "lecteur", "L1 / L2", "premier et second lecteur, en aveugle"],
            ["relecture", "lecteur", "C", "consensus, seulement si L1 et L2 diffèrent ; c'est lui qui compte"],
            ["relecture", "resultat", "1", "réponse métabolique complète"],
            ["relecture", "resultat", "2", "maladie résiduelle active"],
            ["relecture", "resultat", "9", "non interprétable"],
        ],
        sep=";", end="\r\n", encoding="cp1252",
    )  # fmt: skip
    b.text(
        "LISEZMOI.txt",
        "TEP-TDM au FDG, lymphomes, deux centres.\r\n"
        "Centre A : TDM rangée par no_examen, TEP (SUVbw) par patient et date (aammjj).\r\n"
        "Centre B : un dossier par patient (code_local) et par date ; MIP.png n'est qu'un aperçu.\r\n"
        "Un examen sans TDM et TEP lisibles n'est pas complet. Discordance sans consensus : en attente.\r\n"
        "Codes : voir dictionnaire.csv.\r\n",
    )
