"""Of the third set: reports, and what has to be asked."""

import base64
import json
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid, uuid4
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "rocov2_captions", "report_generation", 2,
    "Write the caption for each radiological picture.",
    notes="Three picture folders and three caption tables joined by ID without suffix; concept tables (CUIs, automatic and manual) and a licence table use the same IDs; captions with quotes, commas and line breaks; a caption "
    "without a picture and a picture without a caption.",
    patients_known=False,
)
def roco(b: Build) -> None:
    words = {"": ("Chest radiograph shows no abnormality", "C0024109"), "heart": ("Chest X-ray, \"PA\" view, showing marked cardiomegaly", "C0018800"),
             "effusion": ("Frontal radiograph with bilateral pleural effusions, blunting both angles", "C0032227"), "nodule": ("Chest film with a solitary\npulmonary nodule (arrow)", "C0034079")}
    licences = []
    for split, count in (("train", 26), ("valid", 8), ("test", 8)):
        captions, concepts = [], []
        for n in range(1, count + 1):
            sign = list(words)[n % 4]
            ident = f"ROCOv2_2023_{split}_{n * 3:06d}"
            text = words[sign][0] + b.pick("", f" in a {b.rng.integers(20, 80)}-year-old patient", " at admission") + "."
            lonely, lost = (split, n) == ("train", 9), (split, n) == ("valid", 3)
            if not lonely:
                captions.append([ident, text])
                concepts.append([ident, ";".join(["C1306645", words[sign][1]])])
                licences.append([ident, "PMC" + str(b.rng.integers(10**6, 10**7)), "CC BY"])
            if lost:
                continue
            film = draw.u8(draw.chest(b.rng, (sign,) if sign else (), size=(int(b.rng.integers(54, 64)), int(b.rng.integers(48, 64)))))
            path = b.picture(f"{split}_images/{ident}.jpg", film, quality=90)
            if lonely:
                b.truth["left_out"].append(path)
            else:
                b.case(path, text=text, split={"valid": "val"}.get(split, split))
        b.csv(f"{split}_captions.csv", ["ID", "Caption"], captions)
        b.csv(f"{split}_concepts.csv", ["ID", "CUIs"], concepts)
        b.csv(f"{split}_concepts_manual.csv", ["ID", "CUIs"], [[i, "C1306645"] for i, _ in concepts])
    b.csv("cui_mapping.csv", ["CUI", "Canonical name"], [["C1306645", "Plain x-ray"], *[[c, s or "normal lung"] for s, (_, c) in words.items()]])
    b.csv("license_information.csv", ["ID", "PMCID", "License"], licences)


@family(
    "befunde_mappe_jahre", "report_generation", 2,
    "Bitte ein Modell trainieren, das aus der Thoraxaufnahme (p.a. und, wenn vorhanden, seitlich) den Text der Beurteilung schreibt.",
    notes="Workbook with a sheet a year whose columns are named and ordered differently (Auftragsnr. / Auftragsnummer, Befund / Befundtext) and a sheet of abbreviations; DICOM films by year named by order number, laterals with _2; order numbers "
    "typed with a blank in the year 2020; some Beurteilungen empty; films without a row; several visits.",
)
def befunde(b: Build) -> None:
    said = {"": ("Herz normal groß. Keine Infiltrate.", "Unauffälliger Herz-Lungen-Befund."), "heart": ("Herz linksbetont verbreitert.", "Kardiomegalie, keine Stauung."),
            "effusion": ("Verschattung der Randwinkel beidseits.", "Pleuraergüsse beidseits."), "opacity": ("Flächige Verschattung.", "Pneumonisches Infiltrat, Verlaufskontrolle empfohlen.")}
    sheets: dict[str, list[list[Any]]] = {"2019": [["Auftragsnr.", "Pat.-Nr.", "Datum", "Untersuchung", "Befund", "Beurteilung"]],
                                          "2020": [["Datum", "Auftragsnr.", "Pat.-Nr.", "Überweiser", "Befund", "Beurteilung"]],
                                          "2021": [["Auftragsnummer", "Patientennummer", "Untersuchungsdatum", "Befundtext", "Beurteilung", "Befunder"]]}
    for n in range(42):
        year = str(2019 + n % 3)
        person = f"{300123 + n % 25 * 41:010d}"
        order = f"A{year[2:]}{4700 + n * 13:06d}"
        sign = list(said)[(n + n // 4) % 4]
        finding, text = said[sign]
        text += b.pick("", " Kein Pneumothorax.", " Im Vergleich zur Voraufnahme unverändert.")
        day = f"{n % 27 + 1:02d}.{n % 12 + 1:02d}.{year}"
        blank, absent = n in (10, 27), n == 16
        files = []
        study = uid(b)
        for k in range(2 if n % 3 == 1 or n % 5 == 0 else 1):
            film = (draw.chest(b.rng, (sign,) if sign else (), size=(60, 52), side=k == 1).clip(0, 255) * 14).astype(np.uint16)
            files.append(dicom(b, f"Thorax/{year}/{order}{'_2' if k else ''}.dcm", film, "DX", PatientID=person, PatientName=f"ANON^{n % 25:03d}", AccessionNumber=order, StudyInstanceUID=study, SeriesInstanceUID=uid(b),
                               StudyDate=day[6:] + day[3:5] + day[:2], ViewPosition="LL" if k else "PA", BodyPartExamined="CHEST", SeriesDescription="Thorax seitlich" if k else "Thorax p.a.", SeriesNumber=k + 1, InstanceNumber=1,
                               PixelSpacing=[6.0, 6.0], BitsStored=12, HighBit=11))
        value = None if blank else text
        if not absent:
            shown = f"{order[:3]} {order[3:]}" if year == "2020" else order
            sheets[year].append({"2019": [shown, int(person), day, "Thorax 2 Eb.", finding, value], "2020": [day, shown, int(person), b.pick("ZNA", "Innere"), finding, value],
                                 "2021": [shown, int(person), day, finding, value, b.pick("Dr. Weiß", "OÄ Jäger")]}[year])
        if blank or absent:
            b.truth["left_out"] += files
        else:
            b.case(files, patient=person, text=text, views=len(files))
    sheets["Abkürzungen"] = [["p.a.", "posterior-anterior"], ["Eb.", "Ebenen"], ["ZNA", "Zentrale Notaufnahme"]]
    b.xlsx("Befunde_Thorax_2019-2021.xlsx", sheets)
    b.raw("Thorax/~$Befunde_Thorax_2019-2021.xlsx", b"\x06Jaeger" + bytes(158))


@family(
    "amos_mm_report_json", "report_generation", 3,
    "Generate the findings of the abdomen for each CT.",
    notes="One JSON with training, validation and test lists; reports deep below labels.report.findings with chest, abdomen and pelvis, an impression likewise, and questions with answers; some scans only report the chest "
    "(abdomen empty); organ masks beside; test scans without reports.",
    patients_known=False,
)
def amos(b: Build) -> None:
    said = {"": "The liver, spleen and both kidneys are normal.", "cyst": "A round low-density lesion in the right hepatic lobe, likely a cyst. Spleen normal.",
            "stone": "A dense focus in the right kidney, compatible with a stone.", "big": "The spleen is enlarged. Liver without focal lesion."}
    book: dict[str, Any] = {"name": "AMOS-MM", "description": "Abdominal multimodal reports", "modality": {"0": "CT"}, "training": [], "validation": [], "test": []}
    for n in range(1, 39):
        split = "training" if n <= 25 else "validation" if n <= 33 else "test"
        sign = list(said)[n % 4]
        shape = (36, 32, 8)
        vol = np.full(shape, -1000.0)
        vol[draw.ball(shape, (18, 16, 4), (17.5, 15, 40))] = 10
        liver = draw.ball(shape, draw.near(b.rng, 10, 13, 4, by=1), (8, 8, 5))
        spleen = draw.ball(shape, draw.near(b.rng, 29, 15, 4, by=1), (6, 8, 4) if sign == "big" else (3, 4, 2.5))
        kidney = draw.ball(shape, draw.near(b.rng, 12, 26, 4, by=1), (3, 3, 3))
        for part, value in ((liver, 105), (spleen, 140), (kidney, 190)):
            vol[part] = value
        if sign == "cyst":
            vol[draw.ball(shape, draw.near(b.rng, 10, 12, 4, by=1), (3, 3, 2))] = 0
        if sign == "stone":
            vol[draw.ball(shape, (12, 26, 4), (1.6, 1.6, 1.2))] = 900
        folder = {"training": "imagesTr", "validation": "imagesVa", "test": "imagesTs"}[split]
        name = f"amos_{n * 11:04d}.nii.gz"
        path = b.nifti(f"AMOS-MM/{folder}/{name}", vol + b.rng.normal(0, 15, shape))
        text = said[sign] + b.pick("", " No ascites.", " The gallbladder is unremarkable.")
        chest_only = n in (7, 30)
        entry: dict[str, Any] = {"image": f"{folder}/{name}"}
        if split != "test":
            b.nifti(f"AMOS-MM/labels{folder[6:]}/{name}", liver + 2 * (spleen & ~liver) + 3 * (kidney & ~liver), dtype=np.uint8)
            entry["labels"] = {"report": {"findings": {"chest": b.pick("", "The lung bases are clear."), "abdomen": "" if chest_only else text, "pelvis": b.pick("", "No free fluid.")},
                                          "impression": {"abdomen": "Normal." if not sign else "See above."}},
                               "qa": [{"type": "anatomy", "question": "Which organ is abnormal?", "options": {"A": "Liver", "B": "Spleen", "C": "Kidney", "D": "None"}, "answer": {"": "D", "cyst": "A", "stone": "C", "big": "B"}[sign]}]}
        book[split].append(entry)
        if split == "test" or chest_only:
            b.truth["left_out"].append(path)
        else:
            b.case(path, text=text, split={"training": "train", "validation": "val"}[split])
    b.json("AMOS-MM/dataset.json", book, 2)
    b.text("AMOS-MM/README.md", "# AMOS-MM\n\nReports are by region (chest, abdomen, pelvis). Empty text: the region was not reported.\n")


@family(
    "fhir_ndjson_reports", "report_generation", 2,
    "Generate the conclusion of the liver ultrasound reports from their pictures. Only final reports.",
    notes="FHIR bulk export: DiagnosticReport.ndjson points to Media by reference, Media.ndjson to the file, Patient.ndjson; one to three pictures a report; status preliminary or entered-in-error; conclusion and a base64 full text; files named by "
    "UUID without meaning; a Media of no report.",
)
def fhir(b: Build) -> None:
    said = {"": "Unremarkable sonography of the liver.", "fat": "Diffusely increased echogenicity, consistent with hepatic steatosis.", "cyst": "Simple cyst of the liver, no follow-up needed.", "mass": "Hyperechoic lesion, most likely a hemangioma."}

    def scan(sign: str) -> np.ndarray:
        size = (48, 60)
        out = np.full(size, 8.0)
        fan = draw.ball(size, (0, 30), (46, 29))
        out[fan] = 160 if sign == "fat" else 85
        if sign in ("cyst", "mass"):
            out[draw.ball(size, draw.near(b.rng, 22, 30, by=6), b.rng.uniform(5, 8)) & fan] = 5 if sign == "cyst" else 225
        return draw.u8(out * b.rng.gamma(5, 0.2, size))

    people = [uuid4(b) for _ in range(23)]
    reports, media = [], []

    def image(person: str, sign: str, report_time: str) -> tuple[str, str]:
        ident, binary = uuid4(b), uuid4(b)
        path = b.picture(f"fhir_export_2022-05/Binary/{binary}.{b.pick('png', 'jpg')}", scan(sign))
        media.append({"resourceType": "Media", "id": ident, "status": "completed", "modality": {"coding": [{"system": "http://dicom.nema.org/resources/ontology/DCM", "code": "US"}]},
                      "subject": {"reference": f"Patient/{person}"}, "createdDateTime": report_time, "content": {"contentType": "image/png" if path.endswith("png") else "image/jpeg", "url": path.removeprefix("fhir_export_2022-05/")}})
        return ident, path

    for n in range(38):
        person, sign = people[n % 23], list(said)[(n + n // 23) % 4]
        when = f"2022-0{n % 4 + 1}-{n % 27 + 1:02d}T1{n % 9}:30:00+02:00"
        pairs = [image(person, sign, when) for _ in range(n % 3 + 1)]
        status = {6: "preliminary", 17: "entered-in-error", 29: "preliminary"}.get(n, "final")
        text = said[sign] + b.pick("", " Portal vein patent.", " No ascites.")
        full = f"Ultrasound of the abdomen\n\nFindings:\n{b.pick('Good', 'Limited')} visibility.\n\nConclusion:\n{text}\n"
        reports.append({"resourceType": "DiagnosticReport", "id": uuid4(b), "status": status, "category": [{"coding": [{"code": "RAD"}]}], "code": {"text": "US liver"}, "subject": {"reference": f"Patient/{person}"},
                        "effectiveDateTime": when, "media": [{"link": {"reference": f"Media/{i}"}} for i, _ in pairs], "conclusion": text,
                        "presentedForm": [{"contentType": "text/plain", "data": base64.b64encode(full.encode()).decode()}]})
        paths = [p for _, p in pairs]
        if status == "final":
            b.case(paths, patient=person, text=text, views=len(paths))
        else:
            b.truth["left_out"] += paths
    b.truth["left_out"].append(image(people[3], "fat", "2022-04-30T09:00:00+02:00")[1])
    lines = {"DiagnosticReport": [reports[i] for i in b.rng.permutation(len(reports))], "Media": [media[i] for i in b.rng.permutation(len(media))],
             "Patient": [{"resourceType": "Patient", "id": p, "gender": b.pick("male", "female"), "birthDate": f"19{40 + k}-01-01"} for k, p in enumerate(people)]}
    for name, entries in lines.items():
        b.text(f"fhir_export_2022-05/{name}.ndjson", "".join(json.dumps(e) + "\n" for e in entries))
    b.json("fhir_export_2022-05/manifest.json", {"transactionTime": "2022-05-02T08:00:00Z", "request": "https://fhir.example.org/$export", "requiresAccessToken": True,
                                                 "output": [{"type": k, "url": f"{k}.ndjson", "count": len(v)} for k, v in lines.items()], "error": []})


@family(
    "densita_due_lettori", "diagnosis", 2,
    "Vorrei un modello che classifichi la densità mammaria (A, B, C, D) nelle nostre mammografie.",
    notes="Two readers graded every picture, they differ on a third, no consensus column and no rule; the truth holds lettore_1. Italian semicolon table in latin-1 with CRLF; patient code, side and view in the name; two rounds of some.",
    expect="ask",
    ask="Whose reading is the truth: densita_lettore_1 or densita_lettore_2? (answer: densita_lettore_1)",
)
def densita(b: Build) -> None:
    rows = []
    for n in range(40):
        k = n % 4
        person = f"PZ{1040 + n % 22 * 17}"
        name = f"{person}_{2018 + n // 22 * 2}_{'DS'[n % 2]}_{b.pick('CC', 'MLO')}_{n + 1:03d}"
        inside = draw.ball((64, 48), (32, 0), (29, 38))
        film = np.where(inside, 60 + gaussian_filter(b.rng.normal(0, 1, (64, 48)), 2) * 50, 4)
        film[draw.ball((64, 48), draw.near(b.rng, 32, 14), (6 + 5 * k, 5 + 5 * k)) & inside] += 90
        path = b.picture(f"Screening_MX/immagini/{name}.png", draw.u8(film + b.rng.normal(0, 4, film.shape)))
        other = int(np.clip(k + (b.pick(-1, 1) if b.rng.random() < 0.4 else 0), 0, 3))
        rows.append([name + ".png", person, "destra" if n % 2 == 0 else "sinistra", f"{n % 27 + 1:02d}/{n % 12 + 1:02d}/{2018 + n // 22 * 2}", 45 + n % 22, "ABCD"[k], "ABCD"[other], b.pick("", "qualità ridotta")])
        b.case(path, patient=person, label="ABCD"[k])
    b.csv("Screening_MX/letture densità.csv", ["file", "codice_paziente", "lato", "data_esame", "età", "densita_lettore_1", "densita_lettore_2", "note"], [rows[i] for i in b.rng.permutation(len(rows))],
          sep=";", encoding="latin-1", end="\r\n")
    b.text("Screening_MX/leggimi.txt", "Doppia lettura indipendente della densità, in cieco. Nessuna lettura di consenso.\r\n", "latin-1")


@family(
    "schwannoma_two_raters", "anomaly_detection", 3,
    "Segment the vestibular schwannoma on the contrast-enhanced T1 scans.",
    notes="Masks of two raters (KM, TS) for every scan in two folders of the same names, clearly different, no consensus and no word which counts; the truth holds KM. Follow-up scans of one patient in the name VS-007_2020-02-11.",
    expect="ask",
    ask="Which rater's masks are to be used: seg_KM or seg_TS? (answer: seg_KM)",
)
def schwannoma(b: Build) -> None:
    for n in range(30):
        person = f"VS-{n % 18 * 2 + 3:03d}"
        name = f"{person}_{2018 + n // 18 * 2}-{n % 12 + 1:02d}-{n % 27 + 1:02d}"
        brain = draw.brain(b.rng, 0.2, (30, 34, 14))
        mid = draw.near(b.rng, b.pick(9, 21), 20, 5, by=1.5)
        r = b.rng.uniform(2.2, 4.2)
        tumor, wide = draw.ball(brain.shape, mid, r), draw.ball(brain.shape, [mid[0] + 0.7, *mid[1:]], r + 1.2)
        brain[tumor] = 1300
        affine = np.diag([5.0, 5, 5, 1])
        path = b.nifti(f"VS_study/T1c/{name}.nii.gz", gaussian_filter(brain, 0.5) + b.rng.normal(0, 15, brain.shape), affine)
        b.nifti(f"VS_study/seg_KM/{name}.nii.gz", tumor, affine, np.uint8)
        b.nifti(f"VS_study/seg_TS/{name}.nii.gz", wide, affine, np.uint8)
        b.case(path, patient=person, mask={"schwannoma": tumor})
    b.text("VS_study/notes.txt", "Segmented independently by KM and TS in 2021, blinded to each other. Interrater Dice to be reported. No consensus yet.\n")
