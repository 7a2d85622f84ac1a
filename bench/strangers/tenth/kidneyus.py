"""Ultrasound of kidneys, cysts outlined in Label Studio."""

from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter, map_coordinates

from bench.strangers import draw
from bench.strangers.build import Families, hexid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "ecografie_renali_label_studio": "Ecografie dei reni di tre ambulatori, contornate dagli specializzandi con un "
    "programma di annotazione; in una parte la primaria ha rifatto il contorno. Rene, cisti e calcoli sono disegnati "
    "tutti, a me servono le cisti.",
}

# rows and columns, suffix, colour bar, half opening of the sector, brightness
SCANNERS = (
    ("amb1_esaote", (200, 256), "png", False, 0.62, 1.0),
    ("amb2_ge", (208, 240), "jpg", True, 0.7, 1.12),
    ("pronto_soccorso", (192, 224), "png", False, 0.55, 0.9),
)
Outline = list[tuple[float, float]]


def _filled(edge: Outline, size: tuple[int, int]) -> np.ndarray:
    """The pixels whose centres lie within the outline."""
    big = Image.new("L", (size[1] * 4, size[0] * 4))
    ImageDraw.Draw(big).polygon([(x * 4, y * 4) for x, y in edge], fill=1)
    return np.asarray(big)[2::4, 2::4].astype(bool)


def _round(rng: Any, at: tuple[float, float], r: Any, rough: float, n: int = 28, lean: float = 0.0) -> Outline:
    """An uneven ellipse about (x, y) as points (x, y)."""
    turns = np.linspace(0, 2 * np.pi, n, endpoint=False)
    wobble = 1 + sum(rng.normal(0, rough) * np.cos(m * turns + rng.uniform(0, 6)) for m in (2, 3, 4))
    a, c = r[0] * wobble * np.cos(turns), r[1] * wobble * np.sin(turns)
    x, y = at[0] + a * np.cos(lean) - c * np.sin(lean), at[1] + a * np.sin(lean) + c * np.cos(lean)
    return [(float(p), float(q)) for p, q in zip(x, y, strict=True)]


def _kidney(rng: Any, scanner: int, cysts: int, stone: bool) -> dict[str, Any]:
    """A picture (0 to 255, float) and what is in it: outlines of the kidney and cysts, box of the stone."""
    _, size, _, _, wide, gain = SCANNERS[scanner]
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    top = -h * rng.uniform(0.12, 0.2)
    fan, deep = np.arctan2(x - w / 2, y - top), np.hypot(x - w / 2, y - top)
    sector = (np.abs(fan) < wide) & (deep > h * 0.2) & (deep < h * rng.uniform(1.08, 1.14))
    body = 92 + 12 * gaussian_filter(rng.normal(0, 1, size), 12) * 30
    body += 70 * np.exp(-(((deep - h * rng.uniform(0.27, 0.31)) / 4) ** 2))  # fascia
    k = (w * rng.uniform(0.45, 0.55), h * rng.uniform(0.52, 0.6))
    r = (w * rng.uniform(0.25, 0.3), h * rng.uniform(0.16, 0.2))
    lean = rng.uniform(-0.4, 0.4)
    outline = _round(rng, k, r, 0.02, 40, lean)
    kidney = _filled(outline, size)
    soft = gaussian_filter(kidney.astype(float), 1.3)
    rim = np.clip(gaussian_filter(kidney.astype(float), 2.5) * (1 - soft) * 4, 0, 1)
    out = body + 75 * rim
    out = out + (rng.uniform(52, 66) - out) * soft
    inner = gaussian_filter(_filled(_round(rng, k, (r[0] * 0.6, r[1] * 0.42), 0.07, 30, lean), size).astype(float), 2.0)
    for t in np.linspace(0, 2 * np.pi, 8, endpoint=False) + rng.uniform(0, 1):  # pyramids
        px, py = 0.74 * r[0] * np.cos(t), 0.68 * r[1] * np.sin(t)
        c = (k[1] + px * np.sin(lean) + py * np.cos(lean), k[0] + px * np.cos(lean) - py * np.sin(lean))
        spot = draw.ball(size, c, rng.uniform(4, 6, 2))
        out = out + (40 - out) * 0.6 * gaussian_filter(spot.astype(float), 1.5)
    out = out + (rng.uniform(150, 175) - out) * inner
    edges: list[Outline] = []
    circles: list[tuple[float, ...]] = []
    taken = np.zeros(size, bool)
    behind = np.ones(size)
    for _ in range(cysts):
        for _ in range(60):
            s = rng.uniform(9, 20) if not edges else rng.uniform(9, 14)
            t, out_by = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 1.0)
            px, py = out_by * r[0] * np.cos(t), out_by * r[1] * np.sin(t)
            c = (k[0] + px * np.cos(lean) - py * np.sin(lean), k[1] + px * np.sin(lean) + py * np.cos(lean))
            near = draw.ball(size, (c[1], c[0]), s + 4)
            if not (near & (taken | ~sector)).any():
                break
        else:
            continue
        taken |= draw.ball(size, (c[1], c[0]), s + 8)
        flat, tilt = rng.uniform(0.78, 1.0), rng.uniform(0, np.pi)
        plain = rng.random() < 0.35  # drawn with the ellipse of the tool
        edge = _round(rng, c, (s, s * flat), 0.0 if plain else 0.045, 26, tilt)
        edges.append(edge)
        circles.append((*c, s, s * flat, tilt) if plain else ())
        mask = gaussian_filter(_filled(edge, size).astype(float), 0.8)
        wall = np.clip(gaussian_filter(_filled(edge, size).astype(float), 1.8) * (1 - mask) * 4, 0, 1)
        out = out + 38 * wall
        out = out + (rng.uniform(5, 14) - out) * mask
        turn, far = np.arctan2(c[0] - w / 2, c[1] - top), np.hypot(c[0] - w / 2, c[1] - top)
        beam = np.exp(-(((fan - turn) / (0.8 * s / far)) ** 4)) * (deep > far + s * 0.8)
        behind = behind + 0.55 * beam * np.exp(-(deep - far - s) / (h * 0.25))
    box = None
    if stone:
        for _ in range(40):
            c = (k[0] + rng.uniform(-0.4, 0.4) * r[0], k[1] + rng.uniform(-0.25, 0.25) * r[1])
            if not taken[int(c[1]), int(c[0])]:
                break
        a, d = rng.uniform(3, 5), rng.uniform(1.6, 2.6)
        out[draw.ball(size, (c[1], c[0]), (d, a))] = 250
        turn, far = np.arctan2(c[0] - w / 2, c[1] - top), np.hypot(c[0] - w / 2, c[1] - top)
        behind *= 1 - 0.75 * (np.abs(fan - turn) < a / far) * (deep > far + d)
        box = (c[0] - a - 1, c[1] - d - 1, 2 * a + 2, 2 * d + 2)
    if rng.random() < 0.2:  # gallbladder or a vessel: dark, but no part of the kidney
        t = rng.choice([-1, 1]) * wide * rng.uniform(0.4, 0.6)
        far = h * rng.uniform(0.4, 0.47)
        c = (w / 2 + far * np.sin(t), top + far * np.cos(t))
        bag = _filled(_round(rng, c, (rng.uniform(16, 24), rng.uniform(5, 8)), 0.04, 26, rng.uniform(-0.6, 0.6)), size)
        bag &= ~gaussian_filter((kidney | taken).astype(float), 2).astype(bool)
        out = out + (14 - out) * gaussian_filter(bag.astype(float), 0.9)
    for _ in range(int(rng.integers(0, 3))):  # ribs
        behind *= 1 - 0.6 * np.exp(-(((fan - rng.uniform(-wide, wide)) / 0.05) ** 2)) * (deep > h * 0.33)
    # speckle lies along the beam
    grain = gaussian_filter(rng.normal(0, 1, (2, 220, 200)), (0, 0.7, 1.2))
    grain = np.hypot(*(grain / grain.std()))
    at = [(deep / deep.max()) * 219, np.clip((fan / wide + 1) * 100, 0, 199)]
    speckle = map_coordinates(grain, at, order=1, mode="nearest") / 1.25
    out = np.clip(out, 0, None) * behind * (0.45 + 0.55 * speckle) * np.exp(-0.25 * deep / h) * 1.2
    out = np.where(sector, out * gain * rng.uniform(0.85, 1.12) + rng.normal(0, 2, size), 0)
    out = gaussian_filter(out, 0.5)
    return {"pixels": np.clip(out, 0, 255), "kidney": outline, "cysts": edges, "circles": circles, "stone": box}


def _picture(b: Build, scanner: int, gray: np.ndarray, marks: list[Outline] | None = None) -> np.ndarray:
    """The screen of the machine, with calipers on it where asked."""
    coloured, (h, w) = SCANNERS[scanner][3], gray.shape
    image = Image.fromarray(np.repeat(draw.u8(gray)[..., None], 3, 2))
    pen = ImageDraw.Draw(image)
    pen.rectangle((2, 2, 6, 6), outline=(200, 200, 200))
    pen.text((10, 1), f"{b.rng.uniform(3, 5):.1f}MHz", fill=(190, 190, 190))
    for k in range(0, h, h // 8):
        pen.line((w - 4, k, w - 1, k), fill=(170, 170, 170))
    if coloured:
        for k in range(40):
            pen.line((w - 10, 20 + k, w - 6, 20 + k), fill=(255 - 5 * k, 160 - 4 * k, 40))
    for edge in marks or []:
        for px, py in (edge[0], edge[len(edge) // 2]):
            pen.line((px - 4, py, px + 4, py), fill=(255, 255, 90))
            pen.line((px, py - 4, px, py + 4), fill=(255, 255, 90))
        pen.line([edge[0], edge[len(edge) // 2]], fill=(255, 255, 90))
    return np.asarray(image) if coloured else np.asarray(image.convert("L"))


def _result(b: Build, size: tuple[int, int], kind: str, value: dict[str, Any], name: str) -> dict[str, Any]:
    h, w = size
    return {
        "original_width": w, "original_height": h, "image_rotation": 0, "value": {**value, kind: [name]},
        "id": hexid(b, 5), "from_name": kind.replace("labels", ""), "to_name": "image", "type": kind,
        "origin": "manual",
    }  # fmt: skip


def _polygon(b: Build, size: tuple[int, int], edge: Outline, name: str) -> dict[str, Any]:
    points = [[px / size[1] * 100, py / size[0] * 100] for px, py in edge]
    return _result(b, size, "polygonlabels", {"points": points, "closed": True}, name)


def _drawn(b: Build, size: tuple[int, int], seen: dict[str, Any], moved: float) -> tuple[list[Any], np.ndarray]:
    """What a reader drew, as the tool keeps it (in hundredths of width and height), and the mask of the cysts."""
    rng, (h, w) = b.rng, size
    grow = 1 + rng.uniform(0.3, 1) * moved * rng.choice([-1, 1])
    dx, dy = rng.normal(0, 16 * moved, 2)
    total, out = np.zeros(size, bool), []

    def again(edge: Outline) -> Outline:
        mx, my = np.mean(edge, axis=0)
        return [(mx + (px - mx) * grow + dx, my + (py - my) * grow + dy) for px, py in edge]

    out.append(_polygon(b, size, again(seen["kidney"]), "Rene"))
    for edge, circle in zip(seen["cysts"], seen["circles"], strict=True):
        if circle:
            px, py, a, c, tilt = circle
            value = {
                "x": (px + dx) / w * 100, "y": (py + dy) / h * 100, "radiusX": a * grow / w * 100,
                "radiusY": c * grow / h * 100, "rotation": float(np.degrees(tilt)),
            }  # fmt: skip
            out.append(_result(b, size, "ellipselabels", value, "Cisti"))
        else:
            out.append(_polygon(b, size, again(edge), "Cisti"))
        total |= _filled(again(edge), size)
    if seen["stone"]:
        px, py, a, c = seen["stone"]
        value = {"x": px / w * 100, "y": py / h * 100, "width": a / w * 100, "height": c / h * 100, "rotation": 0}
        out.append(_result(b, size, "rectanglelabels", value, "Calcolo"))
    return [out[int(i)] for i in rng.permutation(len(out))], total


@family(
    "ecografie_renali_label_studio", "anomaly_detection", 2,
    "Vorrei delimitare le cisti renali nelle ecografie; dove non ci sono cisti il risultato deve restare vuoto.",
    notes="One JSON export of Label Studio: polygons and rotated ellipses in per cent of width and height; a task's "
    "picture carries a prefix that the tool put before the file's name. Of the labels Rene, Cisti and Calcolo only "
    "Cisti is asked for, and a finished task without Cisti is a picture without cysts (empty mask). Where two people "
    "drew, the one marked ground_truth counts. Tasks that were skipped (was_cancelled) or not yet done are unlabelled, "
    "their predictions of an old model are no truth. Copies with calipers burnt in are not exported. The patient is "
    "the second part of the name, also at a second visit (V2).",
    mask_tolerance=0.15,
)  # fmt: skip
def kidneys(b: Build) -> None:
    rng, why, tasks = b.rng, {}, []
    b.truth["left_out_why"] = why
    people = [int(v) for v in np.sort(rng.choice(9000, 62, replace=False)) + 200]
    again = {int(v) for v in rng.choice(people, 8, replace=False)}
    for person in people:
        for visit in ("", "_V2") if person in again else ("",):
            scanner = int(rng.integers(3))
            for image in range(int(rng.integers(1, 4))):
                _task(b, person, visit, image + 1, scanner, tasks)
    tasks = [tasks[int(i)] for i in rng.permutation(len(tasks))]
    for n, task in enumerate(tasks):
        task["id"] = 5101 + n
        task["inner_id"] = n + 1
        for a in task["annotations"]:
            a["task"] = task["id"]
    b.truth["left_out"] = sorted(why)
    b.json("annotazioni/project-7-at-2022-05-19-10-42-b81f30c2.json", tasks, indent=None)
    b.text(
        "LEGGIMI.txt",
        "Ecografie renali (amb1 = ambulatorio 1, amb2 = ambulatorio 2, pronto soccorso)\n\n"
        "I nomi sono RIM_<paziente>_<immagine>; V2 = secondo controllo dello stesso paziente.\n"
        "Gli specializzandi hanno disegnato tutto quello che vedevano; se non c'è la cisti, la cisti non c'era.\n"
        "Le immagini saltate erano illeggibili. Le ultime caricate non sono ancora state fatte.\n"
        "Quando c'è anche il contorno della primaria (segnato come riferimento) vale il suo.\n"
        "Le immagini con le misure sono copie per la cartella clinica.\n",
    )


def _task(b: Build, person: int, visit: str, image: int, scanner: int, tasks: list[Any]) -> None:
    rng, why = b.rng, b.truth["left_out_why"]
    folder, size, suffix, *_ = SCANNERS[scanner]
    seen = _kidney(rng, scanner, int(rng.choice([0, 1, 2], p=(0.36, 0.46, 0.18))), bool(rng.random() < 0.22))
    name = f"RIM_{person:04d}{visit}_{image:02d}.{suffix}"
    path = f"immagini/{folder}/{name}"
    state = str(rng.choice(["done", "skipped", "open"], p=(0.84, 0.06, 0.1)))
    gray = seen["pixels"]
    if state == "skipped":
        gray = gaussian_filter(gray * 0.35, 3) + np.abs(rng.normal(0, 9, size)) * (gray > 1)
    how = {"quality": 92} if suffix == "jpg" else {}
    b.picture(path, _picture(b, scanner, gray), **how)
    if seen["cysts"] and rng.random() < 0.15:
        copy = f"immagini/{folder}/con misure/{name}"
        b.picture(copy, _picture(b, scanner, gray, seen["cysts"]), **how)
        why[copy] = "copy with calipers"
    stamp = f"2022-0{int(rng.integers(2, 5))}-{int(rng.integers(1, 28)):02d}T09:{int(rng.integers(10, 60))}:21.481902Z"

    def note(who: int, drawn: list[Any], cancelled: bool, truth: bool) -> dict[str, Any]:
        return {
            "id": int(rng.integers(9000, 99999)), "completed_by": who, "result": drawn, "was_cancelled": cancelled,
            "ground_truth": truth, "created_at": stamp, "updated_at": stamp,
            "lead_time": round(rng.uniform(20, 300), 3),
        }  # fmt: skip

    notes, total = [], None
    young = int(rng.integers(3, 6))
    if state == "done":
        if rng.random() < 0.25:
            notes.append(note(young, _drawn(b, size, seen, 0.3)[0], False, False))
            drawn, total = _drawn(b, size, seen, 0.0)
            notes.append(note(2, drawn, False, True))
            if rng.random() < 0.5:
                notes.reverse()
        else:
            drawn, total = _drawn(b, size, seen, 0.0)
            notes.append(note(young, drawn, False, False))
        b.case(path, patient=f"{person:04d}", mask={"Cisti": total})
    elif state == "skipped":
        notes.append(note(young, [], True, False))
        why[path] = "skipped by the reader"
    else:
        why[path] = "not annotated yet"
    guesses = []
    if rng.random() < 0.3 or state == "open":
        h, w = size
        spot = _round(rng, (w * rng.uniform(0.3, 0.7), h * rng.uniform(0.4, 0.7)), rng.uniform(6, 16, 2), 0.03, 14)
        guesses.append(
            {"id": int(rng.integers(100, 999)), "model_version": "unet-v0", "score": round(rng.uniform(0.2, 0.8), 4),
             "result": [_polygon(b, size, spot, "Cisti")]}
        )  # fmt: skip
    upload = f"{hexid(b, 4)}-{name}"
    tasks.append(
        {
            "id": 0, "annotations": notes, "file_upload": upload, "drafts": [], "predictions": guesses,
            "data": {"image": f"/data/upload/7/{upload}"}, "meta": {}, "created_at": stamp, "updated_at": stamp,
            "inner_id": 0, "total_annotations": sum(not a["was_cancelled"] for a in notes),
            "cancelled_annotations": sum(a["was_cancelled"] for a in notes), "total_predictions": len(guesses),
            "comment_count": 0, "project": 7, "updated_by": young if notes else None,
        }
    )  # fmt: skip
