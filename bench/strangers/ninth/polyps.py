"""Polyps outlined in CVAT, with polygons and masks of the brush."""

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
