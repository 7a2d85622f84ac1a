"""Tiles of colon slides: two scanners that name classes and slides differently, the patient in the barcode only."""

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "colon_tiles_of_two_scanners": "Small tiles cut from H&E slides of colon resections, sorted by our "
    "pathologists into kinds of tissue. Most come from the old slide scanner, the rest from the one we bought in "
    "2020; how our slides are numbered stands in the README."
}
CLASSES = {
    "TUM": "adenocarcinoma epithelium",
    "NORM": "normal mucosa",
    "STR": "cancer-associated stroma",
    "LYM": "lymphocytes",
    "MUC": "mucus",
    "ADI": "adipose tissue",
}
SIZE = 160


def _left(b: Build, path: str, why: str) -> None:
    b.truth["left_out"].append(path)
    b.truth.setdefault("left_out_why", {})[path] = why


class Tile:
    """A tile in optical density: two layers, haematoxylin (blue) and eosin (pink). `zoom` scales what is drawn."""

    def __init__(self, b: Build, zoom: float) -> None:
        self.rng, self.zoom, self.shape = b.rng, zoom, (SIZE, SIZE)
        self.blue, self.pink = np.zeros(self.shape), np.zeros(self.shape)
        self.y, self.x = np.mgrid[:SIZE, :SIZE].astype(float)

    def rough(self, scale: float) -> np.ndarray:
        out = gaussian_filter(self.rng.normal(0, 1, self.shape), scale * self.zoom, mode="wrap")
        return out / out.std()

    def oval(self, at: Any, ry: float, rx: float, turn: float) -> np.ndarray:
        """How far the pixels are from the middle of an oval, below 1 inside."""
        dy, dx = self.y - at[0], self.x - at[1]
        u, v = dx * np.cos(turn) + dy * np.sin(turn), -dx * np.sin(turn) + dy * np.cos(turn)
        return np.hypot(u / rx, v / ry)

    def nucleus(self, at: Any, ry: float, rx: float, turn: float, dark: float) -> None:
        r = int(max(ry, rx) * self.zoom + 4)
        y0, x0 = max(int(at[0]) - r, 0), max(int(at[1]) - r, 0)
        y1, x1 = min(int(at[0]) + r, SIZE), min(int(at[1]) + r, SIZE)
        if y0 >= y1 or x0 >= x1:
            return
        dy, dx = self.y[y0:y1, x0:x1] - at[0], self.x[y0:y1, x0:x1] - at[1]
        u, v = dx * np.cos(turn) + dy * np.sin(turn), -dx * np.sin(turn) + dy * np.cos(turn)
        inside = np.clip((1.15 - np.hypot(u / (rx * self.zoom), v / (ry * self.zoom))) * 4, 0, 1)
        part = self.blue[y0:y1, x0:x1]
        part[:] = np.maximum(part, inside * dark)
        self.pink[y0:y1, x0:x1] *= 1 - 0.5 * inside

    def places(self, gap: float, jitter: float = 0.35) -> list[tuple[float, float]]:
        """A loose grid of places, a little over the edge as well."""
        step = gap * self.zoom
        first = self.rng.uniform(-step, 0, 2)
        out = []
        for i, y in enumerate(np.arange(first[0], SIZE + step, step * 0.87)):
            for x in np.arange(first[1] + (i % 2) * step / 2, SIZE + step, step):
                out.append((y + self.rng.normal(0, jitter) * step * 0.5, x + self.rng.normal(0, jitter) * step * 0.5))
        return out

    def fibres(self, strength: float = 0.34) -> None:
        turn = self.rng.uniform(0, np.pi)
        wave = self.rough(11) * 2.4 + (self.x * np.cos(turn) + self.y * np.sin(turn)) / self.zoom * 0.62
        self.pink += strength * (0.75 + 0.35 * np.sin(wave) + 0.16 * self.rough(1.2))
        gap = np.clip((np.sin(wave * 0.5 + 1) - 0.93) * 9, 0, 1)
        self.pink *= 1 - 0.7 * gap
        self.turn = turn + np.pi / 2

    def sprinkle(self, gap: float, ry: float, rx: float, dark: float, keep: float = 1.0) -> None:
        for at in self.places(gap):
            if self.rng.random() < keep:
                grow = self.rng.uniform(0.8, 1.2)
                self.nucleus(at, ry * grow, rx * grow, self.rng.uniform(0, np.pi), dark * self.rng.uniform(0.8, 1.15))


def _tum(t: Tile) -> None:
    """Crowded crooked glands with holes; large, long, uneven nuclei."""
    rng = t.rng
    t.fibres(0.26)
    field = t.rough(7.5)
    gland = np.clip((field + 0.75) * 5, 0, 1)
    hole = np.clip((field - 1.0) * 5, 0, 1)
    t.pink = t.pink * (1 - gland) + gland * (0.36 + 0.05 * t.rough(1.5))
    t.blue += 0.16 * gland
    t.pink *= 1 - 0.9 * hole
    t.blue *= 1 - 0.9 * hole
    gy, gx = np.gradient(gaussian_filter(field, 2))
    for at in t.places(7.6, 0.5):
        y, x = int(np.clip(at[0], 0, SIZE - 1)), int(np.clip(at[1], 0, SIZE - 1))
        if -0.7 < field[y, x] < 0.95 and rng.random() < 0.93:
            turn = np.arctan2(gy[y, x], gx[y, x]) + rng.normal(0, 0.35)
            t.nucleus(at, rng.uniform(2.0, 3.1), rng.uniform(3.4, 5.6), turn, rng.uniform(0.6, 1.05))


def _norm(t: Tile) -> None:
    """Round crypts in rows with pale goblet cells, and small nuclei at their rims."""
    rng = t.rng
    t.fibres(0.24)
    t.sprinkle(11, 1.5, 1.7, 0.75, 0.55)
    for at in t.places(46, 0.16):
        r = rng.uniform(18, 21) * t.zoom
        squeeze, turn = rng.uniform(0.85, 1.0), rng.uniform(0, np.pi)
        d = t.oval(at, r * squeeze, r, turn)
        ring = np.clip((1 - d) * 6, 0, 1)
        t.pink = t.pink * (1 - ring) + ring * 0.22
        t.blue = t.blue * (1 - ring) + ring * 0.1
        hole = np.clip((0.22 - d) * 8, 0, 1)
        t.pink *= 1 - hole
        cells = int(rng.integers(13, 17))
        for k in range(cells):
            a = 2 * np.pi * k / cells + rng.normal(0, 0.06)
            for far, kind in ((0.62, "goblet"), (0.9, "nucleus")):
                u, v = r * far * np.cos(a), r * squeeze * far * np.sin(a)
                c = (at[0] + u * np.sin(turn) + v * np.cos(turn), at[1] + u * np.cos(turn) - v * np.sin(turn))
                if kind == "nucleus":
                    t.nucleus(c, 1.7, 2.5, a + turn, rng.uniform(0.7, 0.9))
                elif k % 2:
                    drop = np.clip((1 - t.oval(c, 3.4 * t.zoom, 4.6 * t.zoom, a + turn)) * 4, 0, 1)
                    t.pink *= 1 - 0.85 * drop
                    t.blue = t.blue * (1 - drop) + 0.1 * drop


def _str(t: Tile) -> None:
    """Wavy fibres with few thin nuclei along them."""
    rng = t.rng
    t.fibres(0.46)
    for at in t.places(21, 0.6):
        if rng.random() < 0.75:
            t.nucleus(
                at, rng.uniform(0.9, 1.4), rng.uniform(4, 6.5), t.turn + rng.normal(0, 0.3), rng.uniform(0.6, 0.9)
            )


def _lym(t: Tile) -> None:
    """Small, round, dark nuclei shoulder to shoulder."""
    t.pink += 0.2 + 0.04 * t.rough(2)
    t.blue += 0.08
    t.sprinkle(6.3, 2.1, 2.2, 0.95, 0.88)


def _muc(t: Tile) -> None:
    """Pale lakes with streaks, and few cells afloat."""
    rng = t.rng
    turn = rng.uniform(0, np.pi)
    wave = t.rough(9) * 2.6 + (t.x * np.cos(turn) + t.y * np.sin(turn)) / t.zoom * 0.16
    t.blue += 0.13 + 0.11 * np.clip(np.sin(wave), 0, 1) ** 2 + 0.02 * t.rough(1.5)
    t.pink += 0.06 + 0.05 * np.clip(np.sin(wave + 1), 0, 1)
    for at in t.places(52, 0.8):
        if rng.random() < 0.5:
            for _ in range(int(rng.integers(1, 6))):
                t.nucleus(np.array(at) + rng.normal(0, 5, 2) * t.zoom, 2, 2.6, rng.uniform(0, 3), rng.uniform(0.5, 0.8))


def _adi(t: Tile) -> None:
    """Large empty cells with thin walls."""
    rng = t.rng
    places = np.array(t.places(40, 0.45))
    d = np.sort(np.hypot(t.y[..., None] - places[:, 0], t.x[..., None] - places[:, 1]), axis=-1)
    wall = np.exp(-(((d[..., 1] - d[..., 0]) / (2.4 * t.zoom)) ** 2))
    t.pink += 0.38 * wall
    t.blue += 0.06 * wall
    for at in places:
        if rng.random() < 0.5:
            y, x = int(at[0] + rng.normal(0, 20)), int(at[1] + rng.normal(0, 20))
            if 0 <= y < SIZE and 0 <= x < SIZE and wall[y, x] > 0.5:
                t.nucleus((y, x), 1.2, 3, rng.uniform(0, 3), 0.7)


PAINTERS = {"TUM": _tum, "NORM": _norm, "STR": _str, "LYM": _lym, "MUC": _muc, "ADI": _adi}


def _tile(b: Build, kind: str, stain: np.ndarray, second: bool, blur: float = 0.0) -> np.ndarray:
    """`stain`: how strong blue and pink are in this slide. The second scanner sees twice as much detail, and cooler."""
    t = Tile(b, 1.9 if second else 1.0)
    PAINTERS[kind](t)
    blue, pink = np.clip(t.blue, 0, 1.3) * stain[0], np.clip(t.pink, 0, 1.0) * stain[1]
    density = blue[..., None] * (0.98, 1.12, 0.42) + pink[..., None] * (0.16, 0.92, 0.46)
    density = gaussian_filter(density, (0.6 + blur, 0.6 + blur, 0))
    white = np.array((234.0, 238, 249)) if second else np.array((246.0, 241, 240))
    gamma = 1.1 if second else 0.95
    return draw.u8(white * np.exp(-density * gamma) + b.rng.normal(0, 2.5 if second else 3.5, density.shape))


@family(
    "colon_tiles_of_two_scanners", "diagnosis", 2,
    "Tell for each tile of our H&E colon slides which kind of tissue it shows, and it has to work for patients we "
    "have not seen.",
    notes="Six classes. Tiles of the first scanner lie in folders by class code; those of the second lie in one "
    "folder and have their class in words in a table with semicolons, so words and codes must be brought together "
    "(classes.txt). The patient is in the barcode of the slide only: centre and person (C1-0731 and C2-0731 are "
    "two people), not the slide, the year or the block; the second scanner writes the barcode without dashes, and "
    "many patients were scanned on both, so tiles of a patient must stay together over both scanners. The second "
    "scanner has twice the magnification, cooler colours and JPEG. Tiles named in the list of withdrawn ones, "
    "tiles without tissue (BACK) and pictures of whole slides are not to be used.",
)  # fmt: skip
def tiles(b: Build) -> None:
    shared = [int(v) for v in b.rng.permutation(880)[:6] + 100]
    persons = [("C1", p) for p in shared] + [("C2", p) for p in shared]
    more = [int(v) for v in b.rng.permutation(8000)[:34] + 1000]
    persons += [(b.pick("C1", "C2", "C3"), p) for p in more]
    withdrawn: list[str] = []
    table: list[list[Any]] = []
    for n, (centre, person) in enumerate(persons):
        pid = f"{centre}-{person:04d}"
        stain = b.rng.uniform((0.85, 0.8), (1.25, 1.3))
        year = int(b.rng.integers(14, 20))
        for k in range(2 if n % 4 == 1 else 1):
            block, cut = int(b.rng.integers(1, 12)), int(b.rng.integers(1, 4))
            code = f"{pid}-{year + k}-B{block:02d}-HE{cut}"
            stain = stain * b.rng.uniform(0.92, 1.08, 2)
            first, second = n % 3 != 2, n % 3 == 2 or n % 5 in (0, 3)
            if first:
                _first(b, code, pid, stain, withdrawn)
            if second:
                _second(b, code, pid, stain, withdrawn, table)
    b.rng.shuffle(table)
    b.csv(
        "scanner_2/annotations_export.csv", ["tile", "tissue", "annotator", "magnification"], table, sep=";", end="\r\n"
    )
    b.text("withdrawn_tiles.txt", "# out of focus or folded, do not use (MvL, 3 May)\n" + "\n".join(withdrawn) + "\n")
    b.text("classes.txt", "".join(f"{k:6s}{v}\n" for k, v in CLASSES.items()) + "BACK  no tissue\n")
    b.text(
        "README.md",
        "# Colon tiles\n\n"
        "H&E, 160 x 160 pixels, each tile judged by a pathologist. BACK tiles were cut to check the lamps and are no\n"
        "class of interest.\n\n"
        "| | scanner_1 | scanner_2 |\n|---|---|---|\n| since | 2014 | 2020 |\n| tiles at | 0.5 um/px | 0.25 um/px |\n\n"
        "Barcodes: `C2-0731-19-B04-HE2` is centre C2, person 0731 of that centre (every centre counts its own), year\n"
        "19, block B04, second H&E section. The new scanner drops the dashes. Old slides were scanned again there.\n",
    )


def _first(b: Build, code: str, pid: str, stain: np.ndarray, withdrawn: list[str]) -> None:
    kinds = [k for k in PAINTERS if b.rng.random() < 0.52] or ["STR"]
    for kind in kinds:
        for _ in range(int(b.rng.integers(1, 4))):
            x, y = (int(v) * 160 for v in b.rng.integers(20, 400, 2))
            name = f"{code} [x={x},y={y},w=160,h=160].png"
            path = f"scanner_1/{kind}/{name}"
            if b.rng.random() < 0.04:
                b.picture(path, _tile(b, kind, stain, False, b.rng.uniform(4, 6)))
                withdrawn.append(name)
                _left(b, path, "withdrawn: out of focus")
            else:
                b.case(b.picture(path, _tile(b, kind, stain, False)), patient=pid, label=kind)
    if b.rng.random() < 0.3:
        x, y = (int(v) * 160 for v in b.rng.integers(0, 20, 2))
        blank = np.full((SIZE, SIZE, 3), (246.0, 242, 241)) + b.rng.normal(0, 3, (SIZE, SIZE, 3))
        path = b.picture(f"scanner_1/BACK/{code} [x={x},y={y},w=160,h=160].png", draw.u8(blank))
        _left(b, path, "no tissue, no class of interest")
    if b.rng.random() < 0.4:
        whole = np.full((90, 200, 3), (244.0, 240, 240))
        for _ in range(3):
            c, r = b.rng.uniform((25, 40), (65, 160)), b.rng.uniform(14, 30, 2)
            whole[draw.ball((90, 200), c, r)] = np.array((214.0, 150, 190)) * b.rng.uniform(0.85, 1.05)
        whole = gaussian_filter(whole, (1, 1, 0)) + b.rng.normal(0, 5, whole.shape)
        _left(b, b.picture(f"scanner_1/overview/{code}.jpg", draw.u8(whole), quality=85), "the whole slide, no tile")


def _second(b: Build, code: str, pid: str, stain: np.ndarray, withdrawn: list[str], table: list[list[Any]]) -> None:
    short = code.replace("-", "")
    kinds = [k for k in PAINTERS if b.rng.random() < 0.52] or ["TUM"]
    for kind in kinds:
        for _ in range(int(b.rng.integers(1, 4))):
            name = f"{short}_r{int(b.rng.integers(10, 300)):04d}_c{int(b.rng.integers(10, 300)):04d}.jpg"
            path = f"scanner_2/tiles/{name}"
            if b.folder.joinpath(path).exists():
                continue
            bad = b.rng.random() < 0.04
            b.picture(path, _tile(b, kind, stain, True, b.rng.uniform(4, 6) if bad else 0.0), quality=90)
            table.append([name, CLASSES[kind], b.pick("MvL", "AK", "RS"), "40x"])
            if bad:
                withdrawn.append(name)
                _left(b, path, "withdrawn: out of focus")
            else:
                b.case(path, patient=pid, label=kind)
