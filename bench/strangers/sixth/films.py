"""Pictures: two deliveries with one list, boxes of a labelling program, and one dump of all reports."""

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families, hexid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "breast_two_deliveries", "diagnosis", 2,
    "I would like a tool that looks at a breast ultrasound picture and tells me whether it is normal, benign or malignant.",
    notes="cp1252 list with bare names and with paths of Windows; an older list; classes in several spellings; copies in the stick.",
)  # fmt: skip
def breasts(b: Build) -> None:
    spelled = {"normal": ("normal", "Normal", "o.B."), "benign": ("gutartig", "Gutartig "), "malignant": ("bösartig", "BÖSARTIG")}
    rows = []
    for n in range(48):
        person, kind = 11 + 7 * (n // 2), tuple(spelled)[(n // 2 + n % 2) % 3]
        picture = draw.u8(draw.breast(b.rng, tuple(spelled).index(kind) % 2, n % 2 == 0))
        if n < 32:
            name = f"MA{person:04d}{'lr'[n % 2]}_{n // 2 % 3 + 1:02d}.png"
            path = b.picture(f"Archiv_Gerät1_2017-2020/{2017 + n % 4}/{name}", picture)
        else:
            name = f"Pat {person}\\{('li', 're')[n % 2]} (1).PNG"
            path = b.picture(f"Nachlieferung USB-Stick/{name}".replace("\\", "/"), picture)
        label = "unklar" if n == 21 else b.pick(*spelled[kind])
        if n == 21:
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=str(person), label=kind)
        rows.append([name, person, ("links", "rechts")[n % 2], 30 + n, label, b.pick("", "Kontrolle in 6 Mon.")])
    for n, person in ((0, 11), (8, 39)):
        copy = f"Nachlieferung USB-Stick/Pat {11 + 7 * 18 + 7 * (n // 8)}/Kopie von MA{person:04d}l_01.png"
        b.raw(copy, (b.folder / b.truth["cases"][n]["files"][0]).read_bytes())
        b.truth["left_out"].append(copy)
    header = ["Bild", "PatNr", "Seite", "Alter", "Dignität", "Bemerkung"]
    b.csv("Liste_Mammasono_final_v3.csv", header, rows, sep=";", encoding="cp1252", end="\r\n")
    b.csv("alt/Liste_Mammasono.csv", header, [[*row[:4], "normal", ""] if n == 3 else row for n, row in enumerate(rows[:14])],
          sep=";", encoding="cp1252", end="\r\n")
    b.text("LIESMICH.txt", "Bilder aus zwei Lieferungen, die Zuordnung steht in der Liste (bitte v3 nehmen).\r\n", "cp1252")
    b.clutter("windows", under="Archiv_Gerät1_2017-2020")


@family(
    "skulls_in_percent", "anomaly_detection", 2,
    "Find the lytic lesions on a lateral skull film and show me where they are.",
    notes="Label Studio: percent, random prefix of the upload; an empty list is clean, a cancelled one and one not made are unknown; two words for one thing.",
    expect="ask",
)  # fmt: skip
def skulls(b: Build) -> None:
    tasks = []
    for n in range(48):
        name = f"{1237 + 131 * (n // 2)}-{n % 2 + 1}.{'JPG' if n % 9 == 4 else 'jpg'}"
        wide, high = 72 + n % 5, 64 + n % 3
        film, mask = np.full((high, wide), 150.0) + b.rng.normal(0, 8, (high, wide)), np.zeros((high, wide), bool)
        regions = []
        for _ in range(0 if n % 4 == 3 else 1 + n % 3):
            x, y, w, h = (int(v) for v in (b.rng.integers(4, 50), b.rng.integers(4, 46), b.rng.integers(6, 14), b.rng.integers(6, 14)))
            film[y : y + h, x : x + w] -= 70
            mask[y : y + h, x : x + w] = True
            value = {"x": round(100 * x / wide, 4), "y": round(100 * y / high, 4), "width": round(100 * w / wide, 4),
                     "height": round(100 * h / high, 4), "rotation": 0, "rectanglelabels": [b.pick("Osteolyse", "Osteolyse", "Lyse")]}  # fmt: skip
            regions.append({"original_width": wide, "original_height": high, "image_rotation": 0, "type": "rectanglelabels", "value": value})
        path = b.picture(f"Schaedel/filme/{'neu' if n % 11 == 2 else 'ABCD'[n // 2 % 4]}/{name}", draw.u8(film), quality=92)
        unknown = n in (9, 17)
        if unknown:
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=str(1237 + 131 * (n // 2)), mask={"Osteolyse": mask})
        if n != 9:
            tasks.append({"id": 1200 + n, "file_upload": f"/data/upload/7/{hexid(b, 4)}-{name}", "annotations": [
                {"completed_by": "drm", "was_cancelled": unknown, "result": [] if unknown else regions}]})  # fmt: skip
    tasks.append({"id": 1300, "file_upload": f"/data/upload/7/{hexid(b, 4)}-9999-1.jpg", "annotations": [{"was_cancelled": False, "result": []}]})
    b.json("Schaedel/project-7-at-2022-06-30.json", [tasks[i] for i in b.rng.permutation(len(tasks))])
    b.csv("Schaedel/Patienten.csv", ["nr", "diagnose", "alter"], [[1237 + 131 * n, "Plasmozytom", 50 + n] for n in range(24)], sep=";")


_SIGNS = {"heart": "The heart is enlarged.", "effusion": "Pleural effusion on the left.", "nodule": "Nodule in the upper field."}


@family(
    "films_and_one_dump", "report_generation", 2,
    "Write the report for a chest film the way our radiologists do.",
    notes="All reports in one text, number in the head of each and in the file or folder name; FINAL overrules PRELIM; signatures.",
)  # fmt: skip
def dump(b: Build) -> None:
    blocks = []
    for n in range(44):
        number, person = 160518 + 211 * n, 41943 + 331 * (n - (n % 8 == 3))
        signs = [sign for i, sign in enumerate(_SIGNS) if (n * 3 + i * 5) % 7 < 3]
        where = f"roe_tx/bilder/{number // 1000}/{number}"
        names = [f"{where}/{v}.png" for v in ("pa", "lat")] if n % 6 == 0 else [f"{where}_{v}.png" for v in range(1, 2 + n % 2)]
        films = [b.picture(name, draw.u8(draw.chest(b.rng, tuple(signs), side=i == 1))) for i, name in enumerate(names)]
        found = " ".join([_SIGNS[s] for s in signs] or ["Normal heart.", "The costophrenic angles are free."]) + b.pick("", " No pneumothorax.")
        text = (f"FINDINGS:\n{found}\n\nIMPRESSION: {len(signs)} findings of note.", f"Findings\n- {found}\nSummary\nSee above, {len(signs)} findings.",
                f"{found}")[n % 3]  # fmt: skip
        signed = ("Dr. Be / transcribed 1", "signed K. L.", "electronically signed: Wo")[n % 3]
        head = f"#### {number} / PAT {person} / {n % 27 + 1:02d}.{n % 12 + 1:02d}.16 / XR CHEST"
        if n == 7:  # never reported
            b.truth["left_out"] += films
            continue
        if n == 15:
            text = "Report see old system."
            b.truth["left_out"] += films
        else:
            b.case(films, patient=str(person), text=text, views=len(films))
        blocks.append(f"{head} / FINAL ####\n{text}\n\n{signed}\n")
        if n % 16 == 2:
            blocks.append(f"{head} / PRELIM ####\nCardiomegaly. Left lower field nodule.\n\nsigned K. L.\n")
    blocks.append("#### 199999 / PAT 1 / 01.01.16 / XR CHEST / FINAL ####\nNo picture of this one.\n")
    content = "\n".join(blocks[i] for i in b.rng.permutation(len(blocks))).replace("\n", "\r\n")
    b.text("roe_tx/RIS_dump_XR.txt", content, "utf-8-sig")
    b.text("roe_tx/hinweis.txt", "PRELIM wird von FINAL ersetzt.\r\nDie Nummer nach #### ist auch im Bildnamen.\r\n")
