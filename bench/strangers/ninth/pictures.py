"""Pictures: knees of a cohort, polyps outlined in CVAT, lung ultrasound out of REDCap, bone scans with HL7 reports."""

from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import binary_erosion, gaussian_filter, rotate

from bench.strangers import draw
from bench.strangers.build import Families, hexid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


# Knees: a table a visit, one line a knee


def _knee(b: Build, grade: int, left: bool, size: tuple[int, int] = (152, 132)) -> np.ndarray:
    """A frontal knee: the joint space closes, most medially, and spurs grow with the grade; 8 is a prosthesis."""
    rng, (h, w) = b.rng, size
    k = min(grade, 4)
    y, x = np.mgrid[:h, :w].astype(float)
    cy, cx, half = h * rng.uniform(0.46, 0.54), w * rng.uniform(0.46, 0.54), rng.uniform(37, 43)
    u, dy = (x - cx) / half, y - cy
    medial = max((9.4, 8.8, 7.6, 4.6, 1.4)[k] + rng.normal(0, 0.5), 0.6)
    lateral = (9.6, 9.4, 8.8, 8.0, 6.6)[k] + rng.normal(0, 0.6)
    gap = lateral + (medial - lateral) / (1 + np.exp(u * 12))
    low = cy - gap / 2 - 9 * ((np.abs(u) - 0.5) / 0.5) ** 2 * (np.abs(u) < 1.2)
    high = cy + gap / 2 - rng.uniform(3, 5) * np.exp(-((u / 0.13) ** 2)) + 2.5 * np.abs(u) ** 4
    femur = (y < low) & (np.abs(u) < 0.52 + 0.48 * np.exp(-(((dy + 14) / 30) ** 2)))
    tibia = (y > high) & (np.abs(u) < 0.5 + 0.47 * np.exp(-(((dy - 8) / 26) ** 2)))
    tibia |= draw.ball(size, (h * 1.05, cx + half * 0.86), (h * 0.4, 6)) & (y > cy + 20)  # the fibula
    spots = [(cy - gap.mean() / 2 - 8, -1), (cy - gap.mean() / 2 - 8, 1), (cy + 8, -1), (cy + 8, 1)]
    for i in rng.permutation(4)[: (0, 1, 3, 4, 4)[k]]:
        at, side = spots[i]
        long = max((0.0, 1.6, 4.2, 6.0, 8.2)[k] + rng.normal(0, 0.6), 0.5)
        spur = draw.ball(size, (at + rng.uniform(-1, 1), cx + side * half * 0.97), (2.4 + long * 0.25, long))
        if i < 2:
            femur |= spur & (y < low + 6)
        else:
            tibia |= spur
    bone = femur | tibia
    out = np.where(np.abs(u) < rng.uniform(1.3, 1.45) + 0.08 * np.cos(dy / 30), 62.0, 14.0)
    grain = gaussian_filter(rng.normal(0, 1, size), (1.6, 0.8))
    out[bone] = (135 + 40 * grain)[bone]
    out[bone & ~binary_erosion(bone, iterations=2)] += 32
    if k >= 3:
        hard = rng.uniform(16, 28) * (k - 2) * np.exp(-((np.abs(dy) / 9) ** 2)) / (1 + np.exp(u * 10))
        out += np.where(bone, hard, 0)
    if grade == 8:
        out[(femur & (dy > -26)) | draw.ball(size, (cy + 30, cx), (20, 5)) | (tibia & (dy < 11))] = 250
    out = gaussian_filter(out, rng.uniform(0.7, 1.1))
    out = rotate(out, rng.uniform(-6, 6), reshape=False, order=1, mode="nearest")
    out = out * rng.uniform(0.75, 1.1) + rng.uniform(-8, 22) + rng.normal(0, 4.5, size)
    return draw.u8(out[:, ::-1] if left else out)


@family(
    "knees_of_a_cohort", "diagnosis", 2,
    "We want the Kellgren-Lawrence grade (0 to 4) read automatically off the radiograph of a single knee.",
    notes="A table a visit with bars between fields, side coded 1 and 2, the later grade of a knee may be higher; "
    "missing codes and replaced knees are no grades; some films have no line and some lines no film.",
)  # fmt: skip
def knees(b: Build) -> None:
    first: list[list[Any]] = [["ID", "SIDE", "READPRJ", "V00XRKL", "V00XRJSM", "V00XRJSL", "V00BARCODE"]]
    later: list[list[Any]] = [[*first[0][:3], "V03XRKL", "V03XRJSM", "V03XRJSL", "V03BARCODE"]]
    people: list[list[Any]] = [["ID", "P01SEX", "V00AGE", "P01BMI", "V00SITE"]]
    start = [int(g) for g in b.rng.permutation(np.arange(74) % 5)]
    numbers = [int(v) for v in np.cumsum(b.rng.integers(9, 2400, 74)) + 9100000]
    lost = {int(v) for v in b.rng.permutation(74)[:6] if v not in (17, 52)}

    def line(table: list[list[Any]], n: int, side: int, said: Any) -> None:
        grade = said if isinstance(said, int) and said < 5 else None
        marks = [".M", ".M"] if grade is None else [max(0, grade - 1), max(0, grade - 2)]
        table.append([numbers[n], side, 15, said, *marks, f"0{b.rng.integers(16000000, 16999999)}"])

    for n, number in enumerate(numbers):
        people.append(
            [number, b.pick("1: Male", "2: Female"), 46 + int(b.rng.integers(33)), b.rng.integers(200, 390) / 10]
        )
        people[-1].append(b.pick("A", "B", "D", "E"))
        for side in (1, 2):
            grade = start[n] if b.rng.random() < 0.6 else int(np.clip(start[n] + b.rng.integers(-1, 2), 0, 4))
            path = f"knees_00m/{number}{'RL'[side - 1]}.png"
            pixels = _knee(b, grade, side == 2)
            if n not in lost:
                b.picture(path, pixels)
            if n in (17, 52) and side == 1:  # no reading
                b.truth["left_out"].append(path)
            elif n in (9, 38, 61) and side == 2:
                line(first, n, side, b.pick(".T", ".M"))
                if n not in lost:
                    b.truth["left_out"].append(path)
            else:
                line(first, n, side, grade)
                if n not in lost:
                    b.case(path, patient=str(number), label=str(grade))
            if n % 2 or n in lost:
                continue
            grown = min(4, grade + int(b.rng.random() < 0.4))
            if n in (12, 44) and side == 1:
                grown = 8
            path = f"knees_24m/{number}{'RL'[side - 1]}.png"
            b.picture(path, _knee(b, grown, side == 2))
            line(later, n, side, grown)
            if grown == 8:
                b.truth["left_out"].append(path)
            else:
                b.case(path, patient=str(number), label=str(grown))
    for name, table in (("kxr_sq_v00.txt", first), ("kxr_sq_v03.txt", later), ("enrollees.txt", people)):
        body = [table[1 + int(i)] for i in b.rng.permutation(len(table) - 1)] if name != "enrollees.txt" else table[1:]
        b.csv(f"tables/{name}", table[0], body, sep="|", end="\r\n")
    b.text(
        "README_release_2.txt",
        "RIVERBEND KNEE COHORT, public release 2: single-knee crops of fixed-flexion films\r\n\r\n"
        "knees_00m/   enrolment visit (V00)\r\nknees_24m/   24-month visit (V03), about half of the participants\r\n"
        "             file name: participant ID, then R or L\r\n"
        "tables/kxr_sq_v00.txt, kxr_sq_v03.txt   central readings, one line per knee and visit\r\n"
        "tables/enrollees.txt                    one line per participant\r\n\r\n"
        "SIDE       1 right, 2 left\r\nVxxXRKL    Kellgren-Lawrence grade, 0-4; 8 knee replaced since the last visit, "
        "not graded\r\nVxxXRJSM   joint space narrowing medial (OARSI 0-3), VxxXRJSL lateral\r\n"
        ".M         form missing        .T   technical problem, film not readable\r\n",
    )


# Polyps: CVAT, with polygons and masks of the brush


def _frame(
    b: Build, polyps: int, tool: bool, size: tuple[int, int] = (208, 240)
) -> tuple[np.ndarray, list, list | None]:
    """A view into the colon. Returns it with the outlines of its polyps and of the tool, lists of (x, y)."""
    rng, (h, w) = b.rng, size
    y, x = np.mgrid[:h, :w].astype(float)
    ly, lx = h * rng.uniform(0.25, 0.75), w * rng.uniform(0.25, 0.75)
    far = np.hypot(y - ly, (x - lx) * 0.9) + gaussian_filter(rng.normal(0, 1, size), 14) * 160
    light = 0.38 + 0.62 * (1 - np.exp(-far / rng.uniform(38, 60)))
    light += 0.12 * np.cos(far / rng.uniform(7, 11) + rng.uniform(0, 6)) * np.exp(-far / 150)  # folds
    wall = np.array((205.0, 118, 98)) * (1, rng.uniform(0.85, 1.1), rng.uniform(0.8, 1.15))
    out = wall * light[..., None]
    veins = gaussian_filter(rng.normal(0, 1, size), 3)
    out[np.abs(veins) < 0.004] *= (0.9, 0.72, 0.72)
    outlines: list[list[tuple[float, float]]] = []
    taken = np.zeros(size, bool)
    for _ in range(polyps):
        for _ in range(40):
            r = rng.uniform(13, 30)
            py, px = rng.uniform(42, h - 42), rng.uniform(46, w - 46)
            if np.hypot(py - ly, px - lx) > r + 14 and not taken[draw.ball(size, (py, px), r * 1.35)].any():
                break
        else:
            continue
        turns = np.linspace(0, 2 * np.pi, int(rng.integers(22, 36)), endpoint=False)
        shape = 1 + sum(rng.normal(0, 0.07) * np.cos(m * turns + rng.uniform(0, 6)) for m in (2, 3, 4))
        flat = rng.uniform(0.75, 1.0)
        edge = [(px + r * s * np.cos(t), py + r * s * np.sin(t) * flat) for t, s in zip(turns, shape, strict=True)]
        mask = _filled(edge, size)
        taken |= draw.ball(size, (py, px), r * 1.35)
        soft = gaussian_filter(mask.astype(float), 1.1)
        dome = np.clip(1 - ((x - px - r * 0.2) / r) ** 2 * 0.5 - ((y - py - r * 0.2) / (r * flat)) ** 2 * 0.5, 0, 1)
        pits = gaussian_filter(rng.normal(0, 1, size), 1.5) * 0.35
        own = rng.uniform(0.25, 1)
        body = (own * np.array((214.0, 96, 84)) + (1 - own) * wall) * rng.uniform(0.82, 1.06)
        body = body * (0.62 + 0.42 * dome + pits)[..., None]
        shade = gaussian_filter(np.roll(mask, (3, 3), (0, 1)).astype(float), 3)[..., None]
        out = out * (1 - 0.28 * shade * (1 - soft[..., None]))
        out = out * (1 - soft[..., None]) + body * soft[..., None]
        outlines.append(edge)
    for _ in range(int(rng.integers(0, 4))):  # stool and foam
        c, r = (rng.uniform(20, h - 20), rng.uniform(20, w - 20)), rng.uniform(2, 6)
        bit = draw.ball(size, c, (r, r * rng.uniform(1, 2))) & ~taken
        out[bit] = np.array((190.0, 165, 70)) * rng.uniform(0.7, 1.1)
    outline = None
    if tool:
        for _ in range(60):
            side, thick = rng.uniform(0.15, 0.85) * w, rng.uniform(5, 8)
            end = (side + rng.uniform(-40, 40), h * rng.uniform(0.5, 0.8))
            outline = [
                (side - thick, h - 1.0),
                (side + thick, h - 1.0),
                (end[0] + thick, end[1]),
                (end[0] - thick, end[1]),
            ]
            rod = _filled(outline, size)
            if not (rod & taken).any():
                stripe = 0.7 + 0.3 * np.cos((x - side) / thick * 2)
                out[rod] = (np.array((120.0, 138, 160)) * stripe[..., None])[rod]
                break
        else:
            outline = None
    for _ in range(int(rng.integers(4, 14))):  # wet reflections
        c = rng.uniform(15, h - 15), rng.uniform(15, w - 15)
        out[draw.ball(size, c, (rng.uniform(0.8, 2), rng.uniform(0.8, 3.2)))] = 250
    out = gaussian_filter(out, (0.8, 0.8, 0)) * rng.uniform(0.75, 1.1) + rng.normal(0, 4, out.shape)
    corner = np.abs(y - h / 2) / h + np.abs(x - w / 2) / w > 0.86
    out[corner | (x < 4) | (x > w - 5)] = 4
    return draw.u8(out), outlines, outline


def _filled(edge: list[tuple[float, float]], size: tuple[int, int]) -> np.ndarray:
    """The pixels whose centres lie within the outline."""
    big = Image.new("L", (size[1] * 4, size[0] * 4))
    ImageDraw.Draw(big).polygon([(x * 4, y * 4) for x, y in edge], fill=1)
    return np.asarray(big)[2::4, 2::4].astype(bool)


def _brush(mask: np.ndarray) -> str:
    """The attributes of a mask as CVAT writes one: runs within the box, the first of zeros."""
    ys, xs = np.nonzero(mask)
    top, left, bottom, right = ys.min(), xs.min(), ys.max(), xs.max()
    flat = mask[top : bottom + 1, left : right + 1].ravel().astype(int)
    ends = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *ends, flat.size]).tolist()
    runs = [0, *runs] if flat[0] else runs
    box = f'left="{left}" top="{top}" width="{right - left + 1}" height="{bottom - top + 1}"'
    return f'rle="{", ".join(map(str, runs))}" {box}'


@family(
    "polyps_outlined_in_cvat", "anomaly_detection", 2,
    "Mark every polyp in still frames from colonoscopy, outlines please, and leave frames without a polyp empty.",
    notes="One annotations.xml of CVAT: polygons, some masks as runs, instruments outlined too; frames without any "
    "shape are normal, those with a tag are not to be used.",
    mask_tolerance=0.12,
)  # fmt: skip
def polyps(b: Build) -> None:
    size = (208, 240)
    frames: list[tuple[str, int]] = []
    ids = [int(v) for v in np.sort(b.rng.permutation(260)[:66]) + 3]
    for case in ids:
        at = int(b.rng.integers(200, 4000))
        for _ in range(int(b.rng.integers(2, 5))):
            at += int(b.rng.integers(60, 900))
            frames.append((f"case_{case:03d}/frame_{at:06d}.jpg", case))
    bad = {int(v) for v in b.rng.permutation(len(frames))[:5]}
    items: list[str] = []
    for n, (name, case) in enumerate(frames):
        count = int(b.rng.choice(3, p=(0.33, 0.52, 0.15)))
        pixels, edges, rod = _frame(b, count, b.rng.random() < 0.25, size)
        path, total, shapes = f"images/{name}", np.zeros(size, bool), []
        if n in bad:
            smear = gaussian_filter(pixels.astype(float), (9, 9, 0)) + b.rng.normal(0, 4, pixels.shape)
            b.picture(path, draw.u8(smear), quality=88)
            b.truth["left_out"].append(path)
            shapes.append('    <tag label="unusable" source="manual">\n    </tag>\n')
        else:
            b.picture(path, pixels, quality=90)
            for edge in edges:
                mask = _filled(edge, size)
                total |= mask
                paris = f'      <attribute name="paris">{b.pick("Is", "IIa", "Ip", "unknown")}</attribute>\n'
                if b.rng.random() < 0.25:
                    shapes.append(
                        f'    <mask label="polyp" source="semi-auto" occluded="0" {_brush(mask)} z_order="0">\n'
                        f"{paris}    </mask>\n"
                    )
                else:
                    points = ";".join(f"{px:.2f},{py:.2f}" for px, py in edge)
                    shapes.append(
                        f'    <polygon label="polyp" source="manual" occluded="0" points="{points}" z_order="0">\n'
                        f"{paris}    </polygon>\n"
                    )
            if rod:
                points = ";".join(f"{px:.2f},{py:.2f}" for px, py in rod)
                shapes.append(
                    f'    <polygon label="instrument" source="manual" occluded="0" points="{points}" z_order="1">\n'
                    "    </polygon>\n"
                )
            b.case(path, patient=f"case_{case:03d}", mask={"polyp": total})
        head = f'  <image id="{n}" name={quoteattr(name)} subset="default" task_id="41" '
        head += f'width="{size[1]}" height="{size[0]}">\n'
        items.append(head + "".join(shapes) + "  </image>\n")
    labels = "".join(
        f"        <label>\n          <name>{name}</name>\n          <color>{colour}</color>\n"
        f"          <type>{kind}</type>\n"
        f"          <attributes>{extra}</attributes>\n        </label>\n"
        for name, colour, kind, extra in (
            (
                "polyp",
                "#fa3253",
                "any",
                "<attribute><name>paris</name><mutable>False</mutable><input_type>select</input_type>"
                "<default_value>unknown</default_value><values>unknown\nIs\nIp\nIIa</values></attribute>",
            ),
            ("instrument", "#33ddff", "polygon", ""),
            ("unusable", "#b83df5", "tag", ""),
        )
    )
    b.text(
        "annotations.xml",
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n  <meta>\n    <task>\n'
        f"      <id>41</id>\n      <name>colon stills round 2</name>\n      <size>{len(frames)}</size>\n"
        "      <mode>annotation</mode>\n      <subset>default</subset>\n"
        "      <created>2023-06-12 08:14:51.220417+00:00</created>\n"
        f"      <labels>\n{labels}      </labels>\n    </task>\n"
        "    <dumped>2023-11-02 15:40:03.118274+00:00</dumped>\n  </meta>\n"
        f"{''.join(items)}</annotations>\n",
    )
    b.text(
        "README.md",
        f"# Colon stills\n\n{len(frames)} white-light frames of {len(ids)} patients (one folder per patient), "
        "240 x 208.\n\n"
        "Outlines were drawn in CVAT and exported as *CVAT for images 1.1*. Every frame was looked at: a frame\n"
        "without a polyp shape shows no polyp. Instruments were outlined for another project. Frames tagged\n"
        "`unusable` are blurred or under water; please do not train or test on them.\n\nCC BY-NC 4.0\n",
    )


# Lung ultrasound: REDCap, raw

_LUNG = ("B-lines", "consolidation", "pleural effusion", "irregular pleural line")


def _lung(b: Build, signs: list[str], fan: bool, size: tuple[int, int] = (152, 136)) -> np.ndarray:
    """An intercostal view: the pleural line between the shadows of two ribs."""
    rng, (h, w) = b.rng, size
    y, x = np.mgrid[:h, :w].astype(float)
    line = (
        h * rng.uniform(0.2, 0.28)
        + rng.uniform(-0.06, 0.06) * (x[0] - w / 2)
        + 1.2 * np.sin(x[0] / rng.uniform(14, 30))
    )
    thick = np.full(w, rng.uniform(1.4, 2.0))
    shine = np.full(w, rng.uniform(170, 220))
    if "irregular pleural line" in signs:
        parts = np.cumsum(rng.random(w) < 0.12)
        line = line + gaussian_filter(rng.uniform(-3.6, 3.6, parts.max() + 1)[parts], 0.6)
        thick = gaussian_filter(rng.uniform(1.2, 4.6, parts.max() + 1)[parts], 1)
        shine = shine * gaussian_filter((rng.random(parts.max() + 1)[parts] > 0.22).astype(float), 1.2)
    top = line.copy()
    out = 46 + 26 * np.cos(y / rng.uniform(2.6, 4.2) + 0.02 * x) * (y < line) + 0 * x
    deep = y - line
    out = np.where(deep > 0, 34 * np.exp(-deep / (h * 0.45)) + 10, out)
    if "pleural effusion" in signs:
        wide = h * rng.uniform(0.14, 0.28) * (1 + 0.3 * np.sin(x[0] / w * rng.uniform(1, 4) + rng.uniform(0, 6)))
        low = line + wide
        out = np.where((y > line) & (y < low), rng.uniform(3, 9), out)
        out[np.abs(y - low) < 1.2] = rng.uniform(120, 170)
        line = low
        deep = y - line
    many = "B-lines" in signs
    if not many:
        for k in range(1, 4):
            out += rng.uniform(55, 90) / k * np.exp(-(((y - line - k * top.mean() * 0.95) / 1.3) ** 2))
    mids = np.sort(
        rng.permutation(np.linspace(w * 0.27, w * 0.73, 7))[
            : int(rng.integers(3, 6)) if many else int(rng.integers(0, 2))
        ]
    )
    for mid in mids:
        thin = rng.uniform(1.2, 2.6) * (1 + 0.008 * np.clip(deep, 0, None))
        lean = mid + rng.uniform(-2, 2) + deep * (mid - w / 2) / w * 0.25 * fan
        ray = np.exp(-(((x - lean) / thin) ** 2)) * (deep > 0) * (1 - 0.35 * deep / h)
        out += rng.uniform(62, 100) * ray * (1 if many else 0.55 * np.exp(-np.clip(deep, 0, None) / 30))
    if "consolidation" in signs:
        for _ in range(int(rng.integers(1, 3))):
            cx, r = int(rng.uniform(0.33, 0.67) * w), rng.uniform(13, 21)
            rag = gaussian_filter(rng.normal(0, 1, w), 1.4) * 5
            patch = (deep > 0) & (
                deep
                < np.sqrt(np.clip(r**2 - (x - cx) ** 2, 0, None)) * rng.uniform(0.9, 1.3) + rag * (np.abs(x - cx) < r)
            )
            out[patch] = 62 + 60 * gaussian_filter(rng.normal(0, 1, size), 1.3)[patch]
            rim = patch & ~binary_erosion(patch, iterations=2) & (deep > 4)
            out[rim] = rng.uniform(115, 160)
            for _ in range(int(rng.integers(2, 6))):
                spot = draw.ball(
                    size, (line[cx] + rng.uniform(3, r * 0.7), cx + rng.uniform(-r, r) * 0.5), (0.9, rng.uniform(1, 3))
                )
                out[spot & patch] = 165
    pleura = np.exp(-(((y - top) / thick) ** 2)) * shine
    out = np.maximum(out, pleura)
    for side in (0, 1):  # ribs
        at, r = w * (rng.uniform(0.02, 0.12) if side == 0 else rng.uniform(0.88, 0.98)), rng.uniform(12, 18)
        head = top.mean() - rng.uniform(6, 12)
        arc = head + (x - at) ** 2 / (2.2 * r)
        shadow = (np.abs(x - at) < r) & (y > arc)
        out[shadow] *= 0.18
        out[(np.abs(y - arc) < 1.6) & (np.abs(x - at) < r * 0.8)] = 190
    out = out * gaussian_filter(rng.gamma(3.2, 1 / 3.2, size), 0.7) * rng.uniform(0.75, 1.25)
    out = gaussian_filter(out, 0.6) + rng.uniform(0, 8) + rng.normal(0, 2.5, size)
    if fan:
        out[np.abs(x - w / 2) > w * 0.3 + y * 0.3] = 0
    out[4:7, 4:18] = 200 if fan else 0
    out[::19, -3:] = 170
    return draw.u8(out)


@family(
    "lung_ultrasound_out_of_redcap", "diagnosis", 2,
    "For a lung ultrasound still, say which of these are there: B-lines, consolidation, effusion, an irregular pleural "
    "line. It can be several of them or none.",
    notes="Raw REDCap export with check boxes, repeating forms and events; drafts (status below 2) do not count; "
    "adjudications over first readings; numbers of two devices overlap; withdrawn people; people enrolled twice.",
)  # fmt: skip
def lungs(b: Build) -> None:
    boxes = ("___1", "___2", "___3", "___4", "___9")
    columns = ["record_id", "redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"]
    columns += ["enr_date", "enr_age", "enr_sex", "enr_prev", "enr_withdrawn", "enrolment_complete"]
    columns += [
        "lus_zone",
        "lus_dev",
        "lus_img",
        *("lus_find" + k for k in boxes),
        "lus_reader",
        "lus_note",
        "lus_image_complete",
    ]
    columns += ["adj_img", "adj_dev", *("adj_find" + k for k in boxes), "adj_by", "adjudication_complete"]
    rows: list[dict[str, Any]] = []
    pools = [[int(v) for v in b.rng.permutation(np.arange(102, 700))] for _ in range(2)]  # the devices count alike
    pools[1][:60] = [v for v in pools[0][:120:2]]  # some numbers are on both
    pools[1] = list(dict.fromkeys(pools[1]))
    used: list[tuple[int, str, np.ndarray]] = []
    chance = (0.42, 0.3, 0.3, 0.34)
    special = [int(v) for v in b.rng.permutation(76)]
    withdrawn, twice, lost = set(special[:3]), set(special[3:7]), set(special[7:10])
    persons: dict[int, str] = {}
    records = [1001 + n for n in range(76)]

    def ticks(field: str, signs: list[str], unfit: bool = False) -> dict[str, int]:
        return {field + k: int(s in signs) for k, s in zip(boxes, _LUNG, strict=False)} | {field + "___9": int(unfit)}

    def other(signs: list[str]) -> list[str]:
        turned = {_LUNG[int(i)] for i in b.rng.permutation(4)[: int(b.rng.integers(1, 3))]}
        return [s for s in _LUNG if (s in signs) != (s in turned)]

    image = 0
    for n, record in enumerate(records):
        before = [records[k] for k in range(n) if k not in withdrawn]
        earlier = b.pick(*before) if n in twice and n > 12 else None
        persons[record] = persons[earlier] if earlier else str(record)
        day = f"2023-{int(b.rng.integers(1, 13)):02d}-{int(b.rng.integers(1, 28)):02d}"
        rows.append(
            {
                "record_id": record,
                "redcap_event_name": "day_0_arm_1",
                "enr_date": day,
                "enr_age": int(b.rng.integers(24, 91)),
            }
            | {"enr_sex": int(b.rng.integers(1, 3)), "enr_prev": earlier or "", "enr_withdrawn": int(n in withdrawn)}
            | {"enrolment_complete": 2}
        )
        base = [s for s, p in zip(_LUNG, chance, strict=True) if b.rng.random() < p]
        instances, judged = 0, []
        for event in ("day_0_arm_1", "day_7_arm_1")[: 2 if b.rng.random() < 0.35 else 1]:
            dev = int(b.rng.integers(1, 3))
            for zone in sorted(int(z) for z in b.rng.permutation(8)[: int(b.rng.integers(2, 4))] + 1):
                flip = [b.rng.random() < 0.22 for _ in _LUNG]
                signs = [s for s, f in zip(_LUNG, flip, strict=True) if (s in base) != f]
                if event == "day_7_arm_1":
                    signs = [s for s in signs if b.rng.random() < 0.75]
                number = pools[dev - 1].pop(0)
                typed = (
                    str(number)
                    if dev == 2
                    else b.pick(f"V{number:04d}", f"V{number:04d}", f"v{number}", f"V {number:04d}")
                )
                path = f"venue_go/{number // 100}00/V{number:04d}.JPG" if dev == 1 else f"te7/EXP{number:06d}.png"
                pixels = _lung(b, signs, dev == 2)
                instances += 1
                row = {"record_id": record, "redcap_event_name": event, "redcap_repeat_instrument": "lus_image"}
                row |= {"redcap_repeat_instance": instances, "lus_zone": zone, "lus_dev": dev, "lus_img": typed}
                row |= {"lus_reader": b.pick("kp", "mo", "jd"), "lus_image_complete": 2, **ticks("lus_find", signs)}
                row["lus_note"] = b.pick("", "", "", "", "obese", "prone position", "patient coughing")
                keep = n not in withdrawn
                image += 1
                if image % 23 == 7:  # begun and left: the boxes mean nothing
                    row |= ticks("lus_find", []) | {"lus_image_complete": int(image % 2)}
                    keep = False
                elif image % 31 == 12:
                    row |= ticks("lus_find", [], True) | {"lus_note": "no window"}
                    keep = False
                elif image % 6 == 3:
                    row |= ticks("lus_find", other(signs))
                    judged.append(
                        ({"adj_img": typed, "adj_dev": dev, "adj_by": "SR", "adjudication_complete": 2}, event, signs)
                    )
                elif image % 41 == 20:  # an adjudication in draft
                    judged.append(
                        ({"adj_img": typed, "adj_dev": dev, "adj_by": "", "adjudication_complete": 0}, event, [])
                    )
                rows.append(row)
                if n in lost:
                    continue
                if image % 97 == 55:
                    b.broken(
                        f"images/{path}",
                        b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01" if dev == 1 else b"\x89PNG\r\n\x1a\n\x00\x00",
                    )
                    continue
                b.picture(f"images/{path}", pixels, **({"quality": 93} if dev == 1 else {}))
                used.append((dev, path, pixels))
                if keep:
                    b.case(f"images/{path}", patient=persons[record], label=signs)
                else:
                    b.truth["left_out"].append(f"images/{path}")
        for k, (fields, event, signs) in enumerate(judged):
            head = {"record_id": record, "redcap_event_name": event, "redcap_repeat_instrument": "adjudication"}
            rows.append(head | {"redcap_repeat_instance": k + 1} | fields | ticks("adj_find", signs))
    copies = [u for u in used if u[0] == 2]
    for i in b.rng.permutation(len(copies))[:4]:  # exported a second time
        path = f"images/{copies[int(i)][1].removesuffix('.png')} (1).png"
        b.picture(path, copies[int(i)][2])
        b.truth["left_out"].append(path)
    for number in (9, 14, 31):  # trials on a colleague
        path = f"images/te7/EXP{number:06d}.png"
        b.picture(path, _lung(b, [], True))
        b.truth["left_out"].append(path)
    b.csv("redcap/LUSED_DATA_2024-03-11_1542.csv", columns, [[r.get(c, "") for c in columns] for r in rows])
    _dictionary(b)
    b.text(
        "READ ME FIRST.txt",
        "LUSED - lung ultrasound in the emergency department\n\n"
        "redcap/  raw export of the project, and its data dictionary. One 'lus_image' form per still.\n"
        "images/  what we copied from the two machines. Venue Go: V0231 is V0231.JPG. TE7: 187 is EXP000187.png.\n"
        "         Both machines count by themselves, so look at lus_dev as well.\n\n"
        "- A form counts only when its status is complete (2). Anything else is a draft.\n"
        "- Where SR has adjudicated a still, the adjudication replaces the reading.\n"
        "- No box ticked on a complete form: none of the findings.\n"
        "- Day 7 belongs to the same person. Readmitted people got a new record, see enr_prev.\n"
        "- Please respect enr_withdrawn.\n- Stills that no form names were taken to try the machine.\n",
    )


def _dictionary(b: Build) -> None:
    header = ["Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label"]
    header += ["Choices, Calculations, OR Slider Labels", "Field Note", "Text Validation Type OR Show Slider Number"]
    header += ["Required Field?", "Identifier?"]
    found = (
        "1, B-lines (three or more) | 2, Consolidation | 3, Pleural effusion | 4, Pleural line thickened or irregular"
    )
    found += " | 9, Zone cannot be assessed"
    zones = " | ".join(f"{k}, {side}{z}" for k, (side, z) in enumerate([(s, z) for s in "RL" for z in range(1, 5)], 1))
    devices = "1, GE Venue Go | 2, Mindray TE7"
    fields = [
        ("record_id", "enrolment", "text", "Record", "", "", ""),
        ("enr_date", "enrolment", "text", "Date of enrolment", "", "", "date_ymd"),
        ("enr_age", "enrolment", "text", "Age", "", "years", "integer"),
        ("enr_sex", "enrolment", "radio", "Sex", "1, Female | 2, Male", "", ""),
        ("enr_prev", "enrolment", "text", "Enrolled before? Give the earlier record", "", "empty if not", "integer"),
        ("enr_withdrawn", "enrolment", "yesno", "Consent withdrawn, data not to be used", "", "", ""),
        ("lus_zone", "lus_image", "dropdown", "Zone", zones, "", ""),
        ("lus_dev", "lus_image", "radio", "Machine", devices, "", ""),
        ("lus_img", "lus_image", "text", "Number of the still", "", "as on the screen", ""),
        ("lus_find", "lus_image", "checkbox", "What do you see? Tick all that apply", found, "", ""),
        ("lus_reader", "lus_image", "text", "Reader", "", "initials", ""),
        ("lus_note", "lus_image", "notes", "Remarks", "", "", ""),
        ("adj_img", "adjudication", "text", "Still under review", "", "", ""),
        ("adj_dev", "adjudication", "radio", "Machine", devices, "", ""),
        ("adj_find", "adjudication", "checkbox", "Final findings", found, "", ""),
        ("adj_by", "adjudication", "text", "Adjudicated by", "", "initials", ""),
    ]
    rows = [
        [name, form, "", kind, label, choices, note, check, "", ""]
        for name, form, kind, label, choices, note, check in fields
    ]
    b.csv("redcap/LUSED_DataDictionary_2024-03-11.csv", header, rows)


# Bone scans: folders of two cameras, a worklist, HL7 messages

_HOT = {
    "skull": ("al cranio, in sede parietale", 0.12),
    "dorsal": ("al rachide dorsale medio", 0.24),
    "lumbar": ("al rachide lombare", 0.24),
    "rib right": ("all'arco costale di destra", 0.16),
    "rib left": ("all'arco costale di sinistra", 0.16),
    "iliac right": ("all'ala iliaca destra", 0.16),
    "iliac left": ("all'ala iliaca sinistra", 0.16),
    "femur right": ("al femore prossimale destro", 0.12),
    "femur left": ("al femore prossimale sinistro", 0.12),
}


def _scan(b: Build, signs: list[str]) -> list[np.ndarray]:
    """Counts from in front and from behind; seen from in front, the patient's right is on the left."""
    rng, size = b.rng, (256, 96)
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    mid = w / 2 + rng.uniform(-3, 3)
    bone, organs = np.zeros(size), np.zeros(size)

    def add(to: np.ndarray, at: tuple[float, float], radii: tuple[float, float], much: float) -> None:
        to += much * np.exp(-(np.clip(((y - at[0]) / radii[0]) ** 2 + ((x - at[1]) / radii[1]) ** 2, 0, 40) ** 1.5))

    add(bone, (22, mid), (14, 10), 22)
    for k in range(20):
        add(bone, (40 + k * 4.2, mid), (1.9, 3.2), rng.uniform(22, 28))
    for side in (-1, 1):
        for k in range(8):
            arc = 52 + k * 5.6 + 0.014 * (x - mid) ** 2 + side * 0.0
            bone += 9 * np.exp(-(((y - arc) / 1.1) ** 2)) * (np.abs(x - mid) < 19) * ((x - mid) * side > 0)
        add(bone, (48, mid + side * 21), (5, 5), rng.uniform(20, 27))
        add(bone, (78, mid + side * 27), (30, 2.4), 10)
        add(bone, (124, mid + side * 31), (24, 2.2), 8)
        add(bone, (128, mid + side * 10), (10, 8), 20)
        add(bone, (138, mid + side * 14), (5, 5), 16)
        add(bone, (168, mid + side * 13), (28, 2.8), 11)
        add(bone, (198, mid + side * 12), (5, 5), rng.uniform(15, 20) * (2.6 if "knees" in signs else 1))
        add(bone, (224, mid + side * 11), (24, 2.4), 10)
        if ("kidney right" if side < 0 else "kidney left") not in signs:
            add(organs, (104 + rng.uniform(-2, 2), mid + side * 9), (6.5, 3.6), rng.uniform(30, 44))
    where = {
        "skull": (16, 6),
        "dorsal": (72, 0),
        "lumbar": (108, 0),
        "rib": (78, 15),
        "iliac": (126, 11),
        "femur": (149, 13),
    }
    for sign in signs:
        place, _, side = sign.partition(" ")
        if place not in where:
            continue
        sy, sx = where[place]
        turn = {"right": -1, "left": 1}.get(side, 1 if place != "skull" else rng.choice([-1, 1]))
        add(
            bone,
            (sy + rng.uniform(-5, 5), mid + turn * sx + rng.uniform(-1.5, 1.5)),
            (rng.uniform(2.2, 3.8), rng.uniform(2.4, 4)),
            rng.uniform(70, 130),
        )
    front, back = bone * 0.85 + organs * 0.25, bone + organs
    add(front, (141, mid + rng.uniform(-1, 1)), (5, 6), rng.uniform(90, 160))
    add(back, (142, mid), (4.5, 5.5), rng.uniform(40, 70))
    add(front, (66, mid), (14, 2.2), 9)
    body = 3.5 * (np.abs(x - mid) < 34) * (y > 8) * (y < 246)
    dose = rng.uniform(0.8, 1.5)
    shots = [rng.poisson(np.clip(gaussian_filter(v + body, 0.9) * dose, 0, None)).astype(float) for v in (front, back)]
    return [shots[0], shots[1][:, ::-1]]


def _referto(b: Build, signs: list[str]) -> list[str]:
    hot = [s for s in signs if s in _HOT]
    lines = [
        b.pick(
            "Acquisizione total body in proiezione anteriore e posteriore a tre ore da 99mTc-HDP.",
            "Esame eseguito a tre ore da 99mTc-HDP, proiezioni anteriore e posteriore.",
        )
    ]
    for sign in hot:
        what = b.pick("Focolaio di iperaccumulo", "Area di aumentata captazione", "Iperfissazione focale")
        lines.append(f"{what} {_HOT[sign][0]}.")
    if "knees" in signs:
        lines.append("Iperaccumulo a carico di entrambe le ginocchia, di significato degenerativo.")
    if not hot:
        lines.append(
            b.pick("Distribuzione omogenea del radiofarmaco nello scheletro.", "Non aree di patologico accumulo osseo.")
        )
    missing = [s for s in ("right", "left") if f"kidney {s}" in signs]
    lines.append(
        f"Non visualizzato il rene {'destro' if missing[0] == 'right' else 'sinistro'}."
        if missing
        else "Reni normalmente visualizzati."
    )
    end = "non segni di ripetitività ossea"
    if hot:
        end = (
            "lesioni ossee multiple, quadro di ripetitività"
            if len(hot) > 1
            else "reperto focale unico, utile confronto con TC"
        )
    return [*lines, f"Conclusioni: {end}."]


@family(
    "bone_scans_with_hl7_reports", "report_generation", 2,
    "Vorremmo che il modello scrivesse una bozza di referto della scintigrafia ossea total body a partire dalle due "
    "proiezioni.",
    notes="Folders of two cameras, joined to HL7 messages (carriage returns, latin-1) over a worklist; corrected over "
    "final over preliminary; interrupted scans; other examinations; merged patient codes; two views a case.",
)  # fmt: skip
def scans(b: Build) -> None:
    exams: list[tuple[str, int, str]] = []  # code of the patient, person, date
    merges: list[list[str]] = []
    codes = [str(int(v)) for v in b.rng.permutation(np.arange(300412, 389000))[:90]]
    for person in range(70):
        days = sorted(
            f"{2021 + int(b.rng.integers(3))}{int(b.rng.integers(1, 13)):02d}{int(b.rng.integers(1, 28)):02d}"
            for _ in range(2)
        )
        exams.append((codes[person], person, days[0]))
        if person % 6 == 2 and days[0] != days[1]:
            code = codes[person]
            if person % 12 == 2:  # registered anew, found later
                code = codes[70 + len(merges)]
                merges.append([codes[person], code, f"{person % 27 + 1:02d}/02/2024"])
            exams.append((code, person, days[1]))
    order = [int(i) for i in b.rng.permutation(len(exams))]
    odd = [int(i) for i in b.rng.permutation(len(exams))]
    silent, cancelled, torn = set(odd[:3]), set(odd[3:5]), odd[5]
    stopped, copied, early, fixed = set(odd[6:11]), odd[11:14], set(odd[14:30]), set(odd[30:40])
    stamps: set[str] = set()
    works: list[list[str]] = []
    messages: list[tuple[str, str]] = []

    def number(year: str) -> str:
        while True:
            name = f"SO{year[2:4]}{int(b.rng.integers(1000, 9999)):05d}"
            if name not in stamps:
                stamps.add(name)
                return name

    def send(
        code: str, accession: str, day: str, after: int, state: str, lines: list[str], kind: str = "SCINT_OSS"
    ) -> None:
        when = f"{day}{9 + after:02d}{int(b.rng.integers(10, 60))}{int(b.rng.integers(10, 60))}"
        name = {"SCINT_OSS": "Scintigrafia ossea total body", "SCINT_TIR": "Scintigrafia tiroidea"}[kind]
        why = b.pick("K mammella, stadiazione", "K prostata, follow up", "dolore osseo", "PSA in aumento")
        obr = [
            "OBR",
            "1",
            f"R{accession[2:]}",
            accession,
            f"{kind}^{name}",
            "",
            "",
            day,
            *[""] * 5,
            why,
            *[""] * 8,
            when,
            "",
            "NM",
            state,
        ]
        msh = [
            "MSH",
            "^~\\&",
            "RIS",
            "OSP_SMARTA",
            "ARCHIVIO",
            "OSP_SMARTA",
            when,
            "",
            "ORU^R01",
            f"MSG{hexid(b, 4).upper()}",
            "P",
            "2.3",
        ]
        segments = [
            "|".join([*msh, *[""] * 5, "8859/1"]),
            f"PID|1||{code}^^^SMARTA||ANONIMO^||{int(b.rng.integers(1935, 1990))}|{b.pick('M', 'F')}",
        ]
        segments.append("|".join(obr))
        segments += [f"OBX|{k}|TX|&GDT^Referto||{line}||||||{state}" for k, line in enumerate(lines, 1)]
        messages.append((when, "\r".join([*segments, ""])))

    def shoot(day: str, signs: list[str], accession: str, code: str, ended: str, n: int) -> list[str]:
        """Writes a scan and its line of the worklist; with a copy, a torn one, or one broken off at the pelvis."""
        front, back = _scan(b, signs)
        if ended == "interrotto":
            front[115:], back[115:] = b.rng.poisson(0.3, front[115:].shape), b.rng.poisson(0.3, back[115:].shape)
        clock = f"{int(b.rng.integers(8, 18)):02d}{int(b.rng.integers(60)):02d}"
        old = day < "20220701"
        folder = f"gamma1/{int(b.rng.integers(10000, 99999)):06d}" if old else f"gamma2/WB_{day}_{clock}_{hexid(b, 2)}"
        names = ("ANT.tif", "POST.tif") if old else ("img0001_anteriore.png", "img0002_posteriore.png")
        paths = [f"{folder}/{name}" for name in names]
        works.append(
            [folder.split("/")[1], "GAMMA 1" if old else "GAMMA 2", accession, code, f"{day[6:]}/{day[4:6]}/{day[:4]}"]
        )
        works[-1] += ["OSSEA WB", ended]
        for path, shot in zip(paths, (front, back), strict=True):
            if n == torn and ended == "eseguito":
                b.broken(path, b"II*\x00\x08\x00\x00\x00" if old else b"\x89PNG\r\n\x1a\n\x00\x00")
            elif old:
                b.picture(path, np.clip(shot * 7, 0, 65535).astype(np.uint16))
            else:
                b.picture(path, draw.u8(255 - shot / np.percentile(shot, 99.6) * 235))
        if not old and b.rng.random() < 0.25:  # what the camera puts in beside them
            extra = f"{folder}/flood_QC.png"
            b.picture(extra, draw.u8(b.rng.poisson(120, (64, 64)).astype(float)))
            b.truth["left_out"].append(extra)
        if n in copied and ended == "eseguito" and not old:
            for path, shot in zip(paths, (front, back), strict=True):
                again = path.replace(folder, folder + " - Copia")
                b.picture(again, draw.u8(255 - shot / np.percentile(shot, 99.6) * 235))
                b.truth["left_out"].append(again)
        return paths

    for n in order:
        code, person, day = exams[n]
        accession = number(day)
        signs = [s for s, (_, p) in _HOT.items() if b.rng.random() < p]
        signs = [] if b.rng.random() < 0.2 else signs
        signs += ["knees"] * (b.rng.random() < 0.3)
        signs += [b.pick("kidney right", "kidney left")] * (b.rng.random() < 0.18)
        if n in cancelled:
            b.truth["left_out"] += shoot(day, signs, accession, code, "interrotto", n)
            send(code, accession, day, 1, "X", ["Esame non completato per intolleranza del paziente."])
            continue
        if n in stopped:
            b.truth["left_out"] += shoot(day, signs, accession, code, "interrotto", n)
        paths = shoot(day, signs, accession, code, "eseguito", n)
        if n in silent:
            b.truth["left_out"] += paths
            continue
        lines = _referto(b, signs)
        wrong = _referto(b, [s for s in _HOT if s not in signs][: int(b.rng.integers(0, 3))])
        if n in early:
            send(code, accession, day, 1, "P", wrong)
        if n in fixed:
            send(code, accession, day, 4, "F", wrong)
            send(code, accession, day, 8, "C", lines)
        else:
            send(code, accession, day, 4, "F", lines)
        if n != torn:
            b.case(paths, patient=f"p{person}", text="\n".join(lines), views=2)
    for k in range(6):  # thyroids, whose pictures are not here
        day = f"2022{k + 2:02d}1{k}"
        send(
            codes[80 + k],
            number(day),
            day,
            3,
            "F",
            ["Tiroide in sede, captazione omogenea.", "Conclusioni: nei limiti."],
            "SCINT_TIR",
        )
    for k, (_, body) in enumerate(sorted(messages)):
        b.text(f"ris/ORU_{k + 1042:06d}.hl7", body, encoding="latin-1")
    header = ["CARTELLA", "MACCHINA", "N_ESAME", "COD_PAZ", "DATA", "PROTOCOLLO", "ESITO"]
    b.csv("lista_lavoro.csv", header, sorted(works, key=lambda r: r[4][6:] + r[4][3:5] + r[4][:2]), sep=";", end="\r\n")
    b.csv("unioni_anagrafiche.csv", ["COD_VECCHIO", "COD_NUOVO", "UNITO_IL"], merges, sep=";", end="\r\n")
    b.text(
        "LEGGIMI.txt",
        "Medicina nucleare, scintigrafie ossee 2021-2023\r\n\r\n"
        "gamma1, gamma2          immagini come uscite dalle due macchine, una cartella per acquisizione\r\n"
        "lista_lavoro.csv        a quale esame e paziente appartiene ogni cartella; ESITO interrotto = acquisizione\r\n"
        "                        incompleta, da non usare (se possibile ripetuta lo stesso giorno)\r\n"
        "ris                     messaggi ORU^R01 del RIS, numero d'esame in OBR-3, stato in OBR-25:\r\n"
        "                        P preliminare, F definitivo, C corretto (sostituisce il definitivo), X annullato\r\n"
        "unioni_anagrafiche.csv  pazienti che avevano due codici\r\n\r\n"
        "Le immagini flood_QC sono controlli di qualità.\r\n",
        encoding="cp1252",
    )
    b.clutter("windows", under="gamma2")
