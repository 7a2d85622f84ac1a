"""Of the third set: segmentation and anomalies."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.draw import polygon2mask

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families, dicom, hexid, tsv, uid
from bench.strangers.third.films import grade_eye
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "idrid_lesion_folders", "anomaly_detection", 2,
    "Segment the hard exudates.",
    notes="A folder a lesion type (1. Microaneurysms .. 5. Optic Disc) under Training and Testing, masks .tif with _EX, _MA.. at the end; mask value 76; other lesions not asked and only for some pictures.",
    patients_known=False,
)
def idrid_a(b: Build) -> None:
    root = "A. Segmentation"
    for n in range(1, 29):
        part = "a. Training Set" if n <= 19 else "b. Testing Set"
        image, red, yellow = grade_eye(b, n % 4, 2 + n % 6)
        yellow &= draw.ball((64, 64), (32, 32), 30)
        disc = draw.ball((64, 64), draw.near(b.rng, 32, 19), 5)
        path = b.picture(f"{root}/1. Original Images/{part}/IDRiD_{n:02d}.jpg", image, quality=95)
        for folder, end, mask, there in (("1. Microaneurysms", "MA", red, n % 4 > 0), ("2. Haemorrhages", "HE", np.roll(red, 2, 1), n % 4 == 3), ("3. Hard Exudates", "EX", yellow, True),
                                         ("4. Soft Exudates", "SE", np.roll(yellow, 9, 0), n % 3 == 0), ("5. Optic Disc", "OD", disc, True)):
            if there:
                b.picture(f"{root}/2. All Segmentation Groundtruths/{part}/{folder}/IDRiD_{n:02d}_{end}.tif", mask.astype(np.uint8) * 76)
        b.case(path, mask={"hard exudates": yellow}, split="train" if n <= 19 else "test", channels=COLOUR)
    b.text(f"{root}/CC-BY-4.0.txt", "Creative Commons Attribution 4.0 International Public License\n")


@family(
    "chaos_t2spir_png_masks", "organ_segmentation", 3,
    "Segment liver (63), right kidney (126), left kidney (189) and spleen (252) in the T2-SPIR MR series.",
    notes="DICOM series with masks as one grey PNG a slice in Ground beside DICOM_anon; T1DUAL in and out of phase with masks of its own, CT with liver masks only (same folder numbers, other people); test set without Ground; not all organs "
    "on every slice.",
)
def chaos(b: Build) -> None:
    def series(root: str, name: str, stack: np.ndarray, kind: str, person: str, words: str) -> list[str]:
        out, one, study = [], uid(b), uid(b)
        for z in range(stack.shape[2]):
            out.append(dicom(b, f"{root}/{name % (z + 1)}", stack[:, :, z].T.clip(0).astype(np.uint16), kind, PatientID=person, PatientName="", StudyInstanceUID=study, SeriesInstanceUID=one, SeriesDescription=words,
                             SeriesNumber=3, InstanceNumber=z + 1, ImageOrientationPatient=[1, 0, 0, 0, 1, 0], ImagePositionPatient=[-60.0, -50, -100 + 7.5 * z], PixelSpacing=[3.0, 3.0], SliceThickness=7.5))
        return out

    values = {"liver": 63, "right kidney": 126, "left kidney": 189, "spleen": 252}
    for n in range(27):
        person, number = f"CHAOS-MR-{n + 1:02d}", n + 1
        test = n >= 25
        shape = (36, 32, 5)
        label = np.zeros(shape, np.uint8)
        label[draw.ball(shape, draw.near(b.rng, 10, 13, 2.5, by=1), (7, 8, 3))] = 63
        label[draw.ball(shape, draw.near(b.rng, 30, 14, 3, by=1), (4, 5, 2))] = 252
        label[draw.ball(shape, draw.near(b.rng, 11, 25, 1.5, by=0.8), (3.5, 3.5, 2))] = 126
        label[draw.ball(shape, draw.near(b.rng, 27, 25, 1.5, by=0.8), (3.5, 3.5, 2))] = 189
        image = np.full(shape, 40.0)
        image[draw.ball(shape, (18, 16, 2.5), (17.5, 15, 20))] = 150
        for v, value in ((63, 330), (252, 620), (126, 800), (189, 800)):
            image[label == v] = value
        base = f"CHAOS_{'Test' if test else 'Train'}_Sets/{'Test' if test else 'Train'}_Sets/MR/{number - 22 if test else number}"
        files = series(f"{base}/T2SPIR/DICOM_anon", f"IMG-{n + 3:04d}-%05d.dcm", image + b.rng.normal(0, 20, shape), "MR", person, "T2W_SPIR")
        ins, outs = image[:, :, :2] * 0.8, image[:, :, :2] * 0.5
        series(f"{base}/T1DUAL/DICOM_anon/InPhase", f"IMG-{n + 4:04d}-%05d.dcm", ins + b.rng.normal(0, 20, ins.shape), "MR", person, "T1 DUAL")
        series(f"{base}/T1DUAL/DICOM_anon/OutPhase", f"IMG-{n + 5:04d}-%05d.dcm", outs + b.rng.normal(0, 20, ins.shape), "MR", person, "T1 DUAL")
        if test:
            b.truth["left_out"] += files
            continue
        for z, f in enumerate(files):
            b.picture(f"{base}/T2SPIR/Ground/{Path(f).stem}.png", label[:, :, z].T.copy())
        for z in range(2):
            b.picture(f"{base}/T1DUAL/Ground/IMG-{n + 4:04d}-{z + 1:05d}.png", np.roll(label[:, :, z].T, 1, 1).copy())
        b.case(files, patient=person, mask={k: label == v for k, v in values.items()})
        if n < 2:
            ct = (draw.lung_ct(b.rng, False)[:, :, :3] + 1024).clip(0)
            root = f"CHAOS_Train_Sets/Train_Sets/CT/{number}"
            series(f"{root}/DICOM_anon", "i%04d,0000b.dcm", ct, "CT", f"CHAOS-CT-{n + 1:02d}", "Abdomen portal")
            for z in range(3):
                b.picture(f"{root}/Ground/liver_GT_{z:03d}.png", draw.ball((36, 40), draw.near(b.rng, 17, 12), draw.near(b.rng, 8, 7)).astype(np.uint8) * 255)


@family(
    "wmh_challenge_sites", "anomaly_detection", 3,
    "Detect the white matter hyperintensities (value 1 in wmh.nii.gz) from the preprocessed FLAIR and T1 (folder pre). Value 2 is other pathology and does not count.",
    notes="Every subject's files have the same names (FLAIR, T1, wmh) in orig and pre below site, for one site also below scanner; label 2 must not count; extra observers' results in a parallel tree; the original 3DT1 is on another grid.",
)
def wmh(b: Build) -> None:
    for n in range(27):
        k = n % 9
        split = "training" if k < 6 else "test"
        site, number = [("Utrecht", n), ("Singapore", 50 + n), ("Amsterdam/GE3T", 100 + n)][n // 9]
        root = f"dataverse_files/{split}/{site}/{number}"
        brain = draw.brain(b.rng, 0.6, (26, 30, 14))
        inside = brain > 550
        lesion, other = np.zeros(brain.shape, bool), np.zeros(brain.shape, bool)
        more = int(b.rng.integers(15, 60))
        while lesion.sum() < more:
            lesion |= draw.ball(brain.shape, draw.near(b.rng, b.pick(8, 18), 15, 7, by=4), b.rng.uniform(1.2, 2.6)) & inside
        if n % 4 == 0:
            other = draw.ball(brain.shape, draw.near(b.rng, 13, 23, 7, by=2), 2.5) & inside & ~lesion
        flair, t1 = np.where(brain > 300, 350.0, brain), brain.copy()
        flair[lesion | other], t1[lesion | other] = 800, 420
        affine = np.diag([-6.0, 6, 9, 1])
        files = [b.nifti(f"{root}/pre/{name}.nii.gz", a + b.rng.normal(0, 12, a.shape), affine) for name, a in (("FLAIR", flair), ("T1", t1))]
        b.nifti(f"{root}/orig/FLAIR.nii.gz", flair + b.rng.normal(0, 20, flair.shape), affine)
        b.nifti(f"{root}/orig/3DT1.nii.gz", np.repeat(t1, 2, 2) + b.rng.normal(0, 20, (26, 30, 28)), np.diag([-6.0, 6, 4.5, 1]))
        b.nifti(f"{root}/wmh.nii.gz", lesion + 2 * other, affine, np.uint8)
        if n % 2:
            b.nifti(f"dataverse_files/additional_annotations/observer_o3/{split}/{site}/{number}/result.nii.gz", np.roll(lesion, 1, 0), affine, np.uint8)
        b.case(files, patient=str(number), mask={"white matter hyperintensities": lesion}, channels=2, split={"training": "train", "test": "test"}[split])
    b.text("dataverse_files/README.md", "# WMH Segmentation Challenge\n\nwmh.nii.gz: 0 background, 1 white matter hyperintensities, 2 other pathology (ignored in the evaluation).\n`orig`: scans as acquired, `pre`: T1 aligned with FLAIR, bias corrected.\n")


@family(
    "roboflow_coco_spine", "organ_segmentation", 2,
    "Segment vertebrae, discs and sacrum in the sagittal slices.",
    notes="Roboflow export: train, valid and test, each with _annotations.coco.json beside the pictures; ids begin anew in each; category 0 is an unused parent; names like P014_sag_3_png.rf.<hash>.jpg with the patient first; polygons, "
    "several per class and picture.",
    mask_tolerance=0.2,
)
def roboflow(b: Build) -> None:
    cats = [{"id": 0, "name": "spine", "supercategory": "none"}, {"id": 1, "name": "disc", "supercategory": "spine"}, {"id": 2, "name": "sacrum", "supercategory": "spine"}, {"id": 3, "name": "vertebra", "supercategory": "spine"}]
    names = {1: "disc", 2: "sacrum", 3: "vertebra"}
    size = (60, 56)
    n = 0
    for split, people in (("train", range(1, 11)), ("valid", range(11, 14)), ("test", range(14, 17))):
        book: dict[str, Any] = {"info": {"year": "2023", "version": "6", "description": "Exported from roboflow.com", "date_created": "2023-05-14T09:12:01+00:00"},
                                "licenses": [{"id": 1, "url": "https://creativecommons.org/licenses/by/4.0/", "name": "CC BY 4.0"}], "categories": cats, "images": [], "annotations": []}
        for p in people:
            for k in range(2 + p % 2):
                n += 1
                image = np.full(size, 60.0)
                masks = {i: np.zeros(size, bool) for i in names}
                source = f"P{p * 7:03d}_sag_{k + 3}"
                name = f"{source}_png.rf.{hexid(b)}.jpg"
                x0, y = b.rng.uniform(20, 24), b.rng.uniform(3, 6)
                for level in range(4):
                    lean = b.rng.uniform(-1.5, 1.5) + level
                    h = b.rng.uniform(8, 9.5)
                    x = x0 + lean
                    for kind, y0, y1, w, look in ((3, y, y + h, 13, 175), (1, y + h + 1, y + h + 3.6, 12, 25), (2, y + 1, y + 9, 9, 150)):
                        if (kind == 2) != (level == 3):
                            continue
                        shape = [(x, y0), (x + w, y0 + 0.6), (x + w + 0.5, y1), (x + 0.5, y1 + 0.3)] if kind != 2 else [(x, y0), (x + w, y0), (x + w + 7, y1 + 3), (x + 9, y1 + 5)]
                        inside = polygon2mask(size, [(v, u) for u, v in shape])
                        masks[kind] |= inside
                        image[inside] = look
                        flat = [round(float(c), 2) for point in shape for c in point]
                        xs, ys = flat[::2], flat[1::2]
                        book["annotations"].append({"id": len(book["annotations"]), "image_id": len(book["images"]), "category_id": kind, "bbox": [min(xs), min(ys), round(max(xs) - min(xs), 2), round(max(ys) - min(ys), 2)],
                                                    "area": int(inside.sum()), "segmentation": [flat], "iscrowd": 0})
                    y += h + 4.6
                book["images"].append({"id": len(book["images"]), "license": 1, "file_name": name, "height": size[0], "width": size[1], "date_captured": "2023-05-14T09:12:01+00:00", "extra": {"name": source + ".png"}})
                path = b.picture(f"Lumbar-Spine.v6i.coco-segmentation/{split}/{name}", np.repeat(draw.u8(image + b.rng.normal(0, 6, size))[..., None], 3, -1), quality=93)
                b.case(path, patient=f"P{p * 7:03d}", mask={names[i]: m for i, m in masks.items()}, split={"valid": "val"}.get(split, split), channels=COLOUR)
        b.json(f"Lumbar-Spine.v6i.coco-segmentation/{split}/_annotations.coco.json", book, None)
    b.text("Lumbar-Spine.v6i.coco-segmentation/README.dataset.txt", "# Lumbar Spine > 2023-05-14 9:12am\nhttps://universe.roboflow.com/spine-lab/lumbar-spine\n\nProvided by a Roboflow user\nLicense: CC BY 4.0\n")
    b.text("Lumbar-Spine.v6i.coco-segmentation/README.roboflow.txt", f"Lumbar Spine - v6\n==============================\n\nThe dataset includes {n} images.\nVertebrae are annotated in COCO Segmentation format.\n\nNo image augmentation techniques were applied.\n")


@family(
    "labelme_torax_lotes", "organ_segmentation", 2,
    "Segmentar pulmão direito (pulmao_d), pulmão esquerdo (pulmao_e) e coração (coracao) nas radiografias anotadas.",
    notes="labelme JSON beside each picture in batches by annotator; polygons for lungs, heart now a polygon, now a labelme circle (centre and rim point); imageData embedded in some and null in others; Windows paths in imagePath; films "
    "without JSON; overlays in a folder of their own; medical record number in the name, two dates of some.",
    mask_tolerance=0.2,
)
def labelme(b: Build) -> None:
    size = (64, 60)
    turn = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    for n in range(36):
        person = f"{4512 + n % 23 * 11:07d}"
        name = f"PRT{person}_{2020 + n // 23}-{n % 12 + 1:02d}-{n % 27 + 1:02d}_PA"
        root = f"RX_torax/lote_{n % 3 + 1:02d}_{('ana', 'joao', 'lucia')[n % 3]}"
        shapes, masks, image = [], {}, np.full(size, 160.0)
        for label, y, x, ry, rx, look in (("pulmao_d", 30, 14, 19, 8, 65), ("pulmao_e", 30, 46, 19, 8, 70), ("coracao", 40, 30, 6, 6, 215)):
            cy, cx = draw.near(b.rng, y, x, by=1.2)
            ry, rx = ry + b.rng.uniform(-2, 0.5), rx + b.rng.uniform(-2, 0)
            if label == "coracao" and n % 2:
                r = float(min(ry, rx))
                points, kind = [[cx, cy], [cx + r * 0.6, cy + r * 0.8]], "circle"
                mask = draw.ball(size, (cy, cx), r)
            else:
                points, kind = [[round(cx + rx * np.cos(t), 3), round(cy + ry * np.sin(t), 3)] for t in turn], "polygon"
                mask = polygon2mask(size, [(v, u) for u, v in points])
            shapes.append({"label": label, "points": points, "group_id": None, "description": "", "shape_type": kind, "flags": {}})
            masks[label] = mask
            image[mask] = look
        film = draw.u8(gaussian_filter(image, 0.6) + b.rng.normal(0, 6, size))
        path = b.picture(f"{root}/{name}.png", film)
        if n in (4, 11, 26):
            b.truth["left_out"].append(path)
            continue
        data = base64.b64encode((b.folder / path).read_bytes()).decode() if n % 3 == 0 else None
        b.json(f"{root}/{name}.json", {"version": "5.2.1", "flags": {}, "shapes": [shapes[i] for i in b.rng.permutation(3)], "imagePath": f"{name}.png" if n % 3 != 1 else f"..\\lote_02_joao\\{name}.png",
                                       "imageData": data, "imageHeight": size[0], "imageWidth": size[1]}, 2)
        b.case(path, patient=person, mask=masks)
        if n % 5 == 0:
            show = np.repeat(film[..., None], 3, -1)
            show[masks["coracao"]] = (show[masks["coracao"]] // 2 + np.array([100, 0, 0])).astype(np.uint8)
            b.truth["left_out"].append(b.picture(f"RX_torax/visualizacao/{name}_viz.jpg", show))
    b.text("RX_torax/labels.txt", "__ignore__\n_background_\npulmao_d\npulmao_e\ncoracao\n")
    b.text("RX_torax/leia-me.txt", "Anotações feitas no labelme. Cada lote por um anotador. PRT = número do prontuário.\n", "latin-1")


@family(
    "uw_madison_rle", "organ_segmentation", 2,
    "Segment large bowel, small bowel and stomach in each MR slice (2D, slice by slice).",
    notes="RLE in train.csv, three rows a slice, empty where the organ is not there; ids case2_day1_slice_0065 must be joined to train/case2/case2_day1/scans/slice_0065_44_36_1.50_1.50.png; 16-bit pictures, width before height in the "
    "name; several days a case; row-major one-based runs.",
)
def uw(b: Build) -> None:
    rows = []
    h, w = 36, 44
    for c in range(12):
        case = f"case{(2, 7, 9, 15, 22, 33, 41, 77, 101, 118, 123, 154)[c]}"
        for day in sorted(int(v) for v in b.rng.choice(30, 2, replace=False)):
            for z in sorted(int(v) for v in b.rng.choice(np.arange(40, 120), 2, replace=False)):
                image = np.zeros((h, w))
                image[draw.ball((h, w), (18, 22), (16, 20))] = 300
                free = np.ones((h, w), bool)
                masks = {}
                bare = (c + z) % 9 == 0
                for organ, y, x, r, look, odds in (("stomach", 11, 30, (5, 7), 900, 0.8), ("large_bowel", 18, 9, (8, 3.5), 650, 0.9), ("small_bowel", 25, 25, (5, 8), 480, 0.85)):
                    there = not bare and b.rng.random() < odds
                    masks[organ] = draw.ball((h, w), draw.near(b.rng, y, x), r) & free if there else np.zeros((h, w), bool)
                    free &= ~masks[organ]
                    image[masks[organ]] = look
                path = f"uw-madison-gi-tract-image-segmentation/train/{case}/{case}_day{day}/scans/slice_{z:04d}_{w}_{h}_1.50_1.50.png"
                b.picture(path, np.clip(gaussian_filter(image, 0.6) * 12 + b.rng.normal(0, 200, (h, w)), 0, 65535).astype(np.uint16))
                for organ in ("large_bowel", "small_bowel", "stomach"):
                    flat = np.concatenate([[0], masks[organ].ravel().astype(int), [0]])
                    edge = np.flatnonzero(np.diff(flat))
                    runs = " ".join(f"{s + 1} {e - s}" for s, e in zip(edge[::2], edge[1::2], strict=True))
                    rows.append([f"{case}_day{day}_slice_{z:04d}", organ, runs])
                b.case(path, patient=case, mask={k: masks[k] for k in ("large_bowel", "small_bowel", "stomach")})
    b.csv("uw-madison-gi-tract-image-segmentation/train.csv", ["id", "class", "segmentation"], rows)
    b.csv("uw-madison-gi-tract-image-segmentation/sample_submission.csv", ["id", "class", "predicted"], [])
    b.text("uw-madison-gi-tract-image-segmentation/data_description.md", "Annotations are RLE-encoded masks: pairs of start and run length, pixels one-indexed, numbered from left to right, then top to bottom. "
           "An empty segmentation means that the organ is not on the slice. File names hold slice number, width, height and pixel spacing.\n")


@family(
    "busbra_renamed_masks", "anomaly_detection", 2,
    "Segment the breast lesions in the ultrasound pictures.",
    notes="Images/bus_0001-l.png and Masks/mask_0001-l.png: the prefix differs; patient is Case in bus_data.csv (several numbers may be one patient); pathology, BI-RADS, boxes and two cross-validation tables beside.",
)
def busbra(b: Build) -> None:
    rows, folds = [], []
    for n in range(1, 23):
        case = n if n % 7 else n - 1
        for side in ("l", "r", "lr")[n % 3]:
            h, w = int(b.rng.integers(44, 56)), int(b.rng.integers(50, 64))
            image = np.full((h, w), 110.0)
            image[: h // 8] = 160
            mask = draw.ball((h, w), draw.near(b.rng, h * 0.5, w * 0.5, by=6), b.rng.uniform(6, 12, 2))
            image[mask] = 30
            ident = f"{n:04d}-{side}"
            path = b.picture(f"BUSBRA/Images/bus_{ident}.png", draw.u8(gaussian_filter(image, 0.6) * b.rng.gamma(6, 1 / 6, (h, w))))
            b.picture(f"BUSBRA/Masks/mask_{ident}.png", mask.astype(np.uint8) * 255)
            y, x = np.nonzero(mask)
            bad = bool(b.rng.random() < 0.4)
            rows.append([f"bus_{ident}", case, b.pick("Fibroadenoma", "Cyst") if not bad else "Invasive ductal carcinoma", "malignant" if bad else "benign", 5 if bad else 3, "GE Logiq 7", w, h,
                         "left" if side == "l" else "right", f"[{x.min()},{y.min()},{x.max() - x.min()},{y.max() - y.min()}]"])
            folds.append([f"bus_{ident}", case, n % 5 + 1])
            b.case(path, patient=str(case), mask={"lesion": mask})
    b.csv("BUSBRA/bus_data.csv", ["ID", "Case", "Histology", "Pathology", "BIRADS", "Device", "Width", "Height", "Side", "BBOX"], rows)
    b.csv("BUSBRA/5-fold-cv.csv", ["ID", "Case", "kFold"], folds)
    b.csv("BUSBRA/10-fold-cv.csv", ["ID", "Case", "kFold"], [[i, c, c % 10 + 1] for i, c, _ in folds])
    b.text("BUSBRA/README.txt", "BUS-BRA: breast ultrasound. Case is the number of the patient; one patient may have several images.\n")


@family(
    "bids_ms_derivatives", "anomaly_detection", 3,
    "Segment the MS lesions on FLAIR. Use the manual masks.",
    notes="BIDS with sessions; T1w and FLAIR with JSON sidecars; three derivatives: manual lesions, automatic lesions (LST) and brain masks, all ending in _mask; sessions without a manual mask; T1w not asked; "
    "participants.tsv and sessions.tsv.",
)
def bids(b: Build) -> None:
    root = "ds004211"
    people = [["participant_id", "age", "sex", "disease_type"]]
    for n in range(1, 16):
        sub = f"sub-{n:02d}"
        people.append([sub, 25 + n, "FM"[n % 2], b.pick("RRMS", "SPMS", "n/a")])
        visits = [["session_id", "acq_date"]]
        for ses in ("ses-01", "ses-02"):
            visits.append([ses, f"201{n % 9}-0{n % 9 + 1}-1{n % 9}"])
            brain = draw.brain(b.rng, 0.3, (26, 30, 16))
            lesion = np.zeros(brain.shape, bool)
            for _ in range(int(b.rng.integers(2, 6))):
                lesion |= draw.ball(brain.shape, draw.near(b.rng, b.pick(8, 18), 15, 8, by=4), b.rng.uniform(1.2, 2.4)) & (brain > 550)
            flair = np.where(brain > 300, 330.0, brain)
            flair[lesion] = 780
            stem = f"{sub}_{ses}"
            affine = np.diag([6.0, 6, 8, 1])
            b.nifti(f"{root}/{sub}/{ses}/anat/{stem}_T1w.nii.gz", np.where(lesion, 450, brain) + b.rng.normal(0, 12, brain.shape), affine)
            b.json(f"{root}/{sub}/{ses}/anat/{stem}_T1w.json", {"MagneticFieldStrength": 3, "RepetitionTime": 2.3, "SeriesDescription": "t1_mprage"}, 2)
            path = b.nifti(f"{root}/{sub}/{ses}/anat/{stem}_FLAIR.nii.gz", flair + b.rng.normal(0, 14, brain.shape), affine)
            b.json(f"{root}/{sub}/{ses}/anat/{stem}_FLAIR.json", {"MagneticFieldStrength": 3, "RepetitionTime": 5, "EchoTime": 0.39, "SeriesDescription": "t2_space_flair"}, 2)
            b.nifti(f"{root}/derivatives/lst/{sub}/{ses}/anat/{stem}_space-FLAIR_label-lesion_desc-lst_mask.nii.gz", np.roll(lesion, 1, 1) & (b.rng.random(brain.shape) < 0.9), affine, np.uint8)
            b.nifti(f"{root}/derivatives/hdbet/{sub}/{ses}/anat/{stem}_space-FLAIR_desc-brain_mask.nii.gz", draw.ball(brain.shape, draw.near(b.rng, 13, 15, 8, by=1), np.array(brain.shape) * 0.42), affine, np.uint8)
            if (n, ses) in ((4, "ses-02"), (11, "ses-02"), (13, "ses-01")):
                b.truth["left_out"].append(path)
                continue
            b.nifti(f"{root}/derivatives/manual_masks/{sub}/{ses}/anat/{stem}_space-FLAIR_label-lesion_mask.nii.gz", lesion, affine, np.uint8)
            b.case(path, patient=sub, mask={"lesion": lesion})
        tsv(b, f"{root}/{sub}/{sub}_sessions.tsv", visits)
    tsv(b, f"{root}/participants.tsv", people)
    b.json(f"{root}/dataset_description.json", {"Name": "MS longitudinal", "BIDSVersion": "1.8.0", "DatasetType": "raw"})
    for name, by in (("lst", "LST-AI"), ("hdbet", "HD-BET"), ("manual_masks", "neuroradiologist")):
        b.json(f"{root}/derivatives/{name}/dataset_description.json", {"Name": name, "BIDSVersion": "1.8.0", "DatasetType": "derivative", "GeneratedBy": [{"Name": by}]})
    b.text(f"{root}/README", "Longitudinal MS cohort. Manual lesion masks were drawn on FLAIR; not all sessions are segmented yet.\n")
    b.text(f"{root}/CHANGES", "1.0.1 2022-10-03\n - fixed sidecars\n")
    b.text(f"{root}/.bidsignore", "*_log.txt\n")
