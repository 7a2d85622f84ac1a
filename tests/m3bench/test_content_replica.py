"""What the replicas' pixels give away: what is drawn is seen in form and place, and in no statistic of grey values."""

import csv
import hashlib
import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from m3bench.replicas import make

ALL = ("adni", "kneemri", "ct-kidney", "chestx-det10", "ct-rate", "braingenome", "iu-xray")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_the_same_seed_gives_the_same_bytes_however_many_processes(name: str, layout: str, tmp_path: Path) -> None:
    def digests(folder: str, seed: int, workers: int) -> dict[str, str]:
        truth = make(name, tmp_path / folder, seed=seed, patients=4, layout=layout, workers=workers)
        files = [path for path in (tmp_path / folder).rglob("*") if path.is_file()]
        return {
            path.relative_to(tmp_path).as_posix().removeprefix(folder): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in [*files, truth]
        }

    first = digests("a", 1, workers=1)
    # Starting processes is what costs; that their order does not matter is shown by one, all share the code.
    assert first == digests("b", 1, workers=2 if (name, layout) == ("adni", "paper") else 1)
    if layout == "paper":
        assert first != digests("c", 2, workers=1)


def statistics(pixels: Any) -> list[float]:
    """Of one sample, without its brightness and contrast."""
    values = np.asarray(pixels, dtype=np.float32).ravel()
    values = (values - values.mean()) / (values.std() + 1e-6)
    points = np.percentile(values, [1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9])
    return [float(np.abs(values).mean()), float((values**3).mean()), *points.tolist()]


def separability(features: Sequence[Sequence[float]], labels: Sequence[object], groups: Sequence[object]) -> float:
    """Macro AUC of a linear classifier, across groups."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000, C=10))
    known = np.array([str(label) for label in labels])
    ids = np.unique([str(group) for group in groups], return_inverse=True)[1]
    guess = cross_val_predict(model, np.array(features), known, groups=ids, cv=GroupKFold(5), method="predict_proba")
    if guess.shape[1] == 2:
        return float(roc_auc_score(known == sorted(set(known))[1], guess[:, 1]))
    return float(roc_auc_score(known, guess, multi_class="ovr"))


@pytest.fixture
def made(tiny: Callable[[str], Path]) -> Callable[[str], tuple[Path, dict[str, Any]]]:
    def one(name: str) -> tuple[Path, dict[str, Any]]:
        root = tiny(name)
        return root, json.loads(root.with_name(f"{root.name}.truth.json").read_text())

    return one


Made = Callable[[str], tuple[Path, dict[str, Any]]]


def test_adni_severity_is_in_the_ventricles(made: Made) -> None:
    root, truth = made("adni")
    scans = [
        scan
        for scan in truth["scans"]
        if scan["stored"] and scan["listed"] and scan["group"] in truth["labels"] and scan["shape"][0] > 3
    ]
    volumes = [torch.load(root / "ADNI_PT" / f"{scan['image_id']}.pt", weights_only=True).float() for scan in scans]
    groups = [scan["subject"] for scan in scans]
    labels = [scan["group"] for scan in scans]
    # Statistics of the whole are looked at for every replica elsewhere; whoever looks at the middle sees them.
    middle = [volume[9:23, 11:29, 14:24] / volume.std() for volume in volumes]
    where = [[float((part < 0.55 * part.median()).float().mean()), *statistics(part)] for part in middle]
    assert separability(where, labels, groups) > 0.85


def test_kneemri_tears_are_in_no_statistic_of_the_region_either(made: Made) -> None:
    root, _ = made("kneemri")
    with (root / "metadata.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    region = []
    for row in rows:
        data = (root / "volumetric_data" / row["volumeFilename"]).read_bytes()
        volume = pickle.loads(data)  # noqa: S301 - written by ourselves
        box = tuple(
            slice(int(row[f"roi{axis}"]), int(row[f"roi{axis}"]) + int(row[f"roi{size}"]))
            for axis, size in (("Z", "Depth"), ("Y", "Height"), ("X", "Width"))
        )
        region.append(statistics(volume[box]))
    exams = [row["examId"] for row in rows]
    injured = [row["aclDiagnosis"] != "0" for row in rows]
    assert separability(region, injured, exams) < 0.7


def test_chestx_det10_findings_are_hardly_in_statistics(made: Made) -> None:
    root, truth = made("chestx-det10")
    images = truth["images"]
    features = [statistics(Image.open(root / "images" / image["file_name"]).convert("L")) for image in images]
    patients = [image["patient"] for image in images]
    found = [
        separability(features, [name in image["syms"] for image in images], patients)
        for name in ("Effusion", "Consolidation", "Fracture", "Nodule")
    ]
    assert float(np.mean(found)) < 0.72 and max(found) < 0.85


def test_braingenome_places_and_kinds_are_in_no_statistic(made: Made) -> None:
    root, truth = made("braingenome")
    cases = [case for case in truth["cases"] if case["kind"] in ("gli", "men", "met")]
    features = [statistics(nibabel.load(root / f"images/{case['name']}-t2f.nii.gz").dataobj) for case in cases]
    patients = [case["patient"] for case in cases]
    for name in ("side", "lobe", "edema"):
        assert separability(features, [case["lesion"][name] for case in cases], patients) < 0.7
    assert separability(features, [case["kind"] for case in cases], patients) < 0.75
