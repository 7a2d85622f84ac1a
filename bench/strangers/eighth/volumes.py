"""Volumes: knees of two scanners on two grids, an Italian CT in DICOM with masks beside it, phases of liver CT."""

from typing import Any

import numpy as np
from scipy.ndimage import binary_erosion, gaussian_filter, map_coordinates

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family


def _grid(shape: tuple[int, ...], spacing: tuple[float, ...], shift: Any) -> list[np.ndarray]:
    """Millimetres to the back, down and to the left of the middle of the knee."""
    steps = [(np.arange(n) - (n - 1) / 2) * s + d for n, s, d in zip(shape, spacing, shift, strict=True)]
    return [a.astype(np.float32) for a in np.meshgrid(*steps, indexing="ij")]


def _far(at: list[np.ndarray], mid: Any, radii: Any) -> np.ndarray:
    return np.sqrt(sum(((a - m) / r) ** 2 for a, m, r in zip(at, mid, radii, strict=True)))


class _Knee:
    """One knee that can be looked at on any grid: bones, an effusion, lesions of the marrow."""

    def __init__(self, b: Build, lesions: int) -> None:
        """Draws everything that stays the same on all grids."""
        rng = self.rng = b.rng
        self.size = rng.uniform(0.9, 1.06)
        self.off = rng.uniform(-3, 3, 3)
        self.fluid = (rng.uniform(-34, -28), rng.uniform(-22, -10), rng.uniform(-8, 8)), rng.uniform(0.05, 1) * 16
        self.fold = rng.normal(0, 1, (9, 9, 9))
        self.patch = rng.choice([-1, 1]) * 44, rng.uniform(-25, 25), rng.uniform(-25, 25)
        self.failed = rng.uniform(0, 75)
        self.lesions = []
        for _ in range(lesions):
            mid = (
                rng.uniform(-13, 13),
                rng.choice([-9, 25]) + rng.uniform(-7, 7),
                rng.choice([-16, 16]) + rng.uniform(-6, 6),
            )
            r = rng.uniform(5.0, 11.5)
            radii = r * rng.uniform(0.8, 1.25), r * rng.uniform(0.7, 1.1), r * rng.uniform(0.9, 1.3)
            self.lesions.append((mid, radii, rng.uniform(0.35, 1.0)))

    def bones(self, at: list[np.ndarray]) -> np.ndarray:
        """True in femur and tibia."""
        u, v, w = ((a - o) / self.size for a, o in zip(at, self.off, strict=True))
        out = (np.hypot(u / 15, w / 16) < 1) & ((v < -14) | (v > 28))
        for side in (-17, 17):
            out |= _far([u, v, w], (1, -8, side), (25, 16, 15)) < 1
        return out | ((_far([u, v, w], (0, 27, 0), (24, 19, 34)) < 1) & (v > 11))

    def marrow_lesions(self, at: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each lesion how much of it there is from 0 to 1, and its outline."""
        if not self.lesions:
            return []
        rough = map_coordinates(self.fold, [(a / 12 + 4) for a in at], order=1, mode="nearest")
        bone, out = self.bones(at), []
        for mid, radii, strength in self.lesions:
            far = _far([a - o for a, o in zip(at, self.off, strict=True)], mid, radii) + 0.12 * rough
            out.append((strength * bone / (1 + np.exp((far - 1) * 7)), bone & (far < 1)))
        return out

    def scan(self, at: list[np.ndarray], fat_sat: bool, gain: float, noise: float) -> np.ndarray:
        """Fat-suppressed T2 (lesions and fluid bright) or T1 (lesions dark in bright marrow)."""
        rng, leg = self.rng, np.hypot(at[0], at[2] * 1.12)
        out = np.where(leg < 45, 120.0 if fat_sat else 130.0, 4.0)
        out[(leg >= 39) & (leg < 45)] = 55 if fat_sat else 310
        out[_far(at, self.fluid[0], (self.fluid[1] * 0.5 + 1, self.fluid[1], self.fluid[1])) < 1] = (
            290 if fat_sat else 85
        )
        bone = self.bones(at)
        out[bone] = 75 if fat_sat else 290
        out += bone * gaussian_filter(rng.normal(0, 1, out.shape), 1.5) * (60 if fat_sat else 150)
        much = sum((m for m, _ in self.marrow_lesions(at)), np.zeros(out.shape))
        if fat_sat:  # suppression fails towards one side
            out += self.failed * np.exp(-(_far(at, self.patch, (26, 30, 30)) ** 2)) * (leg < 45) * 2 + much * 150
        else:
            out -= np.clip(much, 0, 1) * 150
        out = gaussian_filter(out, (0.6, 0.6, 0.25))
        bias = 1 + 0.15 * np.sin(at[1] / 40 + rng.uniform(0, 6))
        return np.clip((out * bias + rng.normal(0, noise, out.shape)) * gain, 0, 4000)


def _sagittal(
    b: Build, path: str, array: np.ndarray, spacing: tuple[float, ...], mid: Any, flipped: bool, kind: Any
) -> str:
    """Writes an array whose axes run to the back, down and to the left; a flipped one runs up and to the right."""
    axes = np.array([[0.0, 0, -1], [-1, 0, 0], [0, -1, 0]])
    if flipped:
        array, axes = array[:, ::-1, ::-1], axes * [1, -1, -1]
    affine = np.eye(4)
    affine[:3, :3] = axes * spacing
    affine[:3, 3] = np.asarray(mid) - affine[:3, :3] @ ((np.array(array.shape) - 1) / 2)
    return b.nifti(path, array, affine, kind)


_T2 = (64, 64, 25), (1.5, 1.5, 3.0)
_T1 = (92, 94, 15), (1.0, 1.0, 5.0)
_AXES = np.array([[0.0, 0, -1], [-1, 0, 0], [0, -1, 0]])


def _readers(b: Build, pieces: list[np.ndarray], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """What two readers drew: one generously, the other tightly and without the last lesion."""
    wide, tight = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    for k, piece in enumerate(pieces):
        soft = gaussian_filter(piece.astype(float), (1.0, 1.0, 0.4))
        wide[soft > 0.25] = k + 1
        if k < max(1, len(pieces) - 1):
            tight[np.roll(soft, int(b.rng.integers(-1, 2)), 0) > 0.62] = k + 1
    return wide, tight


@family(
    "knee_marrow_on_two_scanners", "anomaly_detection", 3,
    "Build a model that finds and outlines bone marrow lesions on knee MRI from both the fat-suppressed T2 and the T1.",
    notes="Two grids, masks on that of T2; scanners differ in folders, names, axes; consensus holds over readers; "
    "'no BML' is healthy without a mask, 'BML' without a mask is not drawn, an empty reading is not read.",
)  # fmt: skip
def knees(b: Build) -> None:
    exams = [(n, v) for n in range(40) for v in range(1, 2 + (n % 3 == 1) + (n in (4, 22)))]
    sick = b.rng.permutation(len(exams)) >= 18
    rows = []
    for i, (n, visit) in enumerate(exams):
        at_avanto = (n % 2 == 0) != (visit == 2 and n in (7, 19, 31, 37))  # four changed the scanner
        day = f"{2017 + n % 4 + visit - 1}-{n % 12 + 1:02d}-{n % 27 + 1:02d}"
        silent, empty, undrawn = i in (9, 30, 46), i in (17, 38), i in (13, 42)  # not read, both erred, not drawn
        count = int(b.rng.integers(1, 4)) if (sick[i] and not empty) or undrawn else 0
        knee, mid = _Knee(b, count), b.rng.uniform(-30, 30, 3)
        twice = empty or (count > 0 and i % 3 == 0)
        move = b.rng.uniform(-3, 3, 3)
        at_t2, at_t1 = _grid(*_T2, (0, 0, 0)), _grid(*_T1, move)
        gain, noise = (1.0, 13.0) if at_avanto else (3.1, 15.0)
        t2 = np.round(knee.scan(at_t2, True, gain, noise))
        t1 = np.round(knee.scan(at_t1, False, gain * 1.4, noise * 1.3))
        pieces = [p for _, p in knee.marrow_lesions(at_t2) if p.any()]
        whole = np.zeros(_T2[0], np.uint8)
        for k, piece in enumerate(pieces):
            whole[piece] = 1 if at_avanto else k + 1
        if at_avanto:
            local = f"KNEE_{118 + 3 * n:04d}"
            base = f"avanto/{local}/{day.replace('-', '')}"
            names = f"{base}/00{4 + i % 2}_t2_tirm_sag_fs.nii", f"{base}/00{3 + 3 * (i % 2)}_t1_se_sag.nii"
            masks = [f"{base}/seg/bml_{r}.nii.gz" for r in ("reader1", "reader2", "consensus")]
        else:
            local = f"ING{207 + 2 * n}"
            base = f"{local}_{'abc'[visit - 1]}"
            names = f"ingenia/images/{base}_STIR-SAG.nii", f"ingenia/images/{base}_T1W-TSE-SAG.nii"
            masks = [f"ingenia/labels/{base}_{r}.nii.gz" for r in ("JK", "MO", "CONS")]
        files = []
        if i == 34:
            b.broken(names[0], b"\x5c\x01\x00\x00" + bytes(260))
        else:
            files.append(_sagittal(b, names[0], t2, _T2[1], mid, not at_avanto, np.int16))
        if i != 24:  # of one the T1 was not sent
            files.append(_sagittal(b, names[1], t1, _T1[1], mid + _AXES @ move, not at_avanto, np.int16))
        if at_avanto and i % 4 == 0:
            b.truth["left_out"].append(
                _sagittal(b, f"{base}/001_localizer.nii", t2[::2, ::2, 10:13], (3, 3, 9), mid, False, np.int16)
            )
        drawn = not (silent or undrawn) and (count > 0 or empty)
        if drawn:
            readings: list[tuple[str, np.ndarray]] = [(masks[i % 2], whole)]
            if twice:
                first, second = _readers(b, pieces, _T2[0])
                if empty:  # one took the failed suppression for a lesion
                    first[(_far(at_t2, knee.patch, (12, 9, 9)) < 1)] = 1
                if at_avanto:
                    first, second = first > 0, second > 0
                readings = list(zip(masks, (first, second, whole), strict=True))
            for path, mask in readings:
                _sagittal(b, path, mask, _T2[1], mid, not at_avanto, np.uint8)
        if silent or undrawn or len(files) < 2:
            b.truth["left_out"] += files
        else:
            b.case(sorted(files), patient=f"S{n + 1:02d}", mask={"bone marrow lesion": whole}, channels=2)
        said = "" if silent else "BML" if count else "no BML"
        reader = "" if silent else "JK+MO" if twice else ("JK", "MO")[i % 2]
        rows.append(
            [
                f"S{n + 1:02d}",
                ("Ingenia", "Avanto")[at_avanto],
                local,
                "abc"[visit - 1],
                day,
                said,
                reader,
                b.pick("R", "L"),
            ]
        )
    rows += [
        ["S41", "Ingenia", "ING291", "a", "2019-04-11", "BML", "JK", "L"],
        ["S42", "Avanto", "KNEE_0301", "a", "2018-09-03", "no BML", "MO", "R"],
    ]
    header = ["subject", "scanner", "local_code", "visit", "exam_date", "reading", "read_by", "knee"]
    b.csv("exam_list.csv", header, [rows[i] for i in b.rng.permutation(len(rows))], sep=";")
    b.text(
        "README.txt",
        "Knee MRI, sagittal, of one cohort on two scanners. local_code is a person's number at that scanner.\n"
        "avanto: a folder a person and a day, reader1 = JK, reader2 = MO. ingenia: _a _b _c are visits.\n"
        "Bone marrow lesions (BML) were outlined on TIRM or STIR. Ingenia labels number the lesions.\n"
        "Where JK and MO both drew, they made a consensus later. Nothing was saved where a reader saw none.\n",
    )


def _belly(rng: Any, shape: tuple[int, int, int], boost: float = 1.0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """HU with axes left, back, up, and the organs by their Italian names."""
    x, y, z = shape
    out = np.full(shape, -1000.0)
    out[draw.ball(shape, (x / 2, y / 2, z / 2), (x * 0.46, y * 0.45, z * 4))] = -95
    out[draw.ball(shape, (x / 2, y / 2, z / 2), (x * 0.42, y * 0.4, z * 4))] = 35
    k, organs = rng.uniform(0.85, 1.12), {}
    organs["fegato"] = draw.ball(
        shape, draw.near(rng, x * 0.3, y * 0.44, z * 0.62), (x * 0.19 * k, y * 0.24 * k, z * 0.38)
    )
    organs["fegato"] |= draw.ball(shape, draw.near(rng, x * 0.46, y * 0.32, z * 0.68), (x * 0.13 * k, y * 0.1, z * 0.2))
    organs["milza"] = draw.ball(
        shape, draw.near(rng, x * 0.79, y * 0.6, z * 0.66), (x * 0.07 * k, y * 0.15, z * 0.22 * k)
    )
    for name, side in (("rene_dx", 0.36), ("rene_sn", 0.64)):
        organs[name] = draw.ball(shape, draw.near(rng, x * side, y * 0.7, z * 0.34), (x * 0.06, y * 0.08, z * 0.24 * k))
    taken = np.zeros(shape, bool)
    for name, hu in (("rene_dx", 150), ("rene_sn", 150), ("milza", 105), ("fegato", 90)):
        organs[name] &= ~taken
        taken |= organs[name]
        out[organs[name]] = 35 + (hu - 35 + rng.uniform(-12, 12)) * boost
    out[draw.ball(shape, (x / 2, y * 0.76, z / 2), (x * 0.06, y * 0.08, z * 4))] = 330
    out[draw.ball(shape, (x / 2 + 2, y * 0.62, z / 2), (x * 0.025, y * 0.035, z * 4))] = 40 + 110 * boost
    for _ in range(6):  # bowel
        spot = draw.ball(
            shape, (x * rng.uniform(0.3, 0.75), y * rng.uniform(0.2, 0.4), z * rng.uniform(0, 0.5)), (4, 4, 2)
        )
        out[spot & ~taken] = rng.choice([-700, 10, 60])
    return out, organs


@family(
    "tac_con_maschere", "organ_segmentation", 3,
    "I want to segment the liver, the spleen and both kidneys on abdominal CT.",
    notes="DICOM without suffix beside a scout; a NIfTI mask an organ with Italian names, upside down as of dcm2niix; "
    "the outline of the body is not asked for; one kidney was removed, some outlines are still to be drawn.",
)  # fmt: skip
def tac(b: Build) -> None:
    shape, spacing, notes = (80, 64, 16), (4.4, 4.4, 12.0), []
    for n in range(32):
        person, code = f"AO{60211 + 17 * (n - (n in (11, 23)))}", f"PAZ_{n + 1:03d}"
        hu, organs = _belly(b.rng, shape)
        if n == 18:  # removed
            hu[organs["rene_dx"]] = -90
            organs["rene_dx"] = np.zeros(shape, bool)
            notes.append(f"{code}: stato dopo nefrectomia destra, rene_dx assente")
        hu = gaussian_filter(hu, (0.6, 0.6, 0.2)) + b.rng.normal(0, 24, shape)
        corner = b.rng.uniform(-190, -160), b.rng.uniform(-150, -130), b.rng.uniform(-400, 100)
        study, series, day = uid(b), uid(b), f"2021{n % 12 + 1:02d}{n % 27 + 1:02d}"
        tags = {"PatientID": person, "PatientName": code, "StudyInstanceUID": study, "StudyDate": day}
        stored = np.round(np.clip(hu, -1024, 3000) + 1024).astype(np.uint16)
        order, files = b.rng.permutation(shape[2]), []
        for z in range(shape[2]):
            path = f"{code}/DICOM/IM{order[z] + 2:06d}"
            place = [round(corner[0], 3), round(corner[1], 3), round(corner[2] + z * spacing[2], 3)]
            dicom(b, path, stored[:, :, z].T, "CT", **tags, SeriesInstanceUID=series, SeriesNumber=3,
                  InstanceNumber=z + 1, SeriesDescription="Addome portale", ImagePositionPatient=place,
                  ImageOrientationPatient=[1, 0, 0, 0, 1, 0], PixelSpacing=list(spacing[:2]),
                  SliceThickness=spacing[2], RescaleSlope=1, RescaleIntercept=-1024)  # fmt: skip
            files.append(path)
        if n % 3 != 2:
            flat = np.clip(stored.mean(1).T[::-1], 0, 4095).astype(np.uint16).repeat(3, 0)
            b.truth["left_out"].append(
                dicom(b, f"{code}/DICOM/IM000001", flat, "CT", **tags, SeriesInstanceUID=uid(b), SeriesNumber=1,
                      InstanceNumber=1, SeriesDescription="Topogramma", ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
            )  # fmt: skip
        affine = lps(spacing, (-corner[0], -corner[1], corner[2]))
        affine[:3, 3] += affine[:3, 1] * (shape[1] - 1)
        affine[:3, 1] *= -1
        todo = {6: {"milza"}, 27: {"rene_dx", "rene_sn"}, 14: set(organs)}.get(n, set())
        for name, mask in {**organs, "corpo": hu > -300}.items():
            if mask.any() and name not in todo:
                b.nifti(f"{code}/Maschere/{name}.nii.gz", mask[:, ::-1], affine, np.uint8)
        if todo:
            notes.append(f"{code}: da completare ({', '.join(sorted(todo))})")
            b.truth["left_out"] += sorted(files)
        else:
            b.case(sorted(files), patient=person, mask=organs)
    b.text(
        "note.txt",
        "TAC addome, fase portale. Maschere in NIfTI, un file per organo.\r\n" + "\r\n".join(sorted(notes)) + "\r\n",
    )


_PHASES = {
    "native": (0.15, ("Abd nativ 5.0", "Leber ohne KM")),
    "arterial": (0.5, ("Abd art. 5.0", "Leber arterielle Phase")),
    "portal": (1.0, ("Abd portalven. 5.0", "Leber pv 70s", "Abdomen venös 5.0")),
    "late": (0.7, ("Leber Spätphase 5 min", "Abd spät 5.0")),
}


@family(
    "liver_in_four_phases", "diagnosis", 3,
    "Please make a model that says from the portal venous phase of a liver CT whether there are metastases.",
    notes="NIfTI with a JSON beside it, named by series number; description tells the phase; 'fraglich' is no class.",
)  # fmt: skip
def liver(b: Build) -> None:
    shape, rows = (60, 48, 18), []
    sick = b.rng.permutation(np.arange(45) % 2)
    for n in range(45):
        person, study = f"P{2107 + 19 * (n - (n % 11 == 6))}", f"E{50312 + 7 * n}"
        spots = [(b.rng.random(), b.rng.uniform(2.3, 4.6)) for _ in range(int(b.rng.integers(2, 7)) * sick[n])]
        cysts = [(b.rng.random(), b.rng.uniform(1.6, 2.8)) for _ in range(int(b.rng.integers(0, 3)))]
        strength, series = (
            b.rng.uniform(35, 65),
            b.rng.permutation([p for p in _PHASES if p == "portal" or b.rng.random() < 0.75]),
        )
        if n in (10, 35):
            series = np.array([p for p in series if p != "portal"] or ["native"])
        body = b.rng.bit_generator.state  # the same body in all phases
        said = {12: "fraglich", 29: "fraglich", 21: ""}.get(n, "ja" if sick[n] else "nein")
        number = 1
        for phase in series:
            number += int(b.rng.integers(1, 4))
            fixed = np.random.Generator(np.random.PCG64())
            fixed.bit_generator.state = body
            hu, organs = _belly(fixed, shape, _PHASES[phase][0])
            inside = np.argwhere(binary_erosion(organs["fegato"]))
            for k, (where, r) in enumerate(spots + cysts):
                ball = draw.ball(shape, inside[int(where * len(inside))], (r, r, r * 0.6)) & organs["fegato"]
                much = strength * {"portal": 1, "late": 0.3, "arterial": 0.25, "native": 0.1}[phase]
                hu[ball] = hu[ball] - much if k < len(spots) else 6.0
            hu = gaussian_filter(hu, (0.6, 0.6, 0.3)) + b.rng.normal(0, 15, shape)
            path = f"{study}/s{number:03d}.nii"
            b.nifti(path, np.round(hu), lps((5.6, 5.6, 8.0)))
            text = b.pick(*_PHASES[phase][1])
            side = {
                "Modality": "CT",
                "PatientID": person,
                "Manufacturer": ("Siemens", "GE")[n % 2],
                "KVP": b.pick(100, 120),
            }
            b.json(path.replace(".nii", ".json"), side | {"SeriesNumber": number, "SeriesDescription": text})
            if phase == "portal" and said in ("ja", "nein"):
                b.case(path, patient=person, label=said)
            else:
                b.truth["left_out"].append(path)
        if n % 4 == 0:  # the lungs, thin
            lung = draw.lung_ct(b.rng, bool(n % 3), (40, 36, 22))
            path = b.nifti(f"{study}/s{number + 1:03d}.nii", lung, lps((6.0, 6.0, 6.0)))
            side |= {"SeriesNumber": number + 1, "SeriesDescription": "Thorax pv 1.0 Lunge"}
            b.json(path.replace(".nii", ".json"), side)
            b.truth["left_out"].append(path)
        rows.append([study, person, 41 + n, b.pick("m", "w"), said, b.pick("", "Zysten", "Z. n. CHE") if said else ""])
    rows += [["E59001", "P9100", 55, "m", "nein", ""], ["E59008", "P9119", 67, "w", "ja", ""]]
    header = ["Untersuchung", "Patient", "Alter", "Geschlecht", "Lebermetastasen", "Anmerkung"]
    b.csv(
        "Auswertung.csv",
        header,
        [rows[i] for i in b.rng.permutation(len(rows))],
        sep=";",
        end="\r\n",
        encoding="cp1252",
    )
