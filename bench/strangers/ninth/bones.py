"""Bone scans of two cameras: folders, a worklist, HL7 messages."""

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
