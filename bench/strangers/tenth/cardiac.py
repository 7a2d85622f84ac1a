"""Cine MRI of the heart with the workspaces of the console on which it was outlined."""

from typing import Any

import numpy as np
import pydicom
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "cine_outlined_on_the_console": "Cardiac MRI of our cardiomyopathy clinic as it came off the scanners, with what "
    "the technologist traced on the analysis console to get volumes. Only the two moments needed for the ejection "
    "fraction were traced, and some patients came back for a second scan.",
}

PHASES, FINE = 8, 4  # FINE: the console counts quarters of pixels
# maker, rows and columns, mm a pixel, brightest value, signed
VENDORS = (
    ("SIEMENS", (144, 120), 1.77, 620, False),
    ("Philips Medical Systems", (128, 128), 1.68, 1900, False),
    ("GE MEDICAL SYSTEMS", (136, 136), 1.56, 3200, True),
)
LV, MYO, RV = "left ventricular cavity", "left ventricular myocardium", "right ventricle"
Outline = list[tuple[float, float]]


def _filled(edge: Outline, size: tuple[int, int]) -> np.ndarray:
    """The pixels whose centres lie within the outline."""
    big = Image.new("L", (size[1] * 4, size[0] * 4))
    ImageDraw.Draw(big).polygon([(x * 4, y * 4) for x, y in edge], fill=1)
    return np.asarray(big)[2::4, 2::4].astype(bool)


def _soft(edge: Outline, size: tuple[int, int], blur: float = 0.7) -> np.ndarray:
    return gaussian_filter(_filled(edge, size).astype(float), blur)


def _heart(rng: Any, size: tuple[int, int]) -> dict[str, Any]:
    """What is one patient's own."""
    h, w = size
    return {
        "at": (h * rng.uniform(0.47, 0.55), w * rng.uniform(0.53, 0.6)),
        "r": rng.uniform(13.5, 17.5),
        "wall": rng.uniform(4.6, 7.5),
        "squeeze": rng.uniform(0.22, 0.42),
        "rv": rng.uniform(13, 19),
        "lean": rng.uniform(-0.35, 0.35),
        "peak": int(rng.integers(2, 5)),
        "wobble": [(m, rng.normal(0, 0.025), rng.uniform(0, 6)) for m in (2, 3, 4)],
        "body": (rng.uniform(0.42, 0.47), rng.uniform(0.45, 0.5)),
        "muscles": rng.uniform(-0.3, 0.3, 2),
        "texture": gaussian_filter(rng.normal(0, 1, size), 4) * 10,
        "fat": rng.uniform(0.6, 0.95),
        "near": rng.normal(0, 0.02, (5, 2)),
    }


def _outlines(heart: dict[str, Any], level: int, phase: int) -> dict[str, Outline]:
    """Outlines of a slice (0 base, 1 mid, 2 apex) at a phase, points (x, y)."""
    peak = heart["peak"]
    turn = phase / peak * np.pi if phase <= peak else np.pi + (phase - peak) / (PHASES - peak) * np.pi
    beat = 0.5 - 0.5 * np.cos(turn)
    small = (1.0, 0.92, 0.68)[level]
    inner = heart["r"] * small * (1 - heart["squeeze"] * beat)
    full = heart["r"] * small
    outer = np.sqrt(inner**2 + (full + heart["wall"] * (1, 1, 0.9)[level]) ** 2 - full**2)
    y, x = heart["at"][0] + (level - 1) * 2.5, heart["at"][1] + (level - 1) * 1.5
    turns = np.linspace(0, 2 * np.pi, 48, endpoint=False)

    def edge(r: Any, at: np.ndarray) -> Outline:
        rough = 1 + sum(a * np.cos(m * at + p) for m, a, p in heart["wobble"])
        return [
            (float(x + q * np.cos(t)), float(y + q * np.sin(t)))
            for q, t in zip(np.broadcast_to(r * rough, at.shape), at, strict=True)
        ]

    out = {"saendocardialContour": edge(inner, turns), "saepicardialContour": edge(outer, turns)}
    bulge = heart["rv"] * (1.0, 0.85, 0.0)[level] * (1 - 0.38 * beat)
    if bulge:
        arc = np.linspace(np.pi - 1.15, np.pi + 1.0, 20) + heart["lean"]
        rise = np.sin(np.linspace(0, np.pi, 20)) ** 0.75
        out["sarvendocardialContour"] = edge(outer * 1.07, arc) + edge(outer * 1.07 + bulge * rise, arc)[::-1][1:-1]
    return out


def _picture(
    rng: Any, size: tuple[int, int], heart: dict[str, Any], edges: dict[str, Outline], scar: bool | None = None
) -> np.ndarray:
    """0 to 1. `scar` tells of a late-enhancement image: blood and scar bright, muscle nulled."""
    h, w = size
    late = scar is not None
    y, x = np.mgrid[:h, :w].astype(float)
    ring = np.hypot((y - h * 0.5) / (h * heart["body"][0]), (x - w * 0.5) / (w * heart["body"][1]))
    out = np.where(ring < 1, heart["fat"], 0.02)
    out[ring < 0.9] = 0.33 + 0.03 * heart["texture"][ring < 0.9]
    for cx, (dy, dx) in zip((0.22, 0.8), heart["near"], strict=False):
        lung = draw.ball(size, (h * (0.42 + dy), w * (cx + dx)), (h * (0.26 + dx), w * (0.14 + dy))) & (ring < 0.84)
        out[lung] = 0.07
    (ly, lx), (ay, ax), (sy, sx) = heart["near"][2:] + np.array(((0.83, 0.3), (0.76, 0.72), (0.86, 0.53)))
    out[draw.ball(size, (h * ly, w * lx), (h * 0.13, w * 0.24)) & (ring < 0.87)] = 0.42  # liver
    out[draw.ball(size, (h * ay, w * ax), 5.5)] = 0.85  # aorta
    out[draw.ball(size, (h * sy, w * sx), (7, 8))] = 0.5  # spine
    epi, endo = edges["saepicardialContour"], edges["saendocardialContour"]
    mid = np.mean(epi, axis=0)
    wide = [(float(mid[0] + (px - mid[0]) * 1.16), float(mid[1] + (py - mid[1]) * 1.16)) for px, py in epi]
    out = out + (heart["fat"] * 0.8 - out) * _soft(wide, size, 1.2) * 0.8  # fat around
    blood, muscle = (0.7, 0.08) if late else (0.86, 0.27)
    if "sarvendocardialContour" in edges:
        rv = edges["sarvendocardialContour"]
        out = out + (muscle - out) * np.clip(gaussian_filter(_filled(rv, size).astype(float), 2.0) * 1.7, 0, 1)
        grain = 0.05 * gaussian_filter(rng.normal(0, 1, size), 1.5) * 4
        out = out + (blood * 0.94 + grain - out) * _soft(rv, size)
    out = out + (muscle + 0.02 * heart["texture"] - out) * _soft(epi, size)
    if scar:
        turn = np.arctan2(y - mid[1], x - mid[0])
        at = rng.uniform(-3, 3)
        out[(np.cos(turn - at) > 0.6) & _filled(epi, size)] = 0.9
    out = out + (blood - out) * _soft(endo, size)
    r = np.sqrt(_filled(endo, size).sum() / np.pi)
    for a, off in zip((0.8, 2.3), heart["muscles"], strict=True):  # papillary muscles, part of the cavity
        spot = draw.ball(size, (mid[1] + 0.6 * r * np.sin(a + off), mid[0] + 0.6 * r * np.cos(a + off)), r * 0.17)
        out = out + (muscle + 0.1 - out) * gaussian_filter(spot.astype(float), 0.8)
    coil = 1 + 0.25 * (0.5 - y / h) + 0.1 * np.sin(x / w * 3)
    return np.clip(gaussian_filter(out, 0.5) * coil + rng.normal(0, 0.025, size), 0, 1.2)


def _item(key: str, body: str, kind: str = "") -> str:
    return f'<Hash:item Hash:key="{key}"{kind}>{body}</Hash:item>\n'


def _workspace(exam: str, traced: dict[str, tuple[tuple[int, int], dict[str, Outline]]], who: str) -> str:
    """The console's workspace: outlines by SOPInstanceUID, points in quarters of a pixel."""
    states = ""
    for key, (size, edges) in traced.items():
        contours = ""
        for name, edge in edges.items():
            points = "".join(
                f"<List:item><Point:x>{round(px * FINE)}</Point:x><Point:y>{round(py * FINE)}</Point:y></List:item>"
                for px, py in edge
            )
            contours += _item(
                name,
                _item("ImageSize", f"<Size:width>{size[1]}</Size:width><Size:height>{size[0]}</Size:height>")
                + _item("IsManuallyDrawn", "true")
                + _item("Points", points, f' List:count="{len(edge)}"')
                + _item("SubpixelResolution", str(FINE)),
                ' Hash:count="4"',
            )
        body = _item("Contours", contours, f' Hash:count="{len(edges)}"')
        body += _item("Zoom", f"{1.0 + len(key) % 3 * 0.5}") + _item("WindowLevel", "auto")
        states += _item(key, body, ' Hash:count="3"')
    names = " ".join(f'xmlns:{n}="http://example.com/workspace/{n}/"' for n in ("Hash", "List", "Point", "Size"))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<Workspace {names} version="5.6.2">\n'
        + _item("StudyLabel", exam)
        + _item("UserName", who)
        + _item("ImageStates", "\n" + states, f' Hash:count="{len(traced)}"')
        + "</Workspace>\n"
    )


def _again(rng: Any, edges: dict[str, Outline]) -> dict[str, Outline]:
    """The outlines as another reader would draw them."""
    grow, dx, dy = rng.normal(0.04, 0.05), rng.normal(0, 0.8), rng.normal(0, 0.8)
    out = {}
    for name, edge in edges.items():
        mx, my = np.mean(edge, axis=0)
        out[name] = [(mx + (px - mx) * (1 + grow) + dx, my + (py - my) * (1 + grow) + dy) for px, py in edge]
    return out


@family(
    "cine_outlined_on_the_console", "organ_segmentation", 2,
    "Segment the left ventricular cavity, the left ventricular myocardium and the right ventricle on every short-axis "
    "cine MR image, so that we get volumes and the ejection fraction without tracing.",
    notes="Every DICOM file is one slice at one phase; outlines stand in one XML workspace an exam, by SOPInstanceUID, "
    "as polygons in quarters of a pixel (SubpixelResolution 4). Only end diastole and end systole are outlined: all "
    "other frames are unlabelled, not empty. The epicardial outline encloses the cavity, so myocardium is epicardium "
    "less endocardium. Late-enhancement images carry outlines too but are no cine; long-axis cines have others. "
    "In four early exams systole has only the endocardium, so these frames are incomplete and left out; at the apex no "
    "right ventricle is there (0). Second reader's workspaces are for another purpose; some patients have two exams "
    "(PatientID tells).",
    mask_tolerance=0.2,
)  # fmt: skip
def cine(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    patients = [f"CM{int(v):03d}" for v in np.sort(rng.choice(400, 31, replace=False))]
    visits = [(p, 1) for p in patients] + [(patients[int(i)], 2) for i in np.sort(rng.choice(31, 6, replace=False))]
    second = {int(i) for i in rng.choice(len(visits), 6, replace=False)}
    early = {int(i) for i in rng.choice(31, 4, replace=False)}
    own: dict[str, int] = {}
    hearts: dict[str, dict[str, Any]] = {}
    codes = iter(int(v) for v in rng.choice(8000, len(visits), replace=False) + 1000)
    for n, (patient, visit) in enumerate(visits):
        exam, vendor = f"E{next(codes)}", int(rng.integers(3))
        vendor = own.setdefault(patient, vendor)
        maker, size, spacing, top, signed = VENDORS[vendor]
        heart = hearts.setdefault(patient, _heart(rng, size))
        if visit == 2:
            heart = {**heart, "squeeze": float(np.clip(heart["squeeze"] + rng.normal(0, 0.05), 0.2, 0.44))}
        year = 2014 if n in early else int(rng.integers(2016, 2019)) + (visit - 1) * 2
        shared = {
            "PatientID": patient, "Manufacturer": maker, "PixelSpacing": [spacing, spacing], "SliceThickness": 8,
            "StudyDate": f"{year}{int(rng.integers(1, 13)):02d}{int(rng.integers(1, 28)):02d}", "StudyID": exam,
            "StudyInstanceUID": uid(b), "StudyDescription": "Herz CMR" if vendor == 0 else "CARDIAC MR",
        }  # fmt: skip
        traced: dict[str, tuple[tuple[int, int], dict[str, Outline]]] = {}
        number = int(rng.integers(3, 8))

        def save(picture: np.ndarray, series: int, name: str, image: int, **tags: Any) -> str:
            values = np.round(np.clip(picture * top, 0, 32767)).astype(np.int16 if signed else np.uint16)  # noqa: B023
            path = f"scans/{exam}/{series:04d}/{image:05d}.dcm"  # noqa: B023
            return dicom(
                b, path, values, "MR", SeriesDescription=name, SeriesNumber=series, InstanceNumber=image,
                **tags, **shared,  # noqa: B023
            )  # fmt: skip

        def key(path: str) -> str:
            return str(pydicom.dcmread(b.at(path), stop_before_pixels=True).SOPInstanceUID)

        if rng.random() < 0.35:  # the long axis
            tags = {"SeriesInstanceUID": uid(b), "SliceLocation": 0.0}
            for phase in range(PHASES):
                edges = _outlines(heart, 1, phase)
                long = np.rot90(_picture(rng, size, {**heart, "r": heart["r"] * 1.1}, edges), 1)
                long = np.ascontiguousarray(gaussian_filter(long, (1.6, 0.4)))
                path = save(long, number, "CINE_4CH", phase + 1, TriggerTime=phase * 96.0, **tags)
                why[path] = "long axis"
                if phase in (0, heart["peak"]):
                    spin = np.linspace(0, 2 * np.pi, 24, endpoint=False)
                    atrium = [(float(50 + 9 * np.cos(t)), float(80 + 11 * np.sin(t))) for t in spin]
                    traced[key(path)] = ((long.shape[0], long.shape[1]), {"laraContour": atrium})
            number += 1
        # some scanners give every slice a series of its own, some one series for all
        together = vendor == 1
        series_uid = uid(b)
        for level in range(3):
            series = number if together else number + level
            tags = {"SeriesInstanceUID": series_uid if together else uid(b), "SliceLocation": 30.0 - 22.0 * level}
            for phase in range(PHASES):
                edges = _outlines(heart, level, phase)
                image = phase + 1 + (level * PHASES if together else 0)
                name = ("cine_tf2d12_retro_sa", "B-TFE_BH SA", "FIESTA CINE SA")[vendor]
                path = save(_picture(rng, size, heart, edges), series, name, image, TriggerTime=phase * 96.0, **tags)
                if phase not in (0, heart["peak"]):
                    why[path] = "phase that nobody outlined"
                    continue
                if n in early and phase:
                    traced[key(path)] = (size, {"saendocardialContour": edges["saendocardialContour"]})
                    why[path] = "only the endocardium outlined, the other structures unknown"
                    continue
                traced[key(path)] = (size, edges)
                fine = {k: [(round(p * FINE) / FINE, round(q * FINE) / FINE) for p, q in e] for k, e in edges.items()}
                cavity = _filled(fine["saendocardialContour"], size)
                wall = _filled(fine["saepicardialContour"], size) & ~cavity
                right = fine.get("sarvendocardialContour")
                mask = {LV: cavity, MYO: wall, RV: _filled(right, size) & ~wall & ~cavity if right else 0}
                b.case(path, patient=patient, mask=mask)
        number += 1 if together else 3
        if n not in early and rng.random() < 0.3:  # late enhancement, outlined for the scar
            tags = {"SeriesInstanceUID": uid(b)}
            for level in range(3):
                edges = _outlines(heart, level, heart["peak"])
                late = _picture(rng, size, heart, edges, scar=bool(rng.random() < 0.5))
                path = save(late, number, "LGE_PSIR_SA", level + 1, SliceLocation=30.0 - 22.0 * level, **tags)
                why[path] = "late enhancement, no cine"
                drawn = {k: v for k, v in edges.items() if k != "sarvendocardialContour"}
                traced[key(path)] = (size, drawn)
        keys = [list(traced)[int(i)] for i in rng.permutation(len(traced))]
        traced = {k: traced[k] for k in keys}
        b.text(f"workspaces/{exam}.cvi42wsx", _workspace(exam, traced, "reader1"))
        if n in second:
            other = {k: (s, _again(rng, e)) for k, (s, e) in traced.items() if "saepicardialContour" in e}
            b.text(f"workspaces/interobserver/{exam}.cvi42wsx", _workspace(exam, other, "reader2"))
    b.truth["left_out"] = sorted(why)
    b.text(
        "README.txt",
        "CARDIOMYOPATHY CLINIC - CMR\n\n"
        "scans/<exam>/<series>/   DICOM from three scanners\n"
        "workspaces/<exam>.cvi42wsx   saved from the analysis console, one per exam\n"
        "workspaces/interobserver/    six exams traced again by a trainee, for the agreement paper only\n\n"
        "Traced were end diastole and end systole of the short axis (endocardium, epicardium, right ventricle;\n"
        "papillary muscles count as cavity). Slices at the apex have no right ventricle. In the 2014 exams only the\n"
        "endocardium was traced in systole; the other borders are there but were not drawn.\n"
        "Late enhancement and long-axis tracings in the same workspaces belong to other studies.\n",
    )
