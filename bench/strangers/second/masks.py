"""Of the second set: segmentation and anomalies."""

import json
import zipfile
from typing import Any

import numpy as np
from PIL import Image
from skimage.draw import polygon2mask

from bench.strangers import draw
from bench.strangers.build import COLOUR, Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "acdc_frames_and_4d", "organ_segmentation", 3,
    "Segment the heart in the ED and ES frames: right ventricle (1), myocardium (2), left ventricle (3).",
    notes="Masks beside the frames with _gt; the cine 4D file of each patient is no case; frame numbers differ and stand in Info.cfg; "
    "training and testing; diagnosis groups in Info.cfg are not asked.",
)
def acdc(b: Build) -> None:
    for n in range(1, 16):
        split = "training" if n <= 11 else "testing"
        person = f"patient{n if n <= 11 else n + 90:03d}"
        root = f"ACDC/database/{split}/{person}"
        shape = (36, 40, 8)
        es = int(b.rng.integers(7, 13))
        cine = []
        mid = draw.near(b.rng, 17, 20, 4)[:2] + [4]
        for frame, r in ((1, 7.0), (es, 4.5)):
            lv = draw.ball(shape, mid, (r, r, 5))
            myo = draw.ball(shape, mid, (r + 3, r + 3, 6)) & ~lv
            rv = draw.ball(shape, (mid[0] + r + 6, mid[1], 4), (r, r + 2, 5)) & ~lv & ~myo
            image = np.full(shape, 90.0)
            for part, value in ((lv, 260), (myo, 40), (rv, 220)):
                image[part] = value
            image += b.rng.normal(0, 12, shape)
            label = (1 * rv + 2 * myo + 3 * lv).astype(np.uint8)
            affine = np.diag([1.56, 1.56, 10.0, 1.0])
            path = b.nifti(f"{root}/{person}_frame{frame:02d}.nii.gz", image, affine)
            b.nifti(f"{root}/{person}_frame{frame:02d}_gt.nii.gz", label, affine, np.uint8)
            b.case(path, patient=person, mask={"right ventricle": rv, "myocardium": myo, "left ventricle": lv}, split={"training": "train", "testing": "test"}[split])
            cine += [image] * 3
        b.truth["left_out"].append(b.nifti(f"{root}/{person}_4d.nii.gz", np.stack(cine, -1), np.diag([1.56, 1.56, 10.0, 1.0])))
        b.text(f"{root}/Info.cfg", f"ED: 1\nES: {es}\nGroup: {b.pick('DCM', 'HCM', 'NOR')}\nHeight: 17{n % 10}.0\nNbFrame: 6\nWeight: 8{n % 10}.0\n")
        b.text(f"{root}/MANDATORY_CITATION.md", "O. Bernard, A. Lalande, C. Zotti, et al., IEEE TMI 2018\n")


@family(
    "itksnap_japanese_labels", "organ_segmentation", 3,
    "CTの肝臓・脾臓・右腎をセグメンテーションしたい。_seg_final のマスクを使うこと。",
    notes="Folders by initials, number and date under a Japanese folder; .nii and .nii.gz mixed; label values 2, 5 and 6 named only in an ITK-SNAP "
    "label file in Japanese; draft segmentations (_seg_v1) and .itksnap workspaces beside the final ones; one scan without a final mask.",
)
def itksnap(b: Build) -> None:
    names = {2: "肝臓", 5: "脾臓", 6: "右腎"}
    lines = ["#" * 48, "# ITK-SnAP Label Description File", "# File format:", "# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL", "#" * 48,
             '    0     0    0    0        0  0  0    "Clear Label"', '    2   221  130  101        1  1  1    "肝臓"',
             '    5   157  108  162        1  1  1    "脾臓"', '    6   185  102   83      0.6  1  1    "右腎"']
    b.text("腹部CT_2021/labels_腹部.txt", "\n".join(lines) + "\n")
    for n in range(26):
        who = n % 17
        person = f"{'ABCDEFGHKMNSTYWRI'[who]}{'KMSTH'[who % 5]}{400 + who * 7:04d}"
        date = f"20{20 + n // 17}{who % 12 + 1:02d}{n % 27 + 1:02d}"
        root = f"腹部CT_2021/{person}_{date}"
        shape = (40, 34, 12)
        liver = draw.ball(shape, draw.near(b.rng, 12, 15, 6), (8, 8, 5))
        spleen = draw.ball(shape, draw.near(b.rng, 32, 20, 6), (4, 5, 3)) & ~liver
        kidney = draw.ball(shape, draw.near(b.rng, 13, 27, 5), (4, 3, 4)) & ~liver
        image = np.full(shape, -1000.0)
        image[draw.ball(shape, (20, 17, 6), (19, 16, 50))] = 10
        for part, value in ((liver, 110), (spleen, 150), (kidney, 210)):
            image[part] = value
        image += b.rng.normal(0, 12, shape)
        label = (2 * liver + 5 * spleen + 6 * kidney).astype(np.uint8)
        ends = ".nii" if n % 3 == 0 else ".nii.gz"
        path = b.nifti(f"{root}/{person}_造影CT{ends}", image)
        draft = np.roll(label, 3, 0)
        if n % 4 == 0:
            b.nifti(f"{root}/{person}_seg_v1.nii.gz", draft, dtype=np.uint8)
        if n == 8:
            b.truth["left_out"].append(path)
            continue
        b.nifti(f"{root}/{person}_seg_final{'.nii.gz' if n % 5 else '.nii'}", label, dtype=np.uint8)
        b.text(f"{root}/{person}.itksnap", f'<?xml version="1.0" encoding="UTF-8" ?>\n<!--ITK-SNAP (itksnap.org) Project File-->\n<registry>\n <entry key="Version" value="20190612" />\n'
               f' <folder key="Layers">\n  <folder key="Layer[000]" >\n   <entry key="AbsolutePath" value="D:\\seg\\{person}_造影CT{ends}" />\n  </folder>\n </folder>\n</registry>\n')
        b.case(path, patient=person, mask={names[v]: label == v for v in names})


@family(
    "chase_two_observers", "organ_segmentation", 2,
    "Segment the retinal vessels, by the first human observer (1stHO).",
    notes="Pictures and two observers' masks in one flat folder, told apart by suffix and by JPG against PNG; 1-bit masks; left and right eye of each "
    "child (01L, 01R); a script and a PDF beside them.",
)
def chase(b: Build) -> None:
    for n in range(1, 15):
        for side in "LR":
            size = (60, 64)
            disc = draw.ball(size, (30, 32), 28)
            vessel = np.zeros(size, bool)
            for _ in range(5):
                vessel |= draw.curve(b.rng, size, 0.9)
            vessel &= disc
            image = np.zeros((*size, 3))
            image[disc] = (170, 75, 35)
            image[vessel] = (105, 25, 18)
            name = f"CHASEDB1/Image_{n:02d}{side}"
            b.picture(name + ".jpg", draw.u8(image + b.rng.normal(0, 5, image.shape)), quality=95)
            other = vessel | np.roll(vessel, 1, 0)
            for tag, mask in (("1st", vessel), ("2nd", other)):
                Image.fromarray(mask).save(b.at(f"{name}_{tag}HO.png"))
            b.case(name + ".jpg", patient=f"{n:02d}", mask={"vessel": vessel}, channels=COLOUR)
    b.text("CHASEDB1/evaluate.m", "function acc = evaluate(seg, gt)\nacc = mean(seg(:) == gt(:));\nend\n")
    b.raw("CHASEDB1/CHASE_DB1_description.pdf", b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n")


@family(
    "cholecseg_three_masks", "organ_segmentation", 2,
    "Segment the laparoscopic frames into the classes of the class table; the watershed masks hold the ids.",
    notes="Three masks a frame (tool mask with white contours, colour mask, watershed mask as grey RGB with ids 11, 12, 21, 22, 31); the table in the "
    "README gives id and colour; background id 50 not 0; patient is the video, clips as folders below.",
)
def cholec(b: Build) -> None:
    classes = {11: ("Abdominal Wall", (210, 140, 140)), 21: ("Liver", (255, 114, 114)), 12: ("Fat", (186, 183, 75)),
               22: ("Gallbladder", (255, 160, 165)), 31: ("Grasper", (170, 255, 0))}
    looks = {50: (8, 8, 8), 11: (190, 110, 95), 21: (130, 45, 40), 12: (215, 190, 90), 22: (120, 140, 95), 31: (170, 175, 185)}
    table = ["| Class | Name | RGB of color mask | Watershed value |", "|---|---|---|---|", "| 0 | Black Background | 127,127,127 | 50 |"]
    table += [f"| {k + 1} | {name} | {','.join(map(str, rgb))} | {v} |" for k, (v, (name, rgb)) in enumerate(classes.items())]
    b.text("README.md", "# CholecSeg8k (subset)\n\nEach frame has a raw image, an annotation mask, a color mask and a watershed mask.\n\n" + "\n".join(table) + "\n")
    size = (48, 80)
    for v in range(12):
        video = f"video{(1, 9, 12, 17, 18, 20, 24, 25, 26, 27, 28, 35)[v]:02d}"
        start = int(b.rng.integers(1, 200)) * 80
        for k in range(3):
            ids = np.full(size, 50)
            view = draw.ball(size, (24, 40), (23, 38))
            ids[view] = 11
            ids[view & (np.arange(48)[:, None] > b.rng.uniform(22, 28))] = 21
            ids[draw.ball(size, draw.near(b.rng, 38, 55, by=3), (6, 14)) & view] = 12
            ids[draw.ball(size, draw.near(b.rng, 27, 38, by=4), (7, 10)) & view] = 22
            if k != 1:
                ids[20 : 20 + 4, 50:80] = np.where(view[20:24, 50:80], 31, 50)
            frame = f"{video}/{video}_{start:05d}/frame_{start + k}_endo"
            colour, image = np.full((*size, 3), 127, np.uint8), np.zeros((*size, 3))
            for i, look in looks.items():
                image[ids == i] = look
                if i != 50:
                    colour[ids == i] = classes[i][1]
            edge = (np.roll(ids, 1, 0) != ids) | (np.roll(ids, 1, 1) != ids)
            b.picture(frame + ".png", draw.u8(image + b.rng.normal(0, 6, image.shape)))
            b.picture(frame + "_color_mask.png", colour)
            b.picture(frame + "_watershed_mask.png", np.repeat(ids[..., None], 3, -1).astype(np.uint8))
            b.picture(frame + "_mask.png", np.repeat(np.where(edge, 255, ids)[..., None], 3, -1).astype(np.uint8))
            b.case(frame + ".png", patient=video, mask={name: ids == i for i, (name, _) in classes.items()}, channels=COLOUR)


@family(
    "bmad_good_ungood", "anomaly_detection", 2,
    "Find brain tumours as anomalies in the slices: train on the good ones, tumour masks are in the label folders.",
    notes="train/good without img folder, valid and test with good and Ungood, each img and label; labels of good ones are all black; the masks keep the "
    "picture's name; patient is the number before the underscore and crosses good and Ungood.",
)
def bmad(b: Build) -> None:
    def slice_(sick: bool) -> tuple[np.ndarray, np.ndarray]:
        s = (60, 60)
        image = np.zeros(s)
        image[draw.ball(s, (30, 30), (26, 21))] = 120
        for x in (26, 34):
            image[draw.ball(s, draw.near(b.rng, 30, x, by=1), (6, 2))] = 50
        mask = draw.ball(s, draw.near(b.rng, 30, 30, by=11), b.rng.uniform(4, 7)) if sick else np.zeros(s, bool)
        image[mask] = 225
        return draw.u8(image + b.rng.normal(0, 6, s)), mask

    plan = [("train", "good", False, 18, 0), ("valid", "good", False, 5, 3), ("valid", "Ungood", True, 6, 12), ("test", "good", False, 6, 4), ("test", "Ungood", True, 11, 14)]
    for split, kind, sick, count, first in plan:
        for n in range(count):
            person = f"{(n + first) % 16 if split == 'train' else (20 if split == 'valid' else 40) + n % (3 if split == 'valid' else 5):05d}"
            name = f"{person}_{60 + n + first}.png"
            image, mask = slice_(sick)
            if split == "train":
                path = b.picture(f"Brain_AD/train/good/{name}", image)
            else:
                path = b.picture(f"Brain_AD/{split}/{kind}/img/{name}", image)
                b.picture(f"Brain_AD/{split}/{kind}/label/{name}", mask.astype(np.uint8) * 255)
            b.case(path, patient=person, mask={"tumor": mask}, split={"train": "train", "valid": "val", "test": "test"}[split])


@family(
    "atlas_stroke_t1", "anomaly_detection", 3,
    "Detect chronic stroke lesions in the T1w scans.",
    notes="BIDS-like names with the entities of the derivative (space-MNI..., label-L_desc-T1lesion_mask) beside the T1w; cohort folders; metadata workbook with "
    "counts of strokes; a second session of some; Testing has no masks; dataset_description.json.",
)
def atlas(b: Build) -> None:
    rows: list[list[Any]] = []
    space = "space-MNI152NLin2009aSym"
    for n in range(27):
        train = n < 22
        site = f"R{(1, 3, 5, 9)[n % 4] if train else 34:03d}"
        person = f"sub-{site.lower()}s{n + 1:03d}"
        for ses in (1, 2) if n % 6 == 0 and train else (1,):
            image = draw.brain(b.rng)
            lesion = draw.ball(image.shape, draw.near(b.rng, b.pick(10, 20), 18, 14, by=4), b.rng.uniform(2.5, 4.5)) & (image > 300)
            image[lesion] = 150 + b.rng.normal(0, 15, int(lesion.sum()))
            stem = f"ATLAS_2/{'Training' if train else 'Testing'}/{site}/{person}/ses-{ses}/anat/{person}_ses-{ses}_{space}"
            path = b.nifti(stem + "_T1w.nii.gz", image, np.diag([5.0, 5, 5, 1]), np.float32)
            if train:
                b.nifti(stem + "_label-L_desc-T1lesion_mask.nii.gz", lesion, np.diag([5.0, 5, 5, 1]), np.uint8)
                b.case(path, patient=person, mask={"lesion": lesion})
                rows.append([site, person, f"ses-{ses}", 1, 0, b.pick("L", "R"), b.pick("Subcortical", "Cortical"), int(b.rng.integers(30, 80))])
            else:
                b.truth["left_out"].append(path)
    b.json("ATLAS_2/Training/dataset_description.json", {"Name": "ATLAS", "BIDSVersion": "1.6.0"})
    b.json("ATLAS_2/Testing/dataset_description.json", {"Name": "ATLAS", "BIDSVersion": "1.6.0"})
    b.xlsx("ATLAS_2/20220425_ATLAS_2.0_MetaData.xlsx", {"Dataset_v2": [["Site", "Subject ID", "Session", "Number of Strokes LH", "Number of Strokes RH", "Primary Stroke Hemisphere", "Primary Stroke Location", "Age"], *rows]})


@family(
    "picai_public_folds", "anomaly_detection", 3,
    "Detect clinically significant prostate cancer (csPCa) on T2w, ADC and high-b-value scans. Use the human expert delineations; any value of 2 or more is a lesion.",
    notes="Three .mha a study (_t2w, _adc, _hbv) plus sagittal and coronal T2 that are not wanted, spread over five fold folders; masks .nii.gz in a parallel "
    "repository tree under the study's name, with ISUP grades as values and many empty; AI masks and gland masks beside; marksheet with several studies a patient.",
)
def picai(b: Build) -> None:
    rows = []
    geometry = {"spacing": (0.5, 0.5, 3.0)}
    study = 1000000
    for p in range(20):
        person = str(10000 + p * 3)
        for _ in range(2 if p % 3 == 0 else 1):
            study += int(b.rng.integers(1, 20))
            shape = (40, 40, 10)
            gland = draw.ball(shape, draw.near(b.rng, 20, 20, 5, by=1), (13, 11, 4.5))
            sick = (p + study) % 5 < 3
            lesion = draw.ball(shape, draw.near(b.rng, b.pick(14, 26), 24, 5, by=2), (4, 4, 2)) & gland if sick else np.zeros(shape, bool)
            isup = int(b.rng.integers(2, 6))
            t2, adc, hbv = np.full(shape, 200.0), np.full(shape, 900.0), np.full(shape, 30.0)
            t2[gland], adc[gland], hbv[gland] = 420, 1500, 50
            t2[lesion], adc[lesion], hbv[lesion] = 230, 600, 160
            root = f"input/images/picai_public_images_fold{p % 5}/{person}/{person}_{study}"
            files = [b.itk(f"{root}_{name}.mha", (a + b.rng.normal(0, s, shape)).clip(0).astype(np.int16), **geometry)
                     for name, a, s in (("t2w", t2, 20), ("adc", adc, 60), ("hbv", hbv, 6))]
            for name in ("sag", "cor"):
                b.itk(f"{root}_{name}.mha", (t2[:, ::2, ::2] + b.rng.normal(0, 20, t2[:, ::2, ::2].shape)).clip(0).astype(np.int16), (0.5, 1.0, 6.0))
            labels = "input/picai_labels"
            for where, mask in (("csPCa_lesion_delineations/human_expert/resampled", lesion * isup), ("csPCa_lesion_delineations/AI/Bosma22a", np.roll(lesion, 2, 0)),
                                ("anatomical_delineations/whole_gland/AI/Bosma22b", gland)):
                b.itk(f"{labels}/{where}/{person}_{study}.nii.gz", mask.astype(np.uint8), **geometry)
            rows.append([person, study, "2019-07-02", 60 + p, "6.1", "" if p % 4 else "0.12", 55, "YES" if sick else "NO", isup if sick else ""])
            b.case(files, patient=person, mask={"csPCa": lesion}, channels=3)
    b.csv("input/picai_labels/clinical_information/marksheet.csv", ["patient_id", "study_id", "mri_date", "patient_age", "psa", "psad", "prostate_volume", "case_csPCa", "case_ISUP"], rows)
    b.text("input/picai_labels/README.md", "Expert-derived annotations: 0 = background or indolent, 2-5 = csPCa with that ISUP grade.\n")


@family(
    "ddti_svg_in_xml", "anomaly_detection", 2,
    "Segment the thyroid nodules outlined in the XML of each case.",
    notes="One XML a patient (7.xml) for several pictures (7_1.jpg, 7_2.jpg); each mark names the picture number and holds JSON with a freehand polygon inside <svg>; "
    "sometimes two nodules a picture or two marks for it; all in one flat folder with the archive they came from.",
    mask_tolerance=0.2,
)
def ddti(b: Build) -> None:
    size = (60, 72)
    for n in range(1, 19):
        case = n * 4 + n % 3
        marks = []
        for k in range(1, 3 if n % 2 else 4):
            image = 70 + b.rng.normal(0, 1, size) * 14
            image[:12] = 130
            full, shapes = np.zeros(size, bool), []
            for j in range(2 if (n + k) % 5 == 0 else 1):
                cy, cx = draw.near(b.rng, 35, 22 + 28 * j + (0 if (n + k) % 5 == 0 else 12), by=3)
                ry, rx = b.rng.uniform(6, 11), b.rng.uniform(7, 11)
                turn = np.linspace(0, 2 * np.pi, 48, endpoint=False)
                shapes.append({"points": [{"x": int(round(cx + rx * np.cos(t))), "y": int(round(cy + ry * np.sin(t)))} for t in turn],
                               "annotation": {"shapes": []}, "regionType": "freehand"})
                full |= polygon2mask(size, [(p["y"], p["x"]) for p in shapes[-1]["points"]])
            image[full] = 25 + b.rng.normal(0, 8, int(full.sum()))
            path = b.picture(f"thyroid/{case}_{k}.jpg", np.repeat(draw.u8(image)[..., None], 3, -1), quality=90)
            b.case(path, patient=str(case), mask={"nodule": full}, channels=COLOUR)
            for part in ([shapes] if len(shapes) == 1 or n % 2 else [[s] for s in shapes]):
                marks.append(f"<mark><image>{k}</image><svg>{json.dumps(part, separators=(',', ':'))}</svg></mark>")
        b.text(f"thyroid/{case}.xml", f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<case><number>{case}</number><age>{30 + n}</age><sex>F</sex>'
               f"<composition>solid</composition><echogenicity>hypoechogenicity</echogenicity><margins>well defined smooth</margins>"
               f"<calcifications>non</calcifications><tirads>{b.pick('2', '4a', '5', '')}</tirads>{''.join(marks)}</case>")
    with zipfile.ZipFile(b.at("thyroid/thyroid_readme.zip"), "w") as pack:
        pack.writestr(zipfile.ZipInfo("readme.txt"), "DDTI: Thyroid Ultrasound Images, Universidad Nacional de Colombia")
