"""Gliomas of two hospitals: four sequences each, that either names in its own way, and two legends of the masks."""

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "gliomas_of_two_hospitals": "Preoperative and follow-up MRI of patients with glioma from Freiburg and Verona, "
    "with the tumour drawn in by the neuroradiologists of either hospital. Each hospital kept its own way of "
    "naming and drawing, the short notes they sent along lie in their folders."
}

AIR, GREY, WHITE, CSF, OEDEMA, ENHANCING, NECROSIS, SCALP, BONE, VESSEL = range(10)
LEVELS = {  # by tissue in the order above
    "t1": (4, 470, 640, 190, 420, 470, 300, 800, 60, 330),
    "t1c": (4, 480, 650, 190, 425, 1010, 290, 800, 60, 980),
    "t2": (4, 560, 410, 980, 800, 640, 900, 600, 40, 120),
    "flair": (4, 560, 440, 120, 900, 730, 380, 560, 40, 130),
}
SEQUENCES = ("t1", "t1c", "t2", "flair")
PARTS = {"necrosis": NECROSIS, "oedema": OEDEMA, "enhancing tumour": ENHANCING}
FREIBURG = {"necrosis": 1, "oedema": 2, "enhancing tumour": 4}
VERONA = {"oedema": 1, "enhancing tumour": 2, "necrosis": 3}
SIEMENS = {"t1": "t1_se_tra", "t1c": "t1_se_tra_mdc", "t2": "t2_tse_tra", "flair": "t2_tirm_tra_dark-fluid"}
PHILIPS = {"t1": "sT1W_3D_TFE", "t1c": "sT1W_3D_TFE_mdc", "t2": "T2W_TSE", "flair": "FLAIR_longTR"}


def _left(b: Build, path: str, why: str) -> None:
    b.truth["left_out"].append(path)
    b.truth.setdefault("left_out_why", {})[path] = why


def _anatomy(b: Build, shape: tuple[int, int, int], skull: bool) -> np.ndarray:
    """Tissue by voxel; axes run left, back, up."""
    rng = b.rng
    mid = np.array(shape) / 2 + rng.uniform(-1, 1, 3)
    brain = np.array(shape) * np.array((0.40, 0.42, 0.43)) * rng.uniform(0.93, 1.03, 3)
    at = list(np.ogrid[tuple(slice(0, n) for n in shape)])
    rough = gaussian_filter(rng.normal(0, 1, shape), (1.6, 1.6, 1.2))
    rough /= rough.std()
    depth = draw.far(at, mid, brain)
    out = np.full(shape, AIR)
    if skull:
        out[depth < 1.19] = SCALP
        out[depth < 1.11] = BONE
        out[depth < 1.04] = CSF
    out[depth < 1] = GREY
    out[depth + 0.05 * rough < 0.85] = WHITE
    out[(depth > 0.8) & (depth < 1) & (rough > 1.25)] = CSF  # sulci
    x = np.broadcast_to(at[0], shape)
    out[(np.abs(x - mid[0]) < 0.8) & (depth > 0.62) & (depth < 1)] = CSF  # the cleft between the halves
    for side in (-1, 1):
        wide = rng.uniform(0.8, 1.5)
        horn = (mid[0] + side * shape[0] * 0.075, mid[1] + rng.uniform(-2, 2), mid[2] + shape[2] * 0.05)
        out[draw.ball(shape, horn, (2.0 * wide, shape[1] * 0.15 * wide**0.5, shape[2] * 0.11))] = CSF
        nuclei = (mid[0] + side * shape[0] * 0.15, mid[1], mid[2])
        core = draw.ball(shape, nuclei, (shape[0] * 0.05, shape[1] * 0.09, shape[2] * 0.1))
        out[core & (out == WHITE)] = GREY
        for _ in range(5):  # arteries
            tip = mid + rng.uniform(-0.6, 0.6, 3) * brain
            tube = draw.ball(shape, tip, (0.9, rng.uniform(2, 5), 1.0))
            out[tube & (out != AIR) & (depth < 1)] = VESSEL
    for _ in range(int(rng.integers(0, 4))):  # little spots of age, that nobody draws in
        spot = draw.ball(shape, mid + rng.uniform(-0.45, 0.45, 3) * brain, 1.3)
        out[spot & (out == WHITE)] = OEDEMA + 100
    return out


def _grow(b: Build, tissue: np.ndarray, size: float, low_grade: bool, cut: bool, left: bool) -> np.ndarray:
    """Puts a tumour in: a core with a rim around dead tissue, swelling about it; `cut` leaves a cavity instead."""
    rng, shape = b.rng, tissue.shape
    side = 0.31 if left else 0.69
    c = np.array(shape) * (side + rng.uniform(-0.04, 0.04), rng.uniform(0.32, 0.68), rng.uniform(0.42, 0.64))
    radii = np.array((6.2, 6.8, 4.4)) * size * rng.uniform(0.85, 1.15, 3)
    at = list(np.ogrid[tuple(slice(0, n) for n in shape)])
    rough = gaussian_filter(rng.normal(0, 1, shape), (2.6, 2.6, 1.8))
    f = draw.far(at, c, radii) + 0.17 * rough / rough.std()
    able = np.isin(tissue, (GREY, WHITE, VESSEL, OEDEMA + 100))
    out = tissue.copy()
    reach = rng.uniform(1.35, 1.9) if not low_grade else 1.25
    out[able & (f < reach) & ((out != GREY) | (f < 1.15))] = OEDEMA
    if not low_grade:
        inner = rng.uniform(0.45, 0.72)
        out[able & (f < 1)] = ENHANCING
        out[able & (f < inner)] = NECROSIS
    if cut:
        hole = able & (f < 0.85)
        out[able & (f < reach) & (out != ENHANCING)] = WHITE
        out[hole] = CSF
        if cut == 2:
            out[out == ENHANCING] = WHITE
    return out


def _sequence(b: Build, tissue: np.ndarray, which: str, gain: float, noise: float, thick: bool, moved: bool = False):
    levels = np.array(LEVELS[which], float)
    spots = tissue >= 100
    values = (levels * b.rng.uniform(0.95, 1.05, levels.size))[np.where(spots, OEDEMA, tissue)]
    values = gaussian_filter(values, (0.55, 0.55, 0.4))
    grain = gaussian_filter(b.rng.normal(0, 1, tissue.shape), 9)
    values = values * (1 + 0.09 * grain / np.abs(grain).max())
    if thick:
        values = (values[..., ::2] + values[..., 1::2]) / 2
    if moved:
        values = (values + np.roll(values, 4, 1) + np.roll(values, -5, 1) + np.roll(values, 9, 1)) / 4
    grit = b.rng.normal(0, noise, (2, *values.shape))
    values = np.hypot(values + grit[0], grit[1]) * gain
    return values


def _legend(rows: list[tuple[int, str]]) -> str:
    hues = ((255, 0, 0), (0, 255, 0), (0, 0, 255))
    lines = "".join(
        f'{v:5d}  {r:4d} {g:4d} {blue:4d}        1  1  1    "{name}"\n'
        for (v, name), (r, g, blue) in zip(rows, hues, strict=True)
    )
    head = "################################################\n# ITK-SnAP Label Description File\n# File format:\n"
    head += "# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL\n################################################\n"
    return head + '    0     0    0    0        0  0  0    "Clear Label"\n' + lines


def _mask(tissue: np.ndarray, codes: dict[str, int]) -> tuple[np.ndarray, dict[str, int]]:
    out = np.zeros(tissue.shape, np.uint8)
    for part, code in codes.items():
        out[tissue == PARTS[part]] = code
    return out, {part: int((out == code).sum()) for part, code in codes.items()}


def _freiburg(b: Build) -> None:
    shape, affine = (72, 84, 36), lps((2.2, 2.2, 4.0), (78.0, 91.0, -62.0))
    names = {"t1": "T1_nativ", "t1c": "T1_KM", "t2": "T2", "flair": "FLAIR"}
    ids = sorted(int(v) for v in b.rng.permutation(180)[:22] + 4)
    clinic = []
    for n, number in enumerate(ids):
        pid = f"FR-{number:03d}"
        low = n % 7 == 3
        tissue = _grow(b, _anatomy(b, shape, False), b.rng.uniform(0.75, 1.4), low, False, b.rng.random() < 0.5)
        gain = b.rng.uniform(0.8, 1.2)
        files = []
        for seq in SEQUENCES:
            values = _sequence(b, tissue, seq, gain, 20, False)
            values[tissue == AIR] = 0
            files.append(b.nifti(f"Freiburg/{pid}/{pid}_{names[seq]}.nii.gz", values, affine))
        mask, counts = _mask(tissue, FREIBURG)
        b.nifti(f"Freiburg/{pid}/{pid}_Seg.nii.gz", mask, affine, np.uint8)
        if b.rng.random() < 0.5:  # what the program proposed
            crude = np.where(gaussian_filter((mask > 0).astype(float), 1.6) > 0.42, 2, 0).astype(np.uint8)
            crude[np.roll(mask == 4, 2, 0)] = 4
            path = b.nifti(f"Freiburg/{pid}/{pid}_Seg_auto.nii.gz", crude, affine, np.uint8)
            _left(b, path, "the program's proposal, which the corrected segmentation replaced")
        b.case(files, patient=pid, mask=counts, channels=4)
        clinic.append([pid, b.pick("m", "w"), int(b.rng.integers(24, 81)), "2" if low else b.pick("3", "4", "4"),
                       b.pick("Wildtyp", "mutiert", "n.b."), int(b.rng.integers(5, 11)) * 10])  # fmt: skip
    b.csv("Freiburg/klinik.csv", ["ID", "Geschlecht", "Alter", "WHO-Grad", "IDH", "Karnofsky"], clinic, sep=";",
          encoding="latin-1")  # fmt: skip
    b.text("Freiburg/labels_itksnap.txt", _legend([(1, "Nekrose"), (2, "Oedem"), (4, "KM-Anreicherung")]))
    b.text(
        "Freiburg/LIESMICH.txt",
        "Alle Sequenzen sind auf T1 KM registriert, Schädel entfernt.\r\n"
        "_Seg_auto ist der Vorschlag des Programms, _Seg hat Frau Dr. Albiez durchgesehen und korrigiert (gilt).\r\n"
        "Die Farben der Segmentierung stehen in labels_itksnap.txt.\r\n",
    )


def _visit(b: Build, pid: str, day: str, tissue: np.ndarray, philips: bool, drawn: bool, contrast: bool) -> None:
    """One visit in Verona: arrays run right to left and back to front, T2 and FLAIR in slices twice as thick."""
    flip = (slice(None, None, -1), slice(None, None, -1))
    spacing = (2.3, 2.3, 3.6) if philips else (2.4, 2.4, 3.4)
    nx, ny, _ = tissue.shape
    fine = np.diag([*spacing, 1.0])
    fine[:3, 3] = (-spacing[0] * (nx - 1) / 2 + 1.5, -spacing[1] * (ny - 1) / 2 - 11, -58.0)
    wide = fine.copy()
    wide[2, 2] *= 2
    wide[2, 3] += spacing[2] / 2
    names, base = (PHILIPS, f"Verona/{pid}/{day}") if philips else (SIEMENS, f"Verona/{pid}/{day}")
    gain, noise = (b.rng.uniform(1.6, 2.2), 26) if philips else (b.rng.uniform(0.45, 0.65), 22)
    number = int(b.rng.integers(1, 3))
    scout = b.nifti(
        f"{base}/{number:03d}_localizer.nii.gz", b.rng.integers(0, 300, (40, 40, 3)), np.diag([6, 6, 40, 1])
    )
    _left(b, scout, "localizer")
    found: dict[str, str] = {}
    order = ("t2", "flair", "t1", "t1c") if philips else ("t1", "flair", "t2", "t1c")
    for seq in order:
        number += int(b.rng.integers(1, 3))
        if seq == "t1c":
            if not contrast:
                continue
            if b.rng.random() < 0.4:
                adc = _sequence(b, tissue, "t2", 1.4, 60, True)[flip]
                name = "DWI_ADC" if philips else "ep2d_diff_3scan_trace_p2_ADC"
                path = b.nifti(f"{base}/{number:03d}_{name}.nii.gz", adc, wide)
                _left(b, path, "diffusion, none of the four sequences")
                number += 2
        thick = seq in ("t2", "flair")
        again = seq == "t2" and b.rng.random() < 0.22
        if again:
            bad = _sequence(b, tissue, seq, gain, noise, thick, True)[flip]
            _left(b, b.nifti(f"{base}/{number:03d}_{names[seq]}.nii.gz", bad, wide), "patient moved; it was repeated")
            number += 1
        values = _sequence(b, tissue, seq, gain, noise, thick)[flip]
        path = f"{base}/{number:03d}_{names[seq]}{'_rpt' if again else ''}.nii.gz"
        found[seq] = b.nifti(path, values, wide if thick else fine)
    if drawn:
        mask, counts = _mask(tissue[flip], VERONA)
        b.nifti(f"Verona/segmentazioni/{pid}_{day}.nii.gz", mask, fine, np.uint8)
        b.case([found[s] for s in SEQUENCES], patient=pid, mask=counts, channels=4)
    else:
        for path in found.values():
            why = "nobody has drawn the tumour in" if contrast else "no contrast given, no segmentation"
            _left(b, path, why)


def _verona(b: Build) -> None:
    ids = sorted(int(v) for v in b.rng.permutation(90)[:21] + 3)
    for n, number in enumerate(ids):
        pid, philips = f"VR{number:04d}", n % 3 == 1
        shape = (66, 78, 40) if philips else (64, 76, 44)
        size, low, left = b.rng.uniform(0.75, 1.4), n % 8 == 5, b.rng.random() < 0.5
        day = f"20{int(b.rng.integers(16, 20))}{int(b.rng.integers(1, 10)):02d}{int(b.rng.integers(1, 29)):02d}"
        head = _anatomy(b, shape, True)
        _visit(b, pid, day, _grow(b, head, size, low, False, left), philips, n not in (4, 9, 17), n not in (4, 17))
        if n in (0, 2, 6, 11, 13, 15, 19):  # the visit after surgery; twice nothing was left
            later = f"{int(day[:4]) + 1}{int(b.rng.integers(1, 13)):02d}{int(b.rng.integers(1, 29)):02d}"
            cut = 2 if n in (6, 15) else n in (0, 11, 19)
            head = _anatomy(b, shape, True)
            _visit(b, pid, later, _grow(b, head, size * 0.9, low, cut, left), philips, True, True)
    b.text("Verona/segmentazioni/etichette.txt", _legend([(1, "edema"), (2, "captazione di mdc"), (3, "necrosi")]))
    b.text(
        "Verona/leggimi.txt",
        "Una cartella per paziente, dentro una per ogni esame (data). I file sono convertiti con dcm2niix, i nomi\n"
        "sono quelli della console (numero di serie + protocollo). mdc = dopo mezzo di contrasto.\n"
        "Se una serie c'e' anche con _rpt, la prima era mossa: si usa la ripetizione.\n"
        "Le segmentazioni sono state fatte sulla T1 con mdc; i pazienti senza mdc non sono stati segmentati.\n"
        "Due controlli post-operatori sono senza residuo: la loro segmentazione e' vuota ed e' giusto cosi'.\n",
    )


@family(
    "gliomas_of_two_hospitals", "anomaly_detection", 3,
    "Please train a model that outlines necrosis, oedema and enhancing tumour of gliomas on brain MRI, using "
    "native T1, T1 with contrast, T2 and FLAIR together.",
    notes="Two sites name the four sequences differently: T1_nativ, T1_KM, T2, FLAIR in Freiburg; console names in "
    "Verona, of Siemens (the FLAIR is t2_tirm_tra_dark-fluid, contrast is mdc) or Philips, with localizers, "
    "diffusion and moved T2 beside them (a _rpt replaces its first try). The values of the masks differ: 1 "
    "necrosis, 2 oedema, 4 enhancing in Freiburg; 1 oedema, 2 enhancing, 3 necrosis in Verona (legends of ITK-SNAP "
    "beside them). In Verona T2 and FLAIR have slices twice as thick as T1 and mask, so they must be brought to "
    "the grid of the mask by their affines, and the arrays run the other way than in Freiburg. Freiburg's Seg_auto "
    "is not the truth. Verona's masks lie in a folder of their own by patient and date; a patient may have two "
    "visits, of which some have an empty mask; three visits have no mask and are left out.",
)  # fmt: skip
def gliomas(b: Build) -> None:
    _freiburg(b)
    _verona(b)
    b.clutter("mac")
