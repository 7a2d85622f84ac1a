"""Mammograms out of a PACS, and what the laboratory of pathology wrote about some of the breasts."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "mamografias_do_pacs": "Mamografias que a informática tirou do PACS (quase sempre as duas mamas, CC e MLO) e a "
    "planilha que a Patologia mandou separada, com biópsias e cirurgias das mesmas pacientes. Nem toda mama foi "
    "biopsiada, e algumas pacientes voltaram para controle depois da cirurgia.",
}

# maker, rows and columns, bits, photometric interpretation, the tag that tells the side
VENDORS = (
    ("HOLOGIC, Inc.", (208, 160), 12, "MONOCHROME2", "ImageLaterality"),
    ("GE MEDICAL SYSTEMS", (192, 152), 14, "MONOCHROME1", "ImageLaterality"),
    ("FUJIFILM Corporation", (216, 176), 10, "MONOCHROME1", "Laterality"),
)
CANCER = (
    ("B5b", "Carcinoma ductal invasivo, grau 2"),
    ("B5b", "Carcinoma ductal invasivo, grau 3"),
    ("B5b", "Carcinoma lobular invasivo"),
    ("B5a", "Carcinoma ductal in situ, alto grau"),
    ("B5b", "CDI associado a CDIS"),
)
BENIGN = (
    ("B2", "Fibroadenoma"),
    ("B2", "Alterações fibrocísticas, sem atipias"),
    ("B2", "Fibroadenoma com calcificações grosseiras"),
    ("B2", "Papiloma intraductal sem atipias"),
    ("B2", "Cisto roto com reação inflamatória"),
)
UNSURE = ("Lesão papilífera", "Hiperplasia ductal atípica", "Lesão esclerosante complexa")


def _strokes(size: tuple[int, int], lines: list[tuple[list[tuple[float, float]], int]]) -> np.ndarray:
    """Lines of (x, y) points and width, drawn at three times the size; from 0 to 1."""
    big = Image.new("L", (size[1] * 3, size[0] * 3))
    pen = ImageDraw.Draw(big)
    for points, wide in lines:
        pen.line([(px * 3, py * 3) for px, py in points], fill=255, width=wide, joint="curve")
    return np.asarray(big.resize((size[1], size[0]), Image.Resampling.BOX)) / 255.0


def _lesion(
    rng: Any, size: tuple[int, int], at: tuple[float, float], r: float, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """What a lesion adds, about 0 to 1, and its lime; `at` is (y, x)."""
    y, x = np.mgrid[: size[0], : size[1]].astype(float)
    turn = np.arctan2(y - at[0], x - at[1])
    away = np.hypot(y - at[0], x - at[1])
    lime = np.zeros(size)
    if kind == "smooth":
        flat, lean = rng.uniform(0.68, 0.95), rng.uniform(0, np.pi)
        oval = np.hypot(np.cos(turn - lean), np.sin(turn - lean) / flat) * away / r
        edge = 1 + 0.05 * np.cos(2 * turn + rng.uniform(0, 6)) + 0.03 * np.cos(3 * turn + rng.uniform(0, 6))
        body = gaussian_filter((oval < edge).astype(float), 0.6) * (0.85 + 0.15 * np.clip(1 - oval, 0, 1))
        halo = np.exp(-(((oval - 1.22) / 0.13) ** 2)) * 0.13
        if rng.random() < 0.3:  # coarse lime
            for _ in range(int(rng.integers(1, 4))):
                c = at[0] + rng.uniform(-0.4, 0.4) * r, at[1] + rng.uniform(-0.4, 0.4) * r
                lime[draw.ball(size, c, rng.uniform(1.6, 2.8, 2))] = 1
        return body - halo, lime
    rough = sum(rng.normal(0, 0.11) * np.cos(m * turn + rng.uniform(0, 6)) for m in (2, 3, 5, 7, 9))
    core = 0.78 if kind == "star" else 0.3
    body = gaussian_filter((away / (r * core) < 1 + rough).astype(float), 1.0)
    rays = []
    for t in np.linspace(0, 2 * np.pi, int(rng.integers(11, 17)), endpoint=False) + rng.uniform(0, 6):
        t, reach, bow = t + rng.normal(0, 0.12), r * rng.uniform(1.5, 2.5), rng.normal(0, 0.12)
        points = [
            (at[1] + s * reach * np.cos(t + bow * s), at[0] + s * reach * np.sin(t + bow * s))
            for s in np.linspace(0.1, 1, 7)
        ]
        rays += [(points, 3), (points[:5], 5), (points[:4], 8)]
    body = np.clip(body + 0.85 * gaussian_filter(_strokes(size, rays), 0.7), 0, 1)
    if kind == "scar":  # and clips of the surgeon
        for _ in range(int(rng.integers(2, 5))):
            c = at[0] + rng.uniform(-0.8, 0.8) * r, at[1] + rng.uniform(-0.8, 0.8) * r
            lime[draw.ball(size, c, (0.8, 2.6))] = 1.4
    elif rng.random() < 0.4:
        for _ in range(int(rng.integers(6, 14))):
            c = at[0] + rng.normal(0, 0.7) * r, at[1] + rng.normal(0, 0.7) * r
            lime[draw.ball(size, c, (rng.uniform(0.5, 0.9), rng.uniform(0.5, 1.3)))] = rng.uniform(0.6, 1)
    return body, lime


def _breast(rng: Any, size: tuple[int, int], view: str, look: dict[str, Any], kind: str | None) -> np.ndarray:
    """A left breast, 0 to 1."""
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    ry, rx = h * look["tall"], w * look["deep"]
    cy = h * (0.5 if view == "CC" else 0.57) + rng.uniform(-3, 3)
    d = ((y - cy) / ry) ** 2 + (x / rx) ** 2
    inside = d <= 1
    out = np.where(inside, 0.2 + 0.16 * np.clip(1 - d, 0, 1) ** 0.35, 0.0)
    coarse = gaussian_filter(rng.normal(0, 1, size), 9) * 17
    fine = gaussian_filter(rng.normal(0, 1, size), 2.2) * 5
    gland = np.exp(-(((y - cy - rng.uniform(-6, 6)) / (ry * 0.62)) ** 2) - ((x - rx * 0.48) / (rx * 0.42)) ** 2)
    out += look["dense"] * gland * np.clip(0.5 + 0.6 * coarse + 0.3 * fine, 0, 1.4) * inside
    ducts = []
    for _ in range(int(rng.integers(6, 11))):
        to, bow = cy + rng.uniform(-0.8, 0.8) * ry, rng.normal(0, 7)
        ducts.append(
            (
                [
                    (rx * (0.97 - 0.8 * s), cy + (to - cy) * s + bow * np.sin(np.pi * s))
                    for s in np.linspace(0, rng.uniform(0.6, 1), 9)
                ],
                int(rng.integers(2, 5)),
            )
        )
    out += 0.09 * gaussian_filter(_strokes(size, ducts), 0.7) * inside
    out += 0.1 * np.exp(-(((d - 0.97) / 0.025) ** 2))  # skin
    out[draw.ball(size, (cy, rx), (3.5, 4.5))] = 0.42
    muscle = x / (w * 0.36) + y / (h * 0.52) if view == "MLO" else np.full(size, 9.0)
    if view == "MLO":
        out = np.where(muscle < 1, np.maximum(out, 0.55 + 0.1 * (1 - muscle)), out)
    if kind:
        for _ in range(60):
            r = look["r"] * rng.uniform(0.92, 1.08)
            px = float(np.clip(look["at"] * rx + rng.uniform(-5, 5), r + 5, rx - r - 6))
            py = cy + rng.uniform(-0.55, 0.55) * ry * np.sqrt(max(0.0, 1 - (px / rx) ** 2))
            if muscle[int(py), int(px)] > 1.45:
                break
        add, lime = _lesion(rng, size, (py, px), r, kind)
        out = out + look["bright"] * add * np.where(inside, 1, 0.1) + 0.4 * gaussian_filter(lime, 0.45)
    return np.clip(gaussian_filter(out, 0.5) + rng.normal(0, 0.012, size), 0, 1)


def _store(
    b: Build, path: str, picture: np.ndarray, vendor: int, side: str, view: str, raw: bool = False, **tags: Any
) -> str:
    maker, _, bits, photo, where = VENDORS[vendor]
    top = 2**bits - 1
    value = picture if side == "L" else picture[:, ::-1]
    if raw:
        value = 0.08 + 0.85 * np.exp(-2.6 * value)
    elif photo == "MONOCHROME1":
        value = 1 - value
    return dicom(
        b, path, np.round(value * top * 0.97).astype(np.uint16), "MG", Manufacturer=maker, BitsStored=bits,
        HighBit=bits - 1, PhotometricInterpretation="MONOCHROME2" if raw else photo, ViewPosition=view,
        PresentationIntentType="FOR PROCESSING" if raw else "FOR PRESENTATION", BodyPartExamined="BREAST",
        WindowCenter=top // 2, WindowWidth=top, SeriesInstanceUID=uid(b), **{where: side}, **tags,
    )  # fmt: skip


@family(
    "mamografias_do_pacs", "diagnosis", 2,
    "Quero um modelo que, para cada mama com lesão (usando juntas as incidências CC e MLO), diga se é câncer ou "
    "benigno, tendo a patologia como verdade.",
    notes="One case is one breast of the exam before the biopsy: its CC and MLO views. Pathology stands in another "
    "table, by record number (written as a number, so without the leading zeros of PatientID), side (D is right, E is "
    "left, DICOM says R and L) and date; several rows a breast: the surgical specimen overrules the core biopsy, B3 "
    "with no specimen and B1 prove nothing, lymph nodes say nothing of the breast. Breasts that nobody biopsied are "
    "not benign, they are unproven, whatever BI-RADS says; exams after surgery too. Two vendors store "
    "MONOCHROME1, one of them tells the side in Laterality; raw FOR PROCESSING copies repeat the picture.",
)  # fmt: skip
def mammo(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    numbers = iter(int(v) for v in rng.permutation(1400)[:700] + 1)
    rows: list[list[Any]] = []
    reports: list[list[Any]] = []
    for record in (int(v) for v in np.sort(rng.choice(90000, 84, replace=False)) + 4000):
        patient, vendor = f"{record:07d}", int(rng.integers(3))
        size = VENDORS[vendor][1]
        day = date(2019, 1, 7) + timedelta(days=int(rng.integers(0, 900)))
        proven = ["R", "L"] if rng.random() < 0.14 else [str(rng.choice(["R", "L"]))]
        shown = ["R", "L"] if len(proven) == 2 or rng.random() < 0.88 else proven
        dense = rng.uniform(0.12, 0.38)
        looks, kinds, labels, cut = {}, {}, {}, {}
        for side in shown:
            looks[side] = {
                "tall": rng.uniform(0.34, 0.42), "deep": rng.uniform(0.66, 0.86), "dense": dense,
                "r": rng.uniform(9.5, 15), "at": rng.uniform(0.3, 0.65), "bright": rng.uniform(0.24, 0.36),
            }  # fmt: skip
        for side in proven:
            sick = rng.random() < 0.48
            kinds[side] = "star" if sick else "smooth"
            labels[side], cut[side], path_rows = _pathology(rng, sick, record, side, day)
            rows += path_rows
        exams = [(day, kinds, "diagnóstica", proven)]
        gone = [s for s in proven if cut[s] and labels[s] == "câncer"]
        if gone and rng.random() < 0.4:
            later = max(cut[s] for s in gone) + timedelta(days=int(rng.integers(170, 420)))
            exams.append((later, {s: "scar" for s in gone}, "controle pós-operatório", []))
        for when, seen, reason, used in exams:
            accession = f"{when:%y}{int(rng.integers(100000, 999999))}"
            folder = f"DICOM/{accession}"
            tags = {
                "PatientID": patient,
                "AccessionNumber": accession,
                "StudyDate": f"{when:%Y%m%d}",
                "StudyInstanceUID": uid(b),
                "PatientSex": "F",
                "StudyDescription": "MAMOGRAFIA DIGITAL",
            }
            files: dict[str, list[str]] = {s: [] for s in shown}
            extra = vendor == 0 and rng.random() < 0.35
            for side in shown:
                for view in ("CC", "MLO"):
                    picture = _breast(rng, size, view, looks[side], seen.get(side))
                    path = _store(b, f"{folder}/IM{next(numbers):04d}", picture, vendor, side, view, **tags)
                    files[side].append(path)
                    if extra:
                        raw = _store(b, f"{folder}/IM{next(numbers):04d}", picture, vendor, side, view, True, **tags)
                        why[raw] = "raw copy (FOR PROCESSING) of a picture that is there for presentation"
            for side in shown:
                if side in used and labels[side]:
                    b.case(files[side], patient=patient, label=labels[side], views=2, side=side)
                else:
                    reason_out = "exam after surgery" if not used else "no biopsy of this breast"
                    if side in used:
                        reason_out = "pathology without a conclusion (B1, or B3 and no specimen)"
                    why.update(dict.fromkeys(files[side], reason_out))
            rads = {s: "2" if s not in used else str(rng.choice(["4A", "4B", "4C", "5"])) for s in shown}
            if reason != "diagnóstica":
                rads = dict.fromkeys(shown, "2")
            reports.append([accession, patient, f"{when:%d/%m/%Y}", reason, rads.get("R", ""), rads.get("L", "")])
    for _ in range(14):  # patients who had no digital exam here
        record = int(rng.integers(4000, 94000))
        rows += _pathology(
            rng,
            rng.random() < 0.4,
            record,
            str(rng.choice(["R", "L"])),
            date(2019, 6, 1) + timedelta(int(rng.integers(700))),
        )[2]
    b.truth["left_out"] = sorted(why)
    _tables(b, rows, reports)


def _pathology(
    rng: Any, sick: bool, record: int, side: str, day: date
) -> tuple[str | None, date | None, list[list[Any]]]:
    """The rows of a breast, what they prove, and the day of surgery."""
    letter, rows = {"R": "D", "L": "E"}[side], []
    first = day + timedelta(days=int(rng.integers(6, 30)))
    surgery = first + timedelta(days=int(rng.integers(18, 60)))

    def row(when: date, what: str, code: str, words: str) -> None:
        lab = f"{when:%y}-{int(rng.integers(1000, 99999)):05d}"
        rows.append([lab, record, letter, f"{when:%d/%m/%Y}", what, code, words])

    code, words = (CANCER if sick else BENIGN)[int(rng.integers(5))]
    label: str | None = "câncer" if sick else "benigno"
    luck, core = rng.random(), str(rng.choice(["Core biopsy", "Mamotomia", "Biópsia por agulha grossa"]))
    if luck < 0.05:
        row(first, core, "B1", "Tecido adiposo, material insuficiente")
        return None, None, rows
    if luck < 0.11:
        row(first, core, "B3", UNSURE[int(rng.integers(3))])
        return None, None, rows
    operated = True
    if luck < 0.27:
        row(first, core, "B3", UNSURE[int(rng.integers(3))])
        row(surgery, "Peça cirúrgica", code, words)
    elif luck < 0.33 and sick:
        row(first, core, "B2", "Fibrose estromal")  # the needle missed it
        row(surgery, "Peça cirúrgica", code, words)
    else:
        row(first, core, code, words)
        operated = sick and rng.random() < 0.7
        if operated:
            row(surgery, "Peça cirúrgica", code, words)
    if sick and operated and rng.random() < 0.6:
        clean = rng.random() < 0.7
        text = "Linfonodos sem metástase (0/3)" if clean else "Metástase em 1 de 2 linfonodos"
        row(surgery, "Linfonodo sentinela", "N0" if clean else "N1", text)
    return label, surgery if operated else None, rows


def _tables(b: Build, rows: list[list[Any]], reports: list[list[Any]]) -> None:
    rows = [rows[i] for i in b.rng.permutation(len(rows))]
    head = ["Nº AP", "Prontuário", "Lado", "Data da coleta", "Material", "Categoria", "Diagnóstico"]
    legend = [
        ["Categoria", "Significado", "Grupo"],
        ["B1", "tecido normal ou material insuficiente", "sem conclusão"],
        ["B2", "lesão benigna", "benigno"],
        ["B3", "potencial maligno incerto; vale a peça cirúrgica, se houver", "sem conclusão"],
        ["B5a", "carcinoma in situ", "câncer"],
        ["B5b", "carcinoma invasivo", "câncer"],
        ["N0 / N1", "linfonodo sem / com metástase", "(não é da mama)"],
        [],
        ["Lado", "D = direita, E = esquerda"],
    ]
    b.xlsx("patologia/anatomopatologico 2019-2021.xlsx", {"Resultados": [head, *rows], "Legenda": legend})
    b.csv(
        "laudos_mamografia.csv",
        ["acesso", "prontuario", "data_exame", "motivo", "birads_D", "birads_E"],
        sorted(reports),
        sep=";",
        encoding="latin-1",
    )
    b.text(
        "LEIAME.txt",
        "Exportação do PACS, setor de Mastologia\r\n\r\n"
        "DICOM\\<número de acesso>\\  imagens do exame, como o PACS as gravou\r\n"
        "patologia\\  planilha do laboratório (outro sistema, busca pelo prontuário e pelo lado)\r\n"
        "laudos_mamografia.csv  BI-RADS por mama, só para consulta\r\n\r\n"
        "A biópsia se refere ao exame feito antes dela. Quando há peça cirúrgica, ela é o resultado definitivo.\r\n"
        "Mamas sem biópsia não têm confirmação nenhuma (não foram acompanhadas), por isso não servem como benignas.\r\n"
        "Os controles pós-operatórios vieram junto na exportação e não interessam.\r\n",
        "latin-1",
    )
