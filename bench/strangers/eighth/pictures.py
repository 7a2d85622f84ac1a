"""Pictures: macular OCT of three hospitals, abdominal films with a dump of reports, cervix slides with old grades."""

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, rotate

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

_CLASSES = ("healthy", "diabetic macular oedema", "dry AMD")


def _oct(b: Build, kind: int, size: tuple[int, int]) -> np.ndarray:
    """A scan through the macula: 1 has dark cysts within the retina, 2 has bumps under its lowest bright line."""
    rng, (h, w) = b.rng, size
    x, y = np.arange(w), np.arange(h)[:, None]
    fovea = w * rng.uniform(0.35, 0.65)
    top = h * rng.uniform(0.25, 0.38) + rng.uniform(-0.08, 0.08) * (x - w / 2)
    top += rng.uniform(-0.0008, 0.0012) * (x - w / 2) ** 2
    line = top + h * rng.uniform(0.25, 0.31)
    pit = np.exp(-(((x - fovea) / (w * rng.uniform(0.06, 0.09))) ** 2))
    swell = h * rng.uniform(0, 0.07) * np.exp(-(((x - fovea) / (w * 0.2)) ** 2)) * (kind == 1 or rng.random() < 0.2)
    top += h * rng.uniform(0.05, 0.1) * pit - swell
    base = line.copy()
    bumps = int(rng.integers(2, 6)) if kind == 2 else int(rng.integers(0, 3))
    for _ in range(bumps):
        high = rng.uniform(2.8, 7.0) if kind == 2 else rng.uniform(0.5, 1.6)
        line = line - high * np.exp(-(((x - w * rng.uniform(0.1, 0.9)) / rng.uniform(2.5, 6)) ** 2))
    deep = (y - top) / (line - top)
    out = np.full(size, 18.0)
    inside = (deep >= 0) & (y < line)
    out[inside] = (100 + 28 * np.cos(deep * 19 + rng.uniform(0, 1)))[inside]
    out[(deep >= 0) & (deep < 0.12)] = 150
    out[(y >= line) & (y < base + 4)] = 105
    out[(y >= line) & (y < line + 3.5)] = 200
    below = y >= base + 4
    out[below] = (120 * np.exp(-(y - base) / (h * 0.2)))[below]
    if kind == 1:
        weaker = rng.uniform(40, 85)
        for _ in range(int(rng.integers(3, 8))):
            c = int(np.clip(fovea + rng.normal(0, w * 0.13), 3, w - 4))
            r = top[c] + (line[c] - top[c]) * rng.uniform(0.3, 0.72)
            out[draw.ball(size, (r, c), (rng.uniform(2.2, 5.2), rng.uniform(2.4, 6.5))) & inside] -= weaker
    for _ in range(int(rng.integers(1, 5))):  # shadows of vessels
        c, wide = int(rng.integers(w)), int(rng.integers(1, 4))
        shade = y > top[c] + 4
        out[:, c : c + wide] = np.where(shade, out[:, c : c + wide] * rng.uniform(0.55, 0.8), out[:, c : c + wide])
    out = gaussian_filter(out, rng.uniform(0.5, 1.0)) * rng.uniform(0.7, 1.1)
    out *= gaussian_filter(rng.gamma(6, 1 / 6, size), 0.6) + rng.normal(0, 0.06, size)
    return draw.u8(out + rng.normal(9, 6, size))


def _eyes(b: Build, kind: int) -> list[int]:
    """The classes of the right and the left eye of someone who mostly has `kind`."""
    return [kind if b.rng.random() < 0.75 else int(b.rng.integers(3)) for _ in range(2)]


def _other(b: Build, kind: int) -> int:
    return (kind + int(b.rng.integers(1, 3))) % 3


def _northgate(b: Build, people: dict[str, list[int]]) -> None:
    words = (("normal", "Normal", "no pathology"), ("DME", "DME", "diabetic macular oedema"), ("dry AMD", "AMD (dry)"))
    rows, number = [], 380
    for n, (code, eyes) in enumerate(people.items()):
        for visit, side in [(1, 0)] + [(1, 1)] * (n % 4 != 1) + [(2, 0)] * (n % 9 == 4):
            number += int(b.rng.integers(1, 40))
            path, kind, k = f"northgate/img/{number:05d}.png", eyes[side], len(rows)
            head = [number, code, ("OD", "OS")[side], visit]
            pixels = _oct(b, kind, (96, 128))
            day = f"2023-{n % 9 + 1:02d}-{n % 27 + 1:02d}"
            first = "ungradable" if n == 29 else b.pick(*words[kind])
            if n == 16 and side == 0:
                b.broken(path)
            else:
                b.picture(path, pixels)
                if n in (12, 25) and side == 0:  # nobody has read it
                    b.truth["left_out"].append(path)
                    continue
                if n == 29:
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=code, label=_CLASSES[kind])
            if n % 5 == 3 and n != 29:  # read twice, mostly because the first was in doubt
                wrong = first if n == 23 else b.pick(*words[_other(b, kind)])
                rows.append([*head, b.pick("rp", "ts"), day, wrong, "1st"])
                rows.append([*head, "AH", f"2024-02-{k % 27 + 1:02d}", first, "adjudicated"])
            else:
                rows.append([*head, b.pick("rp", "ts"), day, first, "1st"])
    for n in range(4):
        rows.append([number + 400 + 7 * n, f"NG-{2210 + n}", "OD", 1, "rp", "2023-10-02", words[n % 3][0], "1st"])
    header = ["image_no", "patient", "eye", "visit", "grader", "graded_on", "macular_dx", "round"]
    b.csv("northgate/gradings.csv", header, [rows[i] for i in b.rng.permutation(len(rows))])


def _sued(b: Build, people: dict[str, list[int]], linked: dict[str, str]) -> None:
    words = ("o.B.", "diab. Makulaödem", "trockene AMD")
    rows: list[list[Any]] = [["Klinik Süd, Augenheilkunde: OCT der Makula, Befunde"], []]
    rows.append(["Pat.-Nr.", "Jahrgang", "m/w", "Befund RA", "Befund LA", "Bemerkung"])
    fixes: list[list[Any]] = [["Pat.-Nr.", "Auge", "Befund neu", "geprüft am"]]
    for n, (code, eyes) in enumerate(people.items()):
        cells: list[Any] = [words[k] for k in eyes]
        note = b.pick(None, None, "Katarakt", "Pseudophakie bds.")
        if n % 6 == 2:
            side = n // 6 % 2
            cells[side] = words[_other(b, eyes[side])]
            fixes.append([int(code), ("RA", "LA")[side], words[eyes[side]], f"{n % 27 + 1:02d}.01.2024"])
        if n == 7:
            cells[1] = "nicht beurteilbar"
        if n in (11, 19):
            cells[n % 2] = None
        rows.append([int(code), 1935 + n, b.pick("m", "w"), *cells, note])
        for side, eye in enumerate(("RA", "LA")):
            if (n * 2 + side) % 9 == 5:  # this eye was never scanned, or the scan is lost
                if n % 2:
                    rows[-1][3 + side] = None
                continue
            for scan in (1, 2) if n in (4, 21) and side == 0 else (0,):
                path = f"klinik_sued/Bilder/{code}_{eye}{f'_{scan}' if scan else ''}.tif"
                pixels = _oct(b, eyes[side], (90, 120))
                if n == 14 and side == 1:
                    b.broken(path, b"II*\x00\x08\x00\x00\x00")
                    continue
                b.picture(path, pixels)
                if cells[side] in (None, "nicht beurteilbar"):
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=linked.get(code, f"sued-{code}"), label=_CLASSES[eyes[side]])
    for n in range(3):  # the scans of these are not here
        rows.append([1391 + n, 1950, "w", words[n], words[(n + 1) % 3], None])
    b.xlsx("klinik_sued/Befunde_Makula.xlsx", {"Befunde": rows, "Korrekturen": fixes})


def _vale(b: Build, people: dict[str, list[int]], linked: dict[str, str]) -> None:
    codes, rows = (10, 21, 34), []
    for n, (code, eyes) in enumerate(people.items()):
        for side in (0, 1) if n % 3 != 2 else (n % 2,):
            folder = f"c{(n * 37 + side * 11) % 700 + 12:04d}"
            for shot in (1, 2) if n % 8 == 5 and side == 1 else (1,):
                path, kind = f"vale/oct/{folder}/f{shot:02d}.jpg", eyes[side]
                b.picture(path, _oct(b, kind, (100, 136)), quality=92)
                if n == 18 and side == 0:  # exported, not in the table
                    b.truth["left_out"].append(path)
                    continue
                first, second = codes[kind], ""
                if n % 5 == 1:
                    first, second = codes[_other(b, kind)], codes[kind]
                if n == 22:
                    first, second = 99, ""
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=linked.get(code, f"vale-{code}"), label=_CLASSES[kind])
                rows.append(
                    [code, f"{folder}/f{shot:02d}", side + 1, f"{n % 27 + 1:02d}/{n % 12 + 1:02d}/2022", first, second]
                )
    for n in range(3):
        rows.append([1500 + n, f"c09{n}1/f01", 1, "03/05/2022", codes[n], ""])
    header = ["SUBJ", "FILE", "LAT", "DATE", "GRP", "GRP_ADJ"]
    b.csv("vale/export_2022.csv", header, [rows[i] for i in b.rng.permutation(len(rows))], sep=";", end="\r\n")
    b.text(
        "vale/legend.txt",
        "LAT      1 right, 2 left\r\nGRP      group given by the grader\r\n         10 no macular disease\r\n"
        "         21 macular oedema of diabetes\r\n         34 drusen, dry age-related degeneration\r\n"
        "         99 cannot be graded\r\nGRP_ADJ  group after adjudication, filled where the grader was overruled\r\n",
    )


@family(
    "macula_of_three_eye_clinics", "diagnosis", 2,
    "I need a model that tells from one OCT picture of the macula whether it is healthy, diabetic oedema or dry AMD.",
    notes="CSV an image, German workbook a patient with a column an eye and a sheet of fixes, codes with legend; "
    "adjudicated readings hold; four people have numbers in two clinics; numbers of two clinics overlap.",
)  # fmt: skip
def macula(b: Build) -> None:
    kinds = [int(k) for k in b.rng.permutation(np.arange(94) % 3)]
    north = {f"NG-{1003 + 4 * n}": _eyes(b, kinds[n]) for n in range(36)}
    south = {str(1011 + 6 * n): _eyes(b, kinds[36 + n]) for n in range(30)}
    vale = {str(1005 + 9 * n): _eyes(b, kinds[66 + n]) for n in range(28)}
    pairs = ((5, 3), (21, 17), (30, 26))
    as_south = {list(south)[j]: list(north)[i] for i, j in pairs}
    as_vale = {list(vale)[9]: list(north)[14], list(vale)[20]: f"sued-{list(south)[22]}"}
    for theirs, ours in as_south.items():
        south[theirs] = north[ours]
    vale[list(vale)[9]], vale[list(vale)[20]] = north[list(north)[14]], south[list(south)[22]]
    _northgate(b, north)
    _sued(b, south, as_south)
    _vale(b, vale, as_vale)
    rows = [[ours, theirs, ""] for theirs, ours in as_south.items()]
    rows += [[list(north)[14], "", list(vale)[9]], ["", list(south)[22], list(vale)[20]], ["NG-2399", "", "1777"]]
    b.csv("linkage.csv", ["northgate_patient", "sued_pat_nr", "vale_subj"], rows)
    b.text(
        "README.txt",
        "Pooled macular OCT, one B-scan through the fovea per file.\nnorthgate, klinik_sued and vale sent their own "
        "pictures and readings as they are.\nlinkage.csv: people whom the data office found in two of the clinics.\n",
    )
    b.clutter("windows", under="klinik_sued/Bilder")


def _abdomen(b: Build, signs: list[str], standing: bool, size: tuple[int, int] = (112, 96)) -> np.ndarray:
    """A plain film from 0 to 255: dilated loops, free air under the diaphragm, stones right and left, faeces."""
    rng, (h, w) = b.rng, size
    out = np.full(size, 120.0) + gaussian_filter(rng.normal(0, 1, size), 5) * 90
    out[:, : int(w * 0.08)] = out[:, int(w * 0.92) :] = 12
    out[:, int(w * 0.45) : int(w * 0.55)] += 55
    rows = np.arange(h)[:, None]
    dome = h * 0.17 + 0.006 * (np.arange(w) % (w // 2) - w / 4) ** 2
    out = np.where(rows < dome, 55.0, out)
    if "free air" in signs and standing:
        wide = slice(int(w * 0.12), int(w * 0.4))
        gap = (rows >= dome + 2) & (rows < dome + rng.uniform(6, 9))
        out[:, wide][gap[:, wide]] = 25
    for _ in range(int(rng.integers(3, 6)) if "loops" in signs else int(rng.integers(1, 3))):
        mid, r = (
            (h * rng.uniform(0.4, 0.75), w * rng.uniform(0.28, 0.72)),
            rng.uniform(7, 10) if "loops" in signs else 4,
        )
        loop = draw.ball(size, mid, (r, r * 1.6))
        if standing and "loops" in signs:
            loop &= rows < mid[0] + 1  # the fluid below
        out[loop] -= 65
    for side, x in (("stone right", 0.27), ("stone left", 0.73)):
        if side in signs:
            out[draw.ball(size, draw.near(rng, h * 0.48, w * x, by=5), rng.uniform(2.2, 4))] = 225
    return np.clip(gaussian_filter(out, 0.8) + rng.normal(0, 8, size), 0, 255)


_FRENCH = {
    "loops": "Distension des anses grêles avec niveaux hydro-aériques.",
    "free air": "Croissant gazeux sous la coupole diaphragmatique droite.",
    "stone right": "Opacité calcique se projetant sur l'aire rénale droite.",
    "stone left": "Opacité calcique se projetant sur l'aire rénale gauche.",
}
_ENDS = {
    "loops": "occlusion",
    "free air": "pneumopéritoine",
    "stone right": "lithiase droite",
    "stone left": "lithiase gauche",
}


def _compte_rendu(b: Build, signs: list[str], views: int) -> list[str]:
    lines = ["ABDOMEN SANS PREPARATION" + (", DEBOUT ET COUCHE" if views == 2 else ", DEBOUT"), ""]
    lines += [_FRENCH[s] for s in signs] or [
        b.pick("Répartition normale des gaz digestifs.", "Pas de niveau hydro-aérique.")
    ]
    if "free air" not in signs:
        lines.append("Pas de pneumopéritoine.")
    return [*lines, "", "CONCLUSION : " + (", ".join(_ENDS[s] for s in signs) or "examen sans particularité") + "."]


@family(
    "abdomen_films_and_a_dump", "report_generation", 2,
    "We would like a model that drafts the report of a plain abdominal film, in French as we dictate it.",
    notes="Nameless DICOM in DIRxxx, one latin-1 dump of reports; accession with a dash; validated over provisional.",
)  # fmt: skip
def abdomen(b: Build) -> None:
    pages: list[str] = []
    shots: list[tuple[int, np.ndarray, dict[str, Any]]] = []
    cases: dict[int, tuple[str, str | None]] = {}

    def page(number: str, person: str, day: str, state: str, body: list[str]) -> None:
        head = f"HOPITAL SAINT-LUC{'RADIOLOGIE':>43}\nEXAMEN  : {number:<22}DATE   : {day}"
        head += f"\nPATIENT : {person:<22}STATUT : {state}"
        bar = "-" * 60
        pages.append("\n".join([head, bar, *body, bar, f"Dr {b.pick('A. L.', 'M. D.', 'S. K.')}", ""]))

    for n in range(43):
        person, number, views = f"80{4123 + 31 * (n - (n % 8 == 5))}", 4512 + 37 * n, 1 + (n % 3 == 0)
        signs = [s for s in _FRENCH if b.rng.random() < (0.4 if s == "loops" else 0.25)]
        body = _compte_rendu(b, signs, views)
        tags = {"AccessionNumber": f"23{number:07d}", "PatientID": person, "StudyInstanceUID": uid(b)}
        tags |= {
            "StudyDate": f"2023{n % 12 + 1:02d}{n % 27 + 1:02d}",
            "BodyPartExamined": "ABDOMEN",
            "BitsStored": 12,
            "HighBit": 11,
        }
        for k in range(views):
            pixels = (_abdomen(b, signs, k == 0) * 16).astype(np.uint16)
            shots.append(
                (n, pixels, tags | {"InstanceNumber": k + 1, "SeriesDescription": ("ASP debout", "ASP couche")[k]})
            )
        day = f"{n % 27 + 1:02d}.{n % 12 + 1:02d}.2023"
        cases[n] = (person, None if n in (9, 28) else "\n".join(body))
        if n in (9, 28):  # no report came
            continue
        if n % 7 == 2:
            page(
                f"23-{number:07d}",
                person,
                day,
                "PROVISOIRE",
                _compte_rendu(b, [s for s in _FRENCH if s not in signs][:2], views),
            )
        page(f"23-{number:07d}", person, day, "VALIDE", body)
    for n in range(4):
        page(
            f"23-{9100 + n:07d}",
            f"80{7000 + n}",
            "11.05.2023",
            "VALIDE",
            ["RX THORAX DE FACE", "", "Pas de foyer.", "", "CONCLUSION : normal."],
        )
    files: dict[int, list[str]] = {}
    for k, i in enumerate(b.rng.permutation(len(shots))):
        n, pixels, tags = shots[i]
        files.setdefault(n, []).append(dicom(b, f"DIR{k // 20:03d}/{0xA1F0 + 13 * k:08X}", pixels, "DX", **tags))
    for n, (person, text) in cases.items():
        if text is None:
            b.truth["left_out"] += sorted(files[n])
        else:
            b.case(sorted(files[n]), patient=person, text=text, views=len(files[n]))
    b.text("CR_2023.TXT", "\f".join(pages).replace("\n", "\r\n"), encoding="latin-1")


def _cervix(b: Build, grade: int, size: tuple[int, int] = (128, 128)) -> np.ndarray:
    """Epithelium above stroma: large dark nuclei reach up by thirds with the grade."""
    rng, (h, w) = b.rng, size
    out = np.empty((h, w, 3))
    out[:] = (238, 232, 238)
    top, floor = h * rng.uniform(0.2, 0.3), h * rng.uniform(0.64, 0.73)
    out[int(top) : int(floor)] = (232, 178, 208)
    out[int(floor) :] = (222, 140, 170)
    reach = (0.08, 0.33, 0.62, 0.95)[grade] + rng.uniform(-0.12, 0.11)
    for _ in range(int(rng.integers(240, 330))):
        deep, x = rng.uniform(0, 1), rng.uniform(0, w)
        bad = deep < reach
        if not bad and rng.random() < 0.7:
            continue
        r = rng.uniform(1.5, 2.6) if bad else rng.uniform(0.9, 1.5)
        dark = np.array((88, 45, 125)) + rng.normal(0, 14) + (0 if bad else 22)
        out[draw.ball(size, (floor - deep * (floor - top), x), (r * 1.2, r))] = dark
    out = rotate(out, rng.uniform(-25, 25), reshape=False, order=1, mode="nearest")[16:112, 16:112]
    out = out[::-1] if rng.random() < 0.5 else out
    return draw.u8(gaussian_filter(out, (0.7, 0.7, 0)) * rng.uniform(0.88, 1.05) + rng.normal(0, 8, out.shape))


_NEW = ("negative", "CIN 1", "CIN 2", "CIN 3")
_OLD = (("no dysplasia",), ("mild dysplasia",), ("moderate dysplasia",), ("severe dysplasia", "carcinoma in situ"))


@family(
    "cervix_with_dysplasia_terms", "diagnosis", 2,
    "Please train a grader for cervical biopsies that says negative, CIN 1, CIN 2 or CIN 3 from a slide picture.",
    notes="Table is Unicode text of Excel (UTF-16, tabs); old terms before 2011; slide numbers padded otherwise.",
)  # fmt: skip
def cervix(b: Build) -> None:
    rows: list[list[Any]] = []
    grades = [int(g) for g in b.rng.permutation(np.arange(44) % 4)]
    for n in range(44):
        year, number, woman = 2006 + n * 7 % 10, 212 + 371 * n % 9000, f"W{3301 + 13 * n}"
        for k in range(1 + (n % 3 == 1)):
            block, grade = "AB"[k], max(0, grades[n] - k * int(b.rng.integers(2)))
            path = f"slides/{year}/H{year % 100:02d}-{number:05d}-{block}.tif"
            said: Any = (
                b.pick(*_OLD[grade]) if year < 2011 else b.pick(_NEW[grade], _NEW[grade], _NEW[grade].replace(" ", ""))
            )
            pixels = _cervix(b, grade)
            if n == 20:
                said = ("insufficient material", "")[k]
            if n == 33:
                b.broken(path, b"MM\x00*\x00\x00\x00\x08\x00")
            else:
                b.picture(path, pixels)
                if n in (8, 20):
                    b.truth["left_out"].append(path)
                else:
                    b.case(path, patient=woman, label=_NEW[grade])
            if n != 8:  # of these two slides the table has lost the line
                rows.append(
                    [
                        f"H{year % 100}/{number}" if year >= 2010 else f"H0{year % 10}/{number}",
                        block,
                        woman,
                        24 + n,
                        said,
                        b.pick("p16+", "", ""),
                    ]
                )
    rows += [["H09/9911", "A", "W9001", 31, "mild dysplasia", ""], ["H14/9920", "A", "W9014", 45, "CIN 3", "p16+"]]
    header = ["Specimen", "Block", "Woman", "Age", "Final histology", "IHC"]
    lines = ["\t".join(map(str, r)) for r in (header, *sorted(rows, key=lambda r: r[3]))]
    b.text("histology_register.txt", "\r\n".join([*lines, ""]), encoding="utf-16")
    b.text(
        "about.txt",
        "Photographs at x20 of punch biopsies, folders by year. The register is the laboratory's own.\n"
        "The laboratory changed to the CIN terms in 2011; older lines were not rewritten.\n",
    )
