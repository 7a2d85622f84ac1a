"""Retinal photographs of both eyes; two readers and a consensus in a workbook with headings in two rows."""

import datetime
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "netzhautfotos_mit_befundliste": "Fundusfotos aus unserer Diabetes-Sprechstunde 2020 und 2021, beide Augen, "
    "dazu die Liste mit den Befunden von zwei Gutachtern. Wie die Liste zu lesen ist, hat unsere Studienschwester "
    "kurz aufgeschrieben."
}
STAGES = ("keine DR", "milde NPDR", "mäßige NPDR", "schwere NPDR", "PDR")


def _left(b: Build, path: str, why: str) -> None:
    b.truth["left_out"].append(path)
    b.truth.setdefault("left_out_why", {})[path] = why


def _lines(size: tuple[int, int], paths: list[tuple[np.ndarray, float]]) -> np.ndarray:
    """Tapering lines as a soft mask; points (x, y), each path with its width at the start."""
    big = Image.new("L", (size[1] * 3, size[0] * 3))
    pen = ImageDraw.Draw(big)
    for points, wide in paths:
        n = len(points) - 1
        for i in range(n):
            w = max(wide * (1 - 0.65 * i / n) * 3, 2)
            (x0, y0), (x1, y1) = points[i] * 3, points[i + 1] * 3
            pen.line([(x0, y0), (x1, y1)], fill=255, width=round(w))
    small = big.resize((size[1], size[0]), Image.Resampling.BOX)
    return gaussian_filter(np.asarray(small, float) / 255, 0.5)


def _branches(rng: Any, start: np.ndarray, turn: float, bend: float, length: float, wide: float) -> list:
    """A vessel that bends, with side branches."""
    steps = 26
    points, heading, out = [start], turn, []
    for i in range(steps):
        heading += bend / steps + rng.normal(0, 0.07)
        points.append(points[-1] + length / steps * np.array((np.cos(heading), np.sin(heading))))
        if i > 4 and rng.random() < 0.17 and wide > 1.2:
            fork = rng.choice((-1, 1)) * rng.uniform(0.5, 0.9)
            out += _branches(rng, points[-1], heading + fork, -fork * 0.6, length * rng.uniform(0.3, 0.5), wide * 0.55)
    return [(np.array(points), wide), *out]


class Eye:
    """One eye of one patient: the same vessels at any visit. A right eye as drawn; a left one is mirrored."""

    def __init__(self, b: Build, right: bool) -> None:
        rng = b.rng
        self.right = right
        self.size = (232, 232)
        self.r = 104.0
        self.mid = np.array((116.0, 116.0))  # x, y
        self.disc = self.mid + np.array((0.52 * self.r, rng.uniform(-6, 6))) + rng.uniform(-4, 4, 2)
        self.cup = rng.uniform(0.3, 0.55)
        self.skin = rng.uniform(0.6, 1.15)
        self.hue = np.array((rng.uniform(178, 215), rng.uniform(84, 112), rng.uniform(34, 52)))
        self.choroid = gaussian_filter(rng.normal(0, 1, self.size), 7) * 0.8 + gaussian_filter(
            rng.normal(0, 1, self.size), 2
        )
        self.drusen = [rng.normal(0, 16, 2) for _ in range(int(rng.integers(4, 12)))] if rng.random() < 0.2 else []
        veins, arteries = [], []
        for sign in (-1, 1):
            for group, wide, spread in ((veins, 3.3, 0.0), (arteries, 2.2, 0.16)):
                up = -np.pi / 2 * sign - sign * (0.42 + spread + rng.uniform(-0.1, 0.1))
                group += _branches(rng, self.disc, up, -sign * rng.uniform(1.1, 1.4), self.r * 1.75, wide)
                out = -sign * rng.uniform(0.35, 0.9)
                group += _branches(rng, self.disc, out, sign * 0.2, self.r * 0.75, wide * 0.6)
        self.veins, self.arteries = _lines(self.size, veins), _lines(self.size, arteries)

    def spot(self, rng: Any, inner: float = 0.16, outer: float = 0.82) -> np.ndarray:
        """A place on the retina, away from the disc and from the middle of the macula."""
        while True:
            turn, far = rng.uniform(0, 2 * np.pi), np.sqrt(rng.uniform(inner**2, outer**2)) * self.r
            at = self.mid + far * np.array((np.cos(turn), np.sin(turn)))
            if np.hypot(*(at - self.disc)) > 0.24 * self.r:
                return at


def _blob(size: tuple[int, int], at: np.ndarray, ry: float, rx: float, soft: float = 0.6) -> np.ndarray:
    y, x = np.ogrid[: size[0], : size[1]]
    d = np.sqrt(((y - at[1]) / ry) ** 2 + ((x - at[0]) / rx) ** 2)
    return np.clip((1 - d) / soft * min(ry, rx) * 0.5 + 0.5, 0, 1) if soft else (d < 1).astype(float)


def _photo(b: Build, eye: Eye, grade: int, blur: float = 0.0) -> np.ndarray:
    """A photograph of 232 x 232, floats of 0 to 255, with the signs of the stage."""
    rng, size = b.rng, eye.size
    y, x = np.mgrid[: size[0], : size[1]].astype(float)
    away = np.hypot(x - eye.mid[0], y - eye.mid[1]) / eye.r
    out = eye.hue * (1 + 0.07 * eye.choroid[..., None] * (0.6, 1.3, 1.0))
    out = out * (1 - 0.28 * away**2)[..., None]
    macula = np.exp(-(((x - eye.mid[0]) / 19) ** 2) - ((y - eye.mid[1]) / 17) ** 2)
    out *= 1 - macula[..., None] * (0.26, 0.42, 0.4)

    def lay(mask: np.ndarray, colour: Any, strength: float = 1.0) -> None:
        nonlocal out
        soft = mask[..., None] * strength
        out = out * (1 - soft) + np.array(colour, float) * soft

    for d in eye.drusen:
        lay(_blob(size, eye.mid + d, 1.7, 1.9), (222, 158, 84), 0.5)
    if grade == 3 or (grade == 4 and rng.random() < 0.7):
        cotton = int(rng.integers(3, 7))
        for _ in range(cotton):
            lay(gaussian_filter(_blob(size, eye.spot(rng, 0.3, 0.7), rng.uniform(4, 6.5), rng.uniform(6, 9)), 1.4),
                (232, 205, 165), 0.85)  # fmt: skip
    lay(eye.veins, (112, 26, 22), 0.82)
    lay(eye.arteries, (150, 44, 30), 0.72)
    lay(_blob(size, eye.disc, 15.5, 14), (238, 186, 118), 0.95)
    lay(_blob(size, eye.disc, 15 * eye.cup, 14 * eye.cup), (250, 225, 180), 0.9)
    lay(eye.veins * _blob(size, eye.disc, 15, 14), (125, 36, 28), 0.7)
    red = (96, 12, 12)
    dots = {0: 0, 1: rng.integers(5, 9), 2: rng.integers(9, 15), 3: rng.integers(14, 24), 4: rng.integers(6, 18)}[grade]
    for _ in range(int(dots)):
        r = rng.uniform(1.7, 2.5)
        lay(_blob(size, eye.spot(rng), r, r), red, 0.9)
    blots = {2: rng.integers(4, 8), 3: rng.integers(18, 28), 4: rng.integers(5, 16)}.get(grade, 0)
    for _ in range(int(blots)):
        r = rng.uniform(2.8, 5.2)
        lay(_blob(size, eye.spot(rng), r, r * rng.uniform(0.8, 1.6)), red, 0.85)
    if grade == 2 or (grade > 2 and rng.random() < 0.6):  # hard exudates, in wreaths
        for _ in range(int(rng.integers(2, 4))):
            c, wide, first = eye.spot(rng, 0.2, 0.6), rng.uniform(6, 12), rng.uniform(0, 6)
            for turn in first + np.linspace(0, rng.uniform(3, 6), int(rng.integers(6, 12))):
                at = c + wide * np.array((np.cos(turn), np.sin(turn))) + rng.normal(0, 1.2, 2)
                r = rng.uniform(1.3, 2.6)
                lay(_blob(size, at, r, r * rng.uniform(0.8, 1.5)), (248, 222, 120), 0.95)
    if grade == 4:
        tufts = [eye.disc] if rng.random() < 0.6 else []
        tufts += [eye.spot(rng, 0.4, 0.65) for _ in range(int(rng.integers(1, 3)) + (not tufts))]
        for c in tufts:
            fans = []
            for turn in rng.uniform(0, 2 * np.pi, 13):
                fans += _branches(rng, c + rng.normal(0, 4, 2), turn, rng.choice((-1, 1)) * rng.uniform(2, 5),
                                  rng.uniform(22, 38), 1.3)  # fmt: skip
            lay(_lines(size, fans), (168, 22, 22), 0.95)
        if rng.random() < 0.65:  # blood before the retina: a boat with a level top
            at, r = eye.spot(rng, 0.45, 0.7), rng.uniform(15, 24)
            boat = _blob(size, at, r, r * 1.25) * (y > at[1] - r * 0.15)
            lay(boat, (92, 8, 10), 0.93)
    if not eye.right:
        out = out[:, ::-1]
    out = gaussian_filter(out, (0.5 + blur, 0.5 + blur, 0))
    if blur:
        out = out * 0.75 + 28
    out[away > 1] = (4, 3, 3)
    return out


def _camera(b: Build, out: np.ndarray, which: int) -> np.ndarray:
    """What the three cameras make of it; each has its size, its colours and its edge."""
    rng = b.rng
    if which == 0:  # Topcon: a notch at the edge
        out[36:52, 180:196] = 4
    elif which == 1:  # Canon: cut off above and below, 248 wide, redder
        out = np.pad(out[18:-18], ((0, 0), (8, 8), (0, 0)), constant_values=3) * (1.08, 0.92, 0.85)
    else:  # Zeiss: a smaller picture, more green
        image = Image.fromarray(draw.u8(out)).resize((208, 208), Image.Resampling.LANCZOS)
        out = np.asarray(image, float) * (0.84, 1.12, 1.05)
    out = out * rng.uniform(0.86, 1.1) + rng.normal(0, 3.5, out.shape)
    for _ in range(int(rng.integers(0, 3))):  # dust and glare
        at = rng.uniform(0.2, 0.8, 2) * out.shape[1]
        out += _blob(out.shape[:2], at, 6, 6, 6)[..., None] * rng.uniform(8, 18)
    return draw.u8(out)


def _cells(b: Build, grade: int | None) -> list[Any]:
    """The three cells of an eye: reader 1, reader 2, and the consensus where the two differ."""
    if grade is None:
        return ["n.b.", "n.b.", None]
    if b.rng.random() < 0.68:
        return [grade, grade, None]
    other = int(np.clip(grade + b.rng.choice((-1, 1)), 0, 4))
    other = other if other != grade else (1 if grade == 0 else 3)
    return [grade, other, grade] if b.rng.random() < 0.5 else [other, grade, grade]


def _visit(b: Build, number: int, day: datetime.date, eyes: dict[str, Eye | None], grades: dict[str, int | None]):
    """Writes the photographs of one visit; returns the cells of its row."""
    pid, camera = f"{number:06d}", int(b.rng.integers(0, 3))
    base = f"Fotos/{day.year}/{pid}/{day:%Y%m%d}"
    cells: list[Any] = []
    for side in ("OD", "OS"):
        eye, grade = eyes[side], grades[side]
        stem = f"{base}/{pid}_{day:%Y%m%d}_{side}"
        if eye is None:
            cells += ["Prothese", "Prothese", None]
            continue
        how = {"quality": 92, "subsampling": 0}
        again = b.rng.random() < 0.08 and grade is not None
        if again:
            bad = _camera(b, _photo(b, eye, grade, b.rng.uniform(4, 6)), camera)
            _left(b, b.picture(f"{stem}_col_1.jpg", bad, **how), "blurred, was photographed again")
        haze = b.rng.uniform(7, 9) if grade is None else 0.0
        pixels = _camera(b, _photo(b, eye, grade or 0, haze), camera)
        path = b.picture(f"{stem}_col_2.jpg" if again else f"{stem}_col_1.jpg", pixels, **how)
        if grade is None:
            _left(b, path, "cannot be judged by either reader")
        else:
            b.case(path, patient=pid, label=str(grade))
            if b.rng.random() < 0.3:
                free = draw.u8(pixels[..., 1].astype(float) * 1.5 + b.rng.normal(0, 2, pixels.shape[:2]))
                _left(b, b.picture(f"{stem}_rf_1.jpg", free, quality=90), "red-free photograph of the same eye")
        cells += _cells(b, grade)
    if b.rng.random() < 0.12:
        h, w = 160, 220
        front = np.full((h, w, 3), (196.0, 150, 130))
        front[draw.ball((h, w), (h / 2, w / 2), (h * 0.3, w * 0.42))] = (228, 222, 218)
        front[draw.ball((h, w), (h / 2, w / 2), h * 0.27)] = b.pick((92, 120, 150), (105, 70, 42), (70, 48, 34))
        front[draw.ball((h, w), (h / 2, w / 2), h * 0.11)] = (12, 10, 10)
        side = b.pick("OD", "OS")
        front = draw.u8(gaussian_filter(front, (1, 1, 0)) + b.rng.normal(0, 4, front.shape))
        path = b.picture(f"{base}/{pid}_{day:%Y%m%d}_{side}_vaa_1.jpg", front, quality=88)
        _left(b, path, "the front of the eye, no fundus")
    return cells


def _workbook(b: Build, rows: dict[int, list[list[Any]]]) -> None:
    top = ["", "", "", "", "", "Rechtes Auge", None, None, None, None, "Linkes Auge", None, None, None, None, ""]
    under = ["Pat.-Nr.", "Geb.-Jahr", "Untersuchung", "Diabetes Typ", "HbA1c %"]
    under += ["Visus", "IOD mmHg", "G1", "G2", "Konsens"] * 2 + ["Bemerkung"]
    sheets: dict[str, list[list[Any]]] = {}
    for year, found in rows.items():
        found.sort(key=lambda r: (r[2], r[0]))
        sheets[f"Befunde {year}"] = [
            [f"Diabetes-Sprechstunde {year} - Befundung Fundusfotos"],
            [],
            top,
            under,
            *found,
            [],
            [f"n = {len(found)} Untersuchungen, Stand 14.01.{year + 1}, Ki"],
        ]
    sheets["Legende"] = [
        ["Stadium", "Bedeutung"],
        *([n, s] for n, s in enumerate(STAGES)),
        ["n.b.", "nicht beurteilbar"],
    ]
    b.xlsx("Befundliste_Fundus_ENDSTAND.xlsx", sheets)


@family(
    "netzhautfotos_mit_befundliste", "diagnosis", 2,
    "Wir hätten gern ein Modell, das auf einem Fundusfoto das Stadium der diabetischen Retinopathie von 0 bis 4 "
    "angibt.",
    notes="One label for each eye and visit from a workbook with a sheet a year and headings in two rows, of which "
    "the upper says which eye (merged, so it stands only above the first of five columns): rechtes Auge is OD in "
    "the file names, linkes Auge is OS. Excel ate the leading zeros of the patient numbers and the day is a date "
    "there, 20210304 in the names. The stage is the consensus where it is filled in, else what both readers wrote "
    "alike; n.b. is not to be used, Prothese has no photograph. Only colour photographs count: red-free ones (rf) "
    "and the front of the eye (vaa) are not used, of two colour ones the last. Patients have two eyes and at times "
    "two visits, which must stay together. The five stages are ordered and unequal in number.",
)  # fmt: skip
def fundus(b: Build) -> None:
    numbers = sorted(int(v) for v in b.rng.permutation(9000)[:72] + 120)
    rows: dict[int, list[list[Any]]] = {2020: [], 2021: []}
    chances = (0.32, 0.2, 0.2, 0.14, 0.14)
    for n, number in enumerate(numbers):
        eyes: dict[str, Eye | None] = {"OD": Eye(b, True), "OS": Eye(b, False)}
        if n in (9, 40):
            eyes[b.pick("OD", "OS")] = None
        first = int(b.rng.choice(5, p=chances))
        second = int(np.clip(first + b.rng.choice((-1, 0, 1), p=(0.2, 0.6, 0.2)), 0, 4))
        now: dict[str, int | None] = {"OD": first, "OS": second}
        day = datetime.date(2020, 1, 7) + datetime.timedelta(int(b.rng.integers(0, 690)))
        born, kind = int(b.rng.integers(1938, 1996)), b.pick(1, 2, 2, 2)
        for _ in range(1 + (n % 5 == 2 and day.year == 2020)):
            seen = {s: None if b.rng.random() < 0.045 else g for s, g in now.items()}
            cells = _visit(b, number, day, eyes, seen)
            row: list[Any] = [number, born, day, kind, round(float(b.rng.uniform(5.8, 11.2)), 1)]
            for i in (0, 3):
                row += [round(float(b.rng.choice((0.1, 0.3, 0.5, 0.8, 1.0))), 1), int(b.rng.integers(10, 24))]
                row += cells[i : i + 3]
            note = b.pick("", "", "", "", "Katarakt", "Z.n. IVOM", "Termin in 6 Monaten", "Pupille eng")
            rows[day.year].append([*row, note])
            day += datetime.timedelta(int(b.rng.integers(200, 360)))
            day = min(day, datetime.date(2021, 12, 21))
            now = {s: min(4, g + int(b.rng.random() < 0.35)) for s, g in now.items() if g is not None}
    _workbook(b, rows)
    b.text(
        "Hinweise.txt",
        "Fundusfotos Diabetes-Sprechstunde\r\n\r\n"
        "- col = Farbfoto, rf = rotfrei, vaa = vorderer Augenabschnitt\r\n"
        "- Wurde ein Auge zweimal fotografiert, war das erste Bild unscharf; befundet wurde das letzte.\r\n"
        "- Gutachter G1 und G2 haben unabhängig befundet. Waren sie uneins, wurde gemeinsam entschieden (Konsens).\r\n"
        "- Bei n.b. bitte nicht verwenden.\r\n",
        "cp1252",
    )
    b.clutter("windows", under="Fotos")
