"""Organs and lesions: a folder a case, masks by slice, several masks a picture, and MATLAB files."""

import h5py
import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "gliomas_twice_scanned", "anomaly_detection", 3,
    "Glioma segmentation from T1, T1 with contrast, T2 and FLAIR: necrosis, oedema, enhancing tumour.",
    notes="A folder a scan, person and time point in its name; four sequences and -seg; the validation part has no masks.",
)  # fmt: skip
def brats(b: Build) -> None:
    shape = (30, 36, 16)
    for n in range(26):
        scan = f"BraTS-GLI-{(n - (n % 6 == 5)) * 7 + 3:05d}-{int(n % 6 == 5):03d}"
        train = n < 22
        where = f"ASNR-MICCAI-BraTS2023-GLI-Challenge-{'Training' if train else 'Validation'}Data/{scan}/{scan}"
        mid = draw.near(b.rng, 11, 16, 8, by=2)
        seg = np.zeros(shape, np.uint8)
        for value, radius in ((2, 6.0), (3, 4.0), (1, 2.0)):
            seg[draw.ball(shape, mid, radius)] = value
        base = draw.brain(b.rng, 0.1, shape)
        files = []
        for name, bright in (("t1c", (0, -200, -50, 500)), ("t1n", (0, -250, -80, 50)), ("t2f", (0, 50, 400, 200)), ("t2w", (0, 500, 350, 150))):
            files.append(b.nifti(f"{where}-{name}.nii.gz", np.clip(base + np.array(bright)[seg], 0, None)))
        if train:
            b.nifti(f"{where}-seg.nii.gz", seg, dtype=np.uint8)
            mask = {name: seg == value for value, name in ((1, "NCR"), (2, "ED"), (3, "ET"))}
            b.case(files, patient=scan[:-4], mask=mask, channels=4)
        else:
            b.truth["left_out"] += files
    b.xlsx("BraTS2023_2017_GLI_Mapping.xlsx", {"Sheet1": [["BraTS2023", "BraTS2021", "Site No (represents the originating institution)"],
           *[[f"BraTS-GLI-{n * 7 + 3:05d}-000", f"BraTS2021_{n * 7 + 3:05d}", 1 + n % 4] for n in range(26) if n % 6 != 5]]})  # fmt: skip
    b.clutter("mac")


@family(
    "organs_a_file_each", "organ_segmentation", 3,
    "Outline all marked organs on the CT.",
    notes="A folder a case, ct.nii.gz and segmentations with a file an organ, empty where the scan does not reach; meta.csv by ';'.",
)  # fmt: skip
def total(b: Build) -> None:
    shape, rows = (32, 32, 14), []
    places = {"liver": ((9, 13, 9), (5, 6, 4), 110), "spleen": ((24, 16, 9), (3, 4, 3), 140), "kidney_left": ((22, 21, 6), (2, 2, 3), 190),
              "kidney_right": ((10, 21, 6), (2, 2, 3), 190), "urinary_bladder": ((16, 14, 2), (4, 4, 2), 10), "aorta": ((16, 20, 7), (1.6, 1.6, 9), 250)}  # fmt: skip
    for n in range(28):
        case = f"s{n * 13 + 11:04d}"
        ct = np.full(shape, -1000.0)
        ct[draw.ball(shape, (16, 16, 7), (14, 12, 30))] = 40
        masks = {}
        for name, (mid, radii, hu) in places.items():
            gone = name == "urinary_bladder" and n % 3 == 0 or name == "spleen" and n % 11 == 4
            masks[name] = np.zeros(shape, bool) if gone else draw.ball(shape, draw.near(b.rng, *mid, by=1), radii)
            ct[masks[name]] = hu
            b.nifti(f"Totalsegmentator_dataset_v201/{case}/segmentations/{name}.nii.gz", masks[name], dtype=np.uint8)
        path = b.nifti(f"Totalsegmentator_dataset_v201/{case}/ct.nii.gz", ct + b.rng.normal(0, 15, shape))
        split = ("train", "train", "train", "val", "test")[n % 5]
        b.case(path, patient=case, mask=masks, split=split)
        rows.append([case, 40 + n, b.pick("m", "f"), b.pick("A", "C", "F"), b.pick("ct abdomen", "ct polytrauma", "ct thorax"), split,
                     b.pick("SIEMENS", "GE"), b.pick(1, 1.5), 100 + 20 * (n % 2), b.pick("no_pathology", "tumor", "unclear")])  # fmt: skip
    header = ["image_id", "age", "gender", "institute", "study_type", "split", "manufacturer", "slice_thickness", "kvp", "pathology"]
    b.csv("Totalsegmentator_dataset_v201/meta.csv", header, rows, sep=";", encoding="utf-8-sig")


@family(
    "breast_ultrasound", "anomaly_detection", 2,
    "Outline the lesion on breast ultrasound.",
    notes="`benign (1).png`, `benign (1)_mask.png` and for a second lesion `_mask_1.png`; normal ones have an empty mask.",
    patients_known=False,
)  # fmt: skip
def busi(b: Build) -> None:
    size = (60, 72)
    for kind, many in (("benign", 24), ("malignant", 16), ("normal", 10)):
        for n in range(1, many + 1):
            image = 90 + b.rng.normal(0, 22, size)
            image[:8] = 170
            marks = []
            for k in range(0 if kind == "normal" else 1 + (n % 7 == 2)):
                mark = draw.ball(size, draw.near(b.rng, 34, 20 + 32 * k, by=4), (8, 11 if kind == "benign" else 7))
                image[mark] = 25 + b.rng.normal(0, 8, int(mark.sum()))
                marks.append(mark)
            marks = marks or [np.zeros(size, bool)]
            where = f"Dataset_BUSI_with_GT/{kind}/{kind} ({n})"
            path = b.picture(f"{where}.png", draw.u8(np.repeat(image[..., None], 3, 2)))
            for k, mark in enumerate(marks):
                b.picture(f"{where}_mask{f'_{k}' if k else ''}.png", mark.astype(np.uint8) * 255)
            b.case(path, mask={"lesion": np.any(marks, axis=0)})
    b.clutter("windows", under="Dataset_BUSI_with_GT/benign")


@family(
    "liver_slices_as_png", "organ_segmentation", 3,
    "Liver segmentation for donors, contrast CT.",
    notes="A folder a donor: DICOM slices and, in Ground, a PNG a slice in the order of names; PatientID is the same word for all.",
)  # fmt: skip
def chaos(b: Build) -> None:
    shape = (40, 36, 9)
    donors = sorted({int(n) for n in b.rng.choice(np.arange(1, 41), 29, replace=False)})
    for i, n in enumerate(donors):
        train = i < 25
        liver = draw.ball(shape, draw.near(b.rng, 13, 16, 4, by=1), (8, 9, 3.2))
        ct = np.full(shape, -1000.0)
        ct[draw.ball(shape, (20, 18, 4), (17, 15, 30))] = 30
        ct[liver] = 120
        ct[draw.ball(shape, draw.near(b.rng, 29, 20, 5, by=1), (4, 5, 3))] = 140
        ct += b.rng.normal(0, 15, shape)
        base = f"CHAOS_{'Train' if train else 'Test'}_Sets/{'Train' if train else 'Test'}_Sets/CT/{n}"
        tags = {"PatientID": "Anonymized", "PatientName": "Anonymized", "StudyInstanceUID": uid(b), "SeriesInstanceUID": uid(b),
                "PixelSpacing": [2.0, 2.0], "SliceThickness": 4.0, "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
                "RescaleSlope": 1, "RescaleIntercept": -1000, "SeriesDescription": "PORTAL"}  # fmt: skip
        files = []
        for k in range(shape[2]):
            z = shape[2] - 1 - k  # named from above to below
            name = f"i{k:04d},0000b.dcm" if n % 2 else f"IMG-{4 + i:04d}-{k + 1:05d}.dcm"
            pixels = np.clip(ct[..., z].T + 1000, 0, 4095).astype(np.uint16)
            place = {"ImagePositionPatient": [-40, -36, 4.0 * z], "InstanceNumber": k + 1}
            files.append(dicom(b, f"{base}/DICOM_anon/{name}", pixels, "CT", **tags, **place))
            if train:
                b.picture(f"{base}/Ground/liver_GT_{k:03d}.png", liver[..., z].T.astype(np.uint8) * 255)
        if train:
            b.case(files[::-1], patient=str(n), mask={"liver": liver})
        else:
            b.truth["left_out"] += files
    b.text("README.txt", "CT: each numbered folder is one living donor. Ground: liver masks in the order of the slices.\n")


@family(
    "tumours_in_matlab", "anomaly_detection", 2,
    "Segment the brain tumour on the contrast T1 slice.",
    notes="MATLAB v7.3 files with one structure cjdata: image, tumorMask, label and PID (the person); cvind.mat is an index.",
)  # fmt: skip
def figshare(b: Build) -> None:
    for n in range(1, 49):
        person = f"1003{60 + (n - 1) // 3}"
        image = draw.brain(b.rng, 0.1, (64, 60, 8))[..., 4]
        mask = draw.ball(image.shape, draw.near(b.rng, 26, 32, by=7), b.rng.uniform(4, 8))
        image[mask] = 1100
        path = f"brainTumorDataPublic_{1 + 24 * (n > 24)}-{24 + 24 * (n > 24)}/{n}.mat"
        with h5py.File(b.at(path), "w", userblock_size=512) as file:
            group = file.create_group("cjdata")
            group["PID"] = np.array([[ord(c)] for c in person], np.uint16)
            group["PID"].attrs["MATLAB_class"] = np.bytes_(b"char")
            group["image"] = image.T.astype(np.int16)
            group["label"] = np.array([[1.0 + (n - 1) // 3 % 3]])
            ys, xs = np.nonzero(mask)
            group["tumorBorder"] = np.array([[xs.min(), ys.min(), xs.max(), ys.max()]], float)
            group["tumorMask"] = mask.T.astype(np.uint8)
            group["tumorMask"].attrs["MATLAB_class"] = np.bytes_(b"logical")
        with b.at(path).open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Tue Oct 13 10:11:12 2015 HDF5 schema 1.00 .".ljust(124) + b"\x00\x02IM")
        b.case(path, patient=person, mask={"tumor": mask})
    with h5py.File(b.at("cvind.mat"), "w", userblock_size=512) as file:
        file["cvind"] = np.arange(48, dtype=float)[None] // 3 % 5 + 1
    b.text("README.txt", "cjdata.label: 1 for meningioma, 2 for glioma, 3 for pituitary tumor\ncjdata.PID: patient ID\n"
                         "cjdata.image: image data\ncjdata.tumorMask: a binary image with 1s indicating tumor region\n")  # fmt: skip
