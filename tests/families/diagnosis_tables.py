"""Diagnosis where a table tells the class, in the ways people really fill tables."""

from .base import Build, family
from .pictures import chest_film, skin, ultrasound


@family(
    "film_patient_prefix",
    "diagnosis",
    2,
    "cardiomegaly detection on chest x ray",
    notes="no patient column: the file name begins with the patient's number (00012_003.png); "
    "labels.csv has a dead row",
)
def film_patient_prefix(b: Build) -> None:
    rows = []
    for number in range(12, 34):
        sick = number % 2 == 0
        for i in range(int(b.rng.integers(1, 4))):
            name = f"{number:05d}_{i:03d}.png"
            image, _ = chest_film(b.rng, *(["cardiomegaly"] if sick else []))
            label = "Cardiomegaly" if sick else "No Finding"
            b.case(b.picture(f"images/{name}", image), patient=f"{number:05d}", label=label)
            rows.append((name, label))
    b.rng.shuffle(rows)
    b.csv("labels.csv", ("Image Index", "Finding"), [*rows, ("00099_000.png", "Cardiomegaly")])
    b.clutter("macosx", "mac")


@family(
    "joined_labels",
    "diagnosis",
    2,
    "Multi-label model for effusion / mass / pneumothorax / cardiomegaly, CXR. labels are in the csv",
    notes="joined labels `Effusion|Mass`; `No Finding` is no class beside others; Patient ID is a column; "
    "official test list",
)
def joined_labels(b: Build) -> None:
    rows, test = [], []
    kinds = ("Effusion", "Mass", "Pneumothorax", "Cardiomegaly")
    for number in range(1, 31):
        split = "test" if number % 5 == 0 else "train"
        for i in range(1 + number % 2):
            chosen = [k for k in kinds if b.rng.random() < 0.35]
            name = f"{number:08d}_{i:03d}.png"
            b.picture(f"images/{name}", chest_film(b.rng, *(k.lower() for k in chosen))[0])
            b.case(f"images/{name}", patient=str(number), label=chosen, split=split)
            age, sex = f"{b.rng.integers(20, 90):03d}Y", b.pick("M", "F")
            rows.append((name, "|".join(chosen) or "No Finding", i, number, age, sex, b.pick("PA", "AP")))
            if split == "test":
                test.append(name)
    header = (
        "Image Index",
        "Finding Labels",
        "Follow-up #",
        "Patient ID",
        "Patient Age",
        "Patient Gender",
        "View Position",
    )
    b.csv("Data_Entry_2017.csv", header, rows)
    b.text("test_list.txt", "\n".join(test) + "\n")


@family(
    "numeric_codes",
    "diagnosis",
    2,
    "dermoscopy: nevus, melanoma or seborrheic keratosis?",
    patients_known=False,
    notes="ids in the CSV lost their leading zeros and have no suffix (7 is 0007.jpg); "
    "codes have their legend in README",
)
def numeric_codes(b: Build) -> None:
    kinds, rows = ("nevus", "melanoma", "keratosis"), []
    for i in range(1, 43):
        code = int(b.rng.integers(3))
        b.picture(f"img/{i:04d}.jpg", skin(b.rng, kinds[code])[0], quality=92)
        b.case(f"img/{i:04d}.jpg", label=str(code), channels=3, label_means=kinds[code])
        rows.append((i, code))
    b.csv("train.csv", ("id", "dx"), rows)
    b.text(
        "README.txt",
        "Label codes\n0 = nevus\n1 = melanoma\n2 = keratosis (seborrhoeic)\n\nContact: canary@example.org\n",
    )


@family(
    "xlsx_two_sheets",
    "diagnosis",
    2,
    "Classify ultrasound of the breast as benign or malignant; labels see excel",
    notes="first sheet is an explanation; in the second the header stands in row 3; "
    "a hand-written total below the rows",
)
def xlsx_two_sheets(b: Build) -> None:
    rows: list[tuple[object, ...]] = [("Export 04.03.2019",), (), ("Pat ID", "File", "Age", "Histology", "Remarks")]
    for i in range(1, 37):
        kind = b.pick("benign", "malignant")
        patient = f"US-{(i + 1) // 2:03d}"
        if i % 2 == 0:
            kind = str(rows[-1][3])
        b.case(b.picture(f"pictures/us{i:03d}.png", ultrasound(b.rng, kind)[0]), patient=patient, label=kind)
        rows.append((patient, f"us{i:03d}", int(b.rng.integers(25, 80)), kind, b.pick(None, "ok", "small", "?")))
    rows += [(), ("n =", 36)]
    legend = [("Column", "Meaning"), ("Pat ID", "pseudonym"), ("Histology", "benign / malignant (biopsy)")]
    b.xlsx("Breast_US_labels.xlsx", {"Info": legend, "Data": rows})
    b.raw("~$Breast_US_labels.xlsx", b"\x06canary" + bytes(158))


@family(
    "csv_german",
    "diagnosis",
    2,
    "Bitte ein Modell: Hautläsion gutartig oder bösartig? Tabelle liegt bei",
    notes="semicolons, cp1252, decimal comma, CRLF; header words are German; several pictures a patient number",
)
def csv_german(b: Build) -> None:
    rows = []
    for i in range(1, 41):
        patient = 20100 + (i + 1) // 2
        bad = patient % 2 == 0
        path = f"Aufnahmen/Bild_{i:03d}.jpg"
        b.picture(path, skin(b.rng, "melanoma" if bad else "nevus")[0], quality=92)
        label = "bösartig" if bad else "gutartig"
        b.case(path, patient=str(patient), label=label, channels=3)
        size = f"{b.rng.uniform(3, 18):.1f}".replace(".", ",")
        rows.append(
            (patient, f"Bild_{i:03d}.jpg", b.pick("männlich", "weiblich"), size, b.pick("Rücken", "Arm", "Fuß"), label)
        )
    header = ("Patienten-Nr.", "Bilddatei", "Geschlecht", "Größe (mm)", "Körperregion", "Befund")
    b.csv("Befunde.csv", header, rows, sep=";", encoding="cp1252", end="\r\n")
    b.text("LIESMICH.txt", "Alle Aufnahmen mit Einverständnis. Rückfragen an die Hautklinik.\r\n", "cp1252")


@family(
    "one_hot",
    "diagnosis",
    2,
    "ISIC style dermoscopy, 3 classes (MEL, NV, BKL)",
    notes="one column a class with 1.0/0.0; pictures named without suffix; lesion_id in another table groups pictures",
)
def one_hot(b: Build) -> None:
    kinds = {"MEL": "melanoma", "NV": "nevus", "BKL": "keratosis"}
    truth, meta = [], []
    for i in range(45):
        lesion = f"IL_{7000000 + i // 2:07d}"
        label = list(kinds)[(i // 2) % 3]
        name = f"ISIC_{24306 + 7 * i:07d}"
        b.picture(f"ISIC_Training_Input/{name}.jpg", skin(b.rng, kinds[label])[0], quality=92)
        b.case(f"ISIC_Training_Input/{name}.jpg", patient=lesion, label=label, channels=3)
        truth.append((name, *(float(label == k) for k in kinds)))
        meta.append((name, int(b.rng.integers(20, 85)), b.pick("anterior torso", "lower extremity", ""), lesion))
    b.csv("ISIC_Training_GroundTruth.csv", ("image", *kinds), truth)
    b.rng.shuffle(meta)
    b.csv("ISIC_Training_Metadata.csv", ("image", "age_approx", "anatom_site_general", "lesion_id"), meta)
    b.text("ISIC_Training_Input/LICENSE.txt", "CC-BY-NC\n")
