"""CT of the head, and the reports of the radiology information system."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers.build import Families, dicom, hexid, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "schaedel_ct_mit_ris_befunden": "CT-Untersuchungen des Kopfes aus unserer Notaufnahme, so wie das PACS sie "
    "herausgegeben hat, und ein Auszug aller Befunde dieser Patienten aus dem RIS. Nachts schreibt zuerst der "
    "Dienstarzt einen vorläufigen Text, am Morgen gibt der Oberarzt den endgültigen frei.",
}

# maker, width, slices, names of the plain, bone and contrast series, highest slice first, signed with padding
VENDORS = (
    ("SIEMENS", 96, 18, ("Schädel nativ 7.5 H31s", "Schädel Knochen 7.5 H60s", "Schädel KM 7.5 H31s"), False, False),
    ("GE MEDICAL SYSTEMS", 92, 17, ("HEAD STD NATIV", "HEAD BONE", "HEAD STD +C"), True, True),
    ("TOSHIBA", 96, 19, ("Brain 7.0 FC21", "Bone 7.0 FC30", "Brain KM 7.0 FC21"), False, True),
)
PLACES = {  # middle as parts of the half axes: outwards, backwards, upwards
    "in den Stammganglien": (0.3, -0.08, 0.05),
    "frontal": (0.3, -0.55, 0.25),
    "parietal": (0.38, 0.28, 0.42),
    "occipital": (0.24, 0.6, 0.12),
}


def _blob(at: tuple[np.ndarray, ...], mid: Any, radii: Any, rough: np.ndarray) -> np.ndarray:
    """About 1 inside an ellipsoid with a rough border, 0 outside."""
    far = np.sqrt(sum(((a - m) / r) ** 2 for a, m, r in zip(at, mid, radii, strict=True)))
    return 1 / (1 + np.exp(np.clip((far - 1 + 0.13 * rough) / 0.045, -50, 50)))


def _head(rng: Any, vendor: int, ill: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Hounsfield units without noise, axes (up, back, left of the patient), and where vessels run."""
    _, wide, slices, *_ = VENDORS[vendor]
    shape = (slices, wide, wide)
    z, y, x = np.mgrid[:slices, :wide, :wide].astype(float)
    rx, ry, rz = wide * rng.uniform(0.33, 0.36), wide * rng.uniform(0.41, 0.45), slices * rng.uniform(0.66, 0.72)
    lean = rng.normal(0, 0.06)
    x, y = x - wide / 2 + rng.uniform(-2, 2), y - wide / 2 + rng.uniform(-2, 2)
    x, y = x * np.cos(lean) - y * np.sin(lean), x * np.sin(lean) + y * np.cos(lean)
    z = z - slices * rng.uniform(0.3, 0.34)
    p, q, r = x / rx, y / ry, z / rz
    ring = np.sqrt(p**2 + q**2 + r**2)
    angle = np.arctan2(q, p)
    rough = gaussian_filter(rng.normal(0, 1, shape), (0.7, 3, 3))
    rough /= rough.std()
    fine = gaussian_filter(rng.normal(0, 1, shape), (0.5, 1.1, 1.1))
    fine /= fine.std()
    hu = np.full(shape, -1000.0)
    hu[ring < 1] = 20
    hu[(ring < 0.97) & (ring > 0.94)] = -60
    skull = (ring < 0.94) & (ring > 0.86)
    hu[skull] = rng.uniform(850, 1150) + 150 * rough[skull]
    brain = ring <= 0.86
    shift = ill["shift"] * np.clip(1 - q**2, 0, 1) * np.clip(1 - r**2, 0, 1) * 0.2
    mid = p + shift  # what lies in the middle is pushed
    hu[brain] = 30 + 1.2 * rough[brain]
    cortex = brain & (ring > 0.74 + 0.03 * rough)
    hu[cortex] = 38
    sulci = cortex & (fine > (0.55 if ill["wide"] else 1.25))
    hu[sulci] = 14
    hu[brain & (ring > 0.835)] = 12
    for s in (-1, 1):
        grey = _blob((p, q, r), (s * 0.27 - shift.mean(), -0.08, 0.03), (0.12, 0.24, 0.2), rough)
        hu = np.where(brain, hu + 8 * grey, hu)
        big = 1.75 if ill["wide"] else 1.0
        for m, radii in (((0.13, -0.22, 0.22), (0.07, 0.26, 0.17)), ((0.2, 0.3, 0.2), (0.08, 0.24, 0.16))):
            horn = _blob(
                (mid, q, r), (s * m[0], m[1], m[2]), np.array(radii) * (big, 1.12 if big > 1 else 1, big), rough
            )
            hu = hu + (6 - hu) * horn * brain
    third = _blob((mid, q, r), (0, 0, 0), (0.035 * (1.6 if ill["wide"] else 1), 0.2, 0.14), 0 * rough)
    hu = hu + (8 - hu) * third * brain
    falx = brain & (np.abs(mid) < 0.028) & ((np.abs(q) > 0.62) | (r > 0.5))
    hu[falx] = 48
    base = brain & (r < -0.3) & (np.abs(np.abs(p) - 0.45 - 0.2 * q) < 0.1) & (np.abs(q - 0.1) < 0.4)
    hu[base] = 750
    hu[brain & (r < -0.22) & (q < -0.6) & (np.abs(p) < 0.2)] = -900  # sinus
    side = ill["side"]  # +1 is the patient's left
    if ill["kind"] == "icb":
        c = np.array(PLACES[ill["place"]]) * (side, 1, 1) + rng.normal(0, 0.025, 3)
        radii = np.array((0.21, 0.2, 0.19)) * (1.45 if ill["big"] else 0.95) * rng.uniform(0.92, 1.1, 3)
        hu = hu + (20 - hu) * _blob((p, q, r), c, radii * 1.32, rough) * brain
        hu = hu + (rng.uniform(64, 74) + 2 * rough - hu) * _blob((p, q, r), c, radii, rough) * brain
    elif ill["kind"] == "sdh":
        thick = 0.17 if ill["big"] else 0.1
        inner = 0.86 - thick * np.clip(np.cos((angle - (0 if side > 0 else np.pi)) * 0.9), 0, 1) ** 0.5
        far = np.abs(np.angle(np.exp(1j * (angle - (0 if side > 0 else np.pi)))))
        rind = brain & (ring > inner) & (far < 1.25) & (r > -0.12)
        hu[rind] = (rng.uniform(60, 70) if ill["fresh"] else rng.uniform(14, 18)) + rough[rind]
    elif ill["kind"] == "infarct":
        turn = 0.05 if ill["place"] == "Mediastromgebiet" else 1.1
        turn = turn if side > 0 else np.pi - turn
        off = np.abs(np.angle(np.exp(1j * (angle - turn))))
        wedge = (
            1 / (1 + np.exp((off - 0.55 + 0.08 * rough) / 0.05)) * (np.hypot(p, q) > 0.3) * (np.abs(r - 0.15) < 0.42)
        )
        hu = np.where(brain & (hu > 10) & ~falx, hu + (17 - hu) * wedge, hu)
    vessels = (
        brain & ((np.hypot(p, q + 0.28) < 0.07) | (np.abs(np.hypot(p, q + 0.3) - 0.3) < 0.035)) & (np.abs(r) < 0.12)
    )
    return gaussian_filter(hu, (0, 0.55, 0.55)), vessels


def _ill(rng: Any) -> dict[str, Any]:
    kind = str(rng.choice(["none", "icb", "sdh", "infarct"], p=(0.27, 0.27, 0.24, 0.22)))
    side, big = int(rng.choice([-1, 1])), bool(rng.random() < 0.5)
    place = str(rng.choice(list(PLACES)))
    if kind == "infarct":
        place = str(rng.choice(["Mediastromgebiet", "Posteriorstromgebiet"]))
    shift = side if big and kind in ("icb", "sdh") else 0
    return {
        "kind": kind, "side": side, "big": big, "place": place, "shift": shift, "wide": bool(rng.random() < 0.35),
        "fresh": bool(rng.random() < 0.65),
    }  # fmt: skip


def _words(rng: Any, ill: dict[str, Any]) -> tuple[str, str]:
    """Findings and impression."""

    def one(*ways: str) -> str:
        return ways[int(rng.integers(len(ways)))]

    left = ill["side"] > 0
    side, on = ("links", "linke") if left else ("rechts", "rechte")
    found, sums = [], []
    if ill["kind"] == "icb":
        size = "Große" if ill["big"] else "Kleine"
        found.append(
            one(
                f"{size} hyperdense intrazerebrale Blutung {side} {ill['place']} mit perifokalem Ödem.",
                f"{side.capitalize()} {ill['place']} {size.lower()} frische intraparenchymatöse Blutung, Randödem.",
            )
        )
        sums.append(f"{size} intrazerebrale Blutung {side} {ill['place']}.")
    elif ill["kind"] == "sdh":
        age = "Akutes" if ill["fresh"] else "Chronisches"
        dense = "hyperdenses" if ill["fresh"] else "hypodenses"
        wide = "breites" if ill["big"] else "schmales"
        found.append(
            one(
                f"Über der {on}n Großhirnhemisphäre {wide}, sichelförmiges, {dense} Subduralhämatom.",
                f"{side.capitalize()} hemisphärisch {wide} {dense} Subduralhämatom.",
            )
        )
        sums.append(f"{age} Subduralhämatom {side}.")
    elif ill["kind"] == "infarct":
        found.append(
            one(
                f"Hypodense Demarkierung im {ill['place']} {side}. Keine Blutung.",
                f"Keine Blutung. Im {ill['place']} {side} flächige Hypodensität mit verstrichenen Sulci.",
            )
        )
        sums.append(f"Infarkt im {ill['place']} {side}.")
    else:
        found.append(
            one(
                "Keine intrakranielle Blutung. Kein Hinweis auf einen demarkierten Infarkt.",
                "Kein Nachweis einer Blutung. Regelrechte Mark-Rinden-Differenzierung.",
            )
        )
        sums.append(one("Kein Nachweis einer intrakraniellen Blutung.", "Keine Blutung, kein demarkierter Infarkt."))
    if ill["wide"]:
        found.append(
            one("Innere und äußere Liquorräume erweitert.", "Deutlich erweiterte Liquorräume innen und außen.")
        )
        sums.append("Hirnvolumenminderung.")
    else:
        found.append(one("Liquorräume normal weit.", "Innere und äußere Liquorräume regelrecht."))
    if ill["shift"]:
        found.append(f"Mittellinienverlagerung nach {'rechts' if left else 'links'}.")
        sums.append("Raumforderungszeichen.")
    else:
        found.append(one("Mittelständige Mittellinie.", "Keine Mittellinienverlagerung."))
    found.append(one("Kalotte intakt.", "Keine Fraktur.", "Nasennebenhöhlen frei belüftet."))
    return " ".join(found), " ".join(sums)


def _report(rng: Any, asks: str, found: str, sums: str, old: str | None, done: str) -> tuple[str, str]:
    """The text as the RIS keeps it, and the part that is findings and impression."""
    heads = (("Befund:", "Beurteilung:"), ("BEFUND", "BEURTEILUNG"))[int(rng.random() < 0.3)]
    if old:
        found = f"Zum Vergleich Voruntersuchung vom {old}. {found}"
    core = f"{found}\n\n{heads[1]}\n{sums}"
    top = f"Klinische Angaben:\n{asks}\n\nTechnik:\nNative Spiral-CT des Neurokraniums.\n\n"
    return f"{top}{heads[0]}\n{core}\n\n{done}", core


def _series(
    b: Build, folder: str, hu: np.ndarray, vendor: int, name: str, number: int, noise: float, shared: dict[str, Any]
) -> list[str]:
    """Writes a series in files whose names tell nothing; the paths from below upwards."""
    maker, wide, slices, _, down, signed = VENDORS[vendor]
    spacing, thick = 230 / wide, 135 / slices
    grain = gaussian_filter(b.rng.normal(0, 1, hu.shape), (0, 0.6, 0.6))
    values = np.round(hu + noise * grain / grain.std() + 1024)
    stored = np.clip(values, 0, 4095).astype(np.int16 if signed else np.uint16)
    if signed:
        y, x = np.mgrid[:wide, :wide]
        stored[:, np.hypot(y - wide / 2 + 0.5, x - wide / 2 + 0.5) > wide / 2] = -2000
    tags = {
        "SeriesInstanceUID": uid(b), "FrameOfReferenceUID": uid(b), "SeriesNumber": number, "SeriesDescription": name,
        "Manufacturer": maker, "RescaleIntercept": -1024, "RescaleSlope": 1, "PixelSpacing": [spacing, spacing],
        "SliceThickness": thick, "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
        "ImageType": ["ORIGINAL", "PRIMARY", "AXIAL"], "SpecificCharacterSet": "ISO_IR 100", **shared,
    }  # fmt: skip
    if signed:
        tags["PixelPaddingValue"] = -2000
    paths = []
    for k in range(slices):
        at = [-115.0, -115.0, round(-40 + k * thick, 2)]
        image = slices - k if down else k + 1
        path = f"{folder}/{hexid(b, 4).upper()}"
        paths.append(dicom(b, path, stored[k], "CT", ImagePositionPatient=at, InstanceNumber=image, **tags))
    return paths


@family(
    "schaedel_ct_mit_ris_befunden", "report_generation", 3,
    "Ich hätte gern ein Modell, das zum nativen Schädel-CT unseren Befundtext mit Beurteilung schreibt, so wie er "
    "freigegeben wird.",
    notes="A study has a scout, a protocol page, the plain soft-tissue series, often a bone kernel and sometimes "
    "one with contrast: only the plain soft-tissue series is the image, its slices are one case, in the order of "
    "ImagePositionPatient (names are random, one vendor counts downwards, two pad with -2000). The RIS table is joined "
    "by AccessionNumber; it has several rows a study: only the released one (F) counts, the preliminary (V) may be "
    "wrong, the addendum (N) says who was phoned. Rows of other examinations have no images here. The text is what "
    "stands after the heading Befund up to the signature, Beurteilung included, without history and technique. Studies "
    "that were never released or lack a row are left out; some patients come again.",
)  # fmt: skip
def head_ct(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    rows: list[list[Any]] = []
    patients = [f"NR{int(v):05d}" for v in np.sort(rng.choice(90000, 60, replace=False)) + 1000]
    again = {int(i) for i in rng.choice(60, 9, replace=False)}
    numbers = iter(int(v) for v in rng.choice(900000, 400, replace=False) + 18000000)
    for n, patient in enumerate(patients):
        day, old, vendor = date(2018, 1, 3) + timedelta(days=int(rng.integers(0, 900))), None, int(rng.integers(3))
        for _ in range(2 if n in again else 1):
            ill = _ill(rng)
            _study(b, patient, next(numbers), day, old, vendor, ill, rows)
            old = f"{day:%d.%m.%Y}"
            day += timedelta(days=int(rng.integers(1, 60)))
        if rng.random() < 0.5:
            kind, text = b.pick(
                ("Röntgen Thorax", "Keine Stauung, kein Infiltrat. Herz nicht verbreitert."),
                ("CT HWS", "Keine Fraktur. Degenerative Veränderungen C5/6."),
                ("MRT Schädel", "Keine Diffusionsstörung. Einzelne Marklagergliosen."),
            )
            when = f"{day:%d.%m.%Y}"
            whole = f"Klinische Angaben:\nAbklärung.\n\nBefund:\n{text}\n\nBeurteilung:\n{text}\n\nDr. {_doctor(rng)}"
            rows.append([next(numbers), patient, kind, when, "F", when, whole])
    b.truth["left_out"] = sorted(why)
    rows.sort(key=lambda r: (r[3][6:], r[3][3:5], r[3][:2], r[0]))
    head = ["Anforderungsnr", "PatNr", "Untersuchung", "Untersuchungsdatum", "Status", "Statusdatum", "Text"]
    b.csv("RIS_Auszug/Befunde.csv", head, rows, sep=";", encoding="cp1252", end="\r\n")
    b.text(
        "RIS_Auszug/Hinweise.txt",
        "Auszug aus dem RIS, pseudonymisiert (PatNr und Anforderungsnr wie im PACS)\r\n\r\n"
        "Status: V = vorläufig (Dienst), F = freigegeben (Facharzt), N = Nachtrag der Leitstelle\r\n"
        "Gültig ist nur der freigegebene Befund. Enthalten sind alle Untersuchungen der Patienten, auch solche,\r\n"
        "deren Bilder nicht exportiert wurden.\r\n",
        "cp1252",
    )


def _doctor(rng: Any) -> str:
    return str(rng.choice(["Ahrens", "Becker-Tóth", "Çelik", "Lindqvist", "Wörner"]))


def _study(
    b: Build, patient: str, number: int, day: date, old: str | None, vendor: int, ill: dict[str, Any], rows: list[Any]
) -> None:
    rng, why = b.rng, b.truth["left_out_why"]
    names = VENDORS[vendor][3]
    shared = {
        "PatientID": patient, "AccessionNumber": str(number), "StudyDate": f"{day:%Y%m%d}", "StudyInstanceUID": uid(b),
        "BodyPartExamined": "HEAD", "StudyDescription": "CT Schädel",
    }  # fmt: skip
    base = f"PACS/{patient}/{hexid(b, 4).upper()}"
    hu, vessels = _head(rng, vendor, ill)
    folders = iter(f"{base}/{hexid(b, 4).upper()}" for _ in range(9))
    scout = np.round(np.clip(hu.clip(-1000, 1200).mean(1).repeat(5, 0)[::-1] * 0.6 + 500, 0, 4095)).astype(np.uint16)
    path = dicom(
        b, f"{next(folders)}/{hexid(b, 4).upper()}", scout, "CT", SeriesInstanceUID=uid(b), SeriesNumber=1,
        SeriesDescription="Topogramm", ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"], InstanceNumber=1, **shared,
    )  # fmt: skip
    why[path] = "scout"
    files = _series(b, next(folders), hu, vendor, names[0], 2, rng.uniform(2.0, 3.2), shared)
    if rng.random() < 0.42:
        sharp = hu + 1.4 * (hu - gaussian_filter(hu, (0, 1.2, 1.2)))
        why.update(dict.fromkeys(_series(b, next(folders), sharp, vendor, names[1], 3, 28, shared), "bone kernel"))
    if rng.random() < 0.1:
        bright = hu + 130 * vessels
        why.update(dict.fromkeys(_series(b, next(folders), bright, vendor, names[2], 4, 2.5, shared), "with contrast"))
    if rng.random() < 0.5:
        page = Image.new("L", (160, 120))
        ImageDraw.Draw(page).multiline_text((6, 6), f"Patient Protocol\n{day:%d-%b-%Y}\nDLP 812 mGycm", fill=255)
        path = dicom(
            b, f"{next(folders)}/{hexid(b, 4).upper()}", np.asarray(page), "CT", SeriesInstanceUID=uid(b),
            SeriesNumber=501, SeriesDescription="Patient Protocol", ImageType=["DERIVED", "SECONDARY"], **shared,
        )  # fmt: skip
        why[path] = "page of the dose protocol"
    asks = b.pick("Sturz, Antikoagulation.", "Akute Hemiparese.", "Vigilanzminderung.", "Kopfschmerz, Z. n. Sturz.")
    found, sums = _words(rng, ill)
    when = f"{day:%d.%m.%Y}"
    done = f"Elektronisch freigegeben: Dr. {_doctor(rng)}, Oberarzt"
    whole, core = _report(rng, asks, found, sums, old, done)
    luck, kind = rng.random(), b.pick("CT Schädel nativ", "CT Schädel", "CT Neurokranium nativ")
    if luck > 0.96:
        why.update(dict.fromkeys(files, "no report in the table"))
        return
    if luck > 0.91 or rng.random() < 0.4:
        guess = _ill(rng) if rng.random() < 0.4 else ill
        early, _ = _report(rng, asks, *_words(rng, guess), old, f"Vorläufig: {_doctor(rng)}, Dienst")
        rows.append([number, patient, kind, when, "V", when, early])
    if luck > 0.91:
        why.update(dict.fromkeys(files, "report never released"))
        return
    later = f"{day + timedelta(days=int(rng.integers(0, 2))):%d.%m.%Y}"
    rows.append([number, patient, kind, when, "F", later, whole])
    if rng.random() < 0.15:
        note = f"Befund telefonisch an Dr. {_doctor(rng)} (Notaufnahme) übermittelt."
        rows.append([number, patient, kind, when, "N", later, note])
    b.case(files, patient=patient, text=core, findings=found, impression=sums)
