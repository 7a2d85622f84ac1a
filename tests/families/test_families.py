"""Every family writes, the same bytes for the same seed, and its truth speaks of files that are there."""

import csv
import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pydicom
import pytest
import SimpleITK as sitk
from PIL import Image
from skimage.draw import polygon2mask

from tests.families import FAMILIES, pictures, volumes
from tests.families.base import TASKS
from tests.families.make import main

KEYS = {"files", "channels", "views", "patient", "label", "mask", "text", "split"}
Made = Callable[[str], tuple[Path, dict[str, Any]]]
ARRAYS = {"npz_all_in_one", "h5_with_csv"}  # several cases a file


def digest(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def write(name: str, folder: Path, seed: int = 3) -> dict[str, Any]:
    FAMILIES[name].make(folder / "set", folder / "truth.json", seed)
    return json.loads((folder / "truth.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Writes a family once a session: its dataset folder and its truth."""

    @cache
    def once(name: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp(name)
        return folder / "set", write(name, folder)

    return once


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str, made: Made, tmp_path: Path) -> None:
    family = FAMILIES[name]
    folder, truth = made(name)
    files = digest(folder)
    assert (truth["task"], truth["dimensions"]) == (family.task, family.dimensions)
    assert truth["notes"] and family.request
    assert set(truth["broken"]) <= set(files)
    if truth["expect"] in ("not_supported", "infeasible"):
        assert files and not truth["cases"]
    else:
        check_cases(name, truth, set(files))
    assert write(name, tmp_path) == truth
    assert digest(tmp_path / "set") == files


def check_cases(name: str, truth: dict[str, Any], files: set[str]) -> None:
    cases = truth["cases"]
    assert 24 <= len(cases) <= 60
    assert (truth["expect"] == "ask") == ("ask" in truth)
    listed = [f for c in cases for f in c["files"]]
    assert set(listed) <= files and not set(listed) & set(truth["broken"])
    assert name in ARRAYS or len(set(listed)) == len(listed)
    for case in cases:
        assert set(case) >= KEYS and case["files"]
        assert case["split"] in (None, "train", "val", "test")
        assert (case["patient"] is not None) == truth["patients_known"]
        filled = {"diagnosis": "label", "report_generation": "text"}.get(truth["task"], "mask")
        assert case[filled] is not None
    if truth["patients_known"]:
        assert len({c["patient"] for c in cases}) >= 10
    if truth["task"] == "diagnosis":
        labels = [c["label"] if isinstance(c["label"], str) else "|".join(c["label"]) for c in cases]
        counts = sorted(labels.count(v) for v in set(labels))
        assert len(counts) >= 2 and counts[-2] >= 5
    if truth["task"] in ("organ_segmentation", "anomaly_detection"):
        assert len({tuple(sorted(c["mask"])) for c in cases}) == 1
        assert sum(any(c["mask"].values()) for c in cases) >= 12


def test_registry_is_wide() -> None:
    assert len(FAMILIES) >= 80
    assert {f.task for f in FAMILIES.values()} == set(TASKS)
    assert all(key == f.name and f.dimensions in (2, 3) for key, f in FAMILIES.items())


def test_another_seed_writes_something_else(tmp_path: Path) -> None:
    write("class_in_name", tmp_path / "a", 1)
    write("class_in_name", tmp_path / "b", 2)
    assert digest(tmp_path / "a/set") != digest(tmp_path / "b/set")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "class_in_name" in capsys.readouterr().out
    assert main([str(tmp_path), "class_in_name", "--seed", "5"]) == 0
    assert (tmp_path / "class_in_name.truth.json").is_file() and (tmp_path / "class_in_name/normal_001.png").is_file()
    with pytest.raises(SystemExit):
        main([str(tmp_path), "no_such"])


def test_requests_name_cards_that_exist() -> None:
    book = json.loads(Path(__file__).with_name("requests.json").read_text("utf-8"))
    names = [c["dataset name"] for c in book["cards"]]
    assert len(names) == len(set(names)) >= 20
    assert all(set(c) == {"dataset name", "dataset description", "dataset path"} for c in book["cards"])
    assert len({r["text"] for r in book["requests"]}) >= 40
    for request in book["requests"]:
        card = request["card"]
        assert set(card if isinstance(card, list) else [card] if card else []) <= set(names)
        assert not isinstance(card, list) or len(card) >= 2


def test_compressed_series_hold_their_volume(made: Made) -> None:
    """Slices listed from the feet up, whatever the file numbers and the transfer syntax say."""
    folder, truth = made("dicom_series_folders")
    syntaxes = set()
    for case in truth["cases"]:
        paths = [folder / f for f in case["files"]]
        heads = [pydicom.dcmread(p, stop_before_pixels=True) for p in paths]
        heights = [float(h.ImagePositionPatient[2]) for h in heads]
        assert heights == sorted(heights) and len(set(heights)) == 8
        assert {h.PatientID for h in heads} == {case["patient"]}
        syntaxes.add(heads[0].file_meta.TransferSyntaxUID.name)
        volume = sitk.GetArrayFromImage(sitk.ReadImage([str(p) for p in paths]))
        assert volume.shape == (8, 24, 28)
        assert volume.min() >= -1024 and np.median(volume[:, 12, 10]) < -300
    assert len(syntaxes) == 3


def test_seg_frames_and_contours_hold_the_counts(made: Made) -> None:
    folder, truth = made("dicom_seg")
    for case in truth["cases"][:4]:
        seg = next((folder / case["patient"]).rglob("1-1.dcm"))
        ds = pydicom.dcmread(seg)
        names = {s.SegmentNumber: s.SegmentLabel for s in ds.SegmentSequence}
        got = dict.fromkeys(names.values(), 0)
        for frame, group in zip(ds.pixel_array, ds.PerFrameFunctionalGroupsSequence, strict=True):
            got[names[group.SegmentIdentificationSequence[0].ReferencedSegmentNumber]] += int(frame.sum())
        assert got == case["mask"]
    folder, truth = made("rtstruct")
    for case in truth["cases"][:3]:
        ds = pydicom.dcmread(next((folder / case["patient"]).glob("RS*")))
        names = {r.ROINumber: r.ROIName for r in ds.StructureSetROISequence}
        for roi in ds.ROIContourSequence:
            area = 0
            for contour in roi.get("ContourSequence", []):
                points = np.reshape(np.asarray(contour.ContourData, float), (-1, 3))[:, :2]
                area += int(polygon2mask((28, 24), (points - (-27.0, -22.5)) / 1.5).sum())
            if names[roi.ReferencedROINumber] in case["mask"]:
                assert area == pytest.approx(case["mask"][names[roi.ReferencedROINumber]], rel=0.02)


def test_runs_polygons_and_turned_masks_hold_the_counts(made: Made) -> None:
    folder, truth = made("rle_csv")
    got: dict[str, int] = {}
    with (folder / "train.csv").open() as stream:
        for row in csv.DictReader(stream):
            lengths = [int(v) for v in row["EncodedPixels"].split()[1::2]]
            got[row["ImageId"]] = got.get(row["ImageId"], 0) + sum(lengths)
    assert got == {c["files"][0].removeprefix("train_images/"): c["mask"]["pneumothorax"] for c in truth["cases"]}

    folder, truth = made("coco_json")
    for split in ("train", "val"):
        book = json.loads((folder / f"annotations/instances_{split}2019.json").read_text())
        files = {i["id"]: f"{split}2019/{i['file_name']}" for i in book["images"]}
        counts = {c["files"][0]: c["mask"]["polyp"] for c in truth["cases"]}
        for mark in book["annotations"]:
            points = np.reshape(mark["segmentation"][0], (-1, 2))[:, ::-1] - 0.5
            assert polygon2mask((64, 80), points).sum() == pytest.approx(counts[files[mark["image_id"]]], rel=0.05)

    folder, truth = made("masks_other_axes")
    shapes = set()
    for case in truth["cases"]:
        image = nibabel.load(folder / case["files"][0])
        mask = nibabel.load(folder / f"leber/{case['patient']}_Leber.nii.gz")
        shapes.add(mask.shape)
        image, mask = nibabel.as_closest_canonical(image), nibabel.as_closest_canonical(mask)
        assert np.allclose(image.affine, mask.affine)
        liver = np.asarray(mask.dataobj) > 0
        assert int(liver.sum()) == case["mask"]["leber"]
        assert np.asarray(image.dataobj)[liver].mean() > 80
    assert len(shapes) > 1


def test_contents_can_be_learnt() -> None:
    """The nearest mean of a few simple numbers tells the classes apart far better than chance."""

    def numbers(image: np.ndarray) -> np.ndarray:
        values = image.astype(float)
        edges = np.abs(np.diff(values, axis=0)).mean(), values.std()
        return np.array([*np.quantile(values, (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)), *edges])

    rng = np.random.default_rng(0)
    sorts = {
        "film": {k: (lambda k=k: pictures.chest_film(rng, *k)[0]) for k in ((), ("pneumonia",), ("pneumothorax",))},
        "skin": {k: (lambda k=k: pictures.skin(rng, k)[0]) for k in ("nevus", "melanoma", "keratosis")},
        "eye": {k: (lambda k=k: pictures.fundus(rng, k)[0][..., 1]) for k in (0, 3)},
        "breast": {k: (lambda k=k: pictures.ultrasound(rng, k)[0]) for k in ("normal", "benign", "malignant")},
        "tissue": {k: (lambda k=k: pictures.histology(rng, k)[0]) for k in (False, True)},
        "chest": {k: (lambda k=k: volumes.chest_ct(rng, k)[0]) for k in ("normal", "covid", "emphysema")},
        "brain": {k: (lambda k=k: volumes.brain(rng, k)[0]["T1"]) for k in ("control", "AD")},
    }
    for sort, kinds in sorts.items():
        seen = np.array([[numbers(draw()) for _ in range(20)] for draw in kinds.values()])
        scale = seen.reshape(-1, seen.shape[-1]).std(axis=0) + 1e-9
        means = seen[:, :10].mean(axis=1)
        far = np.linalg.norm((seen[:, 10:, None] - means[None, None]) / scale, axis=-1)
        right = (far.argmin(axis=-1) == np.arange(len(kinds))[:, None]).mean()
        assert right > 0.8, (sort, right)


def test_stray_numbers_do_not_tell_the_label(made: Made) -> None:
    """Sizes and modes of pictures are the same in both classes, so only the form can be learnt."""
    folder, truth = made("breast_classes")
    shapes = {(Image.open(folder / c["files"][0]).size, c["label"]) for c in truth["cases"]}
    assert len({s for s, _ in shapes}) == 1
