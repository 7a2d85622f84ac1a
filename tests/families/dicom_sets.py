"""Datasets of DICOM files: series folders, flat exports, films, SEG and RTSTRUCT."""

import numpy as np

from .base import Build, family
from .dicom import film, segmentation, series, structures, uid
from .pictures import chest_film
from .volumes import abdomen, brain, chest_ct

SMALL = (28, 24, 8)


@family(
    "dicom_series_folders",
    "diagnosis",
    3,
    "CT thorax from our PACS, classify covid / no covid, labels in excel by patient id",
    notes="patient / study / series folders; JPEG lossless and JPEG 2000; files have no suffix; "
    "a one-slice localiser a study",
)
def dicom_series_folders(b: Build) -> None:
    rows: list[tuple[object, ...]] = [("PatientID", "Result", "Reader")]
    for i in range(24):
        kind, patient = ("covid", "normal")[i % 2], f"0{40210 + 37 * i}"
        volume, _ = chest_ct(b.rng, kind, SMALL)
        study = uid(patient, "study")
        where = f"DICOM/PAT{i:04d}/STUDY1"
        series(
            b, f"{where}/SER0001", volume[:, 10:11, :], patient, number=1, title="SCOUT", name="IM{i:06d}", study=study
        )
        files, _ = series(
            b,
            f"{where}/SER0002",
            volume,
            patient,
            name="IM{i:06d}",
            syntax=b.pick("jpeg", "j2k", "implicit"),
            flip=i % 3 == 0,
        )
        b.case(files, patient=patient, label="pos" if kind == "covid" else "neg")
        rows.append((patient, "pos" if kind == "covid" else "neg", b.pick("AB", "CD")))
    b.xlsx("results.xlsx", {"Tabelle1": rows})
    b.raw("DICOM/DICOMDIR", bytes(128) + b"DICM" + bytes(64))


@family(
    "dicom_flat",
    "diagnosis",
    3,
    "brain MRI dicoms, all in one folder. AD vs control",
    notes="many patients' series in one flat folder, file numbers say nothing of the order; label sheet by PatientID",
)
def dicom_flat(b: Build) -> None:
    patients = [f"MR{300 + 11 * i}" for i in range(24)]
    plan = []
    for i, patient in enumerate(patients):
        kind = ("AD", "control")[i % 2]
        volume = brain(b.rng, kind, SMALL)[0]["T1"]
        files, _ = series(
            b, "images", volume, patient, "MR", title="T1 MPRAGE", name=f"tmp{i}_" + "{i}.dcm", flip=i % 2 == 0
        )
        plan.append((patient, kind, files))
    every = [f for _, _, files in plan for f in files]
    numbers = b.rng.permutation(len(every))
    moved = {}
    for path, n in zip(every, numbers, strict=True):
        moved[path] = f"images/IMG{n:05d}.dcm"
        (b.folder / path).rename(b.folder / moved[path])
    for patient, kind, files in plan:
        b.case([moved[f] for f in files], patient=patient, label=kind)
    b.csv("labels.csv", ("PatientID", "diagnosis"), [(p, k) for p, k, _ in plan])
    b.broken("images/IMG99999.dcm", bytes(128) + b"DICM" + b"\x02\x00\x00")


@family(
    "dicom_two_series",
    "diagnosis",
    3,
    "liver tumor present or not - use the portal venous CT series only please",
    notes="each study has an arterial and a portal venous series; a label a study; the request names the series",
)
def dicom_two_series(b: Build) -> None:
    rows = []
    for i in range(24):
        sick, patient = i % 2 == 0, f"LIV-{i:03d}"
        volume, masks = abdomen(b.rng, SMALL, tumour=sick)
        dim = np.where(masks["liver"], volume // 2, volume)
        series(b, f"{patient}/1.2.840.{i}.3", dim, patient, number=3, title="ARTERIAL 3.0", name="1-{i:03d}.dcm")
        files, _ = series(
            b, f"{patient}/1.2.840.{i}.4", volume, patient, number=4, title="PORTAL VENOUS 3.0", name="1-{i:03d}.dcm"
        )
        b.case(files, patient=patient, label="1" if sick else "0")
        rows.append((patient, int(sick)))
    b.csv("tumor.csv", ("case_id", "tumor"), rows)
    b.text("LICENSE", "CC BY 3.0\n")


@family(
    "dicom_films",
    "diagnosis",
    2,
    "Is there a pleural effusion? digital radiographs, DICOM",
    notes="some films are MONOCHROME1 (dark is bright), RLE or deflated; the table's key is the accession number",
)
def dicom_films(b: Build) -> None:
    rows = []
    for i in range(1, 37):
        patient, accession = f"X{(i + 2) // 3:03d}", f"A{7000 + i}"
        sick = (i - 1) // 3 % 2 == 0
        image, _ = chest_film(b.rng, *(["effusion"] if sick else []))
        photometric = "MONOCHROME1" if i % 4 == 0 else "MONOCHROME2"
        path = film(
            b,
            f"dx/{accession}.dcm",
            image,
            patient,
            syntax=b.pick("explicit", "rle", "deflated"),
            AccessionNumber=accession,
            PhotometricInterpretation=photometric,
            ViewPosition="PA",
        )
        b.case(path, patient=patient, label="effusion" if sick else "none")
        rows.append((accession, "effusion" if sick else "none"))
    b.csv("effusion.csv", ("AccessionNumber", "finding"), rows, sep="\t")


@family(
    "dicom_seg",
    "organ_segmentation",
    3,
    "TCIA style: CT + DICOM SEG, segment liver and spleen",
    notes="a SEG file a patient holds only slices with something in them, segment after segment; names are in the SEG",
)
def dicom_seg(b: Build) -> None:
    for i in range(24):
        patient = f"TCGA-{b.pick('DD', 'G3')}-{1000 + i}"
        volume, masks = abdomen(b.rng, SMALL)
        parts = {"Liver": masks["liver"], "Spleen": masks["spleen"]}
        files, sops = series(b, f"{patient}/03-04-2019-NA/2.000000-AX-3.0", volume, patient, name="1-{i:02d}.dcm")
        segmentation(b, f"{patient}/03-04-2019-NA/300.000000-Segmentation/1-1.dcm", patient, parts, sops)
        b.case(files, patient=patient, mask=parts)
    b.csv("metadata.csv", ("Series UID", "Collection", "Modality"), [(uid(1), "LIVER", "CT"), (uid(2), "LIVER", "SEG")])


@family(
    "rtstruct",
    "organ_segmentation",
    3,
    "Konturen aus der Strahlentherapie (RTSTRUCT): Leber und Nieren automatisch einzeichnen",
    notes="RS.*.dcm among CT.*.dcm in the patient's folder; BODY and an empty ROI are clutter; "
    "a kidney name varies once",
    mask_tolerance=0.02,
)
def rtstruct(b: Build) -> None:
    for i in range(24):
        patient = f"RT{i:03d}"
        volume, masks = abdomen(b.rng, SMALL)
        parts = {"Leber": masks["liver"], "Niere_L": masks["left kidney"], "Niere_R": masks["right kidney"]}
        files, sops = series(b, patient, volume, patient, name="CT." + uid(patient)[-9:] + ".{i}.dcm")
        rois = {**parts, "BODY": volume > -300, "CTV_neu": np.zeros(volume.shape, bool)}
        if i == 5:
            rois = {("niere_l" if k == "Niere_L" else k): v for k, v in rois.items()}
        structures(b, f"{patient}/RS.{uid(patient)[-9:]}.dcm", patient, rois, sops)
        b.case(files, patient=patient, mask=parts)


@family(
    "series_by_vendor",
    "diagnosis",
    3,
    "Alzheimer's disease or control from the MR scans",
    notes="each scanner calls the same series by its own name; the table has a row a series, of some people two",
)
def series_by_vendor(b: Build) -> None:
    rows: list[tuple[object, ...]] = [("Image ID", "Subject", "Group")]
    for i in range(24):
        kind, patient = ("control", "AD")[i % 2], f"{i + 11:03d}_S_{1000 + 7 * i}"
        titles = [("MPRAGE", "MP-RAGE", "IR-SPGR")[i % 3], *(["REPEAT"] if i % 4 == 0 else [])]
        for turn, title in enumerate(titles):
            number = f"I{20000 + 31 * i + turn}"
            volume = brain(b.rng, kind, SMALL)[0]["T1"]
            files, _ = series(b, f"MR/{patient}/{title}/{number}", volume, patient, "MR", title=title)
            b.case(files, patient=patient, label=kind)
            rows.append((number, patient, kind))
    b.csv("list.csv", [str(cell) for cell in rows[0]], rows[1:])
