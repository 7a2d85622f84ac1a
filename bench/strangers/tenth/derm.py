"""Dermoscopy of skin lesions, followed over years and read by a panel of three."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.spatial import cKDTree

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "lesiones_de_tres_lectores": "Fotos de lesiones pigmentadas de nuestra consulta, muchas de la misma lesión en "
    "revisiones sucesivas, con la hoja en la que tres dermatólogos leyeron las fotos de dermatoscopio. Cuando no "
    "estaban de acuerdo lo discutieron en sesión y quedó apuntado.",
}

NAMES = {
    "NV": "nevus",
    "MM": "melanoma",
    "CBC": "carcinoma basocelular",
    "QS": "queratosis seborreica",
}
SAID = {  # how each of the three writes
    "A": {"NV": ("NV",), "MM": ("MM",), "CBC": ("CBC",), "QS": ("QS",)},
    "B": {
        "NV": ("nevus", "Nevus", "nevo"),
        "MM": ("melanoma", "Melanoma"),
        "CBC": ("c. basocelular", "basocelular"),
        "QS": ("q. seborreica", "Q seborreica"),
    },
    "C": {"NV": ("NEV",), "MM": ("MEL",), "CBC": ("BCC",), "QS": ("SK",)},
}
ALIKE = {"NV": "MM", "MM": "NV", "CBC": "QS", "QS": "MM"}
# rows and columns, dark rim of a contact lens, tint
LENSES = (
    ((192, 256), False, (1.0, 0.98, 0.97)),
    ((208, 208), True, (1.02, 0.97, 0.92)),
    ((180, 240), False, (0.96, 0.98, 1.04)),
)


def _branches(rng: Any, at: tuple[float, float], way: float, long: float, wide: float) -> list[tuple[float, ...]]:
    """A vessel that forks: (u, v, width) along it."""
    out, (u, v) = [], at
    for _ in range(int(long / 0.02)):
        way += rng.normal(0, 0.14)
        u, v = u + 0.02 * np.cos(way), v + 0.02 * np.sin(way)
        out.append((u, v, wide))
    if wide > 0.022:
        for turn in (-0.6, 0.65):
            out += _branches(rng, (u, v), way + turn + rng.normal(0, 0.15), long * rng.uniform(0.5, 0.8), wide * 0.72)
    return out


def _paint(skin: np.ndarray, colour: Any, much: np.ndarray) -> np.ndarray:
    return skin + (np.array(colour, float) - skin) * np.clip(much, 0, 1)[..., None]


def _lesion(seed: int, kind: str, skin: np.ndarray, u: np.ndarray, v: np.ndarray, fine: float) -> np.ndarray:
    """The skin with a lesion, whose own unit of length u and v are in; the same seed gives the same lesion."""
    g = np.random.default_rng(seed)

    def noise(smooth: float) -> np.ndarray:
        field = gaussian_filter(g.normal(0, 1, (160, 160)), smooth, mode="wrap")
        return map_coordinates(field / field.std(), [v * 40 + 80, u * 40 + 80], order=1, mode="wrap")

    def spots(n: int, out: float, small: float, big: float, flat: float = 1.0) -> np.ndarray:
        much = np.zeros(u.shape)
        for _ in range(n):
            r, t, s = out * np.sqrt(g.uniform(0, 1)), g.uniform(0, 2 * np.pi), g.uniform(small, big)
            lean, thin = g.uniform(0, np.pi), g.uniform(flat, 1.0)
            du, dv = u - r * np.cos(t), v - r * np.sin(t)
            a, c = du * np.cos(lean) + dv * np.sin(lean), -du * np.sin(lean) + dv * np.cos(lean)
            much = np.maximum(much, np.clip((1 - np.hypot(a, c / thin) / s) * s * fine + 0.5, 0, 1))
        return much

    turn, away = np.arctan2(v, u), np.hypot(u, v / g.uniform(0.75, 1.0))
    rough = {"NV": 0.025, "MM": 0.095, "CBC": 0.05, "QS": 0.03}[kind]
    rim = 1 + sum(g.normal(0, rough) * np.cos(m * turn + g.uniform(0, 6)) for m in (2, 3, 4, 5, 7))
    deep = away / rim  # 1 at the border
    soft = {"NV": 0.1, "MM": 0.035, "CBC": 0.16, "QS": 0.02}[kind]
    inside = 1 / (1 + np.exp((deep - 1) / soft))
    tint = g.uniform(0.88, 1.12)
    if kind == "NV":
        skin = _paint(skin, np.array((163, 108, 74)) * tint, inside * (0.72 + 0.06 * noise(6)))
        bend_u, bend_v, k = u + 0.05 * noise(7), v + 0.05 * noise(7), g.uniform(15, 21)
        ways = [np.cos(k * (bend_u * np.cos(t) + bend_v * np.sin(t))) for t in (0.2, 1.25, 2.3)]
        skin = _paint(skin, np.array((92, 55, 36)) * tint, inside * np.clip(sum(ways) * 0.5 - 0.1, 0, 0.75))
        return _paint(skin, np.array((95, 58, 40)) * tint, 0.45 * inside * np.exp(-((deep / 0.5) ** 2)))
    if kind == "MM":
        skin = _paint(skin, np.array((112, 68, 48)) * tint, inside * 0.9)
        t, r = g.uniform(0, 6.28), g.uniform(0.3, 0.5)
        for colour, far, wide, much in (
            ((40, 25, 25), 0.0, 0.5, 0.95), ((98, 112, 150), 2.2, 0.42, 0.9), ((190, 90, 85), 4.0, 0.32, 0.6),
            ((205, 180, 170), 3.1, 0.24, 0.6),
        ):  # fmt: skip
            at = t + far + g.normal(0, 0.3)
            near = np.hypot(u - r * np.cos(at), v - r * np.sin(at)) / wide + 0.25 * noise(6)
            skin = _paint(skin, np.array(colour) * tint, much * inside / (1 + np.exp((near - 1) / 0.12)))
        streaks = np.clip(np.cos(turn * g.integers(11, 17)) - 0.35, 0, 1) * np.exp(-(((deep - 1.0) / 0.09) ** 2))
        skin = _paint(skin, (50, 30, 28), streaks * (np.cos(turn - t) > 0.1))
        return _paint(skin, (30, 18, 20), spots(22, 0.85, 0.03, 0.075) * inside)
    if kind == "QS":
        ridges = np.abs(noise(3.2))
        skin = _paint(skin, np.array((158, 128, 98)) * tint, inside * 0.88)
        skin = _paint(skin, np.array((118, 90, 66)) * tint, inside * np.clip(0.7 - 1.6 * ridges, 0, 0.7))
        skin = _paint(skin, (62, 42, 34), spots(int(g.integers(9, 16)), 0.8, 0.035, 0.075, 0.6) * inside)
        return _paint(skin, (245, 232, 205), spots(int(g.integers(14, 24)), 0.82, 0.03, 0.06) * inside)
    skin = _paint(skin, np.array((226, 150, 148)) * tint, inside * (0.62 + 0.05 * noise(7)))
    tubes: dict[float, list[tuple[float, float]]] = {}
    for _ in range(int(g.integers(3, 5))):
        t = g.uniform(0, 6.28)
        start, way = (0.95 * np.cos(t), 0.95 * np.sin(t)), t + np.pi + g.normal(0, 0.4)
        for pu, pv, wide in _branches(g, start, way, 0.5, 0.042):
            tubes.setdefault(wide, []).append((pu, pv))
    vessel = np.zeros(u.shape)
    for wide, path in tubes.items():
        off = cKDTree(path).query(np.stack([u, v], -1), distance_upper_bound=0.15)[0]
        vessel = np.maximum(vessel, np.clip((wide - np.minimum(off, 1)) * fine + 0.5, 0, 1))
    skin = _paint(skin, (98, 108, 132), 0.85 * spots(int(g.integers(3, 6)), 0.7, 0.1, 0.2, 0.65) * inside)
    skin = _paint(skin, (185, 45, 50), 0.9 * vessel * (inside + 0.1))
    if g.random() < 0.4:
        skin = _paint(skin, (150, 85, 40), 0.85 * spots(1, 0.3, 0.14, 0.22, 0.7))
    return skin


def _photo(rng: Any, seed: int, kind: str, grow: float, lens: int, far: bool = False, blur: float = 0.6) -> np.ndarray:
    """A photograph, by the dermoscope or, `far`, by a camera from half a metre."""
    size, dark, tint = LENSES[lens] if not far else ((192, 256), False, (1.0, 1.0, 1.0))
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    tone = np.array((224.0, 178, 154)) * rng.uniform(0.82, 1.05) * (1, rng.uniform(0.96, 1.04), rng.uniform(0.95, 1.05))
    skin = np.broadcast_to(tone, (h, w, 3)).copy()
    skin *= 1 + 0.02 * gaussian_filter(rng.normal(0, 1, size), 9)[..., None] * 18
    skin *= 1 + 0.02 * gaussian_filter(rng.normal(0, 1, size), 1.5)[..., None] * 4
    scale = min(h, w) * grow * (rng.uniform(0.07, 0.1) if far else rng.uniform(0.28, 0.34))
    cy, cx = h * rng.uniform(0.45, 0.55), w * rng.uniform(0.45, 0.55)
    lean = rng.uniform(-0.5, 0.5)
    u = ((x - cx) * np.cos(lean) + (y - cy) * np.sin(lean)) / scale
    v = (-(x - cx) * np.sin(lean) + (y - cy) * np.cos(lean)) / scale
    out = _lesion(seed, kind, skin, u, v, scale)
    if far:
        for _ in range(int(rng.integers(2, 9))):  # other moles, and a paper ruler
            spot = draw.ball(size, (rng.uniform(0, h), rng.uniform(0, w)), rng.uniform(1.5, 4))
            out = _paint(out, (140, 95, 70), 0.7 * gaussian_filter(spot.astype(float), 0.8))
        top = int(rng.integers(150, 172))
        out[top : top + 14, 60:200] = 240
        out[top : top + 6, 60:200:7] = 40
    elif rng.random() < 0.45:  # hairs
        for _ in range(int(rng.integers(2, 9))):
            t, off, bend = rng.uniform(0, np.pi), rng.uniform(-0.4, 0.4) * h, rng.normal(0, 0.0018)
            along, across = (x - w / 2) * np.cos(t) + (y - h / 2) * np.sin(t), (y - h / 2) * np.cos(t)
            across = across - (x - w / 2) * np.sin(t) - off - bend * along**2
            out = _paint(out, (70, 50, 42), 0.75 * np.clip(1.3 - np.abs(across), 0, 1))
    light = 1 - 0.22 * ((x / w - rng.uniform(0.4, 0.6)) ** 2 + (y / h - rng.uniform(0.4, 0.6)) ** 2) * 2
    out = out * light[..., None] * tint
    if dark:
        out *= (1 / (1 + np.exp((np.hypot(y - h / 2, x - w / 2) - h * 0.485) / 1.5)))[..., None]
    return draw.u8(gaussian_filter(out, (blur, blur, 0)) + rng.normal(0, 3, out.shape))


def _panel(rng: Any, kind: str, quality: str) -> list[str]:
    """What the three wrote, the consensus and a remark."""
    other = ALIKE[kind]
    luck = rng.random()
    note = str(rng.choice(["", "", "", "control en 6 meses", "comentado con paciente", "pelo"]))
    if quality == "bad":
        said = [str(rng.choice([kind, other])), "", other]
        final, note = "no valorable", str(rng.choice(["desenfocada", "movida"]))
    elif quality == "open":
        said, final, note = (
            [kind, other, str(rng.choice([k for k in NAMES if k not in (kind, other)]))],
            "sin acuerdo",
            "",
        )
    elif luck < 0.68:
        said, final = [kind] * 3, ""
    else:
        said = [kind, other, other] if luck < 0.8 else [kind, kind, other]  # the many are not always right
        said = [said[int(i)] for i in rng.permutation(3)]
        if luck > 0.95:
            said[int(rng.integers(3))] = ""
        final = kind
    words = []
    for reader, code in zip("ABC", said, strict=True):
        ways = SAID[reader][code] if code else ("",)
        words.append(str(ways[int(rng.integers(len(ways)))]))
    return [*words, final, note]


@family(
    "lesiones_de_tres_lectores", "diagnosis", 2,
    "Necesito clasificar lesiones de piel a partir de la imagen dermatoscópica: nevus, melanoma, carcinoma basocelular "
    "o queratosis seborreica, según el consenso del panel.",
    notes="Three readers, each in his own words (the sheet Claves explains them); the column Consenso is filled only "
    "where they did not agree and then counts, sometimes with the minority; else what all three say counts. Readings "
    "belong to a photograph, not to a lesion: some nevi are melanomas at a later visit, and photographs nobody read "
    "have no label. The number of a photograph starts anew in each year's folder: folder and number are the key. "
    "Patients come from photo to lesion to record (historia) and have several lesions and visits. Clinical photographs "
    "(tipo C), byte copies named '(1)', and those 'no valorable' or 'sin acuerdo' are left out.",
)  # fmt: skip
def derm(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    histories = [int(v) for v in np.sort(rng.choice(80000, 66, replace=False)) + 110000]
    lesions: list[list[Any]] = []
    shots: list[dict[str, Any]] = []
    for history in histories:
        age, sex = int(rng.integers(24, 88)), b.pick("M", "V")
        for _ in range(int(rng.choice([1, 2, 3], p=(0.58, 0.3, 0.12)))):
            kind = str(rng.choice(list(NAMES), p=(0.34, 0.2, 0.23, 0.23)))
            code, seed = f"L{len(lesions) + 1:04d}", int(rng.integers(2**31))
            place = b.pick("espalda", "brazo", "pierna", "tórax", "abdomen", "cara", "cuello")
            lesions.append([code, history, age, sex, place])
            visits = int(rng.choice([1, 2, 3, 4], p=(0.4, 0.3, 0.2, 0.1) if kind in ("NV", "QS") else (0.7, 0.3, 0, 0)))
            turns = kind == "NV" and visits > 1 and rng.random() < 0.35
            day, grow = date(2016, 1, 11) + timedelta(days=int(rng.integers(0, 800))), rng.uniform(0.88, 1.05)
            for visit in range(visits):
                now = "MM" if turns and visit == visits - 1 else kind
                base = {"day": day, "lesion": code, "history": history, "seed": seed, "kind": now, "grow": grow}
                if rng.random() < 0.4:
                    shots.append({**base, "type": "C"})
                shots.append({**base, "type": "D"})
                day += timedelta(days=int(rng.integers(150, 420)))
                grow *= rng.uniform(1.0, 1.06) if now == "NV" else 1.04
    shots.sort(key=lambda s: (s["day"], s["lesion"], s["type"]))
    number = dict.fromkeys(range(2015, 2025), 0)
    table: list[list[Any]] = []
    readings: list[list[Any]] = []
    for shot in shots:
        year = shot["day"].year
        number[year] += int(rng.integers(1, 4))
        name = f"IMG_{number[year]:04d}"
        path = f"fotos/{year}/{name}.JPG"
        far = shot["type"] == "C"
        quality = "" if far else str(rng.choice(["", "bad", "open", "unread"], p=(0.86, 0.05, 0.04, 0.05)))
        pixels = _photo(
            rng, shot["seed"], shot["kind"], shot["grow"], int(rng.integers(3)), far, 4.5 if quality == "bad" else 0.6
        )
        b.picture(path, pixels, quality=90)
        table.append([year, name, shot["lesion"], f"{shot['day']:%d/%m/%Y}", shot["type"]])
        if rng.random() < 0.04:
            copy = f"fotos/{year}/{name} (1).JPG"
            b.raw(copy, b.at(path).read_bytes())
            why[copy] = "copy of a photograph"
        if far:
            why[path] = "clinical photograph, no dermoscopy"
            continue
        if quality == "unread":
            why[path] = "nobody read this photograph"
            continue
        readings.append([year, name, *_panel(rng, shot["kind"], quality)])
        if quality:
            why[path] = "the panel could not judge or not agree"
            continue
        b.case(path, patient=str(shot["history"]), label=NAMES[shot["kind"]], lesion=shot["lesion"])
    b.truth["left_out"] = sorted(why)
    order = [readings[int(i)] for i in rng.permutation(len(readings))]
    keys = [["Clave", "Diagnóstico", "Lectora A", "Lector B", "Lectora C"]]
    keys += [[k, n, *(", ".join(SAID[r][k]) for r in "ABC")] for k, n in NAMES.items()]
    b.xlsx(
        "panel/Lecturas panel (v3).xlsx",
        {
            "Lecturas": [
                ["Carpeta", "Foto", "Lectora A", "Lector B", "Lectora C", "Consenso", "Observaciones"],
                *[[c or None for c in row] for row in order],
            ],
            "Claves": keys,
        },
    )
    how = {"sep": ";", "encoding": "cp1252", "end": "\r\n"}
    b.csv("registro/fotos.csv", ["carpeta", "foto", "lesion", "fecha", "tipo"], table, **how)
    b.csv("registro/lesiones.csv", ["lesion", "historia", "edad", "sexo", "localizacion"], lesions, **how)
    b.text(
        "LEEME.txt",
        "Unidad de lesiones pigmentadas\r\n\r\n"
        "fotos\\<año>\\  la cámara empieza a contar de nuevo cada año\r\n"
        "registro\\    de qué lesión es cada foto (tipo D = dermatoscopio, C = clínica) y de quién es la lesión\r\n"
        "panel\\       lecturas a ciegas de cada foto de dermatoscopio por separado, sin ver las anteriores\r\n\r\n"
        "La columna Consenso se rellenó solo cuando los tres no coincidían: se decidió en sesión y eso vale.\r\n",
        "cp1252",
    )
    b.clutter("windows", under="fotos")
