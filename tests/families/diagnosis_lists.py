"""Diagnosis where lists, deep paths, JSON or unkempt tables tell the class."""

from .base import Build, family
from .pictures import chest_film, fundus, skin, ultrasound


@family(
    "columns_of_findings",
    "diagnosis",
    2,
    "find pleural effusion and cardiomegaly in frontal films, csv like chexpert",
    notes="1.0 / 0.0 / blank a finding, -1.0 is uncertain (`uncertain`); "
    "paths begin with the dataset's name; deep folders",
    uncertain=[],
)
def columns_of_findings(b: Build) -> None:
    b.truth["uncertain"] = []
    for split, first, n in (("train", 1, 34), ("valid", 64540, 10)):
        rows = []
        for number in range(first, first + n):
            patient = f"patient{number:05d}"
            path = f"{split}/{patient}/study1/view1_frontal.jpg"
            has = {k: b.rng.random() < 0.45 for k in ("Cardiomegaly", "Pleural Effusion")}
            drawn = [d for k, d in (("Cardiomegaly", "cardiomegaly"), ("Pleural Effusion", "effusion")) if has[k]]
            b.picture(path, chest_film(b.rng, *drawn)[0])
            marks: list[object] = [1.0 if h else b.pick(0.0, "") for h in has.values()]
            positive = [k for k, h in has.items() if h]
            if split == "train" and number % 12 == 0:
                marks[1] = -1.0
                positive = [k for k in positive if k != "Pleural Effusion"]
                b.truth["uncertain"].append(path)
            b.case(path, patient=patient, label=positive, split={"valid": "val"}.get(split, split))
            none = 1.0 if not positive else ""
            rows.append(
                (
                    f"CXR-v1.0-small/{path}",
                    b.pick("Male", "Female"),
                    int(b.rng.integers(18, 91)),
                    "Frontal",
                    "AP",
                    none,
                    *marks,
                )
            )
        header = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", "No Finding", "Cardiomegaly", "Pleural Effusion")
        b.csv(f"{split}.csv", header, rows)


@family(
    "lists_without_header",
    "diagnosis",
    2,
    "covid detection from cxr; train.txt and test.txt hold the labels",
    notes="space-separated lists without header: patient, file, class, source; both lists name pictures of one folder",
)
def lists_without_header(b: Build) -> None:
    number = 0
    for split, n in (("train", 30), ("test", 12)):
        lines = []
        for _ in range(n):
            number += 1
            sick = number % 2 == 0
            name = f"{b.pick('film', 'scan')}-{number * 37 % 1000:03d}{number:02d}.png"
            b.picture(f"data/{name}", chest_film(b.rng, *(["pneumonia"] if sick else []))[0])
            label = "positive" if sick else "negative"
            b.case(f"data/{name}", patient=str(number), label=label, split=split)
            lines.append(f"{number} {name} {label} {b.pick('cohen', 'sirm', 'rsna')}")
        b.text(f"{split}.txt", "\n".join(lines) + "\n")


@family(
    "windows_paths",
    "diagnosis",
    2,
    "DR screening (referable / not referable) with the fundus camera images",
    notes="the table holds absolute Windows paths of another machine; upper case differs; UTF-8 with byte order mark",
)
def windows_paths(b: Build) -> None:
    rows = []
    for i in range(1, 37):
        sick = i % 3 == 0 or i % 7 == 0
        path = f"Export/Session{1 + i % 3}/IMG_{i:04d}.png"
        b.case(
            b.picture(path, fundus(b.rng, 3 if sick else 0)[0]),
            patient=f"F{i:03d}",
            label="yes" if sick else "no",
            channels=3,
        )
        shown = path.replace("/", "\\").replace("IMG", "img") if i % 5 == 0 else path.replace("/", "\\")
        rows.append((f"F{i:03d}", f"D:\\Users\\canary\\Desktop\\DR\\{shown}", "yes" if sick else "no"))
    b.csv("grading.csv", ("Subject", "File", "Referable"), rows, encoding="utf-8-sig", end="\r\n")
    b.clutter("windows")


@family(
    "dirty_labels",
    "diagnosis",
    2,
    "pneumothorax y/n on chest films (the csv is a bit messy, sorry)",
    notes="case and blanks vary (`Normal `, `NORMAL`); "
    "an empty label, a doubled row, a contradiction and missing files",
)
def dirty_labels(b: Build) -> None:
    rows = []
    for i in range(1, 45):
        sick = i % 2 == 0
        name = f"cxr_{i:03d}.png"
        b.picture(f"films/{name}", chest_film(b.rng, *(["pneumothorax"] if sick else []))[0])
        label = "pneumothorax" if sick else "normal"
        written = b.pick(label, label.capitalize(), label.upper(), label + " ")
        rows.append((f"p{i:03d}", name, "" if i == 7 else written))
        if i in (7, 9):
            b.truth["left_out"].append({"file": f"films/{name}", "why": "no label" if i == 7 else "two labels"})
        else:
            b.case(f"films/{name}", patient=f"p{i:03d}", label=label)
    rows += [rows[3], ("p009", "cxr_009.png", "Pneumothorax"), ("p070", "cxr_070.png", "normal"), ("", "", "")]
    b.csv("labels_final_v2 (1).csv", ("Patient", "filename", "Label"), rows)


@family(
    "json_labels",
    "diagnosis",
    2,
    "Distinguish melanoma from nevi.",
    notes="a JSON object maps the file to its class and patient; a second JSON is configuration and says nothing",
)
def json_labels(b: Build) -> None:
    table = {}
    for i in range(36):
        kind = b.pick("melanoma", "nevus")
        name = f"{b.rng.bytes(8).hex()}.png"
        b.case(b.picture(f"imgs/{name}", skin(b.rng, kind)[0]), patient=f"s{i // 2}x", label=kind, channels=3)
        table[name] = {"class": kind, "subject": f"s{i // 2}x", "site": b.pick("arm", "back")}
    b.json("annotations.json", table)
    b.json("config.json", {"input_size": 224, "mean": [0.48, 0.45, 0.4]})


@family(
    "decomposed_names",
    "diagnosis",
    2,
    "Schilddrüse Ultraschall: benigne/maligne Knoten klassifizieren",
    notes="file names with umlauts as a Mac decomposes them, the table has them composed; Latin small differences only",
)
def decomposed_names(b: Build) -> None:
    rows = []
    for i in range(1, 33):
        kind = b.pick("benign", "malignant")
        stem = f"Schilddru\u0308se {i}" if i % 2 else f"Knoten_{i}"
        b.case(b.picture(f"Bilder/{stem}.png", ultrasound(b.rng, kind)[0]), patient=f"K{i}", label=kind)
        rows.append((f"K{i}", stem.replace("u\u0308", "ü") + ".png", kind))
    b.csv("Liste.csv", ("Patient", "Datei", "Dignität"), rows, sep=";")
    b.clutter("mac", "macosx", under="Bilder")


@family(
    "views_in_columns",
    "diagnosis",
    2,
    "mammography: cancer yes/no per breast, CC and MLO view together",
    notes="one row a breast with two files (image_cc, image_mlo): two views of one case; both breasts are one patient",
)
def views_in_columns(b: Build) -> None:
    rows = []
    for number in range(1, 23):
        for side in ("L", "R"):
            sick = b.rng.random() < 0.45
            files = []
            for view in ("CC", "MLO"):
                image, _ = ultrasound(b.rng, "malignant" if sick else "normal", (80, 48))
                files.append(b.picture(f"png/{number:04d}/{side}_{view}.png", image))
            b.case(files, patient=f"{number:04d}", label="cancer" if sick else "normal", views=2)
            rows.append(
                (f"{number:04d}", side, *(f[4:] for f in files), b.pick("A", "B", "C"), "cancer" if sick else "normal")
            )
    b.csv("breasts.csv", ("patient_id", "laterality", "image_cc", "image_mlo", "density", "outcome"), rows)
