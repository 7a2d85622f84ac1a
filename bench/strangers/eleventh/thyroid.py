"""Ultrasound of the thyroid: a machine that counts from IMG_0001 every day, a logbook, and outlines made in VIA."""

import json
from datetime import date, timedelta
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
    "tiroid_usg_via": "İki cihazla çekilmiş tiroid ultrasonları, gün gün klasörlerde. Kimin hangi görüntü olduğu "
    "poliklinik defterinde yazıyor; nodülleri asistanlar VIA programında çizdi, bazılarını hoca düzeltti.",
}

MACHINES = (("Toshiba Aplio", (192, 240), 0.34), ("Mindray DC-7", (208, 224), 0.0))
NODULE = ("nodül", "nodül", "nodül", "Nodül", "nodul", "nodül ", "NODÜL")
OTHER = {"lobe": ("lob", "tiroid lobu", "Lob"), "vessel": ("karotis", "ACC", "a. carotis")}
HEAD = ["filename", "file_size", "file_attributes", "region_count", "region_id"]
HEAD += ["region_shape_attributes", "region_attributes"]
Edge = list[tuple[int, int]]


def _filled(edge: Edge, size: tuple[int, int]) -> np.ndarray:
    """The pixels whose centres lie within the outline."""
    big = Image.new("L", (size[1] * 4, size[0] * 4))
    ImageDraw.Draw(big).polygon([(x * 4, y * 4) for x, y in edge], fill=1)
    return np.asarray(big)[2::4, 2::4].astype(bool)


def _round(rng: Any, at: tuple[float, float], r: tuple[float, float], rough: float, n: int, lean: float = 0.0) -> Edge:
    """An uneven ellipse about (x, y), in whole pixels."""
    turns = np.linspace(0, 2 * np.pi, n, endpoint=False)
    wobble = 1 + sum(rng.normal(0, rough) * np.cos(m * turns + rng.uniform(0, 6)) for m in (2, 3, 4))
    a, c = r[0] * wobble * np.cos(turns), r[1] * wobble * np.sin(turns)
    x, y = at[0] + a * np.cos(lean) - c * np.sin(lean), at[1] + a * np.sin(lean) + c * np.cos(lean)
    return [(round(float(p)), round(float(q))) for p, q in zip(x, y, strict=True)]


def _shape(edge: Edge | tuple[int, ...]) -> str:
    """An outline as VIA writes it: a polygon, or an ellipse (cx, cy, rx, ry)."""
    if isinstance(edge, tuple):
        value: dict[str, Any] = {"name": "ellipse", **dict(zip(("cx", "cy", "rx", "ry"), edge, strict=True))}
    else:
        value = {"name": "polygon", "all_points_x": [p for p, _ in edge], "all_points_y": [q for _, q in edge]}
    return json.dumps(value, separators=(",", ":"))


def _scan(rng: Any, machine: int, nodules: int) -> dict[str, Any]:
    """A transverse picture of one lobe, 0 to 255, and the outlines of all that is in it."""
    _, size, fan = MACHINES[machine]
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    flip = rng.random() < 0.5
    out = 95 + 25 * np.sin(y / rng.uniform(4, 6) + gaussian_filter(rng.normal(0, 60, size), 12)) * (y < h * 0.3)
    out = out + gaussian_filter(rng.normal(0, 1, size), 9) * 300
    muscle = np.abs(y - h * 0.26 - 0.0012 * (x - w / 2) ** 2) < h * 0.045
    out[muscle] = 55
    c, r = (
        (w * rng.uniform(0.42, 0.5), h * rng.uniform(0.5, 0.55)),
        (w * rng.uniform(0.22, 0.27), h * rng.uniform(0.18, 0.22)),
    )
    lobe = _round(rng, c, r, 0.03, 24, rng.uniform(-0.15, 0.15))
    inside = gaussian_filter(_filled(lobe, size).astype(float), 1.2)
    tone = rng.uniform(125, 150)
    out = out + (tone + gaussian_filter(rng.normal(0, 1, size), 3) * 60 - out) * inside
    rim = np.clip(gaussian_filter(inside, 2) * (1 - inside) * 4, 0, 1)
    out = out + 70 * rim
    pipe = (w * 0.9, h * 0.6)  # trachea, air behind it
    wall = np.hypot((x - pipe[0]) / (w * 0.13), (y - pipe[1]) / (h * 0.25))
    out = np.where(wall < 1, 25, out) + 150 * np.exp(-(((wall - 1) / 0.07) ** 2)) * (y < pipe[1])
    neck = (c[0] - r[0] - w * 0.09, h * rng.uniform(0.55, 0.62))
    vessel = _round(rng, neck, (w * 0.06, w * 0.06), 0.02, 16)
    out = out + (10 - out) * gaussian_filter(_filled(vessel, size).astype(float), 0.8)
    marks: list[Any] = []
    total, behind = np.zeros(size, bool), np.ones(size)
    for _ in range(nodules):
        for _ in range(80):
            s = rng.uniform(8, 0.8 * r[1] if not marks else 13)
            t, far = rng.uniform(0, 2 * np.pi), rng.uniform(0, 1)
            at = (c[0] + far * (r[0] - s) * np.cos(t), c[1] + far * (r[1] - s * 0.8) * np.sin(t))
            near = draw.ball(size, (at[1], at[0]), (s + 3, s + 3))
            if not (near & total).any():
                break
        else:
            continue
        flat = rng.uniform(0.7, 1.0)
        kind = str(rng.choice(["solid", "cyst", "halo"], p=(0.55, 0.2, 0.25)))
        if kind == "cyst" or rng.random() < 0.15:
            made: Any = (round(at[0]), round(at[1]), round(s), round(s * flat))
            mask = draw.ball(size, (made[1], made[0]), (made[3], made[2]))
        else:
            made = _round(rng, at, (s, s * flat), 0.035, 20, rng.uniform(0, 3))
            mask = _filled(made, size)
        soft = gaussian_filter(mask.astype(float), 0.9)
        body = {"solid": rng.uniform(50, 75), "cyst": 8, "halo": rng.uniform(165, 190)}[kind]
        out = out + (body + gaussian_filter(rng.normal(0, 1, size), 1.5) * (0 if kind == "cyst" else 35) - out) * soft
        if kind == "halo":
            out = out - 80 * np.clip(gaussian_filter(mask.astype(float), 1.5) * (1 - soft) * 4, 0, 1)
        if kind == "cyst":
            under = (np.abs(x - at[0]) < s * 0.8) & (y > at[1] + s * flat)
            behind = behind + 0.4 * gaussian_filter(under.astype(float), 2) * np.exp(-(y - at[1] - s) / 40).clip(0, 1)
        if kind == "solid" and rng.random() < 0.4:
            for _ in range(int(rng.integers(3, 8))):
                dot = (at[1] + rng.uniform(-0.5, 0.5) * s * flat, at[0] + rng.uniform(-0.5, 0.5) * s)
                out[draw.ball(size, dot, 1.1)] = 235
        marks.append(made)
        total |= mask
    grain = gaussian_filter(rng.normal(0, 1, (2, *size)), (0, 0.6, 1.1))
    speckle = np.hypot(*(grain / grain.std())) / 1.25
    out = np.clip(out, 0, None) * behind * (0.5 + 0.5 * speckle) * np.exp(-0.5 * y / h) * 1.2
    out = gaussian_filter(out * rng.uniform(0.8, 1.15), 0.5)
    if fan:
        out[np.abs(x - w / 2) > w * 0.42 + fan * (y - h * 0.1) * 0.5] = 0
    out[y < h * 0.09] = 0
    out[y > h * 0.95] = 0
    if flip:
        out, total = out[:, ::-1], total[:, ::-1]
        marks = [_mirrored(m, w) for m in marks]
        lobe, vessel = _mirrored(lobe, w), _mirrored(vessel, w)
    return {"pixels": out, "nodules": marks, "lobe": lobe, "vessel": vessel, "mask": total}


def _mirrored(edge: Any, w: int) -> Any:
    if isinstance(edge, tuple):
        return (w - 1 - edge[0], *edge[1:])
    return [(w - 1 - p, q) for p, q in edge]


def _screen(b: Build, machine: int, seen: dict[str, Any], calipers: bool) -> np.ndarray:
    """The picture with what the machine writes on it."""
    gray = draw.u8(seen["pixels"])
    image = Image.fromarray(gray)
    pen, (h, w) = ImageDraw.Draw(image), gray.shape
    pen.text((4, 1), MACHINES[machine][0], fill=190)
    for k in range(20, h, 20):
        pen.line((w - 4, k, w - 1, k), fill=170)
    if calipers:
        edge = seen["nodules"][0]
        if isinstance(edge, tuple):
            ends = [(edge[0] - edge[2], edge[1]), (edge[0] + edge[2], edge[1])]
        else:
            ends = [min(edge), max(edge)]
        for p, q in ends:
            pen.line((p - 4, q, p + 4, q), fill=255)
            pen.line((p, q - 4, p, q + 4), fill=255)
        pen.text((6, h - 14), f"D1 {b.rng.uniform(4, 25):.1f} mm", fill=230)
    return np.asarray(image)


def _moved(rng: Any, edge: Any) -> Any:
    """The same nodule as a beginner drew it."""
    grow, dx, dy = rng.choice([0.72, 1.3]), int(rng.integers(-3, 4)), int(rng.integers(-3, 4))
    if isinstance(edge, tuple):
        return (edge[0] + dx, edge[1] + dy, round(edge[2] * grow), round(edge[3] * grow))
    mid = np.mean(edge, axis=0)
    return [(round(mid[0] + (p - mid[0]) * grow) + dx, round(mid[1] + (q - mid[1]) * grow) + dy) for p, q in edge]


def _rows(b: Build, path: str, seen: dict[str, Any] | None, state: str, marks: list[Any]) -> list[list[Any]]:
    """The rows that VIA exports for a picture, one a region, or one row without region."""
    regions = [(m, b.pick(*NODULE)) for m in marks]
    if seen is not None and b.rng.random() < 0.45:
        regions.append((seen["lobe"], b.pick(*OTHER["lobe"])))
    if seen is not None and b.rng.random() < 0.4:
        regions.append((seen["vessel"], b.pick(*OTHER["vessel"])))
    regions = [regions[int(i)] for i in b.rng.permutation(len(regions))]
    told = json.dumps({"durum": state, "not": ""}, separators=(",", ":"), ensure_ascii=False)
    name, weight = path.rsplit("/", 1)[-1], b.at(path).stat().st_size
    if not regions:
        return [[name, weight, told, 0, 0, "{}", "{}"]]
    return [
        [name, weight, told, len(regions), n, _shape(edge), json.dumps({"yapi": what}, ensure_ascii=False)]
        for n, (edge, what) in enumerate(regions)
    ]


@family(
    "tiroid_usg_via", "anomaly_detection", 2,
    "Tiroid ultrasonunda nodülleri bulup sınırlarını çizen bir model istiyorum; nodül yoksa boş kalmalı.",
    notes="JPEG files IMG_0001... that start anew every day, so names repeat between the folders of days; the VIA "
    "exports (CSV, one for each resident) name only the file and its size in bytes, which together are unique. The "
    "patient is found in the logbook defter.csv (Windows-1254) by day and range of picture numbers; '(kontrol)' marks "
    "a later visit of the same file number. Regions carry free text: spellings of nodül count, lobe and carotid are no "
    "target. File attribute durum: 'bitti' = done (no nodule region = empty mask), 'kötü' = unusable, empty = not done "
    "yet. Where the professor's file via_hoca_duzeltme.csv has the picture, only its regions count. Pictures with "
    "calipers and other organs are not in VIA.",
    mask_tolerance=0.15,
)  # fmt: skip
def thyroid(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    tables: dict[str, list[Any]] = {"asistan_elif": [], "asistan_mert": [], "hoca_duzeltme": []}
    numbers = [str(int(v)) for v in np.sort(rng.choice(60000, 38, replace=False)) + 12000]
    again = [str(v) for v in rng.choice(numbers[:25], 7, replace=False)]
    queue, book, taken, when = [*numbers, *again], [], set(), date(2019, 3, 4)
    for day in range(9):
        machine, reader, count = int(rng.random() < 0.45), ("asistan_elif", "asistan_mert")[day % 3 == 1], 0
        folder = f"{when:%Y-%m-%d}"
        for turn in range(5):
            person = queue[day * 5 + turn]
            note = " (kontrol)" if day * 5 + turn >= len(numbers) else ""
            organ = f"tiroid {b.pick('sağ', 'sol', 'sağ+sol')}"
            first = count + 1
            for _ in range(int(rng.integers(2, 4))):
                count += 1
                path = f"goruntuler/{folder}/IMG_{count:04d}.jpg"
                if _picture(b, path, person, machine, tables, reader, taken):  # the same view again with calipers
                    count += 1
            if rng.random() < 0.12:
                book.append([f"{when:%d.%m.%Y}", turn + 1, person + note, first, count, organ, ""])
                first = count = count + 1
                path = f"goruntuler/{folder}/IMG_{count:04d}.jpg"
                _save(b, path, draw.u8(gaussian_filter(rng.normal(90, 60, (192, 240)), 2) * 1.1), taken)
                why[path] = "parotid"
                organ = "parotis"
            book.append([f"{when:%d.%m.%Y}", turn + 1, person + note, first, count, organ, ""])
        when += timedelta(int(rng.integers(2, 9)))
    spoilt = f"goruntuler/{folder}/IMG_{count + 1:04d}.jpg"
    b.broken(
        spoilt, b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xdb\x00\x43" + bytes(90)
    )
    book[-1][4], book[-1][6] = count + 1, "son görüntü kaydedilmedi"
    b.truth["left_out"] = sorted(why)
    for name, rows in tables.items():
        b.csv(f"via_{name}.csv", HEAD, rows)
    head = ["Tarih", "Sıra", "Dosya No", "İlk görüntü", "Son görüntü", "Bölge", "Açıklama"]
    b.csv("defter.csv", head, book, sep=";", encoding="cp1254", end="\r\n")
    b.text(
        "OKUBENİ.txt",
        "Tiroid USG\r\n\r\n"
        "Cihaz her gün numaraya baştan başlıyor (IMG_0001). Hangi görüntü kimin, defter.csv'de: gün, ilk ve son "
        "görüntü numarası, hastanın dosya numarası. (kontrol) = aynı hasta tekrar gelmiş.\r\n"
        "Çizimler VIA ile yapıldı. VIA klasörü yazmıyor, dosya adı + boyut (byte) ile bulunur.\r\n"
        "yapi alanına herkes kafasına göre yazdı: nodül, lob, karotis... Bize yalnız nodüller lazım.\r\n"
        "durum: bitti = bakıldı (nodül çizilmemişse yoktur), kötü = görüntü kullanılamaz, boş = daha bakılmadı.\r\n"
        "Hocanın düzelttikleri via_hoca_duzeltme.csv dosyasında; orada olan görüntüde asistanın çizimi geçersizdir.\r\n"
        "Üzerinde ölçüm olan kareler çizilmedi, kullanılmayacak. Parotis görüntüleri de başka çalışmanın.\r\n",
        "cp1254",
    )


def _save(b: Build, path: str, array: np.ndarray, taken: set[Any]) -> None:
    """Writes a picture so that its name and size together stand for no other one."""
    for quality in range(90, 60, -1):
        b.picture(path, array, quality=quality)
        key = (path.rsplit("/", 1)[-1], b.at(path).stat().st_size)
        if key not in taken:
            break
    taken.add(key)


def _picture(
    b: Build, path: str, person: str, machine: int, tables: dict[str, list[Any]], reader: str, taken: set[Any]
) -> bool:
    """Writes a picture and what VIA keeps of it; whether a copy with calipers follows."""
    rng, why = b.rng, b.truth["left_out_why"]
    seen = _scan(rng, machine, int(rng.choice([0, 1, 2], p=(0.34, 0.5, 0.16))))
    state = str(rng.choice(["bitti", "kötü", ""], p=(0.86, 0.06, 0.08)))
    if state == "kötü":
        seen["pixels"] = gaussian_filter(seen["pixels"], 5) * 0.4 + np.abs(rng.normal(0, 10, seen["pixels"].shape))
    _save(b, path, _screen(b, machine, seen, False), taken)
    marks = seen["nodules"]
    if state == "bitti":
        if rng.random() < 0.16:
            wrong = [_moved(rng, m) for m in marks] or [_round(rng, (120, 100), (9, 7), 0.05, 14)]
            tables[reader] += _rows(b, path, seen, state, wrong)
            tables["hoca_duzeltme"] += _rows(b, path, None, state, marks)
        else:
            tables[reader] += _rows(b, path, seen, state, marks)
        b.case(path, patient=person, mask={"nodül": seen["mask"]})
    else:
        tables[reader] += _rows(b, path, None, state, [])
        why[path] = "unusable (kötü)" if state else "not done yet"
    if not marks or rng.random() > 0.2:
        return False
    copy = f"{path.rsplit('_', 1)[0]}_{int(path[-8:-4]) + 1:04d}.jpg"
    _save(b, copy, _screen(b, machine, seen, True), taken)
    why[copy] = "calipers"
    return True
