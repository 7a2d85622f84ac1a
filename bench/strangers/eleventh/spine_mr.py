"""MR of the lumbar spine, outlined by four readers in 3D Slicer, each with names and numbers of their own."""

import gzip
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "coluna_lombar_slicer": "Ressonâncias da coluna lombar de dois aparelhos, segmentadas no 3D Slicer por quatro "
    "leitores: corpos vertebrais, discos e canal. Cada um deu os nomes que quis aos segmentos e uma até ficou com os "
    "nomes automáticos; alguns exames foram lidos duas vezes e a folha das leituras diz qual vale.",
}

PARTS = ("corpos vertebrais", "discos", "canal vertebral")
SHAPE = (48, 64, 14)  # to the back, down, to the left
SCANNERS = (("Siemens Avanto 1.5T", (3.0, 3.0, 4.4)), ("GE Signa 1.5T", (2.9, 2.9, 4.8)))
TERMS = ("SCT^51282000^Vertebra", "SCT^360499006^Intervertebral disc", "SCT^61853006^Spinal canal")
TISSUE = "SCT^85756007^Tissue~SCT^85756007^Tissue"


def _spine(rng: Any) -> dict[str, Any]:
    """Labels of a lumbar spine: 1-5 the bodies of L1 to L5, 6 S1, 11-15 the discs below L1 to L5, 20 the canal."""
    a, s, m = np.mgrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]].astype(float)
    label = np.zeros(SHAPE, np.uint8)
    mid, bend, lord = rng.uniform(6.0, 7.0), rng.uniform(-0.5, 0.5), rng.uniform(3, 6)
    start, step = rng.uniform(4.0, 6.5), rng.uniform(10.3, 11.0)
    deep = rng.uniform(5.0, 5.9)

    place = rng.uniform(15, 20)

    def front(row: Any) -> Any:
        return place - lord * np.sin((row - 8) / 56 * np.pi)

    centre = front(s)
    side = m - mid - bend * np.sin(s / 20)
    worn = rng.random(5) < 0.4
    tall = [float(rng.uniform(3.6, 4.1)) for _ in range(6)]
    levels = []
    for n in range(6):
        row = start + step * n
        slope = (front(row + 2) - front(row - 2)) / 4
        turn = np.arctan(slope)
        u = (a - front(row)) * np.cos(turn) - (s - row) * np.sin(turn)
        v = (a - front(row)) * np.sin(turn) + (s - row) * np.cos(turn)
        levels.append((u, v))
        waist = 1 - 0.1 * np.cos(np.clip(v / tall[n], -1, 1) * np.pi / 2)
        body = (np.abs(u / (deep * waist)) ** 3 + np.abs(side / 4.7) ** 3 < 1) & (np.abs(v) < tall[n])
        label[body] = n + 1
    for n in range(5):
        (u0, v0), (u1, v1) = levels[n], levels[n + 1]
        u = (u0 + u1) / 2
        between = (v0 > 0) & (v1 < 0) & (v0 < 9) & (v1 > -9)
        bulge = 0.8 if worn[n] else 0.2
        disc = between & (np.abs(u / (deep + bulge)) ** 3 + np.abs(side / 4.9) ** 3 < 1) & (label == 0)
        label[disc & (v0 > tall[n] - 0.4) & (v1 < -tall[n + 1] + 0.4)] = n + 11
    back = a - centre - deep - 3.2
    canal = (back / 2.4) ** 2 + (side / 2.3) ** 2 < 1
    label[canal & (label == 0)] = 20
    return {"label": label, "a": a, "s": s, "side": side, "back": back, "worn": worn, "deep": deep, "centre": centre}


def _signal(rng: Any, seen: dict[str, Any], weight: str) -> np.ndarray:
    """The picture of a spine, weighted T1, T2 or with fat suppressed."""
    label, side, back, s = (seen[k] for k in ("label", "side", "back", "s"))
    fat, muscle = {"T1": (420, 170), "T2": (360, 110), "TIRM": (60, 120)}[weight]
    bone, water = {"T1": (300, 90), "T2": (230, 520), "TIRM": (80, 600)}[weight]
    out = np.full(SHAPE, float(muscle))
    out += gaussian_filter(rng.normal(0, 1, SHAPE), (2, 3, 1)) * 160
    front = seen["a"] - seen["centre"] + seen["deep"]
    out[(np.abs(front + 5) < 2.2) & (np.abs(side + 2) < 2.2)] = 30  # aorta
    out[(front < -9)] = fat * rng.uniform(0.5, 0.9)
    spin = (back > 3) & (back < 10) & (np.abs(side) < 1.5)
    out[spin] = np.where(np.sin(s[spin] / 10.6 * 2 * np.pi + 1) > 0, bone * 0.9, fat)
    out[back > 11] = fat
    out[back > 15] = 8
    for n in range(1, 7):
        out[label == n] = bone * rng.uniform(0.85, 1.1)
    for n in range(5):
        disc = label == n + 11
        core = gaussian_filter(disc.astype(float), (1.6, 0.7, 1.6))
        wet = 50 if seen["worn"][n] else water * rng.uniform(0.6, 0.85)
        out[disc] = 60 + (wet - 60) * np.clip((core[disc] - 0.25) * 2.2, 0, 1) if weight != "T1" else 150
    rind = gaussian_filter(((label > 0) & (label < 7)).astype(float), 0.7)
    out -= 0.5 * bone * np.exp(-(((rind - 0.5) / 0.2) ** 2)) * (label != 20)
    out[label == 20] = water * rng.uniform(0.9, 1.0)
    roots = (label == 20) & (back > 0.3) & (gaussian_filter(rng.normal(0, 1, SHAPE), (0.3, 4, 0.3)) > 0.05)
    out[roots] *= 0.6
    gain = 1 + 0.35 * gaussian_filter(rng.normal(0, 1, SHAPE), (14, 18, 5)) * 40
    out = gaussian_filter(out, (0.5, 0.5, 0.3)) * np.clip(gain, 0.6, 1.5) * np.exp(-np.abs(back) / 90)
    return np.hypot(out + rng.normal(0, 11, SHAPE), rng.normal(0, 11, SHAPE))


def _nrrd(b: Build, path: str, array: np.ndarray, spacing: Any, start: Any, more: dict[str, Any], cut: int = 0) -> str:
    """An NRRD as 3D Slicer writes it: gzip, sagittal axes (back, down, left); an array of 4 axes has layers first."""
    lists = array.ndim == 4
    axes = [f"(0,{spacing[0]:g},0)", f"(0,0,{-spacing[1]:g})", f"({spacing[2]:g},0,0)"]
    head = [
        "NRRD0004",
        "# Complete NRRD file format specification at:",
        "# http://teem.sourceforge.net/nrrd/format.html",
        f"type: {'unsigned char' if array.dtype == np.uint8 else 'short'}",
        f"dimension: {array.ndim}",
        "space: left-posterior-superior",
        "sizes: " + " ".join(map(str, array.shape)),
        "space directions: " + " ".join((["none"] if lists else []) + axes),
        "kinds: " + ("list " if lists else "") + "domain domain domain",
        *(["endian: little"] if array.dtype != np.uint8 else []),
        "encoding: gzip",
        "space origin: ({:g},{:g},{:g})".format(*start),
        *(f"{k}:={v}" for k, v in sorted(more.items())),
    ]
    data = gzip.compress(array.tobytes(order="F"), 6, mtime=0)
    data = "\n".join(head).encode() + b"\n\n" + data
    if cut:
        b.broken(path, data[:cut])
    else:
        b.raw(path, data)
    return path


def _segments(rng: Any, reader: str, label: np.ndarray) -> list[tuple[str, int, np.ndarray]]:
    """What a reader made, in the reader's order: name, part (0 to 2, or -1 for none of the three), voxels."""
    bodies, discs, canal = (label >= 1) & (label <= 5), (label >= 11) & (label <= 15), label == 20
    if reader == "MV":
        out = [("corpos vertebrais", 0, bodies), ("discos", 1, discs), ("canal", 2, canal)]
    elif reader == "TS":
        out = [("Vertebrae", 0, bodies), ("IVD", 1, discs), ("Sacrum", -1, label == 6), ("Spinal canal", 2, canal)]
    elif reader == "RC":
        out = [(f"L{n}", 0, label == n) for n in range(1, 6)]
        out += [(f"D L{n}-{f'L{n + 1}' if n < 5 else 'S1'}", 1, label == n + 10) for n in range(1, 6)]
        out.append(("saco dural", 2, canal))
        return out if rng.random() < 0.5 else out[::-1]
    else:
        out = [("", 1, discs), ("", 0, bodies), ("", 2, canal)]
    return [out[int(i)] for i in rng.permutation(len(out))]


def _seg(
    b: Build, path: str, reader: str, label: np.ndarray, spacing: Any, start: Any, only: int | None = None
) -> None:
    """The segmentation of a reader. `only` leaves one part, -1 none at all."""
    rng = b.rng
    parts = [p for p in _segments(rng, reader, label) if only is None or p[1] == only]
    more: dict[str, Any] = {
        "Segmentation_ContainedRepresentationNames": "Binary labelmap|Closed surface|",
        "Segmentation_ReferenceImageExtentOffset": "0 0 0",
        "Segmentation_MasterRepresentation": "Binary labelmap",
    }
    if reader == "JN":
        more["Segmentation_SourceRepresentation"] = more.pop("Segmentation_MasterRepresentation")
    lost = sorted(rng.choice(np.arange(1, 6), len(parts), replace=False)) if len(parts) <= 4 else []
    layers = np.zeros((max(len(parts), 1), *label.shape), np.uint8) if reader == "MV" else None
    flat, other = np.zeros(label.shape, np.uint8), np.zeros(label.shape, np.uint8)
    for n, (name, part, voxels) in enumerate(parts):
        key = f"Segment{n}_"
        term = f"{TISSUE}~^^" if reader != "JN" else f"SCT^123037004^Anatomical Structure~{TERMS[part]}~^^"
        more[key + "Color"] = " ".join(f"{v:.6g}" for v in rng.uniform(0, 1, 3))
        more[key + "ID"] = f"Segment_{lost[n] if lost else n + 1}"
        more[key + "Name"] = name or more[key + "ID"]
        more[key + "Tags"] = (
            "Segmentation.Status:inprogress|TerminologyEntry:Segmentation category and type - 3D Slicer General "
            f"Anatomy list~{term}~Anatomic codes - DICOM master list~^^~^^|"
        )
        where = [(int(v.min()), int(v.max())) for v in np.nonzero(voxels)]
        more[key + "Extent"] = " ".join(f"{x} {y}" for x, y in where)
        if layers is not None:  # Slicer 4.10: one layer for each, without numbers
            layers[n][voxels] = 1
            continue
        value, layer = n + 1, 0
        if reader == "JN" and len(parts) > 1:  # the discs lie in a layer of their own, where the numbers start again
            value, layer = (1, 1) if part == 1 else (2 - int(part == 0), 0)
        (other if layer else flat)[voxels] = value
        more[key + "LabelValue"], more[key + "Layer"] = value, layer
    out = flat if layers is None else layers
    if reader == "JN" and len(parts) > 1:
        out = np.stack([flat, other])
    if reader == "TS":  # saved with the extent cropped to what is marked
        box = [(int(v.min()), int(v.max()) + 1) for v in np.nonzero(flat)]
        out = flat[tuple(slice(x, y) for x, y in box)]
        start = (
            start[0] + spacing[2] * box[2][0],
            start[1] + spacing[0] * box[0][0],
            start[2] - spacing[1] * box[1][0],
        )
        more["Segmentation_ReferenceImageExtentOffset"] = " ".join(str(x) for x, _ in box)
        for n, (_, _, voxels) in enumerate(parts):
            where = [(int(v.min()) - x, int(v.max()) - x) for v, (x, _) in zip(np.nonzero(voxels), box, strict=True)]
            more[f"Segment{n}_Extent"] = " ".join(f"{x} {y}" for x, y in where)
    _nrrd(b, path, out, spacing, start, more)


def _moved(rng: Any, label: np.ndarray) -> np.ndarray:
    """Another reading of the same spine: thinner or shifted by a voxel."""
    if rng.random() < 0.5:
        return np.roll(label, int(rng.choice([-1, 1])), int(rng.integers(2)))
    return np.where(np.roll(label, 1, 0) == np.roll(label, -1, 0), label, 0).astype(np.uint8)


@family(
    "coluna_lombar_slicer", "organ_segmentation", 3,
    "Quero segmentar os corpos vertebrais L1 a L5, os discos intervertebrais e o canal vertebral nas sequências T2 "
    "sagitais.",
    notes="Sagittal T2 volumes (NRRD; not T1, not TIRM) and .seg.nrrd of four readers. MV (Slicer 4.10): one layer a "
    "segment, no label values, Portuguese names. TS: English names, IVD = discs, an extra Sacrum that is no target, "
    "grid cropped to the marked extent. RC: L1-L5 and each disc a segment of its own, to be joined, saco dural = "
    "canal. JN: automatic names Segment_n, the meaning stands in the terminology tag; two layers whose numbers start "
    "again. Order and numbers vary from file to file. Which reading counts is the row with Estado 'final' in "
    "leituras.xlsx ('substituída' and 'em curso' do not). Exams marked excluído in exames.csv are not used even if "
    "read. The patient is the process number; two provisional numbers are explained in LEIAME. Structures in the "
    "truth: corpos vertebrais, discos, canal vertebral.",
)  # fmt: skip
def spine(b: Build) -> None:
    rng, exams, reads = b.rng, [], []
    people = [int(v) for v in np.sort(rng.choice(80000, 56, replace=False)) + 1020000]
    order = people + [int(v) for v in rng.choice(people, 14, replace=False)]
    order = [order[int(i)] for i in rng.permutation(len(order))]
    emergency: dict[int, int] = {}
    when = date(2019, 1, 14)
    for n, person in enumerate(order):
        when += timedelta(int(rng.integers(1, 11)))
        shown = person
        if order.count(person) == 2 and person in order[:n] and len(emergency) < 2:  # came by the emergency room
            shown = emergency[person] = 9000000 + int(rng.integers(10000, 99999))
        _exam(b, f"LC{n + 1:03d}", person, shown, when, n, exams, reads)
    b.truth["left_out"].sort()
    head = ["exame", "processo", "sexo", "idade", "data", "equipamento", "estado", "motivo"]
    b.csv("exames.csv", head, exams, sep=";", encoding="cp1252", end="\r\n")
    head = ["Exame", "Leitor", "Data", "Estado", "Ficheiro", "Observações"]
    reads = [reads[int(i)] for i in rng.permutation(len(reads))]
    who = [["MV", "Marta V., interna", "Slicer 4.10.2"], ["TS", "Tiago S., fellow", "Slicer 4.11"],
           ["RC", "Dr. Rui C.", "Slicer 5.0"], ["JN", "Joana N., técnica", "Slicer 5.2"]]  # fmt: skip
    b.xlsx("leituras.xlsx", {"leituras": [head, *reads], "leitores": [["Leitor", "Nome", "Versão"], *who]})
    same = "".join(f"  {new} = {old}\n" for old, new in emergency.items())
    b.text(
        "LEIAME.txt",
        "Coluna lombar - segmentação\n\n"
        "imagens/<exame>/: séries sagitais exportadas do Slicer. Os contornos foram todos feitos na T2 TSE/FRFSE; T1 e "
        "TIRM\nsó serviram para tirar dúvidas.\n\n"
        "segmentacoes/<leitor>/: um ficheiro .seg.nrrd por leitura. Estruturas do protocolo:\n"
        "  1. corpos vertebrais de L1 a L5 (o sacro não conta)\n"
        "  2. discos de L1-L2 a L5-S1\n"
        "  3. canal vertebral (saco dural)\n"
        "Não se combinaram nomes nem números. O Tiago usa os nomes em inglês (IVD = disco) e marcou também o sacro. O "
        "Rui\nmarcou cada vértebra e cada disco em separado; para o estudo juntam-se todas as vértebras e todos os "
        "discos.\nA Joana não mudou os nomes automáticos (Segment_1, ...), mas escolheu a estrutura certa na "
        "terminologia do Slicer.\n\n"
        "leituras.xlsx: vale a leitura com estado «final». «substituída» = houve outra depois; «em curso» = por "
        "acabar.\nexames.csv: os exames com estado «excluído» não entram no estudo, mesmo que já tenham sido lidos.\n\n"
        "Números de processo provisórios da urgência (mesmo doente):\n" + same,
    )


def _exam(b: Build, exam: str, person: int, shown: int, when: date, n: int, exams: list[Any], reads: list[Any]) -> None:
    rng, out = b.rng, b.truth["left_out"]
    model, spacing = SCANNERS[int(rng.random() < 0.4)]
    ge = model.startswith("GE")
    start = tuple(round(float(v), 3) for v in rng.uniform((-34, -60, 80), (-26, -40, 110)))
    seen = _spine(rng)
    label, gain = seen["label"], rng.uniform(2.2, 3.2) if ge else rng.uniform(0.8, 1.3)
    t2 = f"imagens/{exam}/{'3 Sag FRFSE T2' if ge else '201 T2_TSE_SAG'}.nrrd"
    spoilt = n == 20
    for weight, name in (
        ("T2", t2),
        ("T1", f"imagens/{exam}/{'4 Sag T1 FSE' if ge else '301 T1_TSE_SAG'}.nrrd"),
        ("TIRM", f"imagens/{exam}/{'6 Sag STIR T2' if ge else '401 T2_TIRM_SAG'}.nrrd"),
    ):
        if weight != "T2" and rng.random() < (0.4 if weight == "T1" else 0.75):
            continue
        volume = np.clip(_signal(rng, seen, weight) * gain, 0, 32000).astype(np.int16)
        cut = 900 if spoilt and weight == "T2" else 0
        _nrrd(b, name, volume, spacing, start, {}, cut)
        if weight != "T2":
            out.append(name)
    excluded = str(rng.choice(["", "instrumentação metálica", "movimento"], p=(0.95, 0.03, 0.02)))
    reader = str(rng.choice(["MV", "TS", "RC", "JN"], p=(0.32, 0.24, 0.2, 0.24)))
    state = str(rng.choice(["one", "two", "open", "none"], p=(0.75, 0.16, 0.06, 0.03)))

    def read(by: str, told: str, marked: np.ndarray, tail: str = "", only: int | None = None, note: str = "") -> None:
        file = f"{exam}_{by}{tail}.seg.nrrd"
        _seg(b, f"segmentacoes/{by}/{file}", by, marked, spacing, start, only)
        day = (when + timedelta(int(rng.integers(5, 30)) + 30 * (told == "final"))).strftime("%d-%m-%Y")
        reads.append([exam, by, day, told, file, note or None])

    if state in ("one", "two"):
        if state == "two":
            same = rng.random() < 0.4
            first = reader if same else str(rng.choice([r for r in ("MV", "TS", "RC", "JN") if r != reader]))
            note = str(rng.choice(["limites do canal", "platôs cortados", "ver 2.ª leitura"]))
            read(first, "substituída", _moved(rng, label), note=note)
            read(reader, "final", label, "_v2" if same else "")
        else:
            read(reader, "final", label)
    elif state == "open":
        read(reader, "em curso", label, only=int(rng.choice([1, 0])), note="falta o resto")
    fine = state in ("one", "two") and not excluded and not spoilt
    marks = [(label >= 1) & (label <= 5), (label >= 11) & (label <= 15), label == 20]
    if fine:
        b.case(t2, patient=str(person), mask=dict(zip(PARTS, marks, strict=True)))
    elif not spoilt:
        out.append(t2)
    told = "excluído" if excluded else "incluído"
    sex, age = b.pick("F", "M"), int(rng.integers(24, 82))
    exams.append([exam, shown, sex, age, when.strftime("%d-%m-%Y"), model, told, excluded])
