"""Of the second set: reports, and what has to be asked."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "openi_ecgen_xml", "report_generation", 2,
    "Write the FINDINGS section from the chest films of each report.",
    notes="One XML a report (ecgen-radiology/12.xml) naming its pictures by parentImage id; some reports have no FINDINGS, some no picture at all; "
    "one or two pictures a report; MeSH terms and an IMPRESSION beside; XXXX for removed words.",
    patients_known=False,
)
def openi(b: Build) -> None:
    said = {"": "The heart is normal in size. The lungs are clear.", "heart": "The heart is enlarged. The lungs are clear.",
            "effusion": "Heart size is normal. There is a pleural effusion.", "opacity": "Heart size is normal. There is a focal airspace opacity."}
    for n in range(1, 41):
        sign = list(said)[n % 4]
        ident = n * 3 + n % 2
        number = f"{b.rng.integers(1, 9000):04d}"
        files = []
        count = 0 if n in (7, 22) else 1 if n % 5 == 0 else 2
        for k in range(count):
            name = f"CXR{ident}_IM-{number}-{(1001, 2001)[k] if n % 3 else (4004, 8008)[k]}"
            films = draw.chest(b.rng, (sign,) if sign else (), side=k == 1)
            files.append(b.picture(f"NLMCXR_png/{name}.png", draw.u8(films)))
        text = said[sign] + b.pick("", " No pneumothorax.", " XXXX XXXX are unremarkable.")
        bare = n in (12, 30)
        images = "".join(f'<parentImage id="{Path(f).stem}"><figureId>F{k + 1}</figureId><caption>PA and lateral chest</caption><panel type="single"><url>/hadoop/storage/{Path(f).stem}.jpg</url></panel></parentImage>'
                         for k, f in enumerate(files))
        b.text(f"NLMCXR_reports/ecgen-radiology/{ident}.xml", f'<?xml version="1.0" encoding="utf-8"?><eCitation><meta type="rr"/><uId id="CXR{ident}"/><pmcId id="{ident}"/><docSource>CXR</docSource>'
               f'<MedlineCitation Owner="Indiana University" Status="supplied by publisher"><Article PubModel="Electronic"><ArticleTitle>Indiana University Chest X-ray Collection</ArticleTitle>'
               f'<Abstract><AbstractText Label="COMPARISON">None.</AbstractText><AbstractText Label="INDICATION">XXXX-year-old, chest pain</AbstractText>'
               f'<AbstractText Label="FINDINGS">{"" if bare else text}</AbstractText><AbstractText Label="IMPRESSION">{"No acute disease." if not sign else "Abnormal chest."}</AbstractText></Abstract></Article></MedlineCitation>'
               f"<MeSH><major>{sign or 'normal'}</major></MeSH>{images}</eCitation>")
        if bare:
            b.truth["left_out"] += files
        elif files:
            b.case(files, text=text, views=len(files))


@family(
    "cr_textes_windows", "report_generation", 2,
    "Générer la CONCLUSION du compte rendu à partir des clichés de face et de profil.",
    notes="French reports, one .txt a visit in cp1252 with CRLF, sections in capitals with blank before the colon; films named by initials, birth date, visit date and F or P "
    "in folders by year, PNG before 2019 and JPG after; spelling of the folder and case of names differ; two visits of some; one report without films.",
)
def cr(b: Build) -> None:
    said = {"": ("Transparence pulmonaire normale. Silhouette cardiaque de taille normale.", "Radiographie thoracique normale."),
            "heart": ("Augmentation de la taille de la silhouette cardiaque.", "Cardiomégalie, sans épanchement."),
            "effusion": ("Comblement des culs-de-sac pleuraux.", "Épanchement pleural de moyenne abondance."),
            "nodule": ("Opacité nodulaire d’allure isolée.", "Nodule pulmonaire à contrôler par scanner.")}
    for n in range(34):
        who = n % 22
        person = f"{'ABCDEFGHJKLMNOPRSTVWYZ'[who]}{'AEIOU'[who % 5]}{'LMNR'[who % 4]}{1935 + who:04d}{who % 12 + 1:02d}{who + 3:02d}"
        year = 2018 if n < 22 else 2019
        visit = f"{year}{n % 12 + 1:02d}{n % 27 + 1:02d}"
        sign = list(said)[(n + n // 22) % 4]
        files = []
        for view in "FP" if n != 15 else "":
            ends = "png" if year == 2018 else "jpg"
            film = draw.u8(draw.chest(b.rng, (sign,) if sign else (), side=view == "P"))
            files.append(b.picture(f"Clichés/{year}/{person}_{visit}_{view}.{ends}", film))
        b.text(f"Comptes rendus/CR {person.lower() if n % 6 == 5 else person} {visit}.txt", "\r\n".join([
            "CENTRE HOSPITALIER - SERVICE D'IMAGERIE", f"Patient : {person}", f"Date : {visit[6:]}/{visit[4:6]}/{visit[:4]}", "",
            "RADIOGRAPHIE DU THORAX (F + P)", "", "INDICATION : " + b.pick("Toux fébrile.", "Dyspnée d'effort.", "Bilan préopératoire."), "",
            "RÉSULTAT :", said[sign][0], "", "CONCLUSION :", said[sign][1], "", "Dr " + b.pick("LEFÈVRE", "Gaëlle MARTIN"), ""]), "cp1252")
        if files:
            b.case(files, patient=person, text=said[sign][1], views=2)


@family(
    "ctrate_reconstructions", "report_generation", 3,
    "Generate the findings (Findings_EN) for each chest CT volume.",
    notes="Names train_5_a_1: patient 5, scan a, reconstruction 1; reconstructions of one scan share a report row each, keyed by VolumeName with .nii.gz; train and valid reports in "
    "two tables with quotes and line ends inside; abnormality label and metadata tables beside; folder valid_fixed style nesting.",
)
def ctrate(b: Build) -> None:
    said = {False: 'Trachea and both main bronchi are open.\nNo infiltrative lesion was detected in the lung parenchyma; "clear" lungs.',
            True: "Trachea and both main bronchi are open.\nPatchy ground-glass opacities are observed in both lungs, consistent with infection."}
    tables: dict[str, dict[str, list[list[Any]]]] = {}
    for n in range(1, 19):
        split = "train" if n <= 14 else "valid"
        person = f"{split}_{n if n <= 14 else n - 14}"
        for scan in "ab" if n % 4 == 0 else "a":
            sick = bool((n + (scan == "b")) % 2)
            text = said[sick] + b.pick("", " Heart contour and size are normal.")
            volume = draw.lung_ct(b.rng, sick)
            for rec in (1, 2) if n % 2 else (1,):
                name = f"{person}_{scan}_{rec}.nii.gz"
                path = b.nifti(f"dataset/{split}/{person}/{person}_{scan}/{name}", volume + b.rng.normal(0, 15 * rec, volume.shape))
                book = tables.setdefault(split, {"r": [], "l": [], "m": []})
                book["r"].append([name, "Cough, fever." if n % 3 else "", "Sections were taken without contrast medium.", text, "Infection." if sick else "Findings within normal limits."])
                book["l"].append([name, 0, int(sick), 0])
                book["m"].append([name, "Siemens", "[0.7, 0.7]", 1.5, "B60f" if rec == 1 else "B30f", "068Y"])
                b.case(path, patient=person, text=text, split={"train": "train", "valid": "val"}[split])
    for split, book in tables.items():
        b.csv(f"dataset/radiology_text_reports/{split}_reports.csv" if split == "train" else "dataset/radiology_text_reports/validation_reports.csv",
              ["VolumeName", "ClinicalInformation_EN", "Technique_EN", "Findings_EN", "Impressions_EN"], book["r"])
        b.csv(f"dataset/multi_abnormality_labels/{split}_predicted_labels.csv", ["VolumeName", "Cardiomegaly", "Lung opacity", "Hiatal hernia"], book["l"])
        b.csv(f"dataset/metadata/{split}_metadata.csv", ["VolumeName", "Manufacturer", "XYSpacing", "ZSpacing", "ConvolutionKernel", "PatientAge"], book["m"])


@family(
    "kniearchiv_json_befunde", "diagnosis", 2,
    "Bitte ein Modell trainieren, das unsere Knieaufnahmen klassifiziert.",
    notes="JSON beside each picture with three findings that could all be the class (Arthrose, Gelenkerguss, Fraktur, each ja/nein) and nothing says which; the truth holds Arthrose. "
    "PNG and JPG in folders by quarter; patient is initials and birth date in the name, also Patient.Kuerzel inside.",
    expect="ask",
    ask="Which finding is the class: Arthrose, Gelenkerguss or Fraktur? (answer: Arthrose)",
)
def knie(b: Build) -> None:
    for n in range(36):
        who = n % 21
        person = f"{'ABDEFGHJKLMNPRSTUVWXZ'[who]}{'KLMST'[who % 5]}-19{40 + who * 2}-{who % 12 + 1:02d}-{who + 5:02d}"
        a, e, f = n % 2, int(b.rng.random() < 0.45), int(b.rng.random() < 0.35)
        image = np.full((64, 56), 35.0)
        image[:30, 16:40] = 190
        image[(31 if a else 36):, 16:40] = 180
        if e:
            image[24:42, 4:14] = 120
        if f:
            for k in range(24):
                image[10 + k // 3 : 12 + k // 3, 16 + k] = 40
        image = draw.u8(image + b.rng.normal(0, 7, image.shape))
        stem = f"Knie_Archiv/2022_Q{n % 4 + 1}/{person}_{b.pick('re', 'li')}_{n + 1:02d}"
        path = b.picture(stem + (".png" if n % 3 else ".jpg"), image)
        word = {0: "nein", 1: "ja"}
        book = {"Patient": {"Kürzel": person.split("_")[0], "Geschlecht": b.pick("m", "w")}, "Aufnahme": {"Projektion": "a.p.", "Gerät": "Siemens Ysio", "kV": 65},
                "Befund": {"Arthrose": word[a], "Gelenkerguss": word[e], "Fraktur": word[f], "Befunder": b.pick("OA Dr. Groß", "Dr. Müller")}}
        b.text(stem + ".json", json.dumps(book, ensure_ascii=False, indent=2))
        b.case(path, patient=person, label=word[a])
