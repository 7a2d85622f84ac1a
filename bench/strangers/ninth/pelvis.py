"""Pelvic MRI: organs of two programs and two readers."""

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


_PELVIS = (68, 60, 22), (3.6, 3.6, 5.0)
_BACK_DOWN_LEFT = np.array([[0.0, 0, -1], [-1, 0, 0], [0, -1, 0]])  # of the axes, in RAS


def _pelvis(rng: Any, uterus: bool, cyst: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sagittal T2, axes back, down, left, and what a reader would outline."""
    shape = _PELVIS[0]
    h, v, w = shape
    at = [a.astype(float) for a in np.meshgrid(*map(np.arange, shape), indexing="ij")]
    px, pz, py = rng.uniform(-2.5, 2.5, 3)
    at = [at[0] - px, at[1] - pz, at[2] - py * 0.5]
    out = np.where(far(at, (h * 0.5, v * 0.5, w * 0.5), (h * 0.47, v * 0.75, w * 0.56)) < 1, 470.0, 5.0)
    inside = far(at, (h * 0.5, v * 0.5, w * 0.5), (h * 0.4, v * 0.7, w * 0.48)) < 1
    out[inside] = 330
    out[inside & (far(at, (h * 0.5, v * 0.98, w * 0.5), (h * 0.36, v * 0.17, w * 0.5)) < 1)] = 130
    out[far(at, (h * 0.17, v * 0.72, w * 0.5), (h * 0.06, v * 0.1, w * 0.25)) < 1] = 190
    for k in range(5):  # sacrum
        out[far(at, (h * (0.80 + 0.02 * k), v * (0.05 + 0.14 * k), w * 0.5), (4.6, 3.4, w * 0.3)) < 1] = 210
    for _ in range(9):  # bowel
        mid = h * rng.uniform(0.2, 0.62), v * rng.uniform(0.02, 0.2), w * rng.uniform(0.15, 0.85)
        out[far(at, mid, (rng.uniform(3, 5.5), rng.uniform(3, 5), 2.6)) < 1] = rng.choice([60, 240, 420])
    organs: dict[str, np.ndarray] = {}
    full, rise = rng.uniform(0.75, 1.25), rng.uniform(-0.25, 0.6)
    bladder = far(
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
        body = far(turned, (-2, -2, 0), (h * 0.13 * size, v * 0.105 * size, w * 0.19 * size))
        neck = far(turned, (h * 0.085, v * 0.095, 0), (4.6, 6.0, 2.6))
        womb = ((body < 1) | (neck < 1)) & ~organs["bladder"] & ~rectum
        out[womb] = 225
        out[womb & (body < 0.62)] = 120
        out[womb & (body < 0.42)] = 520
        for _ in range(int(rng.integers(0, 3))):  # fibroids belong to the uterus
            spot = rng.uniform(-6, 6), rng.uniform(-4, 4), rng.uniform(-3, 3)
            out[womb & (far(turned, spot, (3.2, 3.2, 1.8)) < 1)] = 75
        organs["uterus"] = womb
    else:
        organs["uterus"] = np.zeros(shape, bool)
    organs["rectum"] = rectum & ~organs["bladder"]
    if cyst:
        mid = h * 0.5, v * 0.24, w * 0.5 + rng.choice([-1, 1]) * w * 0.27
        spot = (far(at, mid, (5, 5, 2.8)) < 1) & ~organs["uterus"] & ~organs["rectum"] & ~organs["bladder"]
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
