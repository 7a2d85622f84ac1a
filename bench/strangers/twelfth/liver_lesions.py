"""CT of the liver from two hospitals with outlined lesions, each hospital with masks of its own kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build, lps

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "liverlesions": "Portal venous CT of the abdomen from two hospitals. Our radiologists outlined the liver and every "
    "lesion in it; some people have a healthy liver. The south hospital keeps liver and lesions in files of their own.",
}

Field = Callable[[list[np.ndarray]], np.ndarray]


def _smooth(rng: Any, long: float, waves: int = 7) -> Field:
    """A smooth random field of the place in mm, about 0 with spread 1, the same on every grid."""
    k = rng.normal(0, 1, (waves, 3))
    k *= 2 * np.pi / (np.linalg.norm(k, axis=1, keepdims=True) * rng.uniform(long * 0.6, long * 1.6, (waves, 1)))
    start = rng.uniform(0, 2 * np.pi, waves)

    def field(at: list[np.ndarray]) -> np.ndarray:
        waving = (np.cos(a * at[0] + c * at[1] + d * at[2] + p) for (a, c, d), p in zip(k, start, strict=True))
        return sum(waving) * np.sqrt(2 / waves)

    return field


def _person(rng: Any, sick: bool) -> dict[str, Any]:
    """What stays the same when somebody is scanned again. Millimetres, axes to the left, back and up."""
    s = rng.uniform(0.9, 1.08)
    right, left = (np.array(draw.near(rng, *v, by=6)) for v in ((-62, -2, 0), (-4, -38, 22)))
    lobes = [(right, np.array([66, 70, 76]) * s), (left, np.array([64, 33, 40]) * s * rng.uniform(0.85, 1.1))]
    lesions = []
    for _ in range(int(rng.choice([1, 2, 3, 5], p=(0.36, 0.3, 0.22, 0.12))) if sick else 0):
        mid, radii = lobes[0] if rng.random() < 0.72 else lobes[1]
        way = rng.normal(0, 1, 3)
        lesions.append(
            {
                "at": mid + radii * 0.86 * way / np.linalg.norm(way) * rng.random() ** (1 / 3),
                "r": float(np.exp(rng.uniform(np.log(10), np.log(29)))) * rng.uniform(0.85, 1.15, 3),
                "rough": _smooth(rng, 26), "drop": rng.uniform(30, 66), "rim": rng.random() < 0.3,
                "core": rng.random() < 0.25,
            }
        )  # fmt: skip
    hilum = np.array([-26.0, -4.0, -6.0])
    ends = [mid + radii * 0.8 * w / np.linalg.norm(w) for mid, radii in lobes for w in rng.normal(0, 1, (4, 3))]
    return {
        "lobes": lobes, "lesions": lesions, "warp": _smooth(rng, 90), "vessels": [(hilum, e) for e in ends],
        "liver": rng.uniform(94, 122), "body": rng.uniform(0.95, 1.06), "rough": _smooth(rng, 60),
        "spleen": draw.near(rng, 86, 34, 22, by=6), "stomach": draw.near(rng, 52, -24, 26, by=8),
        "bladder": draw.near(rng, -48, -48, -42, by=7), "gas": rng.random() < 0.6, "fissure": rng.uniform(-26, -8),
    }  # fmt: skip


def _tube(at: list[np.ndarray], start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """True within a tapering branch."""
    way = end - start
    t = np.clip(sum((a - s) * w for a, s, w in zip(at, start, way, strict=True)) / (way @ way), 0, 1)
    gap = sum((a - s - t * w) ** 2 for a, s, w in zip(at, start, way, strict=True))
    return gap < (5.6 - 3.2 * t) ** 2


def _scan(rng: Any, who: dict[str, Any], shape: Any, spacing: Any, grow: float, noise: float) -> tuple[np.ndarray, ...]:
    """HU, liver with its lesions (bool), lesions by number as the reader drew them."""
    shift = rng.normal(0, (4, 4, 7))
    lines = [(np.arange(n) - (n - 1) / 2) * s + d for n, s, d in zip(shape, spacing, shift, strict=True)]
    at = list(np.meshgrid(*lines, indexing="ij"))
    bend = 6 * who["warp"](at)
    wavy = [at[0] + bend, at[1] - 0.6 * bend, at[2] + 0.8 * bend]
    x, y, z = at
    body = draw.far(at, (0, 0, 0), (152 * who["body"], 106 * who["body"], 1e5))
    out = np.full(shape, -1000.0)
    out[body < 1] = -104
    inside = body < 0.86
    out[inside] = -70 + 22 * who["rough"](at)[inside]
    out[(body > 0.86) & (body < 0.92)] = 52
    liver = np.minimum(*(draw.far(wavy, mid, radii) for mid, radii in who["lobes"])) < 1
    liver &= inside
    lung = inside & ((z - 84 + 0.0055 * ((x + 50) ** 2 + y**2)) > 22) & (np.abs(x) > 14) & ~liver
    out[lung] = -860
    spleen, stomach = draw.far(wavy, who["spleen"], (27, 40, 44)), draw.far(wavy, who["stomach"], (38, 34, 44))
    out[(spleen < 1) & inside & ~liver] = who["liver"] + 8
    out[(stomach < 1) & inside & ~liver] = rng.uniform(15, 45)
    if who["gas"]:
        out[(stomach < 0.85) & (y < who["stomach"][1] - 8) & ~liver] = -900
    for side in (-1, 1):
        kidney = draw.far(at, (side * 62, 50, -62), (24, 22, 48))
        out[(kidney < 1) & inside & ~liver] = rng.uniform(150, 185)
        out[(kidney < 0.45) & inside & ~liver] = 60
    out[draw.far(at, (0, 66, 0), (21, 20, 1e5)) < 1] = 190
    out[draw.far(at, (0, 66, 0), (14, 13, 1e5)) < 1] = 140
    out[draw.far(at, (0, 92, 0), (30, 9, 1e5)) < 1] = 58
    out[draw.far(at, (12, 38, 0), (10, 10, 1e5)) < 1] = rng.uniform(135, 165)
    bladder = draw.far(at, who["bladder"], (13, 22, 17)) < 1
    liver &= ~bladder & ~(draw.far(at, (-24, 36, 0), (11, 9, 1e5)) < 1)
    out[liver] = who["liver"] + 4 * who["rough"](at)[liver]
    wedge = liver & (np.abs(x - who["fissure"] - 0.1 * z) < 3.5) & (y < -34)  # fat beside the ligament, no lesion
    out[wedge] -= 32
    vein = rng.uniform(28, 50)
    for start, end in who["vessels"]:
        out[_tube(at, start, end) & liver] = who["liver"] + vein
    out[bladder & inside] = rng.uniform(4, 16)
    out[draw.far(at, (-24, 36, 0), (11, 9, 1e5)) < 1] = who["liver"] + vein * 0.8
    drawn = np.zeros(shape, np.uint8)
    lean = rng.normal(0, 0.035)
    for lesion in who["lesions"]:
        deep = draw.far(at, lesion["at"], lesion["r"] * grow) + 0.13 * lesion["rough"](at)
        mask = (deep + lean + 0.05 * gaussian_filter(rng.normal(0, 3, shape), 1) < 1) & liver & (drawn == 0)
        if mask.sum() < 16:
            continue
        drawn[mask] = drawn.max() + 1
        true = (deep < 1) & liver
        level = who["liver"] - lesion["drop"]
        out[true] = level + 5 * lesion["rough"](at)[true]
        if lesion["core"]:
            out[(deep < 0.5) & liver] = level - 22
        if lesion["rim"]:
            out[(deep > 0.92) & (deep < 1.12) & liver] = who["liver"] + 14
    ribs = [
        (150 * who["body"] * 0.9 * np.cos(t), 104 * who["body"] * 0.9 * np.sin(t)) for t in np.linspace(0.5, 5.9, 11)
    ]
    for k, (cx, cy) in enumerate(ribs):
        out[draw.far(at, (cx, cy, ((k * 37) % 60) - 30), (7, 7, 38)) < 1] = 320
    out = gaussian_filter(out, (0.55, 0.55, 0.5))
    grain = gaussian_filter(rng.normal(0, 1, shape), (0.7, 0.7, 0.3))
    return np.clip(out + noise * grain / grain.std(), -1024, 3000), liver, drawn


def _affine(spacing: Any, shape: Any, up: float) -> np.ndarray:
    return lps(spacing, (spacing[0] * (shape[0] - 1) / 2, spacing[1] * (shape[1] - 1) / 2, up))


def _north(b: Build, scan: str, who: dict[str, Any], grow: float, done: bool) -> tuple[Any, ...]:
    """One folder a case: ct, seg (1 liver, 2 lesion), now and then the native series."""
    rng = b.rng
    shape, spacing = (72, 72, int(rng.integers(30, 37))), (rng.uniform(4.1, 4.5),) * 2 + (6.0,)
    hu, liver, drawn = _scan(rng, who, shape, spacing, grow, rng.uniform(8, 12))
    affine, path = _affine(spacing, shape, rng.uniform(-900, -500)), f"north/{scan}/ct.nii.gz"
    b.nifti(path, np.round(hu), affine)
    if rng.random() < 0.16:
        bare = np.where((hu > 60) & (hu < 300), 55 + 0.12 * (hu - 60), hu) + rng.normal(0, 10, shape)
        b.truth["left_out_why"][b.nifti(f"north/{scan}/ct_native.nii.gz", np.round(bare), affine)] = "native series"
    if done:
        b.nifti(f"north/{scan}/seg.nii.gz", liver + (drawn > 0).astype(np.uint8), affine, np.uint8)
    return path, drawn, int((liver & (drawn == 0)).sum()), spacing


def _south(b: Build, scan: str, who: dict[str, Any], grow: float, done: bool) -> tuple[Any, ...]:
    """A folder each for scans, livers and lesions (each lesion with its number); x and y run the other way."""
    rng = b.rng
    shape, spacing = (68, 68, int(rng.integers(36, 41))), (rng.uniform(4.2, 4.6),) * 2 + (5.0,)
    hu, liver, drawn = _scan(rng, who, shape, spacing, grow, rng.uniform(10, 14.5))
    round_ = draw.ball(shape[:2], (33.5, 33.5), 34.2)
    hu[~round_] = -2048
    affine = _affine(spacing, shape, rng.uniform(-300, 100))
    turned = affine @ np.array([[-1, 0, 0, shape[0] - 1], [0, -1, 0, shape[1] - 1], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    liver, drawn = liver & round_[..., None], drawn * round_[..., None]
    path = b.nifti(f"south/ct/{scan}.nii.gz", np.round(hu)[::-1, ::-1], turned)
    if done:
        b.nifti(f"south/liver/{scan}.nii.gz", liver[::-1, ::-1], turned, np.uint8)
        if drawn.any():
            b.nifti(f"south/lesions/{scan}.nii.gz", drawn[::-1, ::-1], turned, np.uint8)
    return path, drawn, int(liver.sum()), spacing


@family(
    "liverlesions", "anomaly_detection", 3,
    "Find and outline the lesions in the liver on these CT scans; a healthy liver must stay empty.",
    notes="North: seg.nii.gz holds 1 liver, 2 lesion. South: liver and lesions in files of their own, lesions numbered "
    "1, 2, 3 (all of them are lesion), and no lesion file where the liver is healthy. Only scans.csv tells a healthy "
    "liver (outlined = yes, lesions = 0) from a scan that nobody outlined yet (outlined = no). Native series and two "
    "scans with use = no stay out. The person is in scans.csv; some were scanned twice, some in both hospitals. "
    "The two hospitals store x and y in opposite directions, and south pads with -2048.",
)  # fmt: skip
def liverlesions(b: Build) -> None:
    rng, why, rows = b.rng, {}, []
    b.truth["left_out_why"] = why
    numbers = iter(int(v) for v in rng.permutation(np.arange(1, 100)))
    people = [f"P{int(v):04d}" for v in rng.choice(9000, 50, replace=False) + 500]
    sick = rng.permutation([True] * 38 + [False] * 12)
    scans = []
    for i in range(50):
        who, where = _person(rng, bool(sick[i])), str(rng.choice(["north", "south"]))
        days = np.sort(rng.integers(0, 1100, 2))
        known = {"who": who, "person": people[i], "sex": str(rng.choice(["F", "M"])), "age": int(rng.integers(36, 84))}
        scans.append({**known, "where": where, "grow": 1.0, "day": int(days[0])})
        if i % 4 == 0:
            moved = {"north": "south", "south": "north"}[where] if i % 12 == 0 else where
            scans.append({**known, "where": moved, "grow": rng.uniform(0.85, 1.25), "day": int(days[1])})
    state = ["no"] * 3 + ["bad"] * 2 + ["yes"] * (len(scans) - 5)
    for k, now in zip(rng.permutation(len(scans)), state, strict=True):
        scans[k]["state"] = now
    for s in scans:
        scan, done = f"{s['where'][0].upper()}{next(numbers):03d}", s["state"] != "no"
        path, drawn, liver, spacing = {"north": _north, "south": _south}[s["where"]](b, scan, s["who"], s["grow"], done)
        count = len(np.unique(drawn)) - 1
        day = np.datetime64("2018-02-05") + s["day"]
        remark = {"no": "still to be outlined", "bad": "readers disagree, outline not settled", "yes": ""}[s["state"]]
        about = [s["person"], s["sex"], s["age"] + s["day"] // 365, day, f"{spacing[2]:.0f}"]
        seen = ["yes" if done else "no", count if done else "", "no" if s["state"] == "bad" else "yes", remark]
        rows.append([scan, s["where"], *about, *seen])
        if s["state"] == "yes":
            b.case(path, patient=s["person"], mask={"lesion": drawn}, liver_voxels=liver, lesions=count)
        else:
            why[path] = remark
    header = ["scan", "hospital", "person", "sex", "age", "date", "slice_mm", "outlined", "lesions", "use", "remark"]
    b.csv("scans.csv", header, sorted(rows, key=lambda r: r[0]))
    b.text("README.txt", README)
    b.clutter("mac", under="south")
    b.truth["left_out"] = sorted(why)


README = """CT liver collection, hospitals north and south (portal venous phase, NIfTI, Hounsfield units)

north/<scan>/ct.nii.gz    the scan
north/<scan>/seg.nii.gz   1 = liver, 2 = lesion (the lesions are cut out of value 1)
north/<scan>/ct_native.nii.gz   a few have the series before contrast as well; it was not outlined, do not use it
south/ct, south/liver, south/lesions   scan, liver (lesions included) and lesions under the same name

South numbered the lesions of a scan 1, 2, 3 ... so every value above 0 is lesion.
All focal lesions were outlined. Vessels, the gallbladder and fat beside the ligament are not lesions.

scans.csv has one line per scan:
  person     the same person may have several scans, also in the other hospital
  outlined   yes = a radiologist has been through the scan; no = not yet, there is no mask of any kind
  lesions    number of outlined lesions. 0 = healthy liver: north then has no value 2 in seg, south has no lesion file
  use        no = leave the scan out, see remark
Around the round picture the south scanner writes -2048.
"""
