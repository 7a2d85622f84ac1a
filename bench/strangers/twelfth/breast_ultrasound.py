"""Ultrasound of the breast from two rooms: normal, benign or malignant, one table row a lesion."""

from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "breastus": "Breast ultrasound from our two examination rooms, a few pictures of each finding, with the final "
    "diagnosis in a workbook (biopsy, or two quiet years). My registrar listed every picture and marked the ones "
    "that are no good. I want to know whether a picture shows a normal breast, a benign or a malignant lesion.",
}

# folder, rows and columns, suffix, gamma
ROOMS = (("room1", (232, 296), "png", 1.0), ("room2", (264, 248), "jpg", 0.85))
HISTOLOGY = {
    "benign": ("fibroadenoma", "fibroadenoma", "fibrocystic change", "papilloma", "stable 24 months"),
    "malignant": ("IDC G2", "IDC G3", "IDC G1", "ILC", "DCIS with invasion", "mucinous carcinoma"),
}


def _wave(rng: Any, n: int, smooth: float, by: float) -> np.ndarray:
    line = gaussian_filter1d(rng.normal(0, 1, n + 80), smooth)[40:-40]
    return by * line / (line.std() + 1e-6)


def _cloud(rng: Any, size: tuple[int, int], smooth: Any) -> np.ndarray:
    out = gaussian_filter(rng.standard_normal(size, dtype=np.float32), smooth, truncate=2.5)
    return out / out.std()


def _breast(rng: Any) -> dict[str, Any]:
    """What is the same in all pictures of one breast."""
    top = rng.uniform(0.14, 0.3)
    return {
        "top": top, "deep": top + rng.uniform(0.42, 0.52), "gland": rng.uniform(105, 150),
        "fat": rng.uniform(52, 68), "lobules": int(rng.integers(0, 4)),
    }  # fmt: skip


def _lesion(rng: Any, kind: str) -> dict[str, Any]:
    """One lesion: how suspicious it looks (about 0 benign, 1 malignant, they overlap), size and place."""
    cyst = kind == "benign" and rng.random() < 0.2
    look = rng.normal(1.0, 0.4) if kind == "malignant" else rng.normal(-0.15 if cyst else 0.0, 0.4)
    return {
        "look": look, "cyst": cyst, "size": rng.uniform(0.075, 0.14),
        "spikes": rng.uniform(0, 6.28, int(rng.integers(5, 9))), "modes": rng.normal(0, 1, (7, 2)),
    }  # fmt: skip


def _tissue(rng: Any, size: tuple[int, int], breast: dict[str, Any]) -> np.ndarray:
    """Echo of the layers without speckle."""
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    top = h * breast["top"] + _wave(rng, w, 18, h * 0.022)
    deep = h * breast["deep"] + _wave(rng, w, 26, h * 0.018)
    gland = breast["gland"] * (1 + 0.16 * _cloud(rng, size, (3, 7)) + 0.08 * _cloud(rng, size, 14))
    muscle = 72 + 20 * np.sin((y - deep[None]) / h * rng.uniform(90, 130) + _wave(rng, w, 20, 0.8)[None])
    out = np.where(y < top, breast["fat"] * (1 + 0.08 * _cloud(rng, size, 6)), np.where(y < deep, gland, muscle))
    for _ in range(int(rng.integers(2, 6))):  # ligaments in the fat
        x0, lean = rng.uniform(0, w), rng.uniform(-2.5, 2.5)
        out += 65 * np.exp(-(((x - x0 - lean * (y - h * 0.05)) / 2.2) ** 2)) * (y < top + 6)
    for _ in range(breast["lobules"]):  # fat within the gland, seen in normal breasts as well
        c = (h * rng.uniform(breast["top"] + 0.06, breast["deep"] - 0.06), w * rng.uniform(0.05, 0.95))
        r = np.array([rng.uniform(0.03, 0.055) * h, rng.uniform(0.06, 0.12) * w])
        spot = gaussian_filter(draw.ball(size, c, r).astype(float), 1.8)
        rim = gaussian_filter(draw.ball(size, c, r + 2.5).astype(float), 1.5) - spot
        out = out + (breast["fat"] * rng.uniform(0.95, 1.2) - out) * spot + 30 * np.clip(rim, 0, 1)
    out += 75 * np.exp(-(((y - deep[None]) / 2.5) ** 2))
    out = np.where(y < h * 0.045, 165, out)
    out += 50 * np.exp(-(((y - h * 0.05) / 1.8) ** 2))
    return gaussian_filter(out, 0.9)


def _scan(rng: Any, room: int, breast: dict[str, Any], lesion: dict[str, Any] | None) -> tuple[np.ndarray, list[Any]]:
    """A picture (0 to 255, float) and the ends of what one would measure in it."""
    _, size, _, gamma = ROOMS[room]
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    out = _tissue(rng, size, breast)
    through = np.ones(size)
    if lesion is None:
        c, a, v = (h * rng.uniform(0.3, 0.6), w * rng.uniform(0.3, 0.7)), rng.uniform(12, 30), rng.uniform(8, 24)
    else:
        t = lesion["look"] + rng.normal(0, 0.12)
        c = (h * rng.uniform(breast["top"] + 0.1, breast["deep"] - 0.1), w * rng.uniform(0.27, 0.73))
        r, flat = lesion["size"] * w * rng.uniform(0.88, 1.14), np.clip(0.58 + 0.26 * t + rng.normal(0, 0.07), 0.4, 1.2)
        a, v = r / np.sqrt(flat), r * np.sqrt(flat)
        tilt = rng.normal(0, 0.15)
        dx, dy = x - c[1], y - c[0]
        dx, dy = (dx * np.cos(tilt) + dy * np.sin(tilt)) / a, (dy * np.cos(tilt) - dx * np.sin(tilt)) / v
        turn, far = np.arctan2(dy, dx), np.hypot(dx, dy)
        rough = np.clip(0.04 + 0.055 * t + rng.normal(0, 0.018), 0.012, 0.17)
        edge = (
            1
            + sum(rough * p * np.cos((m + 2) * turn + q) / (1 + 0.12 * m) for m, (p, q) in enumerate(lesion["modes"]))
            / 1.4
        )
        spike = np.clip(0.38 * (t - 0.35) + rng.normal(0, 0.09), 0, 0.5)
        for s in lesion["spikes"]:
            gap = np.angle(np.exp(1j * (turn - s - rng.normal(0, 0.1))))
            edge = edge + spike * np.exp(-((gap / 0.13) ** 2))
        edge = np.clip(edge, 0.5, 1.9)
        soft = np.clip(1.2 + 1.3 * t + rng.normal(0, 0.4), 0.8, 3.6)
        inside = 1 / (1 + np.exp(-np.clip((edge - far) * r / soft, -30, 30)))
        level = breast["gland"] * np.clip(0.37 - 0.07 * t + rng.normal(0, 0.06), 0.16, 0.6)
        if lesion["cyst"]:
            level = breast["gland"] * rng.uniform(0.06, 0.14)
        grain = 1 + np.clip(0.14 + 0.1 * t + rng.normal(0, 0.05), 0.05, 0.4) * _cloud(rng, size, 2.6)
        around = np.exp(-(((far - edge) * r / 5) ** 2)) * (far > edge)
        out = out * (1 + np.clip(0.12 + 0.26 * t + rng.normal(0, 0.1), 0, 0.6) * around)
        out = out * (1 - inside) + level * np.clip(grain, 0.2, 2) * inside
        behind = np.clip(0.22 - 0.5 * t + rng.normal(0, 0.14), -0.6, 0.55) + (0.25 if lesion["cyst"] else 0)
        beam = np.exp(-(((x - c[1]) / (0.85 * a)) ** 4)) / (1 + np.exp(-(y - c[0] - v * 0.7) / 3))
        through *= 1 + behind * beam * np.exp(-np.clip(y - c[0] - v, 0, None) / (h * 0.5))
    for _ in range(int(rng.integers(0, 3))):  # poor contact
        dark = np.exp(-(((x - rng.uniform(0, w)) / rng.uniform(4, 12)) ** 2))
        through *= 1 - rng.uniform(0.15, 0.45) * dark * np.clip(y / (h * 0.3), 0, 1)
    speckle = np.hypot(_cloud(rng, size, (0.7, 1.25)), _cloud(rng, size, (0.7, 1.25))) / 1.25
    depth = np.exp(-rng.uniform(0.15, 0.6) * y / h) * (1 + _wave(rng, h, 30, 0.06)[:, None]) * 1.2
    out = np.clip(out, 0, None) * through * (0.42 + 0.58 * speckle) * depth
    out = np.clip(gaussian_filter(out, 0.5) * rng.uniform(0.68, 1.05) + rng.normal(0, 3, size), 0, 255)
    out = 255 * (out / 255) ** (gamma * rng.uniform(0.9, 1.1))
    return out, [(c[1] - a, c[0]), (c[1] + a, c[0]), (c[1], c[0] - v), (c[1], c[0] + v)]


def _screen(b: Build, room: int, gray: np.ndarray, ends: list[Any] | None, border: bool) -> np.ndarray:
    """The picture as the machine saves it: callipers and borders on some."""
    rng, (h, w) = b.rng, gray.shape
    image = Image.fromarray(np.repeat(draw.u8(gray)[..., None], 3, 2))
    pen = ImageDraw.Draw(image)
    if border:
        pen.rectangle((0, 0, w, 11), fill=(0, 0, 0))
        pen.rectangle((0, 0, 15, h), fill=(0, 0, 0))
        pen.rectangle((w - 17, 0, w, h), fill=(0, 0, 0))
        pen.text(
            (18, 0),
            f"{('L12-5', '18L6')[room]}  {rng.integers(10, 17)}MHz  Gn {rng.integers(40, 70)}",
            fill=(170, 170, 170),
        )
        for k in range(16, h, h // 9):
            pen.line((w - 15, k, w - 11, k), fill=(200, 200, 200))
        for k in range(60):
            pen.line((4, 30 + k, 9, 30 + k), fill=(250 - 4 * k,) * 3)
    colour = ((235, 235, 235), (250, 240, 60))[room]
    for i in range(0, len(ends or []), 2):
        (x0, y0), (x1, y1) = [(px + rng.normal(0, 1.5), py + rng.normal(0, 1.5)) for px, py in ends[i : i + 2]]
        for px, py in ((x0, y0), (x1, y1)):
            pen.line((px - 4, py, px + 4, py), fill=colour)
            pen.line((px, py - 4, px, py + 4), fill=colour)
        for k in np.linspace(0.08, 0.92, 14):
            pen.point((x0 + k * (x1 - x0), y0 + k * (y1 - y0)), fill=colour)
        mm = np.hypot(x1 - x0, y1 - y0) * 0.17
        pen.text((20, h - 24 + 6 * i), f"D{i // 2 + 1} {mm:.1f} mm", fill=colour)
    return np.asarray(image) if room else np.asarray(image.convert("L"))


@family(
    "breastus", "diagnosis", 2,
    "From a breast ultrasound picture, tell me whether it is normal, benign or malignant.",
    notes="The class stands per lesion in findings.xlsx (sheet Lesions, final_dx, now with a capital, now with a "
    "trailing space); pictures.csv ties a picture to exam, side and lesion. A breast may hold two lesions of two "
    "classes. File names carry the exam number; the woman is patient_no (some came twice). Left out: use = 0 (blurred, "
    "saved twice, Doppler), lesions whose final_dx is pending, unlisted phantom pictures. One listed file is cut off. "
    "BI-RADS is the reader's opinion, not the truth.",
)  # fmt: skip
def breastus(b: Build) -> None:
    rng, why, lesions, listed = b.rng, {}, [], []
    b.truth["left_out_why"] = why
    women = [int(v) for v in rng.choice(8900, 120, replace=False) + 1000]
    exams = iter(int(v) for v in rng.permutation(np.arange(20411, 20411 + 260)))
    for woman in women:
        kind = str(rng.choice(["normal", "benign", "malignant"], p=(0.25, 0.42, 0.33)))
        side, age = str(rng.choice(["L", "R"])), int(np.clip(rng.normal(54, 12), 24, 86))
        found = [(side, 0 if kind == "normal" else 1, kind)]
        if kind != "normal" and rng.random() < 0.07:
            found.append((side, 2, "benign" if kind == "malignant" else str(rng.choice(["benign", "malignant"]))))
        if rng.random() < 0.24:
            other = str(rng.choice(["normal", "benign"], p=(0.72, 0.28)))
            found.append(("R" if side == "L" else "L", 0 if other == "normal" else 1, other))
        looks = {(s, n): None if k == "normal" else _lesion(rng, k) for s, n, k in found}
        proofs = {(s, n): str(rng.choice(HISTOLOGY[k])) if n else "no lesion" for s, n, k in found}
        breasts = {s: _breast(rng) for s in "LR"}
        visits = 2 if all(k != "malignant" for _, _, k in found) and rng.random() < 0.18 else 1
        waits = visits == 1 and rng.random() < 0.03
        year = int(rng.integers(2016, 2020))
        for visit in range(visits):
            exam, room, number = next(exams), int(rng.integers(2)), 0
            date = f"{year + visit}-{int(rng.integers(1, 13)):02d}-{int(rng.integers(1, 29)):02d}"
            for s, n, k in found:
                pending = waits and k != "normal"
                first = [exam, woman, date, age + visit, s, n]
                lesions.append(first + _row(b, k, "pending" if pending else proofs[s, n]))
                for _ in range(int(rng.choice([1, 2, 3], p=(0.35, 0.45, 0.2)))):
                    seen, shown = (breasts[s], looks[s, n]), (s, n, "" if pending else k)
                    number = _picture(b, exam, woman, room, shown, number, seen, listed)
    lesions.sort(key=lambda r: (r[2], r[0]))
    b.xlsx(
        "findings.xlsx",
        {"Lesions": [LESIONS, *lesions], "Columns": [["column", "meaning"], *map(list, COLUMNS.items())]},
    )
    copied = " ".join(r[7] for r in listed)
    spoiled = next(r for r in listed if r[6] == 1 and r[0].endswith("jpg") and r[1] > 20480 and r[0] not in copied)
    path = f"images/room2/{spoiled[0]}"
    b.truth["cases"] = [c for c in b.truth["cases"] if c["files"] != [path]]
    b.broken(path, b.at(path).read_bytes()[:400])
    header = ["picture", "exam_no", "side", "lesion", "plane", "callipers", "use", "remark"]
    b.csv("pictures.csv", header, sorted(listed, key=lambda r: r[0]))
    for k in range(4):
        gray = gaussian_filter(rng.normal(0, 60, ROOMS[0][1]), 0.8) + 70
        for c in ((60, 60), (60, 150), (60, 240), (150, 60), (150, 150), (150, 240)):
            gray[draw.ball(gray.shape, c, 3 + 2 * k)] = 10
        why[b.picture(f"images/room1/QA_phantom_{k + 1}.png", draw.u8(gray))] = "phantom, not listed"
    b.clutter("windows", under="images/room1")
    b.text("README.txt", README)
    b.truth["left_out"] = sorted(why)


def _row(b: Build, kind: str, proof: str) -> list[Any]:
    """The end of a row: category, proof, final diagnosis."""
    rng = b.rng
    rads = {"normal": ["1"], "benign": ["2", "3", "3", "4a"], "malignant": ["4a", "4b", "4c", "5"]}[kind]
    word = kind.capitalize() if rng.random() < 0.12 else kind + " " * int(rng.random() < 0.06)
    return [str(rng.choice(rads)), proof, "pending" if proof == "pending" else word]


def _picture(
    b: Build, exam: int, woman: int, room: int, shown: tuple[str, int, str], number: int, seen: Any, listed: list[Any]
) -> int:
    """Writes one picture, at times with a spoiled or doubled one after it; gives the last number used."""
    rng, why, (side, lesion, kind) = b.rng, b.truth["left_out_why"], shown
    folder, size, suffix, _ = ROOMS[room]
    how = {"quality": 92} if suffix == "jpg" else {}
    plane = str(rng.choice(["rad", "antirad"]))

    def save(pixels: np.ndarray, use: int, callipers: bool, remark: str = "") -> str:
        nonlocal number
        number += 1
        name = f"E{exam}_{side}_{number:02d}.{suffix}"
        listed.append([name, exam, side, lesion, plane, "y" if callipers else "n", use, remark])
        path = b.picture(f"images/{folder}/{name}", pixels, **how)
        if not use:
            why[path] = remark
        return path

    gray, ends = _scan(rng, room, *seen)
    callipers, border = bool(rng.random() < 0.25), bool(rng.random() < 0.5)
    screen = _screen(b, room, gray, ends if callipers else None, border)
    path = save(screen, 1, callipers)
    if kind:
        b.case(path, patient=str(woman), label=kind)
    else:
        why[path] = "final_dx pending"
    chance = rng.random()
    if chance < 0.016:
        save(screen, 0, callipers, f"same picture as {path.split('/')[-1]}, saved twice")
    elif chance < 0.034:
        lost = gaussian_filter(gray, 5) * 0.35 + np.abs(rng.normal(0, 8, size))
        save(_screen(b, room, lost, None, border), 0, False, "no contact, cannot be read")
    elif chance < 0.046 and room:
        flow = _screen(b, room, gray, None, border).copy()
        x0, y0 = int(ends[0][0]), int(ends[2][1])
        flow[max(y0, 0) : y0 + 40, max(x0, 0) : x0 + 50, 0] |= 90
        save(flow, 0, False, "colour Doppler")
    return number


LESIONS = ["exam_no", "patient_no", "exam_date", "age", "side", "lesion", "bi_rads", "proof", "final_dx"]
COLUMNS = {
    "exam_no": "number of the examination, the E number in the picture names",
    "patient_no": "the woman; a woman who came again has a new exam_no but keeps her patient_no",
    "exam_date": "day of the examination", "age": "years at the examination", "side": "L left breast, R right breast",
    "lesion": "number of the lesion in this breast, 0 = nothing found in this breast",
    "bi_rads": "category given by the examiner on the day, before the proof", "proof": "histology or follow-up",
    "final_dx": "final diagnosis: normal, benign or malignant (pending = we do not know yet)",
}  # fmt: skip
README = """Breast ultrasound 2016-2021, rooms 1 and 2

images/room1, images/room2   pictures as saved by the two machines (the women were sent to whichever room was free)
pictures.csv                 every picture: exam, side, which lesion it shows, plane (radial, antiradial)
findings.xlsx                one row per lesion and exam; breasts without lesion have lesion 0. See sheet Columns.

The answer to learn is final_dx. A breast can have two lesions, so look at pictures.csv to see which one is shown.
use = 0 in pictures.csv means leave the picture out (the remark says why).
Lesions with final_dx pending have no diagnosis yet, leave their pictures out too.
Callipers and borders are there on some pictures of all kinds; in normal breasts we measured fat or gland.
Pictures that are not in pictures.csv are phantom pictures of the yearly machine check.
"""
