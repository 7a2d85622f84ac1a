"""Of the third set: arrays, videos and DICOM."""

import io
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families, dicom, hexid, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "cheng_mat_struct", "diagnosis", 2,
    "Classify the brain tumours by cjdata.label (1, 2 or 3).",
    notes="MATLAB v7.3 (HDF5 behind a 512-byte user block), a file a slice with a struct: label, PID as character codes, image (transposed), tumorBorder, tumorMask; four part folders; "
    "meaning of the labels in README.txt; cvind.mat with fold numbers is no case.",
)
def cheng(b: Build) -> None:
    def mat(path: str, fill: Callable[[Any], None]) -> str:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w", userblock_size=512, libver="earliest") as f:
            fill(f)
        data = bytearray(buffer.getvalue())
        head = b"MATLAB 7.3 MAT-file, Platform: PCWIN64, Created on: Sun Jul 28 11:04:26 2013 HDF5 schema 1.00 ."
        data[:128] = head.ljust(116) + bytes(8) + b"\x00\x02IM"
        b.raw(path, bytes(data))
        return path

    def put(group: Any, name: str, array: np.ndarray, kind: str) -> None:
        data = group.create_dataset(name, data=array, track_times=False)
        data.attrs["MATLAB_class"] = np.bytes_(kind)
        if kind == "char":
            data.attrs["MATLAB_int_decode"] = np.int32(2)

    folds = []
    for n in range(39):
        kind = n % 3 + 1
        person = f"{100360 + n % 15 * 7}" if n % 15 % 2 else f"MR0{24000 + n % 15 * 13}{'ABC'[n % 3]}"
        size = (56, 56)
        image = np.zeros(size)
        image[draw.ball(size, (28, 28), (25, 21))] = 900
        image[draw.ball(size, (28, 28), (22, 18))] = 500
        where, r = {1: ((13, b.pick(17, 39)), 6), 2: ((26, b.pick(20, 36)), 9), 3: ((42, 28), 4)}[kind]
        mask = draw.ball(size, draw.near(b.rng, *where, by=2), (r, r - 0.5))
        image[mask] = 1400 if kind != 2 else 950
        image = np.clip(gaussian_filter(image, 0.7) + b.rng.normal(0, 25, size), 0, None)
        turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        border = np.stack([where[0] + r * np.sin(turn), where[1] + r * np.cos(turn)], 1).ravel()

        def fill(f: Any) -> None:
            g = f.create_group("cjdata")
            g.attrs["MATLAB_class"] = np.bytes_("struct")
            put(g, "PID", np.array([[ord(c)] for c in person], np.uint16), "char")
            put(g, "image", image.astype(np.int16).T, "int16")
            put(g, "label", np.array([[float(kind)]]), "double")
            put(g, "tumorBorder", border[None], "double")
            put(g, "tumorMask", mask.astype(np.uint8).T, "logical")

        folder = ("brainTumorDataPublic_1-766", "brainTumorDataPublic_767-1532", "brainTumorDataPublic_1533-2298", "brainTumorDataPublic_2299-3064")[n * 4 // 39]
        path = mat(f"1512427/{folder}/{(1, 767, 1533, 2299)[n * 4 // 39] + n}.mat", fill)
        folds.append(float(n % 5 + 1))
        b.case(path, patient=person, label=str(kind))
    mat("1512427/cvind.mat", lambda f: put(f, "cvind", np.array([folds]), "double"))
    b.text("1512427/README.txt", "This brain tumor dataset contains T1-weighted contrast-enhanced images of three kinds of brain tumor. Each file stores a struct with these fields:\r\n"
           "cjdata.label: 1 for meningioma, 2 for glioma, 3 for pituitary tumor\r\ncjdata.PID: patient ID\r\ncjdata.image: image data\r\n"
           "cjdata.tumorBorder: a vector storing the coordinates of discrete points on tumor border, [x1, y1, x2, y2,...]\r\ncjdata.tumorMask: a binary image with 1s indicating tumor region\r\n")


@family(
    "kvasir_capsule_semicolon", "diagnosis", 2,
    "Classify the labelled frames of capsule endoscopy by finding (finding_class).",
    notes="Classes as folders with blanks and dashes; metadata.csv with semicolons names the video (one patient each) and repeats the class with a coarser category; two official folds of both "
    "halves; unlabelled frames in a folder of their own; bounding boxes only for some.",
)
def capsule(b: Build) -> None:
    looks = {"Angiectasia": (200, 40, 30), "Blood - fresh": (150, 15, 15), "Foreign body": (40, 120, 60), "Ileocecal Valve": (240, 190, 90), "Normal clean mucosa": None}
    category = {"Ileocecal Valve": "Anatomy", "Normal clean mucosa": "Luminal", "Foreign body": "Luminal", "Angiectasia": "Luminal", "Blood - fresh": "Luminal"}
    videos = [hexid(b, 8) for _ in range(14)]
    rows, folds = [], [[], []]

    def frame(kind: str) -> np.ndarray:
        out = np.zeros((48, 48, 3))
        out[draw.ball((48, 48), (24, 24), 23)] = (190, 120, 75)
        out += gaussian_filter(b.rng.normal(0, 1, (48, 48)), 3)[..., None] * 90 * (out > 0)
        for _ in range(0 if looks[kind] is None else 1 if kind == "Ileocecal Valve" else 4):
            spot = draw.ball((48, 48), draw.near(b.rng, 24, 24, by=11), {"Angiectasia": 2.2, "Ileocecal Valve": 11}.get(kind, 6))
            out[spot] = looks[kind]
        return draw.u8(out + b.rng.normal(0, 5, out.shape))

    for n in range(45):
        kind = list(looks)[n % 5]
        video = videos[(n // 5 + n % 5 * 3) % 14]
        number = int(b.rng.integers(100, 40000))
        name = f"{video}_{number}.jpg"
        path = b.picture(f"kvasir-capsule/labelled_images/{kind}/{name}", frame(kind), quality=94)
        box = [int(v) for v in b.rng.integers(5, 40, 8)] if n % 3 == 0 and looks[kind] else [""] * 8
        rows.append([name, video, number, category[kind], kind, *box])
        folds[(n // 5 + n % 5 * 3) % 14 % 2].append([name, kind])
        b.case(path, patient=video, label=kind, channels=COLOUR)
    b.csv("kvasir-capsule/metadata.csv", ["filename", "video_id", "frame_number", "finding_category", "finding_class", "x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"], rows, sep=";")
    for k, part in enumerate(folds):
        b.csv(f"kvasir-capsule/official_splits/split_{k}.csv", ["filename", "label"], part)
    for n in range(7):
        b.truth["left_out"].append(b.picture(f"kvasir-capsule/unlabelled_images/{hexid(b, 8)}_{b.rng.integers(9000)}.jpg", frame(b.pick(*looks)), quality=94))
    b.text("kvasir-capsule/README.txt", "Each video is the examination of one patient. The two official splits are for two-fold cross-validation and keep videos together.\n")


@family(
    "fetal_planes_semicolon", "diagnosis", 2,
    "Classify the fetal ultrasound pictures into the maternal-fetal planes (column Plane). Keep the given training and test division.",
    notes="Zenodo: semicolon CSV and the same as a workbook; Image_name without suffix; header 'Train ' with a blank at its end holds the split (1 train, 0 test); finer Brain_plane, operator and machine also look like "
    "classes; patient number unpadded; one row without a picture.",
)
def fetal(b: Build) -> None:
    planes = ["Fetal brain", "Fetal abdomen", "Fetal femur", "Maternal cervix"]
    rows: list[list[Any]] = []
    for n in range(44):
        plane = planes[n % 4]
        person = n // 4 + 1 + (n % 4 == 3) * 11
        size = (48, 60)
        image = np.full(size, 22.0)
        mid = draw.near(b.rng, 24, 30, by=3)
        if plane in ("Fetal brain", "Fetal abdomen"):
            outer, inner = draw.ball(size, mid, (16, 22)), draw.ball(size, mid, (14, 20))
            image[outer] = 190 if plane == "Fetal brain" else 110
            image[inner] = 60 if plane == "Fetal brain" else 105
            if plane == "Fetal brain":
                image[int(mid[0]), int(mid[1]) - 15 : int(mid[1]) + 15] = 170
            else:
                image[draw.ball(size, draw.near(b.rng, *mid, by=5), 5)] = 10
        elif plane == "Fetal femur":
            image[draw.ball(size, mid, (2.5, 18))] = 230
        else:
            image[: int(mid[0]), :] = 120
            image[draw.ball(size, mid, (4, 25))] = 15
        name = f"Patient{person:05d}_Plane{n % 4 + 1}_{n % 3 + 1}_of_3"
        train = int(person % 3 != 0)
        rows.append([name, person, plane, b.pick("Trans-thalamic", "Trans-ventricular") if n % 4 == 0 else "Not A Brain", b.pick("Op. 1", "Op. 2", "Other"), b.pick("Voluson E6", "Aloka"), train])
        if n == 18:
            continue
        noise = b.rng.gamma(4, 0.25, size)
        b.case(b.picture(f"FETAL_PLANES_ZENODO/Images/{name}.png", draw.u8(gaussian_filter(image, 0.7) * noise)), patient=str(person), label=plane, split="train" if train else "test")
    head = ["Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train "]
    b.csv("FETAL_PLANES_ZENODO/FETAL_PLANES_DB_data.csv", head, rows, sep=";")
    b.xlsx("FETAL_PLANES_ZENODO/FETAL_PLANES_DB_data.xlsx", {"FETAL_PLANES_DB_data": [head, *rows]})
    b.text("FETAL_PLANES_ZENODO/README.md", "Images of 1,792 patients. `Train`: 1 = training set, 0 = test set, split by patient.\n")


@family(
    "prostata_dicom_konsens", "diagnosis", 3,
    "Bitte aus der transversalen T2-Serie (t2_tse_tra) den PI-RADS-Wert nach der Spalte Konsens klassifizieren.",
    notes="All series of an exam in ONE folder with hexadecimal names without suffix, told apart only by header (localizer, sagittal T2, ADC); German cp1252 semicolon table with decimal commas, two readers and a consensus; "
    "consensus open for two exams; exam number is the AccessionNumber; two exams of some patients.",
)
def prostata(b: Build) -> None:
    rows = []
    for n in range(27):
        p = n % 18
        person, case = f"{70411 + p * 97:08d}", f"MR{21000 + n * 31}"
        grade = (2, 4, 5)[(p + n // 18) % 3]
        open_ = n in (5, 20)
        a, c = grade, int(np.clip(grade + b.rng.integers(-1, 2), 1, 5))
        rows.append([case, int(person), 55 + p, f"{b.rng.uniform(1, 19):.1f}".replace(".", ","), *(b.rng.permutation([a, c])), "offen" if open_ else grade, b.pick("", "Bewegungsartefakte", "Hüft-TEP")])
        shape = (36, 32, 6)
        gland = draw.ball(shape, draw.near(b.rng, 18, 16, 3, by=1), (12, 10, 5))
        vol = np.full(shape, 150.0)
        vol[gland] = 420
        if grade > 2:
            vol[draw.ball(shape, draw.near(b.rng, b.pick(13, 23), 20, 3, by=1), (3, 3, 2) if grade == 4 else (6, 5, 3)) & gland] = 180
        vol = (vol + b.rng.normal(0, 18, shape)).clip(0)
        tags = dict(PatientID=person, PatientName=f"PROSTATA^{p:03d}", AccessionNumber=case, StudyInstanceUID=uid(b), StudyDate=f"2021{n % 12 + 1:02d}{n % 27 + 1:02d}", StudyDescription="MRT Prostata")
        jobs: list[tuple[bool, dict[str, Any], np.ndarray]] = []
        across, along = [1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, -1]
        for number, words, stack, orient in ((1, "localizer", vol[:, :, 3:4], across), (2, "t2_tse_sag", vol[::6].transpose(1, 2, 0)[:, :, :2], along),
                                             (3, "t2_tse_tra", vol, across), (5, "ep2d_diff_b50_800_tra_ADC", vol[::2, ::2, :3] * 2.4, across)):
            series = uid(b)
            for z in range(stack.shape[2]):
                place = [-18.0, -16.0, -20.0 + 3.5 * z] if orient is across else [-9.0 + 6 * z, -16.0, 20.0]
                jobs.append((number == 3, dict(tags, SeriesInstanceUID=series, SeriesNumber=number, SeriesDescription=words, InstanceNumber=z + 1, ImageOrientationPatient=orient,
                             ImagePositionPatient=place, PixelSpacing=[1.0, 1.0], SliceThickness=3.5, ImageType=["ORIGINAL" if number < 5 else "DERIVED", "PRIMARY", "M" if number < 5 else "ADC"]),
                             stack[:, :, z].T.astype(np.uint16)))
        names = b.rng.permutation(len(jobs))
        wanted = []
        for (main, meta, pixels), k in zip(jobs, names, strict=True):
            path = dicom(b, f"Export_2021-12-03/EXAM{n:04d}/{int(k) + 16:08X}", pixels, "MR", **meta)
            if main:
                wanted.append(path)
        if open_:
            b.truth["left_out"] += wanted
        else:
            b.case(wanted, patient=person, label=str(grade))
    b.csv("Auswertung_Prostata_final.csv", ["Fall-Nr", "Pat-ID", "Alter", "PSA (ng/ml)", "Leser A", "Leser B", "Konsens", "Bemerkung"], [rows[i] for i in b.rng.permutation(len(rows))],
          sep=";", encoding="cp1252", end="\r\n")
