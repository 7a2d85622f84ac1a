"""Report generation: texts in tables, XML, JSON and plain files."""

from collections.abc import Sequence

from .base import Build, family
from .dicom import film
from .pictures import chest_film
from .volumes import chest_ct

TEXTS = {
    "pneumonia": ("Patchy airspace opacity in one lung.", "Pneumonia."),
    "effusion": ("Blunted costophrenic angle with layering fluid.", "Pleural effusion."),
    "mass": ("Round dense nodule, sharply marginated.", "Pulmonary mass, CT recommended."),
    "cardiomegaly": ("The cardiac silhouette is markedly enlarged.", "Cardiomegaly."),
}
GERMAN = {
    "pneumonia": "Fleckige Verschattung einseitig, vereinbar mit Pneumonie.",
    "effusion": "Erguß mit meniskusförmigem Ausläufer. Größe mäßig.",
    "mass": "Rundherd, scharf begrenzt. CT empfohlen.",
    "cardiomegaly": "Herz deutlich verbreitert.",
}


def sick(b: Build) -> list[str]:
    """Up to two findings by chance."""
    return [str(k) for k in b.rng.permutation(list(TEXTS))[: int(b.rng.integers(0, 3))]]


def words(findings: Sequence[str]) -> tuple[str, str]:
    """Findings and impression."""
    if not findings:
        return "The lungs are clear. Heart size is normal.", "No acute cardiopulmonary abnormality."
    return " ".join(TEXTS[f][0] for f in findings), " ".join(TEXTS[f][1] for f in findings)


@family(
    "reports_projections",
    "report_generation",
    2,
    "generate radiology reports (findings + impression) for chest x-rays",
    notes="reports by uid in one CSV, pictures by uid in another; "
    "a frontal and mostly a lateral are two views of one case",
)
def reports_projections(b: Build) -> None:
    reports, views = [], []
    for uid in range(1, 41):
        found = sick(b)
        findings, impression = words(found)
        files = []
        for n, lateral in enumerate((False, True)[: 1 if uid % 5 == 0 else 2]):
            name = f"{uid}_IM-{1000 + uid}-{1 + n:04d}.dcm.png"
            files.append(b.picture(f"images_normalized/{name}", chest_film(b.rng, *found, lateral=lateral)[0]))
            views.append((uid, name, "Lateral" if lateral else "Frontal"))
        reports.append((uid, "XXXX", b.pick("cough", "dyspnea"), findings, "" if uid == 6 else impression))
        b.case(files, patient=str(uid), text=findings + "\n" + ("" if uid == 6 else impression), views=len(files))
    b.csv("indiana_reports.csv", ("uid", "MeSH", "indication", "findings", "impression"), reports)
    b.rng.shuffle(views)
    b.csv("indiana_projections.csv", ("uid", "filename", "projection"), views)


@family(
    "report_xml",
    "report_generation",
    2,
    "write the report from the x-ray images of a study (xml files)",
    notes="one XML a study in latin-1, sections as AbstractText Label=..., parentImage ids are the "
    "pictures; several views",
)
def report_xml(b: Build) -> None:
    for i in range(1, 37):
        found = sick(b)
        findings, impression = words(found)
        findings += " Patient with Ménière's disease, 37 °C." if i % 7 == 0 else ""
        files, parents = [], []
        for n in range(1 + i % 3):
            name = f"CXR{i}_IM-{1700 + i}-{1001 + n}"
            files.append(b.picture(f"NLMCXR_png/{name}.png", chest_film(b.rng, *found, lateral=n == 1)[0]))
            parents.append(f'<parentImage id="{name}"><caption>PA and lateral</caption></parentImage>')
        parts = (
            ("COMPARISON", "None."),
            ("INDICATION", "XXXX-year-old"),
            ("FINDINGS", findings),
            ("IMPRESSION", impression),
        )
        body = "".join(f'<AbstractText Label="{k}">{v}</AbstractText>' for k, v in parts)
        b.text(
            f"ecgen-radiology/{i}.xml",
            f'<?xml version="1.0" encoding="iso-8859-1"?>\n<eCitation><uId id="CXR{i}"/><MedlineCitation><Article>'
            f"<Abstract>{body}</Abstract></Article></MedlineCitation>{''.join(parents)}</eCitation>\n",
            "latin-1",
        )
        b.case(files, patient=f"CXR{i}", text=findings + "\n" + impression, views=len(files))


@family(
    "report_jsonl",
    "report_generation",
    2,
    "Automatic chest radiograph reporting. jsonl: images + report",
    notes="one JSON a line with a list of pictures; a blank line, a line cut off at the end; `patient` groups studies",
)
def report_jsonl(b: Build) -> None:
    import json

    lines = []
    for i in range(1, 37):
        found = sick(b)
        text = " ".join(words(found))
        files = [
            b.picture(f"img/st{i:03d}_{v}.jpg", chest_film(b.rng, *found)[0], quality=92)
            for v in range(1 + (i % 4 == 0))
        ]
        patient = f"pt{(i + 1) // 2:02d}"
        b.case(files, patient=patient, text=text, views=len(files))
        lines.append(json.dumps({"study_id": f"st{i:03d}", "patient": patient, "images": files, "report": text}))
    b.text("reports.jsonl", "\n".join([*lines[:9], "", *lines[9:]]) + '\n{"study_id": "st037", "ima')


@family(
    "report_txt_studies",
    "report_generation",
    2,
    "MIMIC-like folders, learn to dictate the report",
    notes="files/p10/p10000032/s50414267.txt beside the folder s50414267 with its films; final report has a header",
)
def report_txt_studies(b: Build) -> None:
    for number in range(1, 21):
        patient = f"p1{number * 8731 % 10:01d}{number * 104729 % 1000000:06d}"
        for visit in range(1 + number % 2):
            found = sick(b)
            findings, impression = words(found)
            study = f"s5{number * 997 + visit:07d}"
            where = f"files/{patient[:3]}/{patient}"
            text = f"FINDINGS: {findings}\n\nIMPRESSION: {impression}\n"
            b.text(f"{where}/{study}.txt", " " * 33 + "FINAL REPORT\n EXAMINATION: CHEST (PA AND LAT)\n\n " + text)
            files = [
                b.picture(
                    f"{where}/{study}/{b.rng.bytes(8).hex()}.jpg",
                    chest_film(b.rng, *found, lateral=v == 1)[0],
                    quality=92,
                )
                for v in range(1 + b.rng.integers(2))
            ]
            b.case(files, patient=patient, text=text, views=len(files))


@family(
    "report_xlsx_accession",
    "report_generation",
    2,
    "Befundtexte automatisch schreiben: DICOM Röntgen Thorax + Excel mit Befund",
    notes="the sheet keys reports by accession number, which stands only in the DICOM header; "
    "several films an accession",
)
def report_xlsx_accession(b: Build) -> None:
    rows: list[tuple[object, ...]] = [("Accession Number", "Untersuchung", "Befundtext")]
    for i in range(1, 31):
        found = sick(b)
        text = " ".join(GERMAN[f] for f in found) or "Unauffälliger Thorax. Herz normal groß."
        accession, patient = f"2019{100000 + 17 * i}", f"{55000 + (i + 1) // 2}"
        files = []
        for n in range(1 + (i % 3 == 0)):
            image, _ = chest_film(b.rng, *found, lateral=n == 1)
            path = f"PACS_Export/{b.rng.integers(10**8):08d}_{i}{n}.dcm"
            files.append(
                film(b, path, image, patient, "CR", AccessionNumber=accession, SeriesDescription=("pa", "lat")[n])
            )
        rows.append((int(accession), "Thorax in 2 Ebenen", text))
        b.case(files, patient=patient, text=text, views=len(files))
    b.xlsx("Befunde 2019.xlsx", {"Export": rows})


@family(
    "report_ct_volumes",
    "report_generation",
    3,
    "CT report generation (3D chest CT volumes, english reports)",
    notes="train_1_a_1.nii.gz and train_1_a_2.nii.gz are two reconstructions of one scan with one report, "
    "train_1_b another",
)
def report_ct_volumes(b: Build) -> None:
    says = {
        "normal": ("Both lungs are clear.", "Normal chest CT."),
        "nodule": ("A solid round nodule is seen.", "Pulmonary nodule."),
        "covid": ("Diffuse ground glass opacities.", "Viral pneumonia is likely."),
    }
    rows = []
    for i in range(1, 15):
        for scan in "ab"[: 1 + i % 2]:
            kind = b.pick(*says)
            volume, _ = chest_ct(b.rng, kind)
            for n in (1, 2)[: 1 + i % 3 % 2]:
                name = f"train_{i}_{scan}_{n}.nii.gz"
                path = f"dataset/train/train_{i}/train_{i}_{scan}/{name}"
                b.nifti(path, volume + (b.rng.normal(0, 9, volume.shape) if n == 2 else 0))
                rows.append((name, "cough", "Without contrast.", *says[kind]))
                b.case(path, patient=f"train_{i}", text="\n".join(says[kind]))
    header = ("VolumeName", "ClinicalInformation_EN", "Technique_EN", "Findings_EN", "Impressions_EN")
    b.csv("dataset/radiology_text_reports/train_reports.csv", header, rows)


@family(
    "report_annotation_json",
    "report_generation",
    2,
    "r2gen annotation.json + images/, train a report generator",
    notes="official train/val/test in the JSON; a case's pictures are 0.png and 1.png in a folder named after its id",
)
def report_annotation_json(b: Build) -> None:
    table: dict[str, list[dict[str, object]]] = {}
    number = 2
    for split, n in (("train", 24), ("val", 6), ("test", 8)):
        table[split] = []
        for _ in range(n):
            number += 3
            found, name = sick(b), f"CXR{number}_IM-{number * 7:04d}"
            files = [b.picture(f"images/{name}/{v}.png", chest_film(b.rng, *found, lateral=v == 1)[0]) for v in (0, 1)]
            text = " ".join(words(found)).lower()
            b.case(files, patient=name, text=text, split=split, views=2)
            table[split].append({"id": name, "report": text, "image_path": [f[7:] for f in files], "split": split})
    b.json("annotation.json", table, None)


@family(
    "report_german_csv",
    "report_generation",
    2,
    "Befund generieren aus Röntgenbild, CSV von uns (Zeilenumbrüche im Text!)",
    notes="semicolons, cp1252, quoted texts with line breaks, quotes and semicolons inside; two reports are empty",
)
def report_german_csv(b: Build) -> None:
    rows = []
    for i in range(1, 37):
        found = sick(b)
        text = (
            "Befund:\n"
            + ("\n".join(GERMAN[f] for f in found) or 'Regelrecht; kein "Infiltrat".')
            + "\n\nBeurteilung: s.o."
        )
        path = b.picture(f"bilder/rx_{i}.png", chest_film(b.rng, *found)[0])
        if i in (4, 19):
            b.truth["left_out"].append({"file": path, "why": "no report"})
            text = ""
        else:
            b.case(path, patient=f"{8000 + i // 2}", text=text)
        rows.append((8000 + i // 2, i, f"rx_{i}.png", text))
    header = ("PatNr", "lfd. Nr.", "Bild", "Befundtext")
    b.csv("befunde.csv", header, rows, sep=";", encoding="cp1252", end="\r\n")
