"""Diagnosis on what engineers leave behind: npz, MATLAB, HDF5 and torch files."""

import h5py
import numpy as np
import scipy.io

from .base import Build, family
from .pictures import chest_film, skin
from .volumes import brain, chest_ct


@family(
    "npz_image_label",
    "diagnosis",
    3,
    "npz files with keys image and label. Predict covid.",
    notes="a case a file: `image` (Z, Y, X) float32 and `label` 0/1 inside; a stray mean.npy",
    patients_known=False,
)
def npz_image_label(b: Build) -> None:
    for i in range(28):
        sick = i % 2
        volume, _ = chest_ct(b.rng, "covid" if sick else "normal")
        image = ((volume.T + 1024) / 2500).astype(np.float32)
        np.savez_compressed(b.at(f"samples/sample_{i:04d}.npz"), image=image, label=np.int64(sick))
        b.case(f"samples/sample_{i:04d}.npz", label=str(sick))
    np.save(b.at("mean.npy"), np.float32(0.123))


@family(
    "npz_all_in_one",
    "diagnosis",
    2,
    "pneumonia mnist style npz, normal vs pneumonia",
    notes="one file holds every case: train_images, train_labels, val_..., test_...; `index` is the row in that array",
    patients_known=False,
)
def npz_all_in_one(b: Build) -> None:
    arrays = {}
    for split, n in (("train", 32), ("val", 8), ("test", 12)):
        labels = b.rng.integers(0, 2, (n, 1)).astype(np.uint8)
        images = [chest_film(b.rng, *(["pneumonia"] if sick else []), size=(48, 48))[0] for sick in labels[:, 0]]
        arrays |= {f"{split}_images": np.stack(images), f"{split}_labels": labels}
        for i in range(n):
            label = str(labels[i, 0])
            b.case("pneumonia48.npz", label=label, split=split, array=f"{split}_images", index=i)
    np.savez_compressed(b.at("pneumonia48.npz"), **arrays)
    b.text("info.txt", "label 0 = normal, 1 = pneumonia\n")


@family(
    "mat_with_csv",
    "diagnosis",
    3,
    "Brain MRI as .mat - AD or healthy?",
    notes="MATLAB 5 files, variable `vol` (other variables are the voxel size and a name); "
    "label and patient in the CSV",
)
def mat_with_csv(b: Build) -> None:
    rows = []
    for i in range(1, 27):
        kind = ("AD", "control")[i % 2]
        path = b.at(f"mat/subj{i}.mat")
        volume = brain(b.rng, kind)[0]["T1"]
        scipy.io.savemat(
            path, {"vol": volume, "vox": np.array([1.5, 1.5, 3.0]), "who": "CANARY NAME"}, do_compression=True
        )
        data = path.read_bytes()
        path.write_bytes(
            b"MATLAB 5.0 MAT-file, Platform: PCWIN64, Created on: Mon Mar 04 10:11:12 2019".ljust(116) + data[116:]
        )
        b.case(f"mat/subj{i}.mat", patient=f"subj{i}", label=kind)
        rows.append((f"subj{i}", kind, int(b.rng.integers(60, 90))))
    b.csv("demographics.csv", ("ID", "Diagnosis", "Age"), rows)
    b.text("mat/load_all.m", "for i=1:26, s = load(sprintf('subj%d.mat', i)); end\n")


@family(
    "mat73_struct",
    "diagnosis",
    2,
    "brain tumour type (meningioma, glioma, pituitary) from the .mat slices",
    notes="MATLAB 7.3 is HDF5: cjdata/image (transposed), cjdata/label 1..3, cjdata/PID as character "
    "codes; legend in README",
)
def mat73_struct(b: Build) -> None:
    kinds = {1: "nevus", 2: "melanoma", 3: "keratosis"}
    for i in range(1, 43):
        code, patient = 1 + (i // 2) % 3, f"1{i // 2:05d}"
        image, mask = skin(b.rng, kinds[code], (64, 56))
        path = b.at(f"brainTumorData/{i}.mat")
        with h5py.File(path, "w", userblock_size=512) as file:
            group = file.create_group("cjdata")
            group["image"] = image.mean(axis=-1).astype(np.int16).T
            group["label"] = np.array([[float(code)]])
            group["PID"] = np.array([[ord(c)] for c in patient], np.uint16)
            group["tumorMask"] = mask.astype(np.uint8).T
        head = b"MATLAB 7.3 MAT-file, Platform: PCWIN64, Created on: Mon Mar 04 10:11:12 2019 HDF5 schema 1.00 .".ljust(
            124
        )
        with path.open("r+b") as stream:
            stream.write(head + b"\x00\x02IM")
        b.case(f"brainTumorData/{i}.mat", patient=patient, label=str(code))
    b.text(
        "README.txt", "cjdata.label: 1 for meningioma, 2 for glioma, 3 for pituitary tumor\ncjdata.PID: patient ID\n"
    )


@family(
    "h5_with_csv",
    "diagnosis",
    3,
    "hdf5 chest CT volumes, classify emphysema vs normal",
    notes="one h5 a patient with a dataset a scan below `/scans`; the table names file and scan",
)
def h5_with_csv(b: Build) -> None:
    rows = []
    for i in range(1, 15):
        with h5py.File(b.at(f"h5/P{i:02d}.h5"), "w") as file:
            for scan in ("baseline", "followup"):
                kind = b.pick("emphysema", "normal")
                file[f"scans/{scan}"] = chest_ct(b.rng, kind)[0].T
                b.case(f"h5/P{i:02d}.h5", patient=f"P{i:02d}", label=kind, array=f"scans/{scan}")
                rows.append((f"P{i:02d}", scan, kind))
            file.attrs["spacing"] = (3.0, 1.5, 1.5)
    b.csv("labels.csv", ("patient", "scan", "label"), rows)


@family(
    "pt_tensors",
    "diagnosis",
    3,
    "preprocessed torch tensors (C,D,H,W), HGG vs LGG please",
    notes="a .pt tensor (2, Z, Y, X) float32 a patient, labels.json; a checkpoint .pt in another folder is no image",
)
def pt_tensors(b: Build) -> None:
    import torch

    labels = {}
    for i in range(24):
        kind = ("HGG", "LGG")[i % 2]
        images, _ = brain(b.rng, kind, (28, 32, 14))
        tensor = torch.from_numpy(np.stack([images["FLAIR"].T, images["T1ce"].T]).astype(np.float32) / 255)
        torch.save(tensor, b.at(f"tensors/pat_{i:03d}.pt"))
        b.case(f"tensors/pat_{i:03d}.pt", patient=f"pat_{i:03d}", label=kind, channels=2)
        labels[f"pat_{i:03d}"] = kind
    b.json("labels.json", labels)
    torch.save({"epoch": 3, "state_dict": {"w": torch.zeros(4)}}, b.at("checkpoints/last.pt"))
