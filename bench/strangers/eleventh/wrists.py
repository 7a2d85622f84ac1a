"""Films of wrists from a casualty clinic, fractures from the register of injuries."""

from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "haandledd_legevakt_skaderegister": "Røntgenbilder av håndledd fra legevakten, front og side, avidentifisert én "
    "undersøkelse om gangen. Om det var brudd står i skaderegisteret, der diagnosen ofte ble rettet på kontrollen. Vi "
    "har bare tatt med en kodebok og listen fra RIS som knytter bildene til kontaktene.",
}

# maker, model, size, photometric, modality, spacing
MACHINES = (
    ("FUJIFILM Corporation", "FCR PROFECT", (200, 152), "MONOCHROME1", "CR", 0.9),
    ("Siemens", "Ysio Max", (224, 160), "MONOCHROME2", "DX", 0.8),
    ("Philips Medical Systems", "DigitalDiagnost", (208, 168), "MONOCHROME2", "DX", 0.85),
)
CODES = (
    ("S52.5", "Brudd i distale ende av radius", "Brudd"),
    ("S52.6", "Brudd i distale ende av både ulna og radius", "Brudd"),
    ("S62.0", "Brudd i skafoid", "Brudd"),
    ("S60.2", "Kontusjon av håndledd og hånd", "Ikke brudd"),
    ("S63.5", "Distorsjon i håndledd", "Ikke brudd"),
    ("M25.5", "Leddsmerte", "Ikke brudd"),
    ("Z03.8", "Observasjon ved mistanke om sykdom eller skade, ikke avklart", "Uavklart"),
)
GROUP = {code: group for code, _, group in CODES}
RIGHT = {"R": "H", "L": "V"}


def _rod(x: Any, y: Any, mid: Any, half: Any, y0: float, y1: float, cortex: float = 2.6) -> np.ndarray:
    """A long bone seen from one side, hollow within: how dense, from 0 to 1."""
    d = half - np.abs(x - mid)
    inside = np.clip(d + 0.5, 0, 1) * np.clip(y - y0 + 0.5, 0, 1) * np.clip(y1 - y + 0.5, 0, 1)
    return inside * (0.5 + 0.5 * np.exp(-((d / cortex) ** 2)))


def _blob(x: Any, y: Any, at: Any, r: Any, lean: float = 0.0) -> np.ndarray:
    u, v = x - at[0], y - at[1]
    u, v = u * np.cos(lean) + v * np.sin(lean), v * np.cos(lean) - u * np.sin(lean)
    d = 1 - np.hypot(u / r[0], v / r[1])
    return np.clip(d * 8, 0, 1) * (0.55 + 0.4 * np.exp(-((d * 5) ** 2)))


def _body(rng: Any) -> dict[str, float]:
    """What the two films of a wrist have in common."""
    return {
        "size": rng.uniform(0.9, 1.08), "dense": rng.uniform(0.75, 1.1), "soft": rng.uniform(0.24, 0.36),
        "break": rng.uniform(17, 31), "shift": rng.uniform(2, 5) * rng.choice([-1, 1]),
        "slope": rng.uniform(-0.35, 0.35),
        "tilt": rng.uniform(0.15, 0.4) * rng.choice([-1, 1], p=(0.25, 0.75)), "swell": rng.uniform(0, 5),
    }  # fmt: skip


def _film(
    rng: Any, size: tuple[int, int], who: dict[str, float], code: str, faint: bool, view: str, cast: bool
) -> np.ndarray:
    """A right wrist, fingers up, as density from 0 to about 1; view is front, side or skew."""
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    k, turn = who["size"] * h / 208, rng.uniform(-0.09, 0.09)
    x, y = x - w / 2 + rng.uniform(-7, 7), y - h * 0.5 + rng.uniform(-7, 7)
    x, y = (x * np.cos(turn) + y * np.sin(turn)) / k, (y * np.cos(turn) - x * np.sin(turn)) / k  # joint at 0
    front, below = {"front": 1.0, "skew": 0.6, "side": 0.0}[view], h
    force = 0.45 if faint else 1.0
    yb = who["break"] + who["slope"] * x + gaussian_filter(rng.normal(0, 5, w), 1.5)[None, :] * 0.6
    far = y < yb
    wide = {"radius": 21 * front + 14 * (1 - front), "ulna": 10 * front + 8 * (1 - front)}
    out = np.zeros(size)
    for bone, mid, ends in (("radius", -15 * front, 4.0), ("ulna", 20 * front + 3 * (1 - front), 9.0)):
        broken = code == "S52.6" or (code == "S52.5" and bone == "radius")
        xx = x
        if broken:  # the far piece is pushed and tilted
            push = who["shift"] * force * (0.8 if front else 0.5) + (0 if front else who["tilt"] * force * (yb - y))
            xx = np.where(far, x - push, x)
        half = wide[bone] * (0.55 + 0.45 * np.exp(-np.clip(y - ends, 0, None) / 16))
        rod = _rod(xx, y, mid + 0.02 * y, half, ends, below)
        if broken:
            gap = np.exp(-(((y - yb) / 1.7) ** 2))
            rod = rod * (1 - gap * (0.5 + 0.35 * force)) + 0.22 * rod * np.exp(-(((y - yb + 4) / 2.2) ** 2)) * force
        out += rod
    row = [(-27, -9, 9, 7, 0.9), (-11, -8, 9, 8, 0.0), (6, -9, 8, 8, 0.2), (17, -8, 6, 6, 0.0), (-26, -25, 7, 7, 0.0)]
    row += [(-12, -25, 7, 8, 0.2), (2, -27, 9, 11, 0.0), (16, -25, 8, 9, 0.0)]
    for n, (cx, cy, rx, ry, lean) in enumerate(row):
        at = (cx * (front + 0.32 * (1 - front)), cy)
        bone = _blob(x, y, at, (rx + 1.5 * (n == 0), ry + 4 * (n == 0)), lean)
        if n == 0 and code == "S62.0":
            u = (y - at[1]) * 0.8 - (x - at[0]) * 0.5 + gaussian_filter(rng.normal(0, 3, w), 1.2)[None, :] * 0.5
            bone = bone * (1 - np.exp(-((u / 1.5) ** 2)) * (0.6 if faint else 0.9))
        out += bone * (1.0 if front == 1 else 0.55)
    for n, mid in enumerate((-34, -18, -4, 9, 21)):
        run = (mid * 0.22 if n else -14) * (1 - front) + mid * front
        lean = (0.5 if n == 0 else mid * 0.004) * (front if n else 1)
        shaft = _rod(x, y, run + lean * (y + 36), 5.0 + 1.8 * np.exp(-(y + 38) / -9.0) * (y > -60), -h, -37.0, 1.9)
        out += shaft * (1.0 if front else 0.6)
    flesh = (43 * front + 30 * (1 - front)) + who["swell"] * np.exp(-(((y - 5) / 25) ** 2)) + 0.06 * np.abs(y)
    skin = gaussian_filter((np.abs(x - 2) < flesh).astype(float), 1.5)
    grain = gaussian_filter(rng.normal(0, 1, size), 1.2)
    out = out * who["dense"] * (1 + 0.35 * grain) * (0.8 if front else 0.65) * 0.55 + skin * who["soft"]
    if cast:
        shell = gaussian_filter((np.abs(x - 2) < flesh + 9).astype(float) - 0.7 * (np.abs(x - 2) < flesh + 3), 1.0)
        weave = 1 + 0.2 * np.sin(y / 1.7 + x / 5) + 0.2 * gaussian_filter(rng.normal(0, 1, size), 2) * 3
        out += np.where(y > -50, shell * 0.4 * weave, 0)
    return gaussian_filter(out, rng.uniform(0.5, 0.8))


@family(
    "haandledd_legevakt_skaderegister", "diagnosis", 2,
    "Lag en modell som ser om det er brudd i håndleddet, ut fra front- og sidebildet sammen.",
    notes="Films are named by their SOP UID; accession number -> list of the RIS -> contact -> injury in the register. "
    "A case is one injured wrist: the front and the side film of the first contact. The diagnosis is that of the last "
    "valid row (A = annulled) of that injury and side, also where the control changed it; the code book groups the "
    "ICD-10 codes, 'Uavklart' is left out. H = right, V = left in the register, R and L in the headers or Hø and Ve in "
    "the description. Not used: controls (often in plaster), oblique films, films marked 'Kassert', films of the sound "
    "side for comparison (no row in the register), wrists with one view, hands and elbows. PatientID in the headers is "
    "new for every study, the person is 'Pasientløpenr' of the register. The CR machine writes MONOCHROME1.",
)  # fmt: skip
def wrists(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    serial = [int(v) for v in rng.choice(np.arange(20000, 39999), 700, replace=False)]
    people = [int(v) for v in np.sort(rng.choice(np.arange(1, 2500), 72, replace=False))]
    register, ris, injury = [], [], 4400
    for person in people:
        start = np.datetime64("2016-02-01") + int(rng.integers(0, 1300))
        for _ in range(1 if rng.random() < 0.8 else 2):
            injury += int(rng.integers(1, 60))
            _injury(b, person, f"SK{injury:06d}", start, serial, register, ris)
            start = start + int(rng.integers(60, 500))
    for name, part in (("RG Hånd hø", "HAND"), ("RG Albue ve", "ELBOW"), ("RG Hånd ve", "HAND")):
        person, contact = int(rng.choice(people)), f"K{serial.pop()}"
        day = np.datetime64("2017-03-01") + int(rng.integers(0, 700))
        ris.append([f"R{serial.pop()}", name, day, contact, 1])
        register.append(
            [person, f"SK{90000 + len(ris):06d}", contact, day, "P", name[-2].upper(), b.pick("S61.0", "S50.0"), "G"]
        )
        pixels = _film(rng, (200, 152), _body(rng), "", False, "skew", False)
        tags = {"BodyPartExamined": part, "StudyDescription": name, "SeriesDescription": "Skrå"}
        why[_store(b, pixels[::-1] if part == "ELBOW" else pixels, 0, ris[-1], tags, "R" if "hø" in name else "L")] = (
            "another part of the body"
        )
    b.truth["left_out"] = sorted(why)
    register.sort(key=lambda r: (r[1], str(r[3]), r[7]))
    ris = [ris[int(i)] for i in rng.permutation(len(ris))]
    head = ["Pasientløpenr", "Skadenr", "KontaktID", "Kontaktdato", "Type", "Side", "ICD-10", "Status"]
    out = [[*r[:3], _day(r[3]), *r[4:]] for r in register]
    b.csv("skaderegister_uttrekk_2020-06-03.csv", head, out, sep=";", encoding="latin-1", end="\r\n")
    head = ["Henvisningsnr", "Undersøkelse", "Utført", "KontaktID", "Antall bilder"]
    short = [[*r[:2], _day(r[2]), *r[3:]] for r in ris]
    b.csv("RIS_undersokelser.csv", head, short, sep=";", encoding="latin-1", end="\r\n")
    words = [
        ["Variabel", "Forklaring"], ["Pasientløpenr", "én person, samme nummer i hele registeret"],
        ["Skadenr", "én skade, med alle kontakter"], ["KontaktID", "ett oppmøte, også i RIS-listen"],
        ["Type", "P = første kontakt, K = kontroll"], ["Side", "H = høyre, V = venstre"],
        ["Status", "G = gyldig, A = annullert (feilført, erstattet av en ny linje)"],
        ["ICD-10", "diagnose satt ved kontakten; den siste gyldige linjen er endelig diagnose for skaden"],
    ]  # fmt: skip
    b.xlsx("kodebok.xlsx", {"Variabler": words, "ICD-10": [["Kode", "Tekst", "Gruppe"], *map(list, CODES)]})
    b.text("LES MEG.txt", README)
    b.clutter("windows", under="bilder")


README = """Håndleddsstudien, legevakten

bilder/                  DICOM, navn = SOP Instance UID. Avidentifisert per undersøkelse: ny PatientID hver gang
RIS_undersokelser.csv    Henvisningsnr = Accession Number i bildene, KontaktID går igjen i registeret
skaderegister_...csv     diagnosene
kodebok.xlsx             variabler og koder

- Vi vurderer ett håndledd om gangen, front og side sammen, slik det kom inn (første kontakt).
  Kontrollbilder brukes ikke, de fleste er i gips.
- Fasit er den endelige diagnosen på skaden. Noen brudd så man først på kontrollen, og noen «brudd» var ikke brudd.
- Skrå bilder og bilder merket Kassert brukes ikke. Håndledd med bare ett bilde tas ikke med.
- Av og til er den friske siden tatt til sammenligning. Den står ikke i registeret og skal ikke være med.
- Uavklart (møtte ikke til kontroll) tas ikke med.
"""


def _day(day: Any) -> str:
    text = str(day)
    return f"{text[8:]}.{text[5:7]}.{text[:4]}"


def _store(b: Build, density: np.ndarray, machine: int, study: list[Any], tags: dict[str, Any], side: str) -> str:
    """One film as the machine sends it; a left wrist is the mirror image of a right one."""
    rng = b.rng
    maker, model, _, photometric, modality, spacing = MACHINES[machine]
    density = density if side == "R" else density[:, ::-1]
    mark = Image.new("L", density.shape[::-1])
    ImageDraw.Draw(mark).text((8 if rng.random() < 0.5 else density.shape[1] - 18, 8), RIGHT[side], fill=255)
    gray = 1 - np.exp(-density * rng.uniform(1.0, 1.5))
    gray = np.where(np.asarray(mark) > 0, 1.02, gray) * rng.uniform(0.8, 1.0) + rng.uniform(0.01, 0.06)
    gray = gray + rng.normal(0, 0.012, gray.shape)
    if photometric == "MONOCHROME1":
        gray = 1.1 - gray
    name = uid(b)
    day = str(study[2]).replace("-", "")
    dicom(
        b, f"bilder/{name}.dcm", np.clip(gray * 3600, 0, 4095).astype(np.uint16), modality, SOPInstanceUID=name,
        SpecificCharacterSet="ISO_IR 100", AccessionNumber=study[0], StudyDate=day, Manufacturer=maker, BitsStored=12,
        HighBit=11, ManufacturerModelName=model, PhotometricInterpretation=photometric, PatientID=f"ANON{study[0][1:]}",
        PatientName=f"ANON{study[0][1:]}", PixelSpacing=[spacing, spacing], **tags,
    )  # fmt: skip
    return f"bilder/{name}.dcm"


def _course(rng: Any) -> tuple[str, str, bool, str]:
    """Codes at the first contact and at the end, whether faint, and which code the film really shows."""
    true = str(rng.choice([c for c, *_ in CODES], p=(0.33, 0.12, 0.08, 0.16, 0.2, 0.06, 0.05)))
    if true == "Z03.8":
        return true, true, True, str(rng.choice(["S62.0", ""]))
    if GROUP[true] == "Brudd":
        faint = bool(rng.random() < 0.25)
        return str(rng.choice(["S63.5", "S60.2", "Z03.8"])) if faint else true, true, faint, true
    doubt = rng.random() < 0.22
    return str(rng.choice(["S52.5", "S62.0", "Z03.8"])) if doubt else true, true, False, ""


def _injury(
    b: Build, person: int, number: str, day: Any, serial: list[int], register: list[Any], ris: list[Any]
) -> None:
    rng, why = b.rng, b.truth["left_out_why"]
    sides = ["R", "L"] if rng.random() < 0.09 else [str(rng.choice(["R", "L"]))]
    ways, bodies = {s: _course(rng) for s in sides}, {s: _body(rng) for s in sides}
    need = any(first != last or GROUP[last] == "Brudd" for first, last, *_ in ways.values())
    controls = [int(v) for v in np.cumsum(rng.integers(7, 20, int(need) + int(rng.random() < 0.35)))]
    birth = str(int(rng.integers(1930, 1998)))
    for visit, after in enumerate([0, *controls]):
        contact, when, first = f"K{serial.pop()}", day + after, visit == 0
        machine = int(rng.integers(3))
        changed = visit == len(controls) or visit == 1
        for side in sides:
            code = ways[side][1] if changed and not first else ways[side][0]
            row = [person, number, contact, when, "P" if first else "K", RIGHT[side], code, "G"]
            if rng.random() < 0.07:
                register.append([*row[:6], str(rng.choice(["S52.5", "S60.2", "S63.5"])), "A"])
            register.append(row)
        if not first and rng.random() < 0.35:
            continue  # seen, but no film
        name = "RG Begge håndledd" if len(sides) == 2 else f"RG Håndledd {'hø' if sides[0] == 'R' else 've'}"
        study = [f"R{serial.pop()}", name, when + int(first and rng.random() < 0.1), contact, 0]
        shared = {
            "BodyPartExamined": "WRIST",
            "StudyDescription": name,
            "PatientBirthDate": birth + "0101",
            "StudyInstanceUID": uid(b),
        }
        if first and len(sides) == 1 and rng.random() < 0.08:
            other = "L" if sides[0] == "R" else "R"
            for view in ("front", "side"):
                why[_shot(b, bodies[sides[0]], "", False, view, machine, study, shared, other)] = "sound side"
        for side in sides:
            _, last, faint, shown = ways[side]
            cast = not first and GROUP[last] == "Brudd" and rng.random() < 0.8
            views = ["front", "side"] if rng.random() > 0.06 else ["front"]
            extra = [v for v, p in (("skew", 0.12), ("bad", 0.1)) if rng.random() < p]
            paths = [_shot(b, bodies[side], shown, faint, v, machine, study, shared, side, cast) for v in views]
            for view in extra:
                path = _shot(b, bodies[side], shown, faint, view, machine, study, shared, side, cast)
                why[path] = "oblique" if view == "skew" else "rejected"
            if first and len(paths) == 2 and GROUP[last] != "Uavklart":
                b.case(paths, patient=str(person), label=GROUP[last], views=2)
            else:
                reason = "control" if not first else "not clear" if GROUP[last] == "Uavklart" else "one view"
                why.update(dict.fromkeys(paths, reason))
        ris.append(study)


def _shot(
    b: Build, who: Any, code: str, faint: bool, view: str, machine: int, study: Any, shared: Any, side: str,
    cast: bool = False,
) -> str:  # fmt: skip
    """A film with the words its machine gives it; `bad` is a moved front film that was taken again."""
    rng = b.rng
    pixels = _film(rng, MACHINES[machine][2], who, code, faint, "front" if view == "bad" else view, cast)
    tags = dict(shared, SeriesInstanceUID=uid(b), InstanceNumber=study[4] + 1)
    if view == "bad":
        pixels = gaussian_filter(pixels, (1.0, 4.0)) * 0.9
        tags["ImageComments"] = "Kassert - bevegelse"
    plain = {"front": "Front", "bad": "Front", "side": "Side", "skew": "Skrå"}[view]
    if machine == 0:  # side of the body only in words
        tags["SeriesDescription"] = f"Håndledd {'Hø' if side == 'R' else 'Ve'} {plain}"
    else:
        tags |= {"ImageLaterality": side, "ViewPosition": {"Front": "PA", "Side": "LL", "Skrå": "RAO"}[plain]}
        tags["SeriesDescription"] = plain if machine == 1 else "Håndledd"
    study[4] += 1
    return _store(b, pixels, machine, study, tags, side)
