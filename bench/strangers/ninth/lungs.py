"""Lung ultrasound out of REDCap: a raw export and its data dictionary."""

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
