"""Diagnosis on pictures: lesions with several pictures, numbers that begin anew in each part, lists in a string."""

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "ham_lesions", "diagnosis", 2,
    "Dermoscopy: is the lesion a melanoma, a naevus or a basal cell carcinoma?",
    notes="Metadata without suffix; image_id without suffix, in two folders; several pictures a lesion; masks are of no use.",
)  # fmt: skip
def ham(b: Build) -> None:
    rows, number = [], 24306
    for lesion in range(26):
        kind = ("nv", "mel", "bcc", "nv")[lesion % 4]
        name = f"HAM_{int(b.rng.integers(0, 9000)) * 100 + lesion:07d}"
        for _ in range(1 + lesion % 3 // 2 + lesion % 5 // 4):
            number += int(b.rng.integers(1, 9))
            image, mask = draw.spot(b.rng, int(kind == "mel"))
            if kind == "bcc":
                image[mask] = draw.u8(image[mask] * (1.3, 0.75, 0.9))
            part = 1 + (number > 24400)
            path = b.picture(f"dataverse_files/HAM10000_images_part_{part}/ISIC_{number:07d}.jpg", image, quality=92)
            b.picture(
                f"dataverse_files/HAM10000_segmentations_lesion_tschandl/ISIC_{number:07d}_segmentation.png",
                mask.astype(np.uint8) * 255,
            )
            b.case(path, patient=name, label=kind)
            age = b.pick("45.0", "60.0", "70.0", "")
            rows.append([name, f"ISIC_{number:07d}", kind, b.pick("histo", "follow_up"), age, b.pick("male", "female"),
                         b.pick("back", "trunk", "lower extremity"), "vidir_modern"])  # fmt: skip
    header = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization", "dataset"]
    b.csv("dataverse_files/HAM10000_metadata", header, [rows[i] for i in b.rng.permutation(len(rows))])
    b.text("dataverse_files/MANIFEST.TXT", "HAM10000_images_part_1\nHAM10000_images_part_2\nHAM10000_metadata\n")
    b.clutter("windows", under="dataverse_files/HAM10000_images_part_1")


@family(
    "rfmid_three_parts", "diagnosis", 2,
    "Screening of fundus photographs: disease risk yes or no.",
    notes="Three parts, each with its own csv, and each begins anew at 1.png; columns of single diseases beside the one asked.",
    patients_known=False,
)  # fmt: skip
def rfmid(b: Build) -> None:
    header = ["ID", "Disease_Risk", "DR", "ARMD", "MH", "DN", "ODC"]
    for part, folder, short, many in (
        ("train", "A. RFMiD_All_Classes_Dataset/1. Original Images/a. Training Set", "Training", 28),
        ("val", "A. RFMiD_All_Classes_Dataset/1. Original Images/b. Validation Set", "Validation", 12),
        ("test", "A. RFMiD_All_Classes_Dataset/1. Original Images/c. Testing Set", "Testing", 12),
    ):
        rows = []
        for n in range(1, many + 1):
            signs = ("", "D", "", "C", "D", "G", "", "M")[n % 8]
            path = b.picture(f"{folder}/{n}.png", draw.eye(b.rng, signs))
            b.case(path, label=str(int(bool(signs))), split=part)
            rows.append([n, int(bool(signs)), *(int(one in signs and bool(signs)) for one in "DMC"), 0, int(signs == "G")])
        b.csv(f"A. RFMiD_All_Classes_Dataset/2. Groundtruths/{'abc'['train val test'.split().index(part)]}. "
              f"RFMiD_{short}_Labels.csv", header, rows)  # fmt: skip
    b.text("A. RFMiD_All_Classes_Dataset/3. LICENSE.txt", "Creative Commons Attribution 4.0\n")


@family(
    "padchest_lists", "diagnosis", 2,
    "Which findings does the chest radiograph show? Several can be present in one patient.",
    notes="Labels are a Python list in a string, per image; images in numbered folders; studies marked 'exclude' do not count.",
)  # fmt: skip
def padchest(b: Build) -> None:
    of = {"cardiomegaly": "heart", "pleural effusion": "effusion", "nodule": "nodule", "pneumothorax": "pneumothorax"}
    codes = dict(zip(of, ("C0018800", "C0032227", "C0028259", "C0032326"), strict=True))
    stems = dict(zip(of, ("cardiomegali .", "derram pleural .", "nodul pulmon .", "neumotorax ."), strict=True))
    rows = []
    for n in range(48):
        chosen = [name for i, name in enumerate(of) if (n * 7 + 3 * i) % 5 < (1 + (n + i) % 2)]
        film = draw.chest(b.rng, tuple(of[name] for name in chosen))
        person = 839860488694292331637988235681460987 + (n - (n % 9 == 8)) * 7919
        name = f"{216840111366964012283393834152009033 + n * 104729}_{n % 12:02d}-{n % 31:03d}-{n % 97:03d}.png"
        path = b.picture(f"{n % 3}/{name}", (np.clip(film, 0, 255) * 200).astype(np.uint16))
        labels = chosen or ["normal"]
        if n % 16 == 5:
            labels = [*labels, "exclude"]
            b.truth["left_out"].append(path)
        else:
            b.case(path, patient=str(person), label=labels)
        report = " ".join(stems[name] for name in chosen) or "sin hallazg patolog ."
        rows.append([n, name, n % 3, 20140915 + n % 14, f"{person - 17}{n}", person, 1930 + n % 60, b.pick("M", "F"),
                     "POSTEROANTERIOR", "PA", "Manual review of DICOM fields", "No", 4991845 + n, report,
                     b.pick("Physician", "RNN_model"), str(labels), "['loc basal']" if n % 2 else "[]",
                     f"[{labels}]", str([codes[name] for name in chosen])])  # fmt: skip
    header = ["", "ImageID", "ImageDir", "StudyDate_DICOM", "StudyID", "PatientID", "PatientBirth", "PatientSex_DICOM",
              "ViewPosition_DICOM", "Projection", "MethodProjection", "Pediatric", "ReportID", "Report", "MethodLabel",
              "Labels", "Localizations", "LabelsLocalizationsBySentence", "labelCUIS"]  # fmt: skip
    b.csv("PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv", header, rows)
    b.text("README", "Label 'exclude': study of insufficient quality, not to be used. Label 'normal': no finding.\n")
    b.text("md5sum.txt", "".join(f"{b.rng.bytes(16).hex()}  {k}.zip\n" for k in range(3)))
