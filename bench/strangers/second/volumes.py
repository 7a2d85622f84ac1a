"""Of the second set: volumes, folders and archives."""

import io
from typing import Any

import nibabel
import numpy as np
import tifffile
from PIL import Image

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "pacs_export_nhc", "diagnosis", 3,
    "Clasificar las TC de tórax (serie TORAX) en neumonía COVID o normal según la hoja de Radiología.",
    notes="PACS export PA/ST/SE/IM without suffixes and with a scout and a dose page series; a Spanish workbook whose table begins below a "
    "title; request number written TC/2020/00123 there and TC202000123 in the files; NHC without its zeros; spellings vary; two studies of some; "
    "slice numbers run down in half of them; one study not in the sheet and one sheet row without a study.",
)
def nhc(b: Build) -> None:
    rows: list[list[Any]] = []
    sick = ["Neumonía COVID", "neumonía covid", "NEUMONÍA COVID ", "Neumonia COVID"]
    well = ["Normal", "normal", "NORMAL", "Normal "]
    study = 0
    for p in range(18):
        person = f"00{b.rng.integers(200000, 999999)}"
        for s in range(2 if p % 2 else 1):
            study += 1
            kind = bool((p // 2 + s) % 2)
            acc = f"TC2020{b.rng.integers(10, 900) + 1000 * study:05d}"
            known = p != 6
            day, month = int(b.rng.integers(1, 28)), int(b.rng.integers(3, 6))
            if known:
                rows.append([f"TC/2020/{acc[6:]}", int(person), b.pick("H", "M"), int(b.rng.integers(30, 90)),
                             f"{day:02d}/0{month}/2020", b.pick("Urgencias", "Planta", "UCI"), b.pick(*(sick if kind else well)), ""])
            base = f"DICOM/PA{p:06d}/ST{s:06d}"
            tags = dict(PatientID=person, PatientName=f"ANON^{p:03d}", AccessionNumber=acc, StudyInstanceUID=uid(b), PatientBirthDate="", StudyDate=f"20200{month}{day:02d}")
            frame = uid(b)
            scout = (np.tile(draw.chest(b.rng, size=(40, 40)), 1) * 4).astype(np.int16)
            dicom(b, f"{base}/SE000000/IM000000", scout, "CT", **tags, SeriesDescription="Scout", SeriesNumber=1, SeriesInstanceUID=uid(b), InstanceNumber=1,
                  ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"], RescaleSlope=1, RescaleIntercept=-1024, ImageOrientationPatient=[1, 0, 0, 0, 0, -1],
                  ImagePositionPatient=[-30, 0, 30], PixelSpacing=[1.5, 1.5])
            volume = draw.lung_ct(b.rng, kind)
            series = uid(b)
            paths = []
            for z in range(volume.shape[2]):
                number = volume.shape[2] - z if p % 2 else z + 1
                paths.append(dicom(
                    b, f"{base}/SE000001/IM{number - 1:06d}", (volume[:, :, z].T + 1024).clip(0, 4000).astype(np.int16), "CT", **tags,
                    SeriesDescription="TORAX 5.0 B60f", SeriesNumber=2, SeriesInstanceUID=series, InstanceNumber=number, FrameOfReferenceUID=frame,
                    ImageType=["ORIGINAL", "PRIMARY", "AXIAL"], RescaleSlope=1, RescaleIntercept=-1024, ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
                    ImagePositionPatient=[-30, -27, -200 + 5 * z], PixelSpacing=[1.5, 1.5], SliceThickness=5, BodyPartExamined="CHEST"))
            page = np.zeros((48, 64), np.int16)
            page[8:40:6, 6:50] = 900
            dicom(b, f"{base}/SE000002/IM000000", page, "CT", **tags, SeriesDescription="Patient Protocol", SeriesNumber=501, SeriesInstanceUID=uid(b),
                  InstanceNumber=1, ImageType=["DERIVED", "SECONDARY", "OTHER", "CSA REPORT"])
            if known:
                b.case(paths, patient=person, label="Neumonía COVID" if kind else "Normal")
            else:
                b.truth["left_out"] += paths
    rows.append(["TC/2020/99871", 770123, "H", 55, "02/05/2020", "UCI", "Neumonía COVID", "no localizada en PACS"])
    table = [["Servicio de Radiología - Estudio retrospectivo COVID-19"], ["Fecha de extracción: 03/07/2020"], [],
             ["Nº petición", "NHC", "Sexo", "Edad", "Fecha TC", "Procedencia", "Diagnóstico", "Observaciones"], *[rows[i] for i in b.rng.permutation(len(rows))]]
    b.xlsx("Listado_TC_covid_v3_DEF.xlsx", {"Hoja1": table, "Leyenda": [["H", "Hombre"], ["M", "Mujer"], ["NHC", "Número de historia clínica"]]})


@family(
    "oasis_analyze", "diagnosis", 3,
    "Predict the CDR (0, 0.5 or 1) from the gain-field corrected atlas volume (t88_gfc, with the skull).",
    notes="Analyze .hdr/.img pairs on discs; several derived volumes a session (raw repeats, averaged, masked, tissue classes) and GIF thumbnails; "
    "table with blank CDR for the young; MR1 and MR2 of one person. The files name the .hdr of each pair.",
)
def oasis(b: Build) -> None:
    rows = []
    for n in range(22):
        cdr = None if n in (3, 12, 17) else ("0", "0.5", "1")[n % 3]
        for s in range(1, 3 if n % 3 != 2 or n % 2 else 2):
            ident = f"OAS1_{n * 3 + 1:04d}_MR{s}"
            root = f"disc{n // 8 + 1}/{ident}"
            volume = draw.brain(b.rng, {"0": 0.0, "0.5": 0.5, "1": 1.0}[cdr or "0"])

            def put(path: str, array: np.ndarray) -> str:
                image = nibabel.AnalyzeImage(array.astype(np.int16), np.diag([-2.0, 2, 2, 1]))
                image.header["db_name"] = b""
                nibabel.save(image, b.at(path + ".img"))
                return path + ".hdr"

            for k in (1, 2):
                put(f"{root}/RAW/{ident}_mpr-{k}_anon", volume[::2, ::2, ::2] + b.rng.normal(0, 30, volume[::2, ::2, ::2].shape))
                b.picture(f"{root}/RAW/{ident}_mpr-{k}_anon_sag_66.gif", draw.u8(volume[15] / 4))
            t88 = f"{root}/PROCESSED/MPRAGE/T88_111/{ident}_mpr_n4_anon_111_t88"
            put(f"{root}/PROCESSED/MPRAGE/SUBJ_111/{ident}_mpr_n4_anon_sbj_111", volume[:-2])
            main = put(t88 + "_gfc", volume)
            put(t88 + "_masked_gfc", np.where(draw.ball(volume.shape, np.array(volume.shape) / 2, np.array(volume.shape) * 0.35), volume, 0))
            b.picture(t88 + "_gfc_tra_90.gif", draw.u8(volume[:, :, 13] / 4))
            put(f"{root}/FSL_SEG/{ident}_mpr_n4_anon_111_t88_masked_gfc_fseg", (volume > 250).astype(int) + (volume > 550))
            b.text(f"{root}/{ident}.txt", f"SESSION ID:   {ident}\n\nAGE:          {60 + n}\nM/F:          F\nHAND:         Right\nCDR:          {cdr or ''}\n")
            rows.append([ident, b.pick("M", "F"), "R", 20 + n if cdr is None else 60 + n, "" if cdr is None else 2 + n % 4, "", "" if cdr is None else 30 - n % 6,
                         cdr or "", 1300 + n * 9, f"0.{700 + n}", f"1.{200 + n}", "N/A" if s == 1 else 40])
            if cdr is None:
                b.truth["left_out"].append(main)
            else:
                b.case(main, patient=ident[:9], label=cdr)
    b.csv("oasis_cross-sectional.csv", ["ID", "M/F", "Hand", "Age", "Educ", "SES", "MMSE", "CDR", "eTIV", "nWBV", "ASF", "Delay"], rows)


@family(
    "mrnet_three_planes", "diagnosis", 3,
    "Detect an ACL tear (acl) of the knee from the axial, coronal and sagittal series of each exam.",
    notes="A .npy stack a plane in parallel folders with one number a name; three headerless CSVs, of which acl is asked; train and valid; "
    "stacks of different depth; numbers padded in the names.",
    patients_known=False,
)
def mrnet(b: Build) -> None:
    tables: dict[tuple[str, str], list[list[Any]]] = {}
    for n in range(40):
        split = "train" if n < 30 else "valid"
        acl, tear = n % 2, int(b.rng.random() < 0.4)
        number = f"{n if n < 30 else 1130 + n - 30:04d}"
        files = []
        for plane in ("axial", "coronal", "sagittal"):
            depth = int(b.rng.integers(9, 15))
            stack = np.full((depth, 40, 40), 40.0)
            stack[:, draw.ball((40, 40), (20, 20), (18, 13))] = 120
            stack[:, 19:21, 9:31] = 70
            band = draw.ball((depth, 40, 40), draw.near(b.rng, depth / 2, 20, 20), (3, 8, 2.5))
            stack[band] = 225 if acl else 15
            if tear:
                stack[depth // 2, 18:22, 26:31] = 240
            files.append(f"MRNet-v1.0/{split}/{plane}/{number}.npy")
            np.save(b.at(files[-1]), draw.u8(stack + b.rng.normal(0, 8, stack.shape)))
        for name, value in (("abnormal", int(acl or tear)), ("acl", acl), ("meniscus", tear)):
            tables.setdefault((split, name), []).append([number, value])
        b.case(files, label=str(acl), split={"train": "train", "valid": "val"}[split], views=3)
    for (split, name), rows in tables.items():
        b.csv(f"MRNet-v1.0/{split}-{name}.csv", None, rows)


@family(
    "malaria_doubled_folder", "diagnosis", 2,
    "Parasitized or uninfected red blood cells.",
    notes="The whole tree lies a second time in itself (cell_images/cell_images, byte for byte), as on Kaggle: the inner copy is left out; "
    "patients by two mapping tables; cut-outs of all sizes; Thumbs.db; a zero-byte picture.",
)
def malaria(b: Build) -> None:
    maps: dict[str, list[list[str]]] = {"Parasitized": [], "Uninfected": []}
    for n in range(48):
        kind = ("Parasitized", "Uninfected")[n % 2]
        person = f"C{33 + n % 16 * 5}P{63 - n % 16}"
        h, w = (int(v) for v in b.rng.integers(40, 60, 2))
        cell = np.zeros((h, w, 3))
        cell[draw.ball((h, w), (h / 2, w / 2), (h * 0.46, w * 0.46))] = (220, 165, 165)
        if kind == "Parasitized":
            for _ in range(int(b.rng.integers(1, 3))):
                cell[draw.ball((h, w), draw.near(b.rng, h / 2, w / 2, by=8), (4, 3.5))] = (120, 40, 130)
        name = f"{person}thinF_IMG_20150{b.rng.integers(600, 930)}_{b.rng.integers(100000, 160000)}{b.pick('', 'a')}_cell_{n + 10}.png"
        data = io.BytesIO()
        Image.fromarray(draw.u8(cell + b.rng.normal(0, 4, cell.shape))).save(data, "PNG")
        for root in ("cell_images", "cell_images/cell_images"):
            b.raw(f"{root}/{kind}/{name}", data.getvalue())
        b.truth["left_out"].append(f"cell_images/cell_images/{kind}/{name}")
        b.case(f"cell_images/{kind}/{name}", patient=person, label=kind, channels=COLOUR)
        maps[kind].append([person, name])
    b.broken("cell_images/Uninfected/C99P3thinF_IMG_20150818_101010_cell_1.png", b"")
    for kind, rows in maps.items():
        b.clutter("windows", under=f"cell_images/{kind}")
        b.csv(f"patientid_cellmapping_{kind.lower()}.csv", None, rows)


@family(
    "cnmc_folds_and_codes", "diagnosis", 2,
    "Leukaemia (all) versus healthy (hem) cells. In the validation table 1 is all and 0 is hem.",
    notes="BMP; training classes as folders inside three folds (no splits), the class again in the name; the validation set is flat with renamed "
    "pictures, codes and original names in a CSV; a test folder without labels; patient in UID_<patient>_<image>_<cell>.",
)
def cnmc(b: Build) -> None:
    def cell(kind: str) -> np.ndarray:
        out = np.zeros((50, 50, 3))
        big = 18 if kind == "all" else 12
        out[draw.ball((50, 50), draw.near(b.rng, 25, 25), (big, big * 0.9))] = (120, 60, 150) if kind == "all" else (150, 90, 175)
        out[draw.ball((50, 50), draw.near(b.rng, 25, 25, by=4), 3)] = (230, 210, 235)
        return draw.u8(out + b.rng.normal(0, 6, out.shape) * (out > 0))

    n_train = 0
    for fold in range(3):
        for kind in ("all", "hem"):
            for k in range(6):
                person = f"{'H' if kind == 'hem' else ''}{fold * 10 + 1 + k // 2 + (30 if kind == 'all' else 0)}"
                path = f"C-NMC_Leukemia/training_data/fold_{fold}/{kind}/UID_{person}_{k % 2 + 1}_{b.rng.integers(1, 40)}_{kind}.bmp"
                b.case(b.picture(path, cell(kind)), patient=person, label=kind, split="train", channels=COLOUR)
                n_train += 1
    rows = []
    for k in range(12):
        kind = ("all", "hem")[k % 2]
        person = f"{'H' if kind == 'hem' else ''}{57 + k // 4}"
        path = b.picture(f"C-NMC_Leukemia/validation_data/C-NMC_test_prelim_phase_data/{k + 1}.bmp", cell(kind))
        rows.append([f"UID_{person}_{k + 20}_{b.rng.integers(1, 9)}_{kind}.bmp", f"{k + 1}.bmp", int(kind == "all")])
        b.case(path, patient=person, label=kind, split="val", channels=COLOUR)
    b.csv("C-NMC_Leukemia/validation_data/C-NMC_test_prelim_phase_data_labels.csv", ["Patient_ID", "new_names", "labels"], [rows[i] for i in b.rng.permutation(12)])
    for k in range(5):
        b.truth["left_out"].append(b.picture(f"C-NMC_Leukemia/testing_data/C-NMC_test_final_phase_data/{k + 1}.bmp", cell(b.pick("all", "hem"))))


@family(
    "duke_oct_tiff_stacks", "diagnosis", 3,
    "Classify the OCT volumes: AMD, DME or NORMAL.",
    notes="A folder a volume whose name is class and number run together (AMD1), slices as 8-bit TIFF three folders below; slice names unpadded in "
    "some; 16-bit originals of some beside them, not wanted twice; no table at all; volumes of 10 to 12 slices.",
)
def oct(b: Build) -> None:
    for kind in ("AMD", "DME", "NORMAL"):
        for n in range(1, 11):
            depth = int(b.rng.integers(10, 13))
            stack = np.full((depth, 36, 56), 20.0)
            xs = np.arange(56)
            for z in range(depth):
                top = 14 + 2 * np.sin(xs / 18 + n)
                lift = {"AMD": 5 * np.abs(np.sin(xs / 5.0)), "DME": np.zeros(56), "NORMAL": np.zeros(56)}[kind]
                for x in xs:
                    stack[z, int(top[x]) : int(top[x]) + 12, x] = 110
                    stack[z, int(top[x] + 11 - lift[x]) : int(top[x]) + 14, x] = 220
            if kind == "DME":
                for _ in range(5):
                    stack[draw.ball(stack.shape, (b.rng.uniform(2, depth - 2), b.rng.uniform(17, 22), b.rng.uniform(10, 46)), (3, 3, 5))] = 10
            stack += b.rng.normal(0, 9, stack.shape)
            files = []
            for z in range(depth):
                name = f"{z + 1}.tif" if n % 4 == 0 else f"{z + 1:03d}.tif"
                path = f"Publication_Dataset/{kind}{n}/TIFFs/8bitTIFFs/{name}"
                tifffile.imwrite(b.at(path), draw.u8(stack[z]))
                files.append(path)
                if n % 5 == 0:
                    other = f"Publication_Dataset/{kind}{n}/TIFFs/16bitTIFFs/{name}"
                    tifffile.imwrite(b.at(other), (np.clip(stack[z], 0, 255) * 257).astype(np.uint16))
                    b.truth["left_out"].append(other)
            b.case(files, patient=f"{kind}{n}", label=kind)
    b.text("Publication_Dataset/Read Me.txt", "45 OCT volumes acquired with Spectralis SD-OCT. See Srinivasan et al., Biomed. Opt. Express 2014.\r\n")
