"""MR of brain tumours, four sequences on grids of their own, masks on FLAIR, notes in Polish."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import affine_transform, gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "tumourmr": "Rezonanse głowy chorych z glejakami z dwóch aparatów, po cztery sekwencje w badaniu, część chorych "
    "także z badaniem kontrolnym. Neuroradiolog obrysował na FLAIR rdzeń guza i obrzęk, po operacji również jamę. "
    "W kilku badaniach brakuje jednej sekwencji.",
}

Field = Callable[[list[np.ndarray]], np.ndarray]
FINE, STEP = (62, 74, 54), 2.7  # the grid on which a head is made, mm
KINDS = ("T1", "T1K", "T2", "FLAIR")
NAMES = {
    "S": {"T1": "t1_tse_tra", "T1K": "t1_mprage_km", "T2": "t2_tse_tra", "FLAIR": "t2_tirm_tra_dark-fluid"},
    "G": {"T1": "Ax_T1_SE", "T1K": "Ax_T1_Gd", "T2": "Ax_T2_FSE", "FLAIR": "Ax_T2_FLAIR"},
}
GRIDS = {
    "S": {
        "T1": ((62, 72, 24), (2.6, 2.6, 5.6)), "T1K": ((54, 66, 44), (3.0, 3.0, 3.2)),
        "T2": ((66, 78, 24), (2.45, 2.45, 5.6)), "FLAIR": ((60, 70, 24), (2.7, 2.7, 5.6)),
    },
    "G": {
        "T1": ((56, 66, 27), (2.9, 2.9, 5.0)), "T1K": ((56, 66, 40), (2.9, 2.9, 3.5)),
        "T2": ((64, 76, 27), (2.5, 2.5, 5.0)), "FLAIR": ((56, 66, 27), (2.9, 2.9, 5.0)),
    },
}  # fmt: skip
# air, scalp, bone, fluid, gray, white, oedema, solid, necrosis, cavity
LEVELS = {
    "T1": (0, 300, 40, 70, 165, 215, 160, 150, 105, 75),
    "T1K": (0, 310, 42, 72, 172, 220, 164, 155, 112, 78),
    "T2": (0, 170, 30, 360, 205, 150, 275, 245, 320, 365),
    "FLAIR": (0, 150, 30, 45, 185, 155, 282, 232, 185, 60),
}
AIR, SCALP, BONE, FLUID, GRAY, WHITE, OEDEMA, SOLID, NECROSIS, CAVITY = range(10)


def _smooth(rng: Any, long: float, waves: int = 7) -> Field:
    """A smooth random field of the place in mm, about 0 with spread 1."""
    k = rng.normal(0, 1, (waves, 3))
    k *= 2 * np.pi / (np.linalg.norm(k, axis=1, keepdims=True) * rng.uniform(long * 0.6, long * 1.6, (waves, 1)))
    start = rng.uniform(0, 2 * np.pi, waves)

    def field(at: list[np.ndarray]) -> np.ndarray:
        waving = (np.cos(a * at[0] + c * at[1] + d * at[2] + p) for (a, c, d), p in zip(k, start, strict=True))
        return sum(waving) * np.sqrt(2 / waves)

    return field


def _person(rng: Any) -> dict[str, Any]:
    """The head and its tumour, in mm, axes to the left, back and up."""
    side = rng.choice([-1, 1])
    core = float(np.exp(rng.uniform(np.log(11), np.log(22))))
    return {
        "head": np.array([68, 84, 66]) * rng.uniform(0.95, 1.05), "folds": _smooth(rng, 24, 14),
        "bend": _smooth(rng, 80),         "fluid": rng.uniform(0.8, 1.35),
        "at": np.array([side * rng.uniform(22, 40), rng.uniform(-42, 42), rng.uniform(-8, 34)]),
        "core": core * rng.uniform(0.82, 1.2, 3), "wide": rng.uniform(1.35, 2.1) * rng.uniform(0.88, 1.12, 3),
        "rough": _smooth(rng, 28), "fingers": _smooth(rng, 30), "hollow": rng.uniform(0.3, 0.72),
        "takes": rng.choice([0.0, 0.25, 1.0], p=(0.1, 0.2, 0.7)) * rng.uniform(0.7, 1.2),
        "spots": rng.integers(0, 7), "bright": rng.uniform(0.5, 1.0), "places": rng.uniform(-1, 1, (7, 3)),
    }  # fmt: skip


def _head(rng: Any, who: dict[str, Any], grow: float, operated: bool, rest: float) -> dict[str, Any]:
    """Tissue by voxel on the fine grid, and how much of each voxel takes up contrast."""
    shift = rng.normal(0, (2.5, 2.5, 3))
    at = list(
        np.meshgrid(*((np.arange(n) - (n - 1) / 2) * STEP + d for n, d in zip(FINE, shift, strict=True)), indexing="ij")
    )
    far = draw.far(at, (0, 0, 0), who["head"]) + 0.012 * who["bend"](at)
    folds = who["folds"](at)
    tissue = np.full(FINE, AIR, np.uint8)
    tissue[far < 1.13] = SCALP
    tissue[far < 1.05] = BONE
    brain = far < 0.97
    tissue[brain] = FLUID
    split = np.abs(at[0] + 1.5 * who["bend"](at)) < 1.6
    tissue[brain & (far + 0.03 * folds < 0.945) & ~(split & (far > 0.62))] = GRAY
    white = brain & (far + 0.075 * folds < 0.83) & ~split
    tissue[white] = WHITE
    for s in (-1, 1):
        tissue[draw.far(at, (s * 20, 2, 2), (9, 13, 10)) < 1] = GRAY  # deep nuclei
        horn = [at[0] - s * (7 + 0.0022 * at[1] ** 2), at[1] - 2, at[2] - 14]
        tissue[draw.far(horn, (0, 0, 0), (4.6 * who["fluid"], 32, 7 * who["fluid"])) < 1] = FLUID
    tissue[draw.far(at, (0, 4, -6), (2.6 * who["fluid"], 11, 9)) < 1] = FLUID
    horns = tissue == FLUID
    hyper = np.zeros(FINE, bool)  # small vessels' disease: bright on FLAIR, no tumour
    for place in who["places"][: who["spots"]]:
        c = (np.sign(place[0]) * (16 + 12 * abs(place[0])), 38 * place[1], 20 + 14 * place[2])
        hyper |= draw.far(at, c, (3.6, 4.2, 3.4)) < 1
    hyper &= tissue == WHITE
    rough = 0.13 * who["rough"](at)
    solid = far < 0.93
    deep = draw.far(at, who["at"], who["core"] * grow) + rough
    swell = draw.far(at, who["at"], who["core"] * grow * who["wide"]) + 0.17 * who["fingers"](at)
    core, cavity = (deep < 1) & solid, np.zeros(FINE, bool)
    if operated:
        cavity = (deep < 0.95) & solid
        edge = who["at"] + who["core"] * grow * 0.85 * np.array([np.sign(who["at"][0]) * -0.6, 0.6, 0.5])
        core = (draw.far(at, edge, who["core"] * rest) + rough < 1) & solid & ~cavity if rest else cavity & False
        swell = swell + (0.3 if rest else 0.42)
    oedema = (swell + 0.22 * (tissue == GRAY) < 1) & solid & ~core & ~cavity & ~horns
    tissue[oedema] = OEDEMA
    fade = np.where(oedema, 1 - who["bright"] * np.clip(0.5 + 1.6 * (1 - swell), 0.5, 1), 0)  # share of white matter
    tissue[core] = SOLID
    inner = deep if not operated else deep + 9
    tissue[core & (inner + 0.6 * rough < who["hollow"])] = NECROSIS
    tissue[cavity] = CAVITY
    marks = np.zeros(FINE, np.float32)
    marks[core & (tissue == SOLID)] = who["takes"]
    vein = (np.abs(at[0]) < 3) & (far > 0.9) & (far < 0.98) & (at[2] > 0)
    parts = {"core": core, "oedema": oedema, "cavity": cavity}
    return {"tissue": tissue, "takes": marks, "vein": vein, "hyper": hyper, "fade": fade, **parts}


def _onto(fine: np.ndarray, shape: Any, spacing: Any, start: np.ndarray) -> np.ndarray:
    """Values of the fine grid on another one whose first voxel lies at `start` (mm from the middle of the head)."""
    thick = [max(s / STEP - 1, 0) * 0.42 for s in spacing]
    offset = start / STEP + (np.array(FINE) - 1) / 2
    moved = gaussian_filter(fine.astype(np.float32), thick) if max(thick) > 0.1 else fine.astype(np.float32)
    return affine_transform(moved, np.array(spacing) / STEP, offset, shape, order=1, mode="nearest")


def _volume(
    rng: Any, head: dict[str, Any], kind: str, machine: str, shape: Any, spacing: Any, start: Any
) -> np.ndarray:
    level = np.array(LEVELS[kind], float) * (1 + rng.normal(0, 0.035, 10))
    if machine == "G":
        level = level ** (0.94 if kind != "T2" else 1.03)
    fine = level[head["tissue"]]
    fine = fine + (level[WHITE] - fine) * head["fade"]
    if kind == "T1K":
        fine = fine + 165 * head["takes"] + 190 * head["vein"]
    if kind in ("FLAIR", "T2"):
        fine = fine + (level[WHITE] * 0.55) * head["hyper"]
    out = _onto(fine, shape, spacing, start)
    place = list(np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True))
    lean = rng.normal(0, 0.055, 6)
    bias = 1 + sum(p * v + q * v**2 for p, q, v in zip(lean[:3], lean[3:], place, strict=True))
    spread = level[WHITE] * rng.uniform(0.065, 0.12)
    out = np.hypot(out * bias + rng.normal(0, spread, shape), rng.normal(0, spread * 0.7, shape))
    return np.round(out * rng.uniform(0.75, 1.3) * (2.2 if machine == "G" else 1.0))


def _drawn(rng: Any, head: dict[str, Any], shape: Any, spacing: Any, start: Any) -> np.ndarray:
    """What the neuroradiologist outlined on FLAIR: 1 core, 2 oedema, 3 cavity."""
    out = np.zeros(shape, np.uint8)
    for value, part in ((2, head["oedema"] | head["core"] | head["cavity"]), (1, head["core"]), (3, head["cavity"])):
        if not head[("", "core", "oedema", "cavity")[value]].any():
            continue
        wobble = gaussian_filter(rng.normal(0, 1, shape), (1.6, 1.6, 0.5))
        cut = 0.5 + rng.normal(0, 0.07) + 0.2 * wobble / wobble.std()
        out[_onto(part, shape, spacing, start) > np.clip(cut, 0.1, 0.9)] = value
    return out


def _study(
    b: Build, number: str, who: dict[str, Any], machine: str, how: Any, lacks: str, note: str
) -> tuple[Any, Any]:
    """Writes an examination; gives its sequences and the mask."""
    rng, files, mask = b.rng, [], None
    head = _head(rng, who, *how)
    table = np.array([rng.uniform(-20, 20), rng.uniform(-30, 10), rng.uniform(-60, 60)])
    for kind in KINDS:
        shape, spacing = GRIDS[machine][kind]
        start = -(np.array(shape) - 1) / 2 * np.array(spacing) + rng.normal(0, (2, 2, 1.5))
        first = start + table
        affine = lps(spacing, (-first[0], -first[1], first[2]))
        if kind != lacks:
            array = _volume(rng, head, kind, machine, shape, spacing, start)
            if note == "ruch chorego":
                array = np.round(0.45 * array + 0.3 * np.roll(array, 3, 1) + 0.25 * np.roll(array, -5, 1))
            turned = affine
            if kind == "T1K" and machine == "S":  # taken sagittally: axes back, down, left
                array = array.transpose(1, 2, 0)[:, ::-1]
                turned = affine @ np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, -1, 0, shape[2] - 1], [0, 0, 0, 1.0]])
            files.append(b.nifti(f"badania/{number}/{NAMES[machine][kind]}.nii.gz", array, turned))
        if kind == "FLAIR":
            mask = _drawn(rng, head, shape, spacing, start)
            if note != "brak obrysu":
                b.nifti(f"badania/{number}/maska.nii.gz", mask, affine, np.uint8)
    return files, mask


@family(
    "tumourmr", "anomaly_detection", 3,
    "Na podstawie rezonansu głowy chcę automatycznie obrysowywać rdzeń guza i obrzęk wokół niego.",
    notes="Polish. A folder an examination with four sequences named as each machine names them (table in CZYTAJ.txt), "
    "every sequence on its own grid, the S machine's contrast T1 sagittal; maska.nii.gz lies on FLAIR: 1 core (rdzeń, "
    "necrosis included), 2 oedema (obrzęk), 3 cavity after surgery, which is not asked for. Operated without remnant "
    "has no 1. T1 or T2 is missing in a few, which belong to the set. The patient is in badania.csv (semicolons, "
    "cp1250); follow-up visits have a number of their own. Examinations with maska = nie or do_analizy = nie stay out.",
)  # fmt: skip
def tumourmr(b: Build) -> None:
    rng, why, rows = b.rng, {}, []
    b.truth["left_out_why"] = why
    numbers = iter(int(v) for v in rng.choice(4000, 90, replace=False) + 2000)
    people = [f"GL-{int(v):03d}" for v in rng.choice(880, 60, replace=False) + 100]
    again = {int(v) for v in rng.choice(60, 13, replace=False)}
    lacking = dict(zip((int(v) for v in rng.choice(60, 6, replace=False)), ["T2", "T1"] * 3, strict=True))
    rest = [k for k in range(60) if k not in again and k not in lacking]
    odd = dict(
        zip((int(v) for v in rng.permutation(rest)[:5]), ["brak obrysu"] * 3 + ["ruch chorego"] * 2, strict=True)
    )
    for i, person in enumerate(people):
        who, sex, age = _person(rng), str(rng.choice(["K", "M"])), int(rng.integers(27, 79))
        day = np.datetime64("2015-09-01") + int(rng.integers(0, 1500))
        for visit in range(2 if i in again else 1):
            number, machine = f"B{next(numbers)}", str(rng.choice(["S", "G"]))
            operated = bool(visit and rng.random() < 0.6)
            how = (1.0, False, 0.0)
            if visit:
                left = float(rng.uniform(0.5, 0.72)) if rng.random() < 0.7 else 0.0
                how = (1.0, True, left) if operated else (float(rng.uniform(1.08, 1.3)), False, 0.0)
            lacks = lacking.get(i, "") if not visit else ""
            note = odd.get(i, "")
            outlined = note != "brak obrysu"
            files, mask = _study(b, number, who, machine, how, lacks, note)
            when = "kontrola po operacji" if operated else ("kontrola" if visit else "pierwsze")
            size = f"{np.cbrt(np.prod(who['core']) * how[0] ** 3) * 0.2:.1f}".replace(".", ",")
            seen = [lacks, "tak" if outlined else "nie", "nie" if note else "tak", note]
            date = day + visit * int(rng.integers(60, 400))
            rows.append([number, person, sex, age + visit, date, when, machine, "" if operated else size, *seen])
            if note:
                why.update(dict.fromkeys(files, note))
            else:
                parts = {"rdzeń guza": mask == 1, "obrzęk": mask == 2}
                b.case(
                    files, patient=person, mask=parts, channels=len(files), missing=lacks, cavity=int((mask == 3).sum())
                )
    header = ["nr_badania", "pacjent", "płeć", "wiek", "data", "wizyta", "aparat", "średnica_cm"]
    header += ["brak_sekwencji", "maska", "do_analizy", "uwagi"]
    b.csv("badania.csv", header, sorted(rows, key=lambda r: r[0]), sep=";", encoding="cp1250", end="\r\n")
    b.text("CZYTAJ.txt", README)
    b.truth["left_out"] = sorted(why)


README = """Glejaki - rezonans głowy 2015-2020

badania/<nr badania>/   jedno badanie jednego chorego
badania.csv             spis badań (średniki, Windows-1250); chory jest w kolumnie "pacjent",
                        przy badaniu kontrolnym ten sam chory ma nowy numer badania

Każdy aparat nazywa sekwencje po swojemu:
                    aparat S                  aparat G
T1                  t1_tse_tra                Ax_T1_SE
T1 po kontraście    t1_mprage_km              Ax_T1_Gd
T2                  t2_tse_tra                Ax_T2_FSE
FLAIR               t2_tirm_tra_dark-fluid    Ax_T2_FLAIR

Sekwencje jednego badania mają różne siatki, ale wspólny układ współrzędnych aparatu (chory się nie ruszał).
maska.nii.gz jest narysowana na FLAIR (siatka FLAIR):
  1 = rdzeń guza (część lita razem z martwicą)
  2 = obrzęk
  3 = jama po operacji - to nie jest guz, obrysowana tylko dla porządku, nie chcemy jej zaznaczać
Po doszczętnej operacji nie ma wartości 1. Drobne ogniska naczyniopochodne w istocie białej nie są obrysowane.

W kilku badaniach nie wykonano T1 albo T2 (kolumna brak_sekwencji); maski są w nich pełne i badania należą do zbioru.
maska = nie: jeszcze bez obrysu. do_analizy = nie: nie używać (powód w uwagach).
"""
