"""Chest CT with all reconstructions of a study in one folder; diagnoses in a registry that has numbers of its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter

from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "long_ct_met_ild_registratie": "CT's van de thorax van patiënten uit de ILD-registratie, opgevraagd bij drie "
    "ziekenhuizen, met de registratie zelf en de sleutellijst van het trialbureau. De diagnose is in het "
    "multidisciplinair overleg gesteld en geldt voor de patiënt."
}
DISEASES = {"IPF": "J84.1", "sarcoïdose": "D86.2", "EAA": "J67.9"}
SPELT = {
    "IPF": ("IPF", "IPF", "ipf"),
    "sarcoïdose": ("sarcoïdose", "sarcoïdose", "Sarcoïdose", "sarcoidose"),
    "EAA": ("EAA", "EAA", "EAA "),
    "niet-classificeerbaar": ("niet-classificeerbaar",),
}


@dataclass(frozen=True)
class Scanner:
    """How a make of scanner names and stores its series: lung and soft kernel, their descriptions, matrix, numbers."""

    maker: str
    model: str
    lung: tuple[str, str]
    soft: tuple[str, str]
    matrix: int
    signed: bool
    down: bool  # whether instance numbers run from head to feet


SCANNERS = (
    Scanner(
        "SIEMENS", "SOMATOM Definition AS", ("B70f", "Thorax 1.0 B70f"), ("B31f", "Thorax 5.0 B31f"), 72, False, True
    ),
    Scanner("GE MEDICAL SYSTEMS", "LightSpeed VCT", ("LUNG", "HR 1mm"), ("STANDARD", "THORAX STD 5mm"), 64, True, True),
    Scanner("Philips", "Brilliance 64", ("L", "longen, HR"), ("B", "thorax wd"), 76, False, False),
)


def _left(b: Build, path: str, why: str) -> None:
    b.truth["left_out"].append(path)
    b.truth.setdefault("left_out_why", {})[path] = why


class Chest:
    """A patient's chest in HU, axes (up, back, left): the lungs and what surrounds them stay, disease may grow."""

    def __init__(self, b: Build, matrix: int, slices: int) -> None:
        rng, n, nz = b.rng, matrix, slices
        self.rng, self.n, self.nz = rng, n, nz
        shape = (nz, n, n)
        z, y, x = np.mgrid[:nz, :n, :n].astype(float)
        self.u = z / (nz - 1)
        cx, cy = n * 0.5 + rng.uniform(-1.5, 1.5), n * 0.5 + rng.uniform(-1.5, 1.5)
        wide, deep = n * rng.uniform(0.42, 0.46), n * rng.uniform(0.31, 0.36)
        if rng.random() < 0.5:
            self.belly = rng.uniform(0.97, 1.04)
        else:
            self.belly = 1.0
        grow = 1 - 0.16 * np.clip(self.u - 0.7, 0, 1) / 0.3 + (self.belly - 1) * (1 - self.u)
        d = np.hypot((x - cx) / (wide * grow), (y - cy) / (deep * grow))
        out = np.where(d < 1, -95.0, -1000.0)
        out[d < 0.91] = 45
        span = np.sqrt(np.clip(1 - ((self.u - 0.3) / 0.78) ** 2, 0, 1))
        lungs = np.zeros(shape, bool)
        for side in (-1, 1):
            lx = cx + side * wide * 0.46
            rx, ry = wide * 0.37 * span, deep * 0.72 * span
            lungs |= np.hypot((x - lx) / np.maximum(rx, 0.1), (y - cy) / np.maximum(ry, 0.1)) < 1
        away = np.hypot((np.abs(x - cx) - wide * 0.42) / (wide * 0.3), (y - cy + deep * 0.1) / (deep * 0.55))
        dome = 0.06 + 0.16 * np.exp(-(away**2))
        lungs &= self.u > dome
        heart = ((x - cx - wide * 0.16) / (wide * 0.34)) ** 2 + ((y - cy + deep * 0.26) / (deep * 0.44)) ** 2
        lungs &= heart + ((self.u - 0.28) / 0.26) ** 2 > 1
        lungs &= np.hypot((x - cx) / (wide * 0.13), (y - cy) / (deep * 0.6)) > 1
        lungs &= d < 0.86
        self.lungs = lungs
        self.depth = distance_transform_edt(lungs, sampling=(1.6, 1, 1)) * 72 / n
        self.back = (y - cy) / deep
        self.side = np.abs(x - cx) / wide
        self.cx, self.cy, self.wide, self.deep = cx, cy, wide, deep
        out[lungs] = -860
        rib = (d > 0.88) & (d < 0.95) & (np.sin(z * 2.1 + y * 30 / n + np.abs(x - cx) * 12 / n) > 0.45)
        out[rib] = 320
        out[np.hypot((x - cx) / (n * 0.062), (y - cy - deep * 0.62) / (n * 0.062)) < 1] = 260
        out[np.hypot(x - cx + n * 0.0, y - cy + deep * 0.08) < n * 0.03 + 0 * z] = 45
        pipe = (np.hypot(x - cx, y - cy - deep * 0.1) < n * 0.026) & (self.u > 0.6)
        for side in (-1, 1):
            axis = cx + side * (0.6 - self.u) * wide * 1.1
            pipe |= (np.hypot(x - axis, y - cy - deep * 0.1) < n * 0.022) & (self.u <= 0.6) & (self.u > 0.46)
        out[pipe] = -990
        out[np.hypot(x - cx - n * 0.05, y - cy - deep * 0.4) < n * 0.036] = 60  # the aorta
        self.still = out
        self.trees = self._trees()

    def hilum(self, side: int) -> np.ndarray:
        """Where the vessels of a lung start: (z, y, x)."""
        return np.array((0.47 * (self.nz - 1), self.cy + self.deep * 0.05, self.cx + side * self.wide * 0.2))

    def _trees(self) -> np.ndarray:
        rng, shape = self.rng, self.lungs.shape
        out = np.zeros(shape)
        for side in (-1, 1):
            for _ in range(15):
                at, way = self.hilum(side), rng.normal(0, 1, 3) * (0.75, 1, 1)
                way[2] = side * abs(way[2])
                way /= np.hypot(*way[1:]) + abs(way[0])
                for step in range(34):
                    at = at + way * (0.5, 0.9, 0.9)
                    way = way + rng.normal(0, 0.12, 3)
                    i = tuple(np.round(at).astype(int))
                    if not all(0 <= v < s for v, s in zip(i, shape, strict=True)):
                        break
                    out[i] = max(out[i], 1 - step / 45)
                    if step < 9:
                        out[i[0], i[1], max(i[2] - 1, 0)] = 1
        return gaussian_filter(out, (0.3, 0.55, 0.55)) * 1.9

    def balls(self, count: int, where: np.ndarray, low: float, high: float) -> np.ndarray:
        """Soft balls at `count` places drawn from `where` (weights)."""
        rng, out = self.rng, np.zeros(self.lungs.shape)
        flat = np.clip(where, 0, None).ravel()
        picks = rng.choice(flat.size, count, p=flat / flat.sum())
        for at in np.stack(np.unravel_index(picks, where.shape), 1):
            r = rng.uniform(low, high) * self.n / 72
            z0, y0, x0 = np.maximum(at - 5, 0)
            part = out[z0 : at[0] + 6, y0 : at[1] + 6, x0 : at[2] + 6]
            g = np.ogrid[tuple(slice(0, s) for s in part.shape)]
            d = ((g[0] + z0 - at[0]) * 1.6) ** 2 + (g[1] + y0 - at[1]) ** 2 + (g[2] + x0 - at[2]) ** 2
            part[:] = np.maximum(part, np.clip(r + 0.5 - np.sqrt(d), 0, 1))
        return out

    def scan(self, disease: str, much: float) -> np.ndarray:
        """HU without noise."""
        rng, lungs, shape = self.rng, self.lungs, self.lungs.shape
        grain = self.n / 72
        hu = self.still.copy()
        air = -865 + rng.uniform(-15, 25) + 45 * (self.back - 0.1) + 12 * self._rough((0.8, 1.5, 1.5))
        if disease == "IPF":  # honeycombs below the pleura, at the bases and behind
            reach = 10.5 * much * np.clip(1.08 - 1.25 * self.u, 0.1, 1) * (0.85 + 0.35 * self.back)
            edge = np.clip((reach + 1.1 * self._rough((2, 4, 4)) - self.depth) / 1.2, 0, 1)
            cells = self._rough((0.7, 1.15 * grain, 1.15 * grain))
            comb = np.where(cells > 0.25, -965.0, -330 - 130 * np.clip(cells, -2, 0))
            air = air * (1 - edge) + comb * edge
        elif disease == "EAA":  # ground glass everywhere with lobules spared, and blurred little nodules
            glass = 225 * much * (0.8 + 0.25 * self._rough((2.5, 6, 6)))
            lobules = self._rough((1.3, 2.6 * grain, 2.6 * grain))
            glass = np.where(lobules > 0.85, -15, glass)
            air = air + gaussian_filter(glass, (0.3, 0.7, 0.7))
            air = air + 190 * gaussian_filter(
                self.balls(int(130 * much), lungs & (self.depth > 2), 1.0, 1.5), (0.3, 0.7, 0.7)
            )
        elif disease == "sarcoïdose":  # beads along the vessels above and in the middle, big nodes at the hila
            near = np.exp(-((self.depth - 5) ** 2) / 22) * np.exp(-(((self.u - 0.64) / 0.2) ** 2)) * lungs
            clumps = np.clip(self._rough((2, 5, 5)) + 0.5, 0, 2)
            beads = self.balls(int(150 * much), near * clumps + 1e-9 * lungs, 0.8, 1.7)
            air = air * (1 - beads) + 10 * beads
        tree = np.clip(self.trees, 0, 1)
        air = air * (1 - tree) + 30 * tree
        hu[lungs] = air[lungs]
        if disease == "sarcoïdose":
            z, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
            for side in (-1, 1):
                for _ in range(3):
                    c = self.hilum(side) + rng.normal(0, (1.2, 2.2, 1.2)) + (0, 0, side * 2.5)
                    r = rng.uniform(3.0, 4.8) * (0.75 + 0.3 * much) * grain
                    lump = ((z - c[0]) * 1.8) ** 2 + (y - c[1]) ** 2 + (x - c[2]) ** 2 < r * r
                    hu[lump] = 55
        return hu

    def _rough(self, scale: Any) -> np.ndarray:
        out = gaussian_filter(self.rng.normal(0, 1, self.lungs.shape), scale)
        return out / out.std()


def _slices(b: Build, hu: np.ndarray, make: Scanner, tags: dict[str, Any], paths: list[str]) -> list[str]:
    """Writes one series, slice k of `hu` to paths[k]; `tags` may hold a list, then item k is slice k's."""
    for k, path in enumerate(paths):
        values = np.clip(np.round(hu[k]), -1024, 3000)
        more: dict[str, Any] = {"RescaleIntercept": -1024, "RescaleSlope": 1, "WindowCenter": -600, "WindowWidth": 1600}
        if make.signed:
            n = values.shape[1]
            ring = np.hypot(*(np.mgrid[: values.shape[0], :n] - (n - 1) / 2)) > n * 0.5
            values = values + 1024
            if values.shape[0] == n and "SliceThickness" in tags:
                values[ring] = -2000
                more["PixelPaddingValue"] = -2000
            pixels = values.astype(np.int16)
        else:
            pixels = (values + 1024).astype(np.uint16)
            more |= {"BitsStored": 12, "HighBit": 11}
        one = {key: v[k] if isinstance(v, list) and key in PER_SLICE else v for key, v in tags.items()}
        dicom(b, path, pixels, "CT", **more, **one)
    return paths


PER_SLICE = ("ImagePositionPatient", "InstanceNumber", "SliceLocation")


def _study(b: Build, chest: Chest, make: Scanner, pid: str, year: int, disease: str, much: float) -> tuple[list, list]:
    """Writes a CT; returns the files of the lung reconstruction from below and, apart, all others with the reason."""
    rng, n, nz = b.rng, chest.n, chest.nz
    hu = chest.scan(disease, much)
    day = f"{year}{int(rng.integers(1, 13)):02d}{int(rng.integers(1, 29)):02d}"
    mm, step = 360.0 / n, 10.0
    study = {"PatientID": pid, "PatientName": pid, "StudyDate": day, "StudyInstanceUID": uid(b),
             "BodyPartExamined": "CHEST", "StudyDescription": b.pick("CT Thorax", "CT thorax HR", "CT THORAX ILD"),
             "Manufacturer": make.maker, "ManufacturerModelName": make.model, "FrameOfReferenceUID": uid(b), "KVP": 120,
             "SpecificCharacterSet": "ISO_IR 100"}  # fmt: skip
    thin = hu + 0.45 * (hu - gaussian_filter(hu, (0, 0.9, 0.9))) + rng.normal(0, rng.uniform(30, 55), hu.shape)
    blurred = gaussian_filter(hu, (0, 0.7, 0.7))
    thick = ((blurred[: nz // 2 * 2 : 2] + blurred[1 : nz // 2 * 2 : 2]) / 2)[: nz // 2]
    thick = thick + gaussian_filter(rng.normal(0, 30, thick.shape), (0, 0.7, 0.7))
    with_mpr, with_soft = rng.random() < 0.4, rng.random() < 0.85
    tall = np.repeat(thin[::-1], 2, 0)
    places = range(int(n * 0.25), int(n * 0.72), 4) if with_mpr else range(0)
    count = nz + (nz // 2 if with_soft else 0) + 1 + len(places)
    base = f"CT/{b.rng.bytes(5).hex()}"
    names = iter([f"{base}/I{int(v) + 1:07d}" for v in rng.permutation(count)])
    x0, y0, z0 = -180 + mm / 2, -180 + mm / 2, float(rng.integers(-340, -180))

    def axial(volume: np.ndarray, first: float, gap: float, number: int, kernel: tuple[str, str], thickness: float):
        m = len(volume)
        order = [m - k if make.down else k + 1 for k in range(m)]
        spot = [[x0, y0, first + gap * k] for k in range(m)]
        tags = study | {
            "SeriesInstanceUID": uid(b), "SeriesNumber": number, "SeriesDescription": kernel[1],
            "ConvolutionKernel": kernel[0], "SliceThickness": thickness, "ImagePositionPatient": spot,
            "ImageOrientationPatient": [1, 0, 0, 0, 1, 0], "InstanceNumber": order, "PixelSpacing": [mm, mm],
            "ImageType": ["ORIGINAL", "PRIMARY", "AXIAL"], "SliceLocation": [p[2] for p in spot]}  # fmt: skip
        return _slices(b, volume, make, tags, [next(names) for _ in range(m)])

    others: list[tuple[str, str]] = []
    scout = np.clip(hu.mean(1)[::-1] * 1.6 + 500, -1000, 1500)
    tags = study | {"SeriesInstanceUID": uid(b), "SeriesNumber": 1,
                    "SeriesDescription": b.pick("Topogram 1.0", "Scout"), "InstanceNumber": 1,
                    "ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"]}  # fmt: skip
    others += [(p, "scout view") for p in _slices(b, scout[None].repeat(1, 0), make, tags, [next(names)])]
    numbers = [2, 3] if rng.random() < 0.5 else [3, 2]
    lung = axial(thin, z0, step, numbers[0], make.lung, 1.0)
    if with_soft:
        soft = axial(thick, z0 + step / 2, 2 * step, numbers[1], make.soft, 5.0)
        others += [(p, "reconstruction for soft tissue") for p in soft]
    if with_mpr:
        cut = np.stack([tall[:, y] for y in places])
        tags = study | {
            "SeriesInstanceUID": uid(b), "SeriesNumber": 601, "SeriesDescription": make.lung[1] + " cor",
            "ConvolutionKernel": make.lung[0], "PixelSpacing": [5.0, mm], "ImageType": ["DERIVED", "SECONDARY", "MPR"],
            "ImageOrientationPatient": [1, 0, 0, 0, 0, -1], "InstanceNumber": list(range(1, len(places) + 1)),
            "ImagePositionPatient": [[x0, y0 + mm * y, z0 + step * nz] for y in places]}  # fmt: skip
        cor = _slices(b, cut, make, tags, [next(names) for _ in places])
        others += [(p, "coronal view of the lung reconstruction") for p in cor]
    return lung, others


@family(
    "long_ct_met_ild_registratie", "diagnosis", 3,
    "Graag een model dat op de CT van de thorax onderscheid maakt tussen IPF, sarcoïdose en EAA.",
    notes="A folder holds all series of a study mixed, names in no order: scout, lung kernel in thin slices, soft "
    "kernel in thick ones and at times coronal views; the lung reconstruction is to be used (LEESMIJ), sorted by "
    "position, and each make names its kernels otherwise (B70f, LUNG, L) and stores other numbers (GE pads with "
    "-2000). The label comes by PatientID over the key workbook (ILD 2017/044) to the registry (ILD-2017-044). The "
    "registry has several rows a person: only 'definitief' counts, of two the later one; spelling varies. Persons "
    "without a definitive diagnosis, with one that is not asked for (niet-classificeerbaar) or without a line in "
    "the key are left out. Some persons have two scans, and some two pseudonyms from two hospitals, which the key "
    "shows to be one person: all scans of a person stay together.",
)  # fmt: skip
def lungs(b: Build) -> None:
    plan = ["IPF"] * 18 + ["sarcoïdose"] * 16 + ["EAA"] * 15 + ["other"] * 3 + ["pending"] * 3 + ["no key"] * 2
    b.rng.shuffle(plan)
    turn = {d: int(b.rng.integers(0, 3)) for d in DISEASES}
    registry: list[list[Any]] = []
    key: list[list[Any]] = []
    numbers = iter(int(v) for v in b.rng.permutation(90000)[:200] + 5000)
    entries = iter(int(v) for v in b.rng.permutation(140)[: len(plan)] + 3)
    for n, what in enumerate(plan):
        year, serial = int(b.rng.integers(2014, 2019)), next(entries)
        person, in_key = f"ILD-{year}-{serial:03d}", f"ILD {year}/{serial:03d}"
        known = what in DISEASES
        disease = what if known else b.pick(*DISEASES)
        house = turn[disease] = (turn[disease] + 1) % 3
        much = b.rng.uniform(0.75, 1.15)
        scans = 2 if n % 5 == 3 else 1
        moved = scans == 2 and n % 10 == 3
        make = SCANNERS[house]
        chest = Chest(b, make.matrix, int(b.rng.integers(26, 32)))
        pid = ""
        for k in range(scans):
            if k == 0 or moved:
                pid = f"PSN{next(numbers):06d}" if house != 2 else f"TZ-{next(numbers)}"
                if what != "no key":
                    key.append(
                        [in_key, pid, ("St. Maarten", "Westland", "Academisch")[house], b.pick("ja", "ja", "ja, cd")]
                    )
            lung, others = _study(b, chest, make, pid, year + k, disease, much * (1 + 0.1 * k))
            for path, why in others:
                _left(b, path, why)
            if known:
                b.case(lung, patient=person, label=what)
            else:
                why = {"other": "diagnosis not asked for", "pending": "no definitive diagnosis", "no key": "no key"}[
                    what
                ]
                for path in lung:
                    _left(b, path, why)
            if moved and k == 0:
                house = (house + 1) % 3
                make = SCANNERS[house]
                chest = Chest(b, make.matrix, int(b.rng.integers(26, 32)))
        if what != "no key":
            _register(b, registry, person, year, what, n)
    b.rng.shuffle(registry)
    b.rng.shuffle(key)
    header = [
        "registratienr",
        "geslacht",
        "geboortejaar",
        "MDO-datum",
        "status",
        "diagnose",
        "ICD10",
        "FVC %",
        "DLCO %",
    ]
    b.csv("registratie_ILD_export.csv", header, registry, sep=";", encoding="cp1252", end="\r\n")
    b.xlsx(
        "sleutel trialbureau.xlsx", {"sleutel": [["Registratie", "Pseudoniem CT", "Ziekenhuis", "CT ontvangen"], *key]}
    )
    b.text(
        "LEESMIJ.txt",
        "CT's ILD-registratie\r\n\r\n"
        "In elke map zit een onderzoek, zoals het van de cd kwam. De radiologen hebben alles op de\r\n"
        "longreconstructie (scherp kernel, dunne axiale coupes om de 10 mm) beoordeeld, die is er bij\r\n"
        "iedereen: gebruik alleen die.\r\n"
        "Alleen definitieve MDO-diagnoses gebruiken; is de diagnose later herzien, dan geldt de laatste.\r\n"
        "Van wie meer dan een CT heeft mogen alle CT's mee, de diagnose is dezelfde.\r\n",
        "cp1252",
    )


def _register(b: Build, rows: list[list[Any]], person: str, year: int, what: str, n: int) -> None:
    """The rows of a person: guesses first, then what was decided."""
    sex, born = b.pick("m", "v"), int(b.rng.integers(1938, 1982))
    others = [d for d in DISEASES if d != what]
    truth = "niet-classificeerbaar" if what == "other" else what
    steps = [("voorlopig", b.pick(*others, truth if what != "pending" else others[0]))]
    if what == "pending":
        steps += [("voorlopig", b.pick(*others))]
    else:
        steps = steps if b.rng.random() < 0.5 else []
        if n % 12 == 5:
            steps.append(("definitief", b.pick(*others)))
        steps.append(("definitief", truth))
    month, at = int(b.rng.integers(1, 4)), year
    for status, name in steps:
        date = f"{int(b.rng.integers(1, 29)):02d}-{month:02d}-{at}"
        month += int(b.rng.integers(2, 7))
        at, month = (at + 1, month - 12) if month > 12 else (at, month)
        code = DISEASES.get(name, "J84.9")
        rows.append([person, sex, born, date, status, b.pick(*SPELT[name]), code, int(b.rng.integers(48, 104)),
                     int(b.rng.integers(28, 86))])  # fmt: skip
