"""MR and FDG-PET of a memory clinic, joined by a table, diagnoses of a consensus conference in REDCap."""

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "gedaechtnisambulanz_mr_pet": "MR und FDG-PET aus unserer Gedächtnisambulanz. Das MR liegt so da, wie XNAT es "
    "herausgibt, das PET unter den Laufnummern der Nuklearmedizin, eine Tabelle führt beides zusammen. Die Diagnosen "
    "der Konsensuskonferenz kommen aus REDCap und wurden teils mehrmals geändert.",
}

NAMES = {
    1: "Alzheimer-Krankheit",
    2: "Frontotemporale Demenz",
    3: "Lewy-Körper-Demenz",
    4: "keine kognitive Störung",
    8: "ungeklärt",
}
EVENTS = ("aufnahme_arm_1", "kontrolle_24m_arm_1")
VISITS = ("V0", "V24")
# MR: size, voxel; PET: size, voxel, unit, scale, form of the files
SITES = (
    ((48, 56, 40), (3.4, 3.4, 3.8), (40, 44, 30), (4.2, 4.2, 5.2), "Bq/mL", 2400.0, ".nii"),
    ((52, 60, 40), (3.2, 3.1, 3.8), (36, 42, 34), (4.6, 4.5, 4.6), "SUV", 1.0, ".nii.gz"),
)


def _grid(shape: tuple[int, ...], voxel: tuple[float, ...], origin: Any) -> list[np.ndarray]:
    """Places in mm, to the left, the back and upwards, from the middle of the head."""
    index = np.meshgrid(*(np.arange(n, dtype=float) for n in shape), indexing="ij")
    return [i * v + o for i, v, o in zip(index, voxel, origin, strict=True)]


def _affine(voxel: tuple[float, ...], origin: Any) -> np.ndarray:
    out = np.diag([-voxel[0], -voxel[1], voxel[2], 1.0])
    out[:3, 3] = (-origin[0], -origin[1], origin[2])
    return out


def _head(rng: Any) -> dict[str, Any]:
    return {
        "size": rng.uniform(0.92, 1.05, 3), "age": rng.uniform(0, 0.6), "fold": rng.uniform(0, 6.28, 6),
        "weak": rng.uniform(0.36, 0.58), "side": rng.uniform(-0.35, 0.35), "sex": int(rng.integers(1, 3)),
        "born": int(rng.integers(1935, 1958)),
    }  # fmt: skip


def _tissue(at: list[np.ndarray], who: dict[str, Any], dx: int, years: float) -> dict[str, np.ndarray]:
    """How much grey and white matter, fluid and bone there is, and where the lobes are."""
    x, y, z = (a / s for a, s in zip(at, who["size"], strict=True))
    f, atrophy = who["fold"], who["weak"] * (0.8 + 0.2 * years)
    d = np.sqrt((x / 66) ** 2 + (y / 80) ** 2 + (z / 62) ** 2)
    lobes = {
        "front": 1 / (1 + np.exp((y + 30) / 8)) * (z > -40),
        "pole": np.exp(-(((np.abs(x) - 38) / 16) ** 2 + ((y + 22) / 18) ** 2 + ((z + 28) / 14) ** 2)),
        "occiput": 1 / (1 + np.exp((50 - y) / 6)),
        "parietal": np.exp(-(((np.abs(x) - 36) / 24) ** 2 + ((y - 36) / 20) ** 2 + ((z - 24) / 22) ** 2)),
        "temporal": np.exp(-(((np.abs(x) - 52) / 16) ** 2 + ((y - 12) / 26) ** 2 + ((z + 16) / 16) ** 2)),
        "cingulum": np.exp(-((x / 11) ** 2 + ((y - 28) / 14) ** 2 + ((z - 18) / 13) ** 2)),
    }
    waves = np.sin(x / 5.5 + f[0]) * np.sin(y / 6 + f[1]) + np.sin(y / 5 + z / 6 + f[2]) * np.sin(z / 5.5 + f[3])
    loss = 0.03 * who["age"]
    if dx == 1:
        loss = loss + 0.1 * atrophy * (lobes["parietal"] + lobes["temporal"])
    if dx == 2:
        loss = loss + 0.18 * atrophy * (lobes["front"] + lobes["pole"])
    edge = 0.97 - loss - 0.035 * waves * (1 + 8 * loss)
    inside = np.clip((edge - d) * 22, 0, 1)
    white = np.clip((edge - 0.17 - d + 0.06 * waves) * 22, 0, 1)
    wide = 1 + 0.5 * who["age"] + (0.9 * atrophy if dx in (1, 2) else 0.3 * atrophy if dx == 3 else 0)
    fluid = np.zeros(x.shape)
    for s in (-1, 1):
        horn = -16 if dx == 2 else 4
        r = np.sqrt(
            ((x - s * 11) / (6 * wide)) ** 2 + ((y - horn * 0.5) / (27 + 5 * wide)) ** 2 + ((z - 12) / (10 * wide)) ** 2
        )
        fluid = np.maximum(fluid, np.clip((1 - r) * 5, 0, 1))
    deep, hippo = np.zeros(x.shape), np.zeros(x.shape)
    for s in (-1, 1):
        r = np.sqrt(((x - s * 19) / 9) ** 2 + ((y + 4) / 17) ** 2 + ((z - 2) / 10) ** 2)
        deep = np.maximum(deep, np.clip((1 - r) * 5, 0, 1))
        thick = 8.5 * (1 - (1.25 * atrophy if dx == 1 else 0.5 * atrophy if dx == 2 else 0.1 * who["age"]))
        r = np.sqrt(((x - s * 27) / thick) ** 2 + ((y - 8) / 20) ** 2 + ((z + 24) / thick) ** 2)
        hippo = np.maximum(hippo, np.clip((1 - r) * 5, 0, 1))
        horn = np.sqrt(((x - s * 31) / 7) ** 2 + ((y - 8) / 22) ** 2 + ((z + 22) / 10) ** 2)
        fluid = np.maximum(
            fluid, np.clip((1 - horn) * 5, 0, 1) * (1 - hippo) * np.clip(atrophy * 2.2 if dx == 1 else 0.15, 0, 1)
        )
    grey = np.clip(inside - white + deep + hippo, 0, 1) * inside * (1 - fluid)
    skull = np.clip(1 - np.abs(d - 1.16) * 16, 0, 1)
    outer = np.clip((1.06 - d) * 20, 0, 1) * (1 - inside)
    lobes |= {"skull": skull, "deep": deep, "left": np.clip(x / 15, -1, 1), "fluid": np.maximum(fluid, outer)}
    return lobes | {"grey": grey, "white": white * (1 - fluid) * (1 - grey)}


def _mr(rng: Any, who: dict[str, Any], dx: int, years: float, site: int, flair: bool) -> tuple[np.ndarray, np.ndarray]:
    shape, voxel = SITES[site][:2]
    origin = [-(n - 1) / 2 * v + rng.uniform(-6, 6) for n, v in zip(shape, voxel, strict=True)]
    t = _tissue(_grid(shape, voxel, origin), who, dx, years)
    weights = (0.75, 0.55, 0.1, 0.35) if flair else (0.6, 0.95, 0.15, 0.75)
    out = sum(w * t[k] for w, k in zip(weights, ("grey", "white", "fluid", "skull"), strict=True))
    ramp = 1 + sum(
        rng.uniform(-0.12, 0.12) * np.linspace(-1, 1, n).reshape([-1 if a == k else 1 for a in range(3)])
        for k, n in enumerate(shape)
    )
    out = gaussian_filter(out * ramp, 0.45) + rng.normal(0, rng.uniform(0.015, 0.035), shape)
    return np.clip(out, 0, None) * rng.uniform(350, 900), _affine(voxel, origin)


def _pet(rng: Any, who: dict[str, Any], dx: int, years: float, site: int, tracer: str) -> tuple[np.ndarray, np.ndarray]:
    _, _, shape, voxel, _, scale, _ = SITES[site]
    origin = [-(n - 1) / 2 * v + rng.uniform(-9, 9) for n, v in zip(shape, voxel, strict=True)]
    t = _tissue(_grid(shape, voxel, origin), who, dx, years)
    if tracer == "FDG":
        weak = np.zeros(shape)
        for name, share in {
            1: (("parietal", 1), ("temporal", 0.8), ("cingulum", 0.9)), 2: (("front", 0.9), ("pole", 0.9)),
            3: (("occiput", 1.0), ("parietal", 0.35)), 8: (("parietal", 0.3), ("front", 0.3)),
        }.get(dx, ()):  # fmt: skip
            weak = np.maximum(weak, share * t[name])
        weak = weak * (1 + who["side"] * t["left"]) * who["weak"] * (0.9 + 0.25 * years)
        out = (t["grey"] * (1 - np.clip(weak, 0, 0.75)) + 0.4 * t["white"]) * 7 + 1.0 * t["deep"] + 0.4 * t["skull"]
    else:
        out = (t["white"] + t["grey"] * (0.95 if dx == 1 else 0.45)) * 1.6 + 0.2 * t["skull"]
    out = gaussian_filter(out, rng.uniform(0.7, 1.0)) * rng.uniform(0.75, 1.25)
    out = out + gaussian_filter(rng.normal(0, 1, shape), 0.7) * 0.14 * np.sqrt(np.clip(out, 0.3, None))
    return np.clip(out, 0, None) * scale, _affine(voxel, origin)


@family(
    "gedaechtnisambulanz_mr_pet", "diagnosis", 3,
    "Aus MR und FDG-PET zusammen soll die Art der Demenz erkannt werden.",
    notes="A case is one visit: the T1 and the FDG-PET that stand in one row of zuordnung.csv (two channels, different "
    "grids, one space); rows of the amyloid tracer FBB, FLAIR and rows with more than 180 days between are not used. "
    "Two pairs of rows have their PET runs exchanged: the mail in korrespondenz says which. The class is kons_dx of "
    "the same record and event, highest repeat instance whose form is complete (2); 8 'ungeklärt' is left out. A "
    "person included again has frueher_record_id. Of those who withdrew consent, only the withdrawal of the image data "
    "counts, that of blood does not.",
)  # fmt: skip
def memory(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    serial = [int(v) for v in rng.choice(np.arange(1000, 9999), 500, replace=False)]
    records = [f"GA-{k:03d}" for k in range(1, 64)]
    again = dict(zip(records[-6:], rng.choice(records[:45], 6, replace=False), strict=True))
    gone = [r for r in records[:57] if r not in again.values()]
    gone = [str(v) for v in rng.choice(gone, 7, replace=False)]
    people: dict[str, tuple[dict[str, Any], int]] = {}
    basic, forms, joined, pairs = [], [], [], []
    for record in records:
        before = str(again.get(record, ""))
        who, dx = people[before] if before else (_head(rng), int(rng.choice([1, 2, 3, 4], p=(0.32, 0.22, 0.2, 0.26))))
        people[record] = who, dx
        basic.append([record, EVENTS[0], "", "", who["sex"], who["born"], before, *[""] * 5])
        for visit in range(1 if rng.random() < 0.62 else 2):
            final = _consensus(b, record, visit, dx, forms)
            shown = final if final != 8 else dx
            pairs.append(_visit(b, record, visit, who, shown, final, 2.0 * visit + 3 * bool(before), serial, joined))
    good = [p for p in pairs if p["final"] != 8 and p["gap"] <= 180 and p["record"] not in gone]
    rng.shuffle(good)
    swaps: list[tuple[Any, Any]] = []
    for p in good:
        near = [q for q in good if q["site"] == p["site"] and q["year"] == p["year"] and q["final"] != p["final"]]
        taken = [q["record"] for s in swaps for q in s]
        near = [q for q in near if q["record"] not in taken]
        if near and p["record"] not in taken and len(swaps) < 2:
            swaps.append((p, near[0]))
    for p, q in swaps:
        p["row"][4], q["row"][4] = q["row"][4], p["row"][4]
    torn = next(p for p in good if all(p not in s for s in swaps))
    b.broken(torn["mr"], (b.folder / torn["mr"]).read_bytes()[:9000])
    for p in pairs:
        reason = (
            "consent withdrawn" if p["record"] in gone[:4] else "not clear" if p["final"] == 8
            else "more than 180 days" if p["gap"] > 180 else "MR torn" if p is torn else ""
        )  # fmt: skip
        if reason:
            why.update({f: reason for f in (p["mr"], p["pet"]) if f not in b.truth["broken"]})
        else:
            person = str(again.get(p["record"], p["record"]))
            b.case([p["mr"], p["pet"]], patient=person, label=NAMES[p["final"]], channels=2)
    b.truth["left_out"] = sorted(why)
    _tables(b, basic + forms, joined, gone, swaps)


def _consensus(b: Build, record: str, visit: int, dx: int, forms: list[Any]) -> int:
    """Rows of the conference on one visit; returns what counts."""
    rng, codes = b.rng, [1, 2, 3, 4, 8]
    final = 8 if rng.random() < (0.12 if visit == 0 else 0.03) else dx
    turns = [(final, 2)]
    if rng.random() < 0.3:  # changed later
        turns.insert(0, (int(rng.choice([c for c in codes if c != final])), 2))
    if rng.random() < 0.12:  # a draft that was never closed
        turns.append((int(rng.choice([c for c in codes if c != final])), int(rng.integers(0, 2))))
    day = np.datetime64("2016-01-10") + 730 * visit + int(rng.integers(0, 900))
    for k, (code, done) in enumerate(turns):
        word = b.pick("", "", "Klinik") if k == 0 else b.pick("nach Liquor", "Verlauf", "PET nachbefundet", "")
        forms.append(
            [
                record,
                EVENTS[visit],
                "konsensus",
                k + 1,
                "",
                "",
                "",
                str(day),
                code,
                b.pick("Kr", "Lo", "vB"),
                word,
                done,
            ]
        )
        day = day + int(rng.integers(20, 300))
    return final


def _visit(
    b: Build, record: str, visit: int, who: Any, shown: int, final: int, years: float, serial: list[int], joined: Any
) -> dict[str, Any]:  # fmt: skip
    rng, why = b.rng, b.truth["left_out_why"]
    site, year = int(rng.integers(2)), 16 + 2 * visit + int(rng.integers(0, 2))
    session, gap = (
        f"GANMR_E{serial.pop():05d}",
        int(rng.integers(0, 90)) if rng.random() > 0.07 else int(rng.integers(190, 420)),
    )
    mr = ""
    for scan, word in ((2, "t1_mprage_sag"), (5, "t2_flair")) if rng.random() < 0.4 else ((2, "t1_mprage_sag"),):
        array, affine = _mr(rng, who, shown, years, site, scan == 5)
        path = b.nifti(
            f"xnat_export/{session}/scans/{scan}-{word}/resources/NIFTI/files/{scan}_{word}.nii.gz", array, affine
        )
        mr = mr or path
        if path != mr:
            why[path] = "FLAIR"
    run, pet = "", ""
    for tracer in ("FDG", "FBB") if rng.random() < 0.2 else ("FDG",):
        name = f"PT{year}-{serial.pop():04d}"
        *_, unit, _, suffix = SITES[site]
        array, affine = _pet(rng, who, shown, years, site, tracer)
        path = b.nifti(f"nuklearmedizin/20{year}/{name}{suffix}", array, affine, np.float32 if site else np.int16)
        side = {
            "Modality": "PT",
            "TracerName": tracer,
            "TracerRadionuclide": "F18",
            "Units": unit,
            "ReconMethodName": "OSEM",
        }
        b.json(f"nuklearmedizin/20{year}/{name}.json", side)
        row = [record, VISITS[visit], session, 2, name, tracer, gap + (tracer == "FBB") * 8]
        joined.append(row)
        if tracer == "FDG":
            run, pet, mine = name, path, row
        else:
            why[path] = "amyloid tracer"
    out = {"record": record, "visit": visit, "final": final, "gap": gap, "site": site, "year": year}
    return out | {"mr": mr, "pet": pet, "run": run, "row": mine}


def _tables(b: Build, rows: list[Any], joined: list[Any], gone: list[str], swaps: list[tuple[Any, Any]]) -> None:
    rows.sort(key=lambda r: (r[0], r[1], r[2], r[3] or 0))
    head = [
        "record_id",
        "redcap_event_name",
        "redcap_repeat_instrument",
        "redcap_repeat_instance",
        "sex",
        "geburtsjahr",
    ]
    head += ["frueher_record_id", "kons_datum", "kons_dx", "kons_arzt", "kons_bem", "konsensus_complete"]
    b.csv("redcap/Gedaechtnisambulanz_DATA_2021-04-02_1010.csv", head, rows)
    choices = " | ".join(f"{k}, {v}" for k, v in NAMES.items())
    words = [
        ["record_id", "stammdaten", "", "text", "Studiennummer", "", ""],
        ["sex", "stammdaten", "", "radio", "Geschlecht", "1, weiblich | 2, männlich", ""],
        ["geburtsjahr", "stammdaten", "", "text", "Geburtsjahr", "", ""],
        ["frueher_record_id", "stammdaten", "", "text", "Frühere Studiennummer", "",
         "nur bei erneutem Einschluss derselben Person"],
        ["kons_datum", "konsensus", "", "text", "Datum der Konferenz", "", ""],
        ["kons_dx", "konsensus", "", "radio", "Konsensusdiagnose", choices, ""],
        ["kons_arzt", "konsensus", "", "text", "Protokoll", "", ""],
        ["kons_bem", "konsensus", "", "text", "Bemerkung", "", ""],
    ]  # fmt: skip
    head = ["Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label"]
    b.csv(
        "redcap/Gedaechtnisambulanz_DataDictionary.csv",
        [*head, "Choices, Calculations, OR Slider Labels", "Field Note"],
        words,
    )
    head = ["Studiennr", "Visite", "XNAT_Sitzung", "MR_Scan", "PET_Lauf", "Tracer", "Abstand_Tage"]
    order = b.rng.permutation(len(joined))
    b.csv("zuordnung.csv", head, [joined[int(i)] for i in order], sep=";", end="\r\n")
    out = [["Studiennr", "Datum", "Umfang"]]
    for k, record in enumerate(gone):
        what = "Bilddaten und klinische Daten" if k < 4 else "nur Blutproben"
        out.append([record, f"{int(b.rng.integers(1, 28)):02d}.0{int(b.rng.integers(1, 10))}.2020", what])
    b.xlsx("Widerrufe_Einwilligung.xlsx", {"Tabelle1": [out[0], *sorted(out[1:])]})
    lines = ""
    for p, q in swaps:
        for one in (p, q):
            lines += f"  {one['run']} gehört zu {one['record']} ({VISITS[one['visit']]})\n"
    b.text("korrespondenz/2021-03-15 AW Vertauschte PET.eml", MAIL.format(lines=lines))
    b.text("LIESMICH.md", README)
    b.clutter("mac", under="nuklearmedizin")


MAIL = """From: MTRA Nuklearmedizin <nuk-mtra@klinik.example>
To: Studiensekretariat Gedaechtnisambulanz
Subject: AW: Vertauschte PET?
Date: Mon, 15 Mar 2021 09:12:40 +0100
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

Liebe Frau Lorenz,

Sie hatten recht, da waren Läufe unter dem falschen Namen angelegt. Richtig ist:

{lines}
In unserer Liste ist es geändert, in Ihrer Zuordnungstabelle bitte selbst, dort steht es noch falsch herum.
Alle anderen habe ich durchgesehen, die stimmen.

Viele Grüße
S. Petrak
"""

README = """# Gedächtnisambulanz: MR und PET

* `xnat_export/` MR, wie XNAT es ausgibt (Sitzung/scans/Nummer-Name)
* `nuklearmedizin/` PET nach Jahr und Laufnummer, nach NIfTI umgewandelt, Tracer in der JSON-Datei
* `zuordnung.csv` welches MR (Sitzung, Scan) und welches PET zu welcher Visite gehören
* `redcap/` Export und Data Dictionary
* `Widerrufe_Einwilligung.xlsx`
* `korrespondenz/` was sonst noch wichtig war

Regeln der Auswertung

1. Eine Visite ist ein Fall: T1 und FDG-PET zusammen. FLAIR und Florbetaben (FBB) brauchen wir hier nicht.
2. Zwischen MR und PET dürfen höchstens 180 Tage liegen.
3. Es gilt die Konsensusdiagnose der Visite, und zwar die letzte abgeschlossene Fassung (complete = 2). Die Konferenz
   legt bei jeder Änderung eine neue Instanz an, die alten bleiben stehen.
4. Ungeklärte Fälle nicht verwenden. Wer die Einwilligung für die Bilddaten widerrufen hat, darf nicht mehr vorkommen.
5. V0 = aufnahme_arm_1, V24 = kontrolle_24m_arm_1
"""
