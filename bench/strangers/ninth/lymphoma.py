"""PET and CT of lymphoma, of two centres."""

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
            out[far(at, mid, radii) < 1] = suv if pet else hu

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
