"""Chest films from a PACS and their reports as HL7 messages of the RIS, with merged patients and rejected films."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from pydicom import dcmread
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, hexid, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "thorax_pacs_et_hl7": "Radiographies du thorax sorties du PACS, et les comptes rendus du SIR tels que le serveur "
    "d'interfaces les a gardés, en messages HL7. Il y a aussi quelques clichés osseux, des clichés rejetés par les "
    "manipulateurs et des patients fusionnés depuis.",
}

# maker, model, rows and columns from the front, photometric interpretation, brightness
DEVICES = (
    ("Philips Medical Systems", "DigitalDiagnost", "DX", (136, 120), "MONOCHROME2", 1.0),
    ("FUJIFILM Corporation", "FCR Carbon X", "CR", (128, 112), "MONOCHROME1", 0.85),
)
SIDES = ("droit", "gauche")
KO = "1.2.840.10008.5.1.4.1.1.88.59"
Found = dict[str, Any]


def _film(rng: Any, found: Found, size: tuple[int, int], lateral: bool) -> np.ndarray:
    """A chest film, 0 to 1. The patient's right is on the left of the picture."""
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    out = np.full(size, 0.62) + gaussian_filter(rng.normal(0, 1, size), 9) * 0.6
    if lateral:
        lung = draw.ball(size, draw.near(rng, h * 0.47, w * 0.5, by=2), (h * 0.36, w * 0.3))
        out[lung] = 0.22
        big = 0.2 if found["heart"] else 0.13
        out[draw.ball(size, (h * 0.62, w * 0.36), (h * 0.17, w * big))] = 0.62
        spine = np.abs(x - w * 0.76 - 4 * np.sin(y / h * 3)) < w * 0.06
        out[spine] += 0.2 * (np.sin(y[spine] / h * 60) > -0.3)
        if found["effusion"]:
            out[(y > h * (0.66 + 0.1 * (w - x) / w)) & (x > w * 0.4)] = 0.78
        if found["opacity"]:
            row = 0.34 if found["opacity"][0] == "supérieur" else 0.6
            spot = draw.ball(size, (h * row, w * 0.6), (h * 0.1, w * 0.13))
            out = np.where(gaussian_filter(spot.astype(float), 3) > 0.3, out + 0.25, out)
    else:
        tops = draw.near(rng, h * 0.46, h * 0.46, by=2)
        for n in range(2):
            mid = w * (0.28 if n == 0 else 0.72)
            out[draw.ball(size, (tops[n], mid), (h * 0.34, w * 0.18))] = 0.2
        for k in range(8):  # ribs
            row = h * (0.16 + 0.085 * k) + 0.0045 * (x - w / 2) ** 2
            out += 0.07 * np.exp(-(((y - row) / 1.6) ** 2)) * (np.abs(x - w / 2) > w * 0.08)
        out += 0.2 * np.exp(-(((x - w / 2) / (w * 0.05)) ** 2))
        heart = (w * 0.53, w * rng.uniform(0.24, 0.28)) if found["heart"] else (w * 0.54, w * rng.uniform(0.12, 0.15))
        shape = draw.ball(size, (h * 0.63, heart[0]), (h * 0.17, heart[1]))
        out = out + (0.72 - out) * gaussian_filter(shape.astype(float), 1.5)
        out -= 0.2 * np.exp(-(((x - w / 2) / 3) ** 2)) * (y < h * 0.3)
        for n, side in enumerate(SIDES):
            mid = w * (0.28 if n == 0 else 0.72)
            if found["effusion"] and found["effusion"][1] in (side, "bilatéral"):
                level = h * (0.56 if found["effusion"][0] == "abondant" else 0.67)
                edge = level - 0.006 * (np.abs(x - w / 2) - w * 0.2) ** 2 * np.sign(np.abs(x - w / 2) - w * 0.2)
                wet = (
                    (y > edge)
                    & ((x < w / 2) if n == 0 else (x > w / 2))
                    & draw.ball(size, (tops[n], mid), (h * 0.37, w * 0.2))
                )
                out = np.where(wet, 0.8, out)
            if found["opacity"] and found["opacity"][1] == side:
                row = 0.3 if found["opacity"][0] == "supérieur" else 0.58
                spot = draw.ball(size, draw.near(rng, h * row, mid), (h * 0.1, w * 0.11)).astype(float)
                spot = gaussian_filter(spot, 3) * (1 + 0.5 * gaussian_filter(rng.normal(0, 1, size), 2))
                out += 0.4 * spot
            if found["nodule"] and found["nodule"] == side:
                spot = draw.ball(size, draw.near(rng, h * 0.42, mid, by=7), rng.uniform(4, 5.5)).astype(float)
                out = out + (0.75 - out) * gaussian_filter(spot, 0.8)
            if found["air"] and found["air"] == side:
                lung = draw.ball(size, (tops[n], mid), (h * 0.34, w * 0.18))
                inner = draw.ball(size, (tops[n] + h * 0.05, mid + (4 if n == 0 else -4)), (h * 0.28, w * 0.12))
                out[lung & ~inner] = 0.05
                ring = gaussian_filter(inner.astype(float), 1)
                out += 0.15 * np.exp(-(((ring - 0.5) / 0.3) ** 2))
    if found["pacemaker"]:
        spot = (h * 0.2, w * (0.86 if not lateral else 0.25))
        out[draw.ball(size, spot, (6, 7 if not lateral else 2))] = 0.98
        t = np.linspace(0, 1, 200)
        py, px = spot[0] + t * (h * 0.65 - spot[0]), spot[1] + t**1.5 * (w * 0.5 - spot[1])
        out[py.astype(int), px.astype(int)] = 0.95
    if not lateral:
        out[6:13, 6:8], out[6:8, 8:11], out[9:11, 8:11] = 0.97, 0.97, 0.97  # marker of the right side
    return np.clip(gaussian_filter(out, 0.7) + rng.normal(0, 0.02, size), 0, 1)


def _hand(rng: Any, size: tuple[int, int]) -> np.ndarray:
    """A hand, as it comes among the chests."""
    h, w = size
    out = np.full(size, 0.06)
    out[draw.ball(size, (h * 0.66, w / 2), (h * 0.16, w * 0.25))] = 0.5
    for k in range(5):
        for n in range(3):
            out[draw.ball(size, (h * (0.5 - 0.13 * n), w * (0.24 + 0.13 * k)), (h * 0.055, w * 0.035))] = 0.75
    return np.clip(gaussian_filter(out, 1) + rng.normal(0, 0.02, size), 0, 1)


def _findings(rng: Any) -> Found:
    def side() -> str:
        return str(rng.choice(SIDES))

    ill = rng.random() > 0.22
    return {
        "heart": ill and rng.random() < 0.35,
        "effusion": (str(rng.choice(["minime", "abondant"])), str(rng.choice([*SIDES, "bilatéral"])))
        if ill and rng.random() < 0.38
        else None,
        "opacity": (str(rng.choice(["supérieur", "inférieur"])), side()) if ill and rng.random() < 0.35 else None,
        "nodule": side() if ill and rng.random() < 0.2 else None,
        "air": side() if ill and rng.random() < 0.15 else None,
        "pacemaker": rng.random() < 0.12,
    }


def _wording(b: Build, found: Found, views: int, why: str) -> str:
    """The report, several lines."""
    res = [b.pick("Cliché de qualité satisfaisante.", "Cliché réalisé en inspiration correcte.")]
    end = []
    if found["heart"]:
        res.append(b.pick("Cardiomégalie.", "Silhouette cardiaque élargie, index cardio-thoracique > 0,5."))
        end.append("cardiomégalie")
    else:
        res.append(b.pick("Silhouette cardio-médiastinale sans particularité.", "Index cardio-thoracique normal."))
    if found["effusion"]:
        much, side = found["effusion"]
        res.append(f"Épanchement pleural {side} {much}, avec comblement du cul-de-sac.")
        end.append(f"épanchement pleural {side} {much}")
    elif rng_true(b, 0.7):
        res.append("Culs-de-sac pleuraux libres.")
    if found["opacity"]:
        lobe, side = found["opacity"]
        res.append(f"Opacité alvéolaire mal limitée du lobe {lobe} {side}.")
        end.append(b.pick("foyer infectieux probable", "pneumopathie") + f" du lobe {lobe} {side}")
    elif not found["effusion"]:
        res.append(b.pick("Pas de foyer parenchymateux.", "Parenchyme pulmonaire sans opacité suspecte."))
    if found["nodule"]:
        res.append(f"Opacité nodulaire bien limitée du poumon {found['nodule']}.")
        end.append(f"nodule du poumon {found['nodule']}, scanner à prévoir")
    if found["air"]:
        res.append(f"Pneumothorax {found['air']} avec décollement de la plèvre.")
        end.append(f"pneumothorax {found['air']}")
    if found["pacemaker"]:
        res.append("Pacemaker en place, sonde dans le ventricule droit.")
    last = ", ".join(end).capitalize() + "." if end else b.pick("Examen normal.", "Pas d'anomalie décelable.")
    how = "Thorax de face et de profil." if views == 2 else "Thorax de face."
    return "\n".join([f"INDICATION : {why}", f"TECHNIQUE : {how}", "RÉSULTAT :", *res, f"CONCLUSION : {last}"])


def rng_true(b: Build, chance: float) -> bool:
    return bool(b.rng.random() < chance)


def _escaped(text: str) -> str:
    for plain, code in (("\\", "\\E\\"), ("|", "\\F\\"), ("^", "\\S\\"), ("&", "\\T\\"), ("\n", "\\.br\\")):
        text = text.replace(plain, code)
    return text


def _pid(who: str) -> str:
    """The segment of a patient; numbers of the emergency room begin with 9 and tell neither birth nor sex."""
    told = "|U" if who[0] == "9" else f"{1925 + int(who[-3:]) % 70}0101|{'FM'[int(who[-1]) % 2]}"
    return f"PID|1||{who}^^^CHU^PI||ANONYME^{who}||{told}"


def _oru(b: Build, who: str, number: str, exam: str, taken: datetime, sent: datetime, state: str, text: str) -> None:
    """Adds a message with a report to the messages of the quarter in which it was sent."""
    rng, at = b.rng, f"{sent:%Y%m%d%H%M%S}"
    doctor = b.pick("4471^LAMBERT", "5120^NGUYEN", "3308^FERRARI")
    obr = [""] * 33
    obr[0:4] = ["OBR", "1", f"P{int(rng.integers(10**5, 10**6))}", f"{number}^SIR"]
    obr[4], obr[7], obr[22], obr[24], obr[25], obr[32] = exam, f"{taken:%Y%m%d%H%M}", at, "RX", state, doctor
    parts = text.split("\n")
    cuts = [0, 2, len(parts) - 1, len(parts)] if len(parts) > 4 else [0, len(parts)]
    rows = ["\n".join(parts[i:j]) for i, j in pairwise(cuts)]
    obx = [f"OBX|{n + 1}|TX|CR^Compte rendu^SIR||{_escaped(row)}||||||{state}" for n, row in enumerate(rows)]
    dose = f"OBX|{len(obx) + 1}|NM|PDS^Produit dose-surface^SIR||{rng.uniform(0.4, 3):.2f}|dGy.cm2|||||{state}"
    lines = [
        f"MSH|^~\\&|SIR|IMAGERIE|EAI|RECHERCHE|{at}||ORU^R01|{int(rng.integers(10**7, 10**8))}|P|2.3.1||||||8859/1",
        _pid(who),
        f"PV1|1|{b.pick('I', 'O', 'E')}|{b.pick('PNEU', 'URG', 'CARD', 'MED2')}",
        f"ORC|RE|{obr[2]}|{obr[3]}||CM",
        "|".join(obr),
        *obx,
        *([dose] if rng.random() < 0.6 else []),
    ]
    b.truth.setdefault("messages", {}).setdefault(f"ORU_{sent:%Y}T{(sent.month + 2) // 3}", []).append((at, lines))


def _reject(b: Build, path: str, study: dict[str, Any], film: tuple[str, str]) -> None:
    """A note of the PACS (key object selection) that a film was rejected."""
    ds = FileDataset(None, {}, file_meta=FileMetaDataset(), preamble=bytes(128))
    ds.file_meta.MediaStorageSOPClassUID, ds.file_meta.MediaStorageSOPInstanceUID = KO, uid(b)
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality = KO, ds.file_meta.MediaStorageSOPInstanceUID, "KO"
    for key in ("PatientID", "PatientName", "StudyInstanceUID", "StudyDate", "AccessionNumber"):
        setattr(ds, key, study[key])
    ds.SeriesInstanceUID, ds.SeriesDescription, ds.SeriesNumber = uid(b), "Rejet qualité", 999
    title, item, image = Dataset(), Dataset(), Dataset()
    title.CodeValue, title.CodingSchemeDesignator = "113001", "DCM"
    title.CodeMeaning = "Rejected for Quality Reasons"
    image.ReferencedSOPClassUID, image.ReferencedSOPInstanceUID = film
    item.RelationshipType, item.ValueType, item.ReferencedSOPSequence = "CONTAINS", "IMAGE", [image]
    ds.ValueType, ds.ContinuityOfContent = "CONTAINER", "SEPARATE"
    ds.ConceptNameCodeSequence, ds.ContentSequence = [title], [item]
    ds.SpecificCharacterSet = "ISO_IR 100"
    ds.save_as(b.at(path), enforce_file_format=True)


@family(
    "thorax_pacs_et_hl7", "report_generation", 2,
    "Rédiger automatiquement le compte rendu d'une radiographie du thorax à partir du ou des clichés de l'examen.",
    notes="DICOM films without suffix; a case is an examination (accession number) with the front view and sometimes "
    "the lateral one. Reports are HL7 v2 ORU^R01 messages (Latin-1, segments end with CR): joined by OBR-3 = accession "
    "number; the text is the OBX of type TX in order, with \\.br\\ as new line, not the dose (NM). The last message "
    "counts, F or C (corrected); only P (provisional) or X (cancelled) leaves the examination out, as does the text "
    "that only refers to the CT. Bedside films without accession number are listed with their StudyInstanceUID in "
    "rattachement.csv. Patient: ADT^A40 messages merge an old number (MRG) into the one of PID. Films named in a KO "
    "object (113001, rejected) are not used. Hands are not chests.",
)  # fmt: skip
def chest(b: Build) -> None:
    rng, why, joined, merged = b.rng, {}, [], []
    b.truth["left_out_why"] = why
    numbers = [f"{int(v):07d}" for v in rng.choice(900000, 62, replace=False) + 40000]
    old, people = [f"9{v[1:]}" for v in numbers[:6]], numbers[6:]
    visits = people + [str(v) for v in rng.choice(people, 34)]
    visits = [visits[int(i)] for i in rng.permutation(len(visits))]
    now, first = datetime(2017, 1, 3, 8, 10), set()
    for n, who in enumerate(visits):
        now += timedelta(hours=float(rng.uniform(20, 120)))
        shown = who
        # came unknown, got a number of the emergency room that was merged into the true one later
        if visits.count(who) > 1 and who not in first and old:
            shown = old.pop()
            merged.append((shown, who, now + timedelta(hours=30)))
        first.add(who)
        _visit(b, n, who, shown, now, joined)
    b.truth["left_out"] = sorted(why)
    messages = b.truth.pop("messages")
    for shown, who, at in merged:
        stamp = f"{at:%Y%m%d%H%M%S}"
        lines = [
            f"MSH|^~\\&|GAP|CHU|EAI|RECHERCHE|{stamp}||ADT^A40|{int(rng.integers(10**7, 10**8))}|P|2.3.1||||||8859/1",
            f"EVN|A40|{stamp}",
            _pid(who),
            f"MRG|{shown}^^^CHU^PI",
        ]
        messages.setdefault("ADT_A40", []).append((stamp, lines))
    for name, some in messages.items():
        text = "\r\n".join("".join(line + "\r" for line in lines) for _, lines in sorted(some))
        b.text(f"SIR_HL7/{name}.hl7", text, "latin-1")
    b.csv("rattachement.csv", ["StudyInstanceUID", "Numéro d'examen"], joined, sep=";", encoding="latin-1")
    b.text(
        "lisez-moi.txt",
        "Extraction thorax 2017-2018\r\n\r\n"
        "PACS/ : objets DICOM tels quels, un dossier par examen. Le numéro d'examen est dans Accession Number.\r\n"
        "Pour les clichés faits au lit sans liste de travail il manque ; voir rattachement.csv.\r\n"
        "Les clichés rejetés par les manipulateurs sont encore là, avec leur note de rejet (objet KO) ; ne pas les "
        "prendre.\r\n\r\n"
        "SIR_HL7/ : messages gardés par l'EAI. OBR-3 = numéro d'examen. Statut P = provisoire (interne, non validé), "
        "F = validé,\r\nC = corrigé après validation (remplace le précédent), X = annulé. Ne garder que les comptes "
        "rendus validés ou corrigés.\r\n"
        "« Cf. compte rendu du scanner » n'est pas un compte rendu de radiographie, ne pas utiliser.\r\n"
        "ADT_A40 : fusions d'identités du bureau des entrées (PID = identité gardée, MRG = identité absorbée).\r\n"
        "Il y a aussi des radiographies de la main dans l'extraction, elles ne nous intéressent pas.\r\n",
        "cp1252",
    )


def _visit(b: Build, n: int, who: str, shown: str, now: datetime, joined: list[Any]) -> None:
    rng, why = b.rng, b.truth["left_out_why"]
    maker, model, modality, size, photo, gain = DEVICES[int(rng.random() < 0.4)]
    number, folder = f"{now:%y}{40211 + 37 * n}", f"PACS/{hexid(b, 4).upper()}/{hexid(b, 4).upper()}"
    hand, bed = rng.random() < 0.06, modality == "CR" and rng.random() < 0.35
    found, views = _findings(rng), 1 if bed or rng.random() < 0.45 else 2
    told = str(rng.choice(["F", "PF", "FC", "P", "X", "CT", "none"], p=(0.54, 0.17, 0.12, 0.06, 0.03, 0.04, 0.04)))
    study = {
        "PatientID": shown, "PatientName": f"ANONYME^{shown}", "StudyInstanceUID": uid(b),
        "StudyDate": f"{now:%Y%m%d}", "StudyTime": f"{now:%H%M%S}", "AccessionNumber": "" if bed else number,
        "StudyDescription": "RX main" if hand else "RX thorax au lit" if bed else "RX thorax",
        "SpecificCharacterSet": "ISO_IR 100", "Manufacturer": maker, "ManufacturerModelName": model, "BitsStored": 12,
        "HighBit": 11, "PhotometricInterpretation": photo, "BodyPartExamined": "HAND" if hand else "CHEST",
    }  # fmt: skip
    if bed:
        joined.append([study["StudyInstanceUID"], number])
    used, count, broken = [], 0, n == 31

    def film(lateral: bool, poor: bool = False) -> None:
        nonlocal count
        count += 1
        picture = _hand(rng, size) if hand else _film(rng, found, size, lateral)
        if poor:  # moved, or the field set wrong
            picture = gaussian_filter(np.roll(picture, int(size[1] * 0.4), 1), (0, 4)) * 0.5
        values = (200 + picture * 3300 * gain * rng.uniform(0.9, 1.1)).clip(0, 4095)
        values = (4095 - values if photo == "MONOCHROME1" else values).astype(np.uint16)
        path, view = f"{folder}/IM{count:05d}", "LL" if lateral else "AP" if bed else "PA"
        if broken:
            b.broken(path, bytes(128) + b"DICM\x02\x00\x00\x00UL\x04\x00\xba\x00\x00\x00")
            return
        dicom(b, path, values, modality, **study, SeriesInstanceUID=uid(b), SeriesNumber=count, ViewPosition=view)
        if poor:
            count += 1
            made = dcmread(b.at(path), stop_before_pixels=True)
            _reject(b, f"{folder}/IM{count:05d}", study, (made.SOPClassUID, made.SOPInstanceUID))
            why[path] = "rejected film"
        else:
            used.append(path)

    if not (hand or broken) and rng.random() < 0.12:
        film(False, True)
    film(False)
    if views == 2 and not hand and not broken:
        film(True)
    exam = "RXMAI^Radiographie de la main^SIR" if hand else "RXTHO^Radiographie du thorax^SIR"
    reason = b.pick("toux fébrile.", "dyspnée aiguë.", "bilan préopératoire.", "douleur thoracique.", "contrôle.")
    text = _wording(b, found, views, reason)
    if hand:
        text = (
            "INDICATION : traumatisme.\nRÉSULTAT :\nPas de lésion osseuse traumatique.\nCONCLUSION : Pas de fracture."
        )
        told = "F"
    if told == "CT":
        _oru(b, shown, number, exam, now, now + timedelta(hours=5), "F", "Cf. compte rendu du scanner du même jour.")
    elif told == "X":
        _oru(b, shown, number, exam, now, now + timedelta(hours=1), "X", "Examen annulé, erreur d'identité du patient.")
    elif told != "none":
        before = dict(found, nodule=None, opacity=None) if told == "FC" or rng.random() < 0.5 else found
        wait = now + timedelta(hours=float(rng.uniform(1, 9)))
        for k, state in enumerate(told):
            words = text if k == len(told) - 1 and told != "P" else _wording(b, before, views, reason)
            late = wait + k * timedelta(hours=float(rng.uniform(4, 60)))
            _oru(b, shown, number, exam, now, late, state, words)
    if hand or broken or told in ("P", "X", "CT", "none"):
        why.update(dict.fromkeys(used, "hand" if hand else f"no report that counts ({told})"))
        return
    b.case(used, patient=who, text=text, views=views)
