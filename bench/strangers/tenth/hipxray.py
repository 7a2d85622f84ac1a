"""Pelvic X-rays as a PACS exports them, with a Spanish table of findings, several of which may be there at once."""

from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import binary_erosion, gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "radiografias_de_pelvis": "Radiografías de pelvis de urgencias y de la consulta de traumatología, tal como "
    "salieron del PACS, y la hoja en la que los radiólogos marcaron los hallazgos. Los nombres y las historias se "
    "cambiaron por números y las notas de la hoja están en el LEEME."
}
FINDINGS = ("coxartrosis", "fractura de cuello femoral", "prótesis de cadera", "lesiones líticas")
SPACE = (200, 240)  # what is drawn in, before a vendor scales it


def _left(b: Build, path: str, why: str) -> None:
    b.truth["left_out"].append(path)
    b.truth.setdefault("left_out_why", {})[path] = why


def _poly(points: Any, size: tuple[int, int] = SPACE) -> np.ndarray:
    big = Image.new("L", (size[1] * 3, size[0] * 3))
    ImageDraw.Draw(big).polygon([(float(x) * 3, float(y) * 3) for x, y in points], fill=1)
    return np.asarray(big)[1::3, 1::3].astype(bool)


def _turned(points: Any, about: Any, angle: float) -> np.ndarray:
    p = np.array(points, float) - about
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([p[:, 0] * c - p[:, 1] * s, p[:, 0] * s + p[:, 1] * c], 1) + about


def _bone(out: np.ndarray, mask: np.ndarray, level: float, rim: float = 22, wide: int = 2) -> None:
    """Adds a bone with its brighter cortex."""
    out += level * mask
    out += rim * (mask & ~binary_erosion(mask, iterations=wide))


def _half(b: Build, signs: set[str], build: dict[str, float]) -> np.ndarray:
    """One half of a pelvis: the middle of the body at x = 0, 120 wide, the side of the body to the right."""
    rng, (h, w) = b.rng, (SPACE[0], SPACE[1] // 2)
    size = (h, w)
    s = build["scale"]
    hip = np.array((66.0 * s, 104.0)) + rng.uniform(-1.5, 1.5, 2)  # the middle of the femoral head
    r = 14.5 * s * build["head"]
    out = np.zeros(size)
    wing = [(9, 46), (14, 26), (34, 12), (62, 10), (88, 22), (97, 40), (90, 58), (84, 76), (84, 92), (72, 88), (58, 88),
            (47, 96), (40, 88), (36, 74), (22, 64)]  # fmt: skip
    wing = np.array(wing, float) * (s, 1) + rng.normal(0, 1.2, (15, 2))
    _bone(out, _poly(wing, size), 44, 20)
    hole = np.array([(8, 30), (30, 18), (44, 30), (30, 50), (15, 44)]) * (s, 1.0) + (26 * s, 4)
    out -= 14 * gaussian_filter(_poly(hole, size).astype(float), 4)  # the thin part of the wing
    ring = draw.ball(size, (126, 33 * s), (26, 27 * s)) & ~draw.ball(size, (128, 33 * s), (13, 14 * s))
    _bone(out, ring & (np.mgrid[:h, :w][1] > 2), 42, 16)
    cup = draw.ball(size, hip[::-1], r + 9) & ~draw.ball(size, hip[::-1], r + 3)
    y, x = np.mgrid[:h, :w].astype(float)
    upper = (y < hip[1] + 5) & (x < hip[0] + r * 0.8)
    _bone(out, cup & upper, 34, 10, 1)
    length = 30 * s
    axis = np.deg2rad(rng.uniform(34, 44))  # how steeply the neck goes down
    trochanter = hip + length * np.array((np.cos(axis), np.sin(axis)))
    lift, tilt = 0.0, 0.0
    worn, broken, metal = (
        ("coxartrosis" in signs),
        ("fractura de cuello femoral" in signs),
        ("prótesis de cadera" in signs),
    )
    if broken:
        lift, tilt = rng.uniform(10, 17), rng.uniform(-0.4, 0.1)
    along = trochanter - hip
    across = np.array((-along[1], along[0])) / np.hypot(*along)
    neck = [
        hip + across * r * 0.62,
        hip - across * r * 0.62,
        trochanter - across * r * 0.85,
        trochanter + across * r * 0.9,
    ]
    shaft = [(-11, -4), (2, -14), (10, -10), (12, 4), (7, 26), (6, 110), (-12, 110), (-12, 32), (-17, 22), (-15, 10)]
    shaft = np.array(shaft, float) * (s, 1) + trochanter
    if broken:
        cut = hip + along * rng.uniform(0.42, 0.6)
        push = np.array((5.0, -lift))
        inner = [neck[0], neck[1], cut - across * r * 0.7 + along * 0.04, cut + across * r * 0.7 - along * 0.06]
        outer = [cut + across * r * 0.75, cut - across * r * 0.72 + along * 0.1, neck[2], neck[3]]
        moved = _turned(outer, trochanter, tilt) + push
        shaft = shaft + push
        parts = [(_poly(inner, size), 40), (_poly(moved, size), 40)]
    else:
        parts = [(_poly(neck, size), 42)]
    ball = draw.ball(size, hip[::-1], r)
    if worn and not metal:
        flat = rng.uniform(0.78, 0.92)
        ball = draw.ball(size, (hip[1] - 2.5, hip[0]), (r * flat + 2, r * 1.08))
    femur = _poly(shaft, size)
    if metal:
        stem = [(-6, -12), (3, -16), (5, -4), (2, 50), (-3, 58), (-7, 46), (-8, 0)]
        stem_mask = _poly(np.array(stem, float) * (s, 1) + trochanter + (-2, 2), size)
        _bone(out, femur, 42, 26)
        arm = [hip + across * 4, hip - across * 4, trochanter - across * 6, trochanter + across * 8]
        steel = stem_mask | _poly(arm, size) | draw.ball(size, hip[::-1], r * rng.uniform(0.78, 0.95))
        shell = draw.ball(size, hip[::-1], r + 5) & ~draw.ball(size, hip[::-1], r + 1.5) & (y < hip[1] + x * 0.12)
        out[steel] = 205
        out[shell] = 195
    else:
        body = ball.copy()
        for mask, _ in parts:
            body |= mask
        if broken:
            _bone(out, ball | parts[0][0], 44, 22)
            _bone(out, parts[1][0] | femur, 44, 24)
            line = [cut + across * r * 0.95, cut - across * r * 0.95]
            for t in np.linspace(0, 1, 60):
                p = line[0] * (1 - t) + line[1] * t + rng.normal(0, 0.6, 2)
                gap = draw.ball(size, p[::-1], rng.uniform(1.9, 3.0))
                out[gap] = np.minimum(out[gap], 12)
        else:
            _bone(out, body | femur, 44, 24)
        gap = draw.ball(size, hip[::-1], r + 3.2) & ~draw.ball(size, hip[::-1], r + 0.4) & (y < hip[1] + 6)
        if worn:  # the space is gone, the bone beside it is dense and grows spurs and cysts
            dense = draw.ball(size, (hip[1] - r * 0.9, hip[0] + 2), (6, r * 0.95))
            out += 48 * gaussian_filter(dense.astype(float), 1.5)
            for at in (
                (hip[0] + r * 1.15, hip[1] - 3),
                (hip[0] - r * 0.5, hip[1] + r * 1.02),
                (hip[0] + r, hip[1] + 7),
            ):
                spur = draw.ball(size, (at[1], at[0]), rng.uniform(2.6, 5, 2))
                out += 52 * gaussian_filter(spur.astype(float), 0.8)
            for _ in range(int(rng.integers(1, 4))):
                cyst = draw.ball(
                    size, (hip[1] - rng.uniform(4, 12), hip[0] + rng.uniform(-7, 7)), rng.uniform(1.3, 2.4)
                )
                out -= 38 * gaussian_filter(cyst.astype(float), 0.6)
        else:
            out[gap] = np.minimum(out[gap], 24 + rng.uniform(-5, 5))
    return out


def _pelvis(b: Build, signs: list[str]) -> np.ndarray:
    """A film of the pelvis from 0 (air) to 255 (metal)."""
    rng, (h, w) = b.rng, SPACE
    build = {"scale": rng.uniform(0.92, 1.08), "head": rng.uniform(0.93, 1.07)}
    sides: list[set[str]] = [set(), set()]
    order = [s for s in FINDINGS[:3] if s in signs]
    rng.shuffle(order)
    for n, sign in enumerate(order[:2]):
        sides[n].add(sign)
    if len(order) == 1 and order[0] == "coxartrosis" and rng.random() < 0.5:
        sides[1].add("coxartrosis")
    if rng.random() < 0.5:
        sides.reverse()
    y, x = np.mgrid[:h, :w].astype(float)
    body = gaussian_filter((np.abs(x - w / 2) < w * rng.uniform(0.44, 0.5) - 0.0008 * (y - 90) ** 2).astype(float), 5)
    soft = 62 * body * (1 - 0.2 * np.abs(x - w / 2) / w) * (1 - 0.18 * y / h)
    soft -= 26 * gaussian_filter(((np.abs(x - w / 2) < 9 + 0 * y) & (y > 160)).astype(float), 5)  # between the thighs
    bones = np.hstack([_half(b, sides[0], build)[:, ::-1], _half(b, sides[1], build)])
    sacrum = _poly([(92, 20), (148, 20), (142, 52), (128, 86), (112, 86), (98, 52)])
    bones += 34 * sacrum
    for level in (34, 48, 61):
        for side in (-1, 1):
            bones[draw.ball(SPACE, (level, w / 2 + side * 11), (2.2, 3))] -= 16
    spine = (np.abs(x - w / 2) < 21) & (y < 21)
    bones += 40 * spine * (1 - 0.5 * (np.abs(y - 19) < 1.5))
    bones[draw.ball(SPACE, (122, w / 2), (12, 2.2))] -= 26  # the joint of the pubic bones
    if "lesiones líticas" in signs:
        hard = gaussian_filter(bones, 2) > 34
        spots = np.argwhere(hard & (bones < 150) & (y > 14) & (y < 175))
        for _ in range(int(rng.integers(10, 17))):
            at, r = spots[int(rng.integers(len(spots)))], rng.uniform(3.5, 7)
            ragged = np.zeros(SPACE, bool)
            for _ in range(5):
                ragged |= draw.ball(SPACE, at + rng.normal(0, r * 0.35, 2), rng.uniform(0.5, 0.95, 2) * r)
            bones -= np.clip(bones + 8, 0, 95) * 1.05 * gaussian_filter(ragged.astype(float), 0.7) * (bones < 150)
    gas = gaussian_filter(rng.normal(0, 1, SPACE), 10)
    soft -= 17 * np.clip(gas / gas.std() - 0.9, 0, 1.5) * (y < 95)
    trabeculae = gaussian_filter(rng.normal(0, 1, SPACE), 1.1) * 12 * np.clip(bones / 60, 0, 1)
    out = soft + bones * rng.uniform(0.95, 1.15) + trabeculae
    return np.clip(gaussian_filter(out, 0.8), 0, 255)


def _knee(b: Build) -> np.ndarray:
    h, w = SPACE
    out = np.zeros(SPACE)
    x = np.mgrid[:h, :w][1]
    out += 55 * gaussian_filter((np.abs(x - w / 2) < 62).astype(float), 6)
    _bone(out, _poly([(98, 0), (142, 0), (146, 60), (166, 92), (74, 92), (94, 60)]), 55)
    _bone(out, _poly([(76, 99), (164, 99), (146, 132), (138, 200), (104, 200), (96, 132)]), 55)
    _bone(out, draw.ball(SPACE, (74, w / 2), (18, 16)), 18)
    return np.clip(gaussian_filter(out + b.rng.normal(0, 3, SPACE), 0.8), 0, 255)


def _file(b: Build, path: str, film: np.ndarray, vendor: int, tags: dict[str, Any], raw: bool = False) -> str:
    """Writes a film as one of three machines does."""
    rng = b.rng
    size = ((213, 256), (200, 240), (192, 216))[vendor]
    image = Image.fromarray(film.astype(np.float32)).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    out = np.asarray(image, float) / 255
    out = np.clip(out * rng.uniform(0.88, 1.05) + rng.uniform(0, 0.04) + rng.normal(0, 0.016, size), 0, 1)
    edge = rng.integers(0, 9, 4)  # where the collimator ends
    shut = np.ones(size, bool)
    shut[edge[0] : size[0] - edge[1], edge[2] : size[1] - edge[3]] = False
    out[shut] = 0
    more: dict[str, Any] = dict(tags)
    if vendor == 0:  # Fuji CR: 10 bits, bone dark
        pixels, modality = np.round((1 - out) * 1023), "CR"
        more |= {"PhotometricInterpretation": "MONOCHROME1", "BitsStored": 10, "HighBit": 9, "WindowCenter": 511,
                 "WindowWidth": 1023,
                 "Manufacturer": "FUJIFILM Corporation", "ImagerPixelSpacing": [1.6, 1.6]}  # fmt: skip
    elif vendor == 1:  # Siemens DX: 12 bits; what is meant for processing is flat and dark where X-rays got through
        levels = 3300 - 1500 * out**0.7 if raw else 180 + out**0.85 * 3300
        pixels, modality = np.round(levels), "DX"
        more |= {"BitsStored": 12, "HighBit": 11, "Manufacturer": "SIEMENS", "ImagerPixelSpacing": [1.7, 1.7],
                 "PresentationIntentType": "FOR PROCESSING" if raw else "FOR PRESENTATION"}  # fmt: skip
        if raw:
            more["PixelIntensityRelationship"] = "LIN"
        else:
            more |= {"WindowCenter": 1800, "WindowWidth": 3400}
    else:  # Philips DX: 15 bits
        pixels, modality = np.round(600 + out * 24000), "DX"
        more |= {"BitsStored": 15, "HighBit": 14, "Manufacturer": "Philips Medical Systems", "WindowCenter": 13000,
                 "WindowWidth": 24500, "ImagerPixelSpacing": [1.9, 1.9],
                 "PresentationIntentType": "FOR PRESENTATION"}  # fmt: skip
    return dicom(b, path, pixels.astype(np.uint16), modality, **more)


def _signs(b: Build) -> list[str]:
    """None in a fifth, else one to three findings."""
    if b.rng.random() < 0.2:
        return []
    while True:
        out = [f for f, p in zip(FINDINGS, (0.38, 0.42, 0.3, 0.42), strict=True) if b.rng.random() < p]
        if out and len([f for f in out if f != FINDINGS[3]]) <= 2:
            return out


@family(
    "radiografias_de_pelvis", "diagnosis", 2,
    "Necesito un modelo que diga qué hallazgos hay en una radiografía de pelvis: coxartrosis, fractura de cuello "
    "femoral, prótesis de cadera y lesiones líticas; pueden coincidir varios o no haber ninguno.",
    notes="The files have no suffix and their folders say nothing: a table in Latin-1 with semicolons belongs to "
    "them by the accession number (Nº petición), which Excel wrote without leading zeros. A finding is there where "
    "its column has an X; an empty row with Estado 'Definitivo' is a pelvis without findings, one with 'Pendiente' "
    "has not been read and is left out. Studies reported twice have two rows, of which the higher version counts. "
    "Under the accession number there are at times a film of the knee, and Siemens films FOR PROCESSING beside the "
    "one for presentation, that are not to be used. Fuji films are MONOCHROME1, bits and sizes differ by vendor. "
    "Patients came back, at times with other findings (a fracture, later a prosthesis): their films must stay "
    "together by PatientID.",
)  # fmt: skip
def pelvis(b: Build) -> None:
    rows: list[list[Any]] = []
    seen: dict[str, int] = {}
    head = ["Nº petición", "NHC", "Fecha", "Procedencia", "Coxartrosis", "Fx cuello femoral", "Prótesis cadera",
            "Les. líticas", "Versión", "Estado", "Observaciones"]  # fmt: skip
    numbers = [int(v) for v in b.rng.permutation(80000)[:200] + 10000]
    people = [int(v) for v in b.rng.permutation(880000)[:90] + 100000]
    for n, person in enumerate(people):
        visits = [_signs(b)]
        if n % 3 == 0:
            later = [f for f in visits[0] if f != FINDINGS[1]]
            if FINDINGS[1] in visits[0] and FINDINGS[2] not in later:
                later.append(FINDINGS[2])
            visits.append(later)
        year, sex = int(b.rng.integers(2015, 2020)), b.pick("M", "F", "F")
        for k, signs in enumerate(visits):
            number = numbers.pop()
            _study(b, rows, f"A{person}", number, f"{year + k}", signs, sex, n, seen)
    b.rng.shuffle(rows)
    b.csv("Hallazgos pelvis v7.csv", head, rows, sep=";", encoding="latin-1", end="\r\n")
    b.text(
        "LEEME.txt",
        "Exportación PACS - radiología de urgencias y traumatología\r\n\r\n"
        "Hallazgos: X = presente, vacío = ausente. No se distingue el lado.\r\n"
        "Los estudios 'Pendiente' todavía no los ha leído nadie.\r\n"
        "Si un estudio se informó de nuevo, vale la última versión.\r\n",
        "latin-1",
    )
    b.raw("DICOM/LOCKFILE", b"")


def _study(
    b: Build, rows: list, pid: str, number: int, year: str, signs: list[str], sex: str, n: int, seen: dict[str, int]
) -> None:
    day = f"{year}{int(b.rng.integers(1, 13)):02d}{int(b.rng.integers(1, 29)):02d}"
    main = FINDINGS[1] if FINDINGS[1] in signs else (signs or [""])[-1]
    vendor = seen[main] = (seen.get(main, int(b.rng.integers(0, 3))) + 1) % 3
    pending = b.rng.random() < 0.09
    base = f"DICOM/{b.rng.bytes(4).hex().upper()}/{b.rng.bytes(4).hex().upper()}"
    tags = {"PatientID": pid, "PatientName": pid, "PatientSex": sex, "AccessionNumber": f"{number:08d}",
            "StudyDate": day, "StudyInstanceUID": uid(b),
            "SpecificCharacterSet": "ISO_IR 100", "BurnedInAnnotation": "NO"}  # fmt: skip

    def name() -> str:
        return f"{base}/{b.rng.bytes(4).hex().upper()}"

    front = {"BodyPartExamined": "PELVIS", "SeriesDescription": "PELVIS AP", "ViewPosition": "AP"}
    front |= tags | {"SeriesInstanceUID": uid(b), "SeriesNumber": 1, "InstanceNumber": 1}
    film = _pelvis(b, signs)
    path = _file(b, name(), film, vendor, front)
    if pending:
        _left(b, path, "not read yet")
    else:
        b.case(path, patient=pid, label=[f for f in FINDINGS if f in signs])
    if vendor == 1 and b.rng.random() < 0.3:
        again = front | {"SeriesInstanceUID": uid(b), "SeriesNumber": 2}
        _left(b, _file(b, name(), film, vendor, again, True), "meant for processing, the same film is there to be read")
    if b.rng.random() < 0.13:
        knee = {"BodyPartExamined": "KNEE", "SeriesDescription": "RODILLA AP", "ViewPosition": "AP"}
        knee |= tags | {"SeriesInstanceUID": uid(b), "SeriesNumber": 3, "InstanceNumber": 1}
        _left(b, _file(b, name(), _knee(b), vendor, knee), "a knee")
    date = f"{day[6:]}/{day[4:6]}/{day[:4]}"
    source = b.pick("URG", "COT", "C.EXT")

    def row(found: list[str] | None, version: int, state: str, note: str) -> list[Any]:
        marks = ["X" if found and f in found else "" for f in FINDINGS]
        return [number, pid, date, source, *marks, version, state, note]

    if pending:
        rows.append(row(None, 1, "Pendiente", ""))
        return
    version = 1
    if n % 11 == 4:  # first reported too little or too much
        other = signs[:-1] if signs else [FINDINGS[0]]
        rows.append(row(other, 1, "Definitivo", ""))
        version = 2
    note = b.pick("", "", "", "", "rotada", "pañal", "portátil", "comparar con previa")
    rows.append(row(signs, version, "Definitivo", note if version == 1 else "addenda"))
