"""Worlds of report generation: where reports stand and how they name their images."""

from pathlib import Path

from propose_files import picture, save_json, table, text, volume
from propose_worlds import World

FINDINGS = (
    "The heart is normal in size. The lungs are clear without focal consolidation.",
    "There is a small left pleural effusion. The cardiac silhouette is enlarged.",
    "No pneumothorax is seen. Mild degenerative changes of the thoracic spine.",
)


def report(number: int) -> str:
    return f"{FINDINGS[number % 3]} Comparison is made with study {number} of the year."


def names_in_table(root: Path) -> None:
    rows = []
    for number in range(12):
        picture(root / "images" / f"study_{number}.png")
        rows.append({"image": f"study_{number}.png", "report": report(number)})
    table(root / "reports.csv", rows)


def split_in_json(root: Path) -> None:
    content: dict[str, list[dict[str, object]]] = {"train": [], "val": [], "test": []}
    for number in range(14):
        side = "train" if number < 9 else "val" if number < 11 else "test"
        name = f"CXR{number}_IM-{number * 7:04d}"
        paths = [f"{name}/{view}.png" for view in range(2)]
        for path in paths:
            picture(root / "images" / path)
        content[side].append({"id": name, "report": report(number), "image_path": paths, "split": side})
    save_json(root / "annotation.json", content)


def rows_in_json(root: Path) -> None:
    rows = []
    for number in range(12):
        volume(root / "ct" / f"exam_{number:03d}.nii.gz")
        rows.append({"id": f"exam_{number:03d}", "caption": report(number), "age": 40 + number})
    save_json(root / "captions.json", rows)


def files_by_patient(root: Path) -> None:
    for patient in range(6):
        for study in range(1 + patient % 2):
            name = f"s{50000000 + patient * 100 + study}"
            for view in range(1 + study):
                picture(root / "p10" / f"p1000{patient:04d}" / name / f"{patient}{study}{view}-ab{view}.jpg")
            text(
                root / "p10" / f"p1000{patient:04d}" / f"{name}.txt",
                f"FINAL REPORT\n EXAMINATION: chest\n\nFINDINGS: {report(patient + study)}\n\nIMPRESSION: See above.\n",
            )


def names_of_several_folders(root: Path) -> None:
    """Keys of a site, a number and a sequence, which are two folders and a file with another folder between them."""
    texts = {}
    for number in range(12):
        site = ("North/MR1", "South", "West")[number % 3]
        for kind in ("T1", "FLAIR"):
            volume(root / "scans" / site / str(100 + 7 * number) / "pre" / f"{kind}.nii.gz")
            texts[f"{site.rpartition('/')[2]}_{100 + 7 * number}_{kind}"] = f"{kind}: {report(number)}"
    save_json(root / "texts.json", texts)


def texts_of_images_and_of_cases(root: Path) -> None:
    """Scans of two studies, each with its own way of naming; a text for each scan, and one for what a few have in
    common."""
    own, whole = {}, {}
    for number in range(24):
        study, kinds = (("stroke", ("dwi", "adc")), ("tumour", ("t1n", "t1c", "t2w")))[number % 2]
        case = f"sub-{number:03d}_ses-1" if number % 2 == 0 else f"T-{number % 12:05d}-{number // 12:03d}"
        folder = f"sub-{number:03d}/ses-1" if number % 2 == 0 else case
        for kind in kinds:
            name = f"{case}{'_' if number % 2 == 0 else '-'}{kind}"
            volume(root / "images" / study / folder / f"{name}.nii.gz")
            own[name] = f"{kind}: {report(number)}"
        whole[case] = {"impression": report(number)}
    save_json(root / "texts/findings.json", own)
    save_json(root / "texts/impressions.json", whole)


def texts_of_visits_in_folders(root: Path) -> None:
    """A folder of sequences a visit, called by patient and visit, and a text for each."""
    texts = {}
    for number in range(24):
        visit = f"MET-{number % 12:05d}-{number // 12:03d}"
        for kind in ("t1c", "t2f"):
            volume(root / "images" / visit / f"{visit}-{kind}.nii.gz")
        texts[visit] = {"impression": report(number)}
    save_json(root / "impressions.json", texts)


def views_and_reports(root: Path) -> None:
    views, reports = [], []
    for number in range(1, 13):
        for view in range(1 + number % 3):
            name = f"{number}_IM-{number * 13:04d}-{view + 1:04d}.dcm.png"
            picture(root / "images" / "images_normalized" / name)
            views.append({"uid": number, "filename": name, "projection": ("Frontal", "Lateral")[view % 2]})
        reports.append(
            {"uid": number, "MeSH": "normal", "Problems": "normal", "indication": "Chest pain of unknown origin"}
            | {"findings": report(number), "impression": f"No acute disease in study {number}."}
        )
    table(root / "indiana_projections.csv", views)
    table(root / "indiana_reports.csv", reports)


def tagged_texts(root: Path) -> None:
    for number in range(1, 11):
        for view in range(2):
            picture(root / "NLMCXR_png" / f"CXR{number}_IM-{number * 11:04d}-{view * 1001:04d}.png")
        text(
            root / "ecgen-radiology" / f"{number}.xml",
            "<eCitation><MedlineCitation><Article><Abstract>"
            f'<AbstractText Label="FINDINGS">{report(number)}</AbstractText>'
            f'<AbstractText Label="IMPRESSION">Nothing new in {number}.</AbstractText>'
            "</Abstract></Article></MedlineCitation>"
            f'<parentImage id="CXR{number}_IM-{number * 11:04d}-0000"/></eCitation>',
        )


def texts_beside(root: Path) -> None:
    for number in range(10):
        volume(root / "scans" / f"P{number:03d}" / "scan.nii.gz")
        text(root / "reports" / f"P{number:03d}.txt", report(number))


def texts_of_visits(root: Path) -> None:
    """Texts and films are named by patient and day, texts in other words and other case."""
    for number in range(14):
        who, day = f"AB{number % 9}", f"2019{number % 12 + 1:02d}1{number % 3}"
        for view in "FP":
            picture(root / "films" / f"{who}_{day}_{view}.png")
        said = f"RÉSULTAT :\r\n{report(number)}\r\n\r\nCONCLUSION :\r\nRien de neuf en {number}.\r\n"
        path = root / "textes" / f"CR {who.lower()} {day}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(said.encode("cp1252"))


def findings_by_case_id(root: Path) -> None:
    """`SITE1/finding.json` is `{"k17": "..."}`; each site has a file of each kind."""
    for site in range(1, 5):
        names = [f"k{site}{number}" for number in range(6)]
        for name in names:
            volume(root / "images" / f"{name}.nii.gz")
        said = {
            name: f"Finding of {name}: a mass of {name[-1]} mm in the left lobe, no midline shift." for name in names
        }
        save_json(root / f"SITE{site}" / "finding.json", said)
        save_json(root / f"SITE{site}" / "disease.json", {name: "glioma" for name in names})


WORLDS = {
    "texts of visits": World(texts_of_visits, "report_generation", 14, 9, {"target": "la CONCLUSION"}, dimensions=2),
    "findings by case id": World(findings_by_case_id, "report_generation", 24, 24, dimensions=3),
    "names in a table": World(names_in_table, "report_generation", 12, 12, dimensions=2),
    "split in a JSON": World(
        split_in_json, "report_generation", 14, 14, splits={"train": 9, "val": 2, "test": 3}, dimensions=2
    ),
    "rows in a JSON": World(rows_in_json, "report_generation", 12, 12, dimensions=3),
    "texts by patient and study": World(files_by_patient, "report_generation", 9, 6, dimensions=2),
    "names of several folders": World(names_of_several_folders, "report_generation", 24, 12, dimensions=3),
    "texts of images and of cases": World(texts_of_images_and_of_cases, "report_generation", 60, 18, dimensions=3),
    "texts of visits in folders": World(texts_of_visits_in_folders, "report_generation", 24, 12, dimensions=3),
    "views and reports in two tables": World(views_and_reports, "report_generation", 12, 12, dimensions=2),
    "tagged texts": World(tagged_texts, "report_generation", 10, 10, dimensions=2),
    "texts beside scans": World(texts_beside, "report_generation", 10, 10, dimensions=3),
}
