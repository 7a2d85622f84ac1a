"""Knees of a cohort: a table a visit, one line a knee."""

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
