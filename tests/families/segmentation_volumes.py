"""Segmentation of volumes in the layouts of challenges, tools and hospitals."""

import json

import nibabel
import numpy as np
import SimpleITK as sitk

from .base import APPLE_DOUBLE, Build, family, lps
from .volumes import abdomen, brain, chest_ct, label_map

ORGANS = ("liver", "spleen", "right kidney", "left kidney")


@family(
    "nnunet_raw",
    "organ_segmentation",
    3,
    "Segment tumour core and ventricles, T2 + T1ce, data is in nnU-Net format",
    notes="_0000 and _0001 are channels named in dataset.json; imagesTs has no labels; values 1 and 2 by dataset.json",
    patients_known=False,
)
def nnunet_raw(b: Build) -> None:
    root = "Dataset501_Brain"
    for i in range(1, 31):
        images, masks = brain(b.rng, b.pick("HGG", "LGG"))
        part = "Tr" if i <= 25 else "Ts"
        files = [
            b.nifti(f"{root}/images{part}/BR_{i:03d}_{c:04d}.nii.gz", images[s]) for c, s in enumerate(("T2", "T1ce"))
        ]
        if part == "Ts":
            continue
        ventricles = masks["ventricles"] & ~masks["core"]
        parts = {"core": masks["core"], "ventricles": ventricles}
        b.nifti(f"{root}/labelsTr/BR_{i:03d}.nii.gz", label_map(parts, "core", "ventricles"), dtype=np.uint8)
        b.case(files, mask=parts, channels=2, channel_names=["T2", "T1ce"])
    b.json(
        f"{root}/dataset.json",
        {
            "channel_names": {"0": "T2", "1": "T1ce"},
            "labels": {"background": 0, "core": 1, "ventricles": 2},
            "numTraining": 25,
            "file_ending": ".nii.gz",
        },
    )


@family(
    "msd_decathlon",
    "organ_segmentation",
    3,
    "spleen segmentation on portal venous CT",
    notes="dataset.json lists pairs with ./ paths and label names; ._ files of a Mac beside every volume",
    patients_known=False,
)
def msd_decathlon(b: Build) -> None:
    root, pairs, tests = "Task09_Spleen", [], []
    for i in range(30):
        volume, masks = abdomen(b.rng)
        name = f"spleen_{2 + 3 * i}.nii.gz"
        part = "Tr" if i % 5 else "Ts"
        b.nifti(f"{root}/images{part}/{name}", volume)
        b.raw(f"{root}/images{part}/._{name}", APPLE_DOUBLE)
        if part == "Ts":
            tests.append(f"./imagesTs/{name}")
            continue
        b.nifti(f"{root}/labelsTr/{name}", masks["spleen"], dtype=np.uint8)
        b.raw(f"{root}/labelsTr/._{name}", APPLE_DOUBLE)
        b.case(f"{root}/imagesTr/{name}", mask={"spleen": masks["spleen"]})
        pairs.append({"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"})
    b.json(
        f"{root}/dataset.json",
        {
            "name": "Spleen",
            "tensorImageSize": "3D",
            "modality": {"0": "CT"},
            "labels": {"0": "background", "1": "spleen"},
            "numTraining": len(pairs),
            "numTest": len(tests),
            "training": pairs,
            "test": tests,
        },
    )
    b.raw(f"{root}/._dataset.json", APPLE_DOUBLE)


@family(
    "suffix_pairs",
    "organ_segmentation",
    3,
    "auto-contour the liver in our CTs, files are patXX_img / patXX_seg",
    notes="image and mask share a flat folder; one image without mask, one mask without image; uncompressed .nii",
)
def suffix_pairs(b: Build) -> None:
    for i in range(1, 29):
        volume, masks = abdomen(b.rng)
        if i != 14:
            b.nifti(f"pat{i:02d}_img.nii", volume)
        if i != 9:
            b.nifti(f"pat{i:02d}_seg.nii", masks["liver"], dtype=np.uint8)
        if i not in (9, 14):
            b.case(f"pat{i:02d}_img.nii", patient=f"pat{i:02d}", mask={"liver": masks["liver"]})
        else:
            b.truth["left_out"].append({"patient": f"pat{i:02d}", "why": "mask or image is missing"})
    b.clutter("mac", "preview")


@family(
    "file_per_structure",
    "organ_segmentation",
    3,
    "Multi-organ segmentation: liver, spleen and both kidneys (CT)",
    notes="a folder a patient with a binary file a structure; a file of zeros means absent; "
    "meta.csv holds official splits",
)
def file_per_structure(b: Build) -> None:
    rows = []
    for i in range(25):
        volume, masks = abdomen(b.rng)
        if i % 8 == 3:
            hole = masks["left kidney"]
            volume[hole] = b.rng.normal(0, 15, int(hole.sum())).astype(np.int16)
            masks["left kidney"] = np.zeros_like(hole)
        name, split = f"s{17 * i:04d}", ("train", "train", "train", "val", "test")[i % 5]
        b.nifti(f"{name}/ct.nii.gz", volume)
        for organ in ORGANS:
            side = {"right kidney": "kidney_right", "left kidney": "kidney_left"}.get(organ, organ)
            b.nifti(f"{name}/segmentations/{side}.nii.gz", masks[organ], dtype=np.uint8)
        counts = {{"right kidney": "kidney_right", "left kidney": "kidney_left"}.get(k, k): masks[k] for k in ORGANS}
        b.case(f"{name}/ct.nii.gz", patient=name, mask=counts, split=split)
        rows.append((name, b.pick("m", "f"), int(b.rng.integers(20, 90)), "ct abdomen", split))
    b.csv("meta.csv", ("image_id", "gender", "age", "study_type", "split"), rows, sep=";")


@family(
    "volume_segmentation_names",
    "anomaly_detection",
    3,
    "liver tumours in CT, find and outline them",
    notes="volume-12.nii with segmentation-12.nii; 0/1/2 explained in a README only; the request means tumours alone",
    patients_known=False,
)
def volume_segmentation_names(b: Build) -> None:
    for i in range(26):
        volume, masks = abdomen(b.rng, tumour=i % 4 != 0)
        masks["liver"] &= ~masks["tumour"]
        b.nifti(f"batch{1 + i // 13}/segmentation-{i}.nii", label_map(masks, "liver", "tumour"), dtype=np.uint8)
        parts = {k: masks[k] for k in ("liver", "tumour")}
        b.case(b.nifti(f"batch{1 + i // 13}/volume-{i}.nii", volume), mask=parts)
    b.text("README.md", "Values in segmentation-*.nii: 0 background, 1 liver, 2 tumour\n")


@family(
    "slicer_seg_nrrd",
    "organ_segmentation",
    3,
    "3D Slicer segmentations: liver + spleen. train me something",
    notes="*.seg.nrrd whose header says which value is which segment, and the order differs from patient to patient",
)
def slicer_seg_nrrd(b: Build) -> None:
    for i in range(1, 26):
        volume, masks = abdomen(b.rng)
        name = f"Patient {i}"
        b.itk(f"{name}/CT.nrrd", volume)
        order = ("Liver", "Spleen") if i % 3 else ("Spleen", "Liver")
        parts = {"Liver": masks["liver"], "Spleen": masks["spleen"]}
        image = sitk.GetImageFromArray(np.ascontiguousarray(label_map(parts, *order).T))
        image.SetSpacing((1.5, 1.5, 3.0))
        image.SetOrigin((-120.0, -110.5, 37.5))
        for n, segment in enumerate(order):
            for key, value in (
                ("Name", segment),
                ("ID", f"Segment_{n + 1}"),
                ("LabelValue", str(n + 1)),
                ("Layer", "0"),
            ):
                image.SetMetaData(f"Segment{n}_{key}", value)
        sitk.WriteImage(image, str(b.at(f"{name}/Segmentation.seg.nrrd")), True)
        b.text(f"{name}/scene.mrml", '<MRML version="Slicer4.4.0"></MRML>\n')
        b.case(f"{name}/CT.nrrd", patient=name, mask=parts)


@family(
    "masks_other_axes",
    "organ_segmentation",
    3,
    "Leber-Segmentierung im CT, Masken wurden mit anderer Software gemacht",
    notes="the mask lies on the image's lattice but with axes turned and flipped in the file; only the affine tells",
)
def masks_other_axes(b: Build) -> None:
    for i in range(1, 26):
        volume, masks = abdomen(b.rng)
        b.nifti(f"ct/K{i:03d}.nii.gz", volume)
        image = nibabel.Nifti1Image(masks["liver"].astype(np.uint8), lps())
        wish = b.pick("RAS", "PIR", "SAL", "LPI")
        turned = image.as_reoriented(
            nibabel.orientations.ornt_transform(
                nibabel.io_orientation(image.affine), nibabel.orientations.axcodes2ornt(wish)
            )
        )
        b.at(f"leber/K{i:03d}_Leber.nii.gz")
        nibabel.save(turned, b.folder / f"leber/K{i:03d}_Leber.nii.gz")
        b.case(f"ct/K{i:03d}.nii.gz", patient=f"K{i:03d}", mask={"leber": masks["liver"]})


@family(
    "masks_float64",
    "organ_segmentation",
    3,
    "kidney segmentation (left+right separately)",
    notes="masks are float64, a few with 0.9999999, a few int16 with slope 0.5; some images have a 4th axis of 1",
)
def masks_float64(b: Build) -> None:
    for i in range(1, 25):
        volume, masks = abdomen(b.rng)
        values = label_map(masks, "left kidney", "right kidney").astype(np.float64)
        if i % 3 == 0:
            values *= 0.9999999
        path = f"Case{i:05d}"
        if i % 4 == 0:
            # nibabel stores the numbers as they are; a reader halves them
            image = nibabel.Nifti1Image(np.rint(2 * values).astype(np.int16), lps())
            image.header.set_slope_inter(0.5, 0)
            b.at(f"{path}/segmentation.nii.gz")
            nibabel.save(image, b.folder / f"{path}/segmentation.nii.gz")
        else:
            b.nifti(f"{path}/segmentation.nii.gz", values, dtype=np.float64)
        b.nifti(f"{path}/imaging.nii.gz", volume[..., None] if i % 5 == 0 else volume)
        parts = {k: masks[k] for k in ("left kidney", "right kidney")}
        b.case(f"{path}/imaging.nii.gz", patient=path, mask=parts)
    b.json("labels.json", {"1": "left kidney", "2": "right kidney"})


@family(
    "bids_derivatives",
    "anomaly_detection",
    3,
    "stroke / tumor lesion masks in BIDS derivatives, T1w input",
    notes="masks live in derivatives/manual_masks with label-lesion_mask; "
    "another pipeline's preproc T1w is a copy to skip",
)
def bids_derivatives(b: Build) -> None:
    b.json("dataset_description.json", {"Name": "lesions", "BIDSVersion": "1.6.0"})
    b.json("derivatives/manual_masks/dataset_description.json", {"Name": "manual", "DatasetType": "derivative"})
    rows = []
    for i in range(1, 26):
        sub = f"sub-r{i:03d}s001"
        images, masks = brain(b.rng, b.pick("HGG", "LGG"))
        path = b.nifti(f"{sub}/anat/{sub}_T1w.nii.gz", images["T1"])
        b.nifti(f"derivatives/manual_masks/{sub}/anat/{sub}_label-lesion_mask.nii.gz", masks["core"], dtype=np.uint8)
        if i % 4 == 0:
            b.nifti(f"derivatives/smriprep/{sub}/anat/{sub}_desc-preproc_T1w.nii.gz", images["T1"])
        b.case(path, patient=sub, mask={"lesion": masks["core"]})
        rows.append((sub, int(b.rng.integers(40, 90))))
    b.csv("participants.tsv", ("participant_id", "age"), rows, sep="\t")


@family(
    "npz_image_mask",
    "organ_segmentation",
    3,
    "organ seg from npz (image, mask), synapse preprocessed",
    notes="arrays `image` (Z, Y, X) and `mask` in one npz a case, no spacing; label names in a txt; train/test lists",
)
def npz_image_mask(b: Build) -> None:
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for i in range(1, 27):
        volume, masks = abdomen(b.rng)
        split = "test" if i % 4 == 0 else "train"
        name = f"case{i:04d}"
        image = (np.clip(volume.T, -125, 275) + 125).astype(np.float32) / 400
        np.savez_compressed(b.at(f"npz/{name}.npz"), image=image, mask=label_map(masks, *ORGANS).T)
        b.case(f"npz/{name}.npz", patient=name, mask={o: masks[o] for o in ORGANS}, split=split)
        lists[split].append(name)
    for split, names in lists.items():
        b.text(f"lists/{split}.txt", "\n".join(names) + "\n")
    b.text("labels.txt", "".join(f"{n} {o}\n" for n, o in enumerate(("background", *ORGANS))))


@family(
    "mhd_label_legend",
    "organ_segmentation",
    3,
    "Lungs left/right from CT in mhd format",
    notes="scan and mask folders with equal .mhd names; "
    "mask values 3 and 4 (left, right) as in the LUNA lung masks, 5 unused",
    patients_known=False,
)
def mhd_label_legend(b: Build) -> None:
    for i in range(24):
        volume, masks = chest_ct(b.rng, b.pick("normal", "covid"))
        name = f"1.3.6.1.4.1.14519.5.2.1.{1000 + 77 * i}"
        values = np.where(masks["right lung"], 4, np.where(masks["left lung"], 3, 0)).astype(np.uint8)
        b.itk(f"seg-lungs/{name}.mhd", values, packed=False)
        parts = {k: masks[k] for k in ("left lung", "right lung")}
        b.case(b.itk(f"scans/{name}.mhd", volume, packed=False), mask=parts)
    b.text("seg-lungs/README.txt", json.dumps({"3": "left lung", "4": "right lung", "5": "trachea (not drawn here)"}))
