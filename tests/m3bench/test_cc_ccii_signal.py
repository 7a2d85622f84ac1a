"""What the replica's files give away: nothing in names and lengths, the patient in the texture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Scan = dict[str, Any]


@pytest.fixture(scope="module")
def scans(tiny: Callable[[str], Path]) -> list[Scan]:
    """All sound scans of a replica with their pixels, without the planted copy."""
    root = tiny("cc-ccii")
    truth = json.loads(root.with_name(f"{root.name}.truth.json").read_text(encoding="utf-8"))
    skipped = {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] in ("corrupt_png", "duplicate_scan")}
    return [
        {
            **scan,
            "pixels": np.stack(
                [
                    np.asarray(Image.open(root / scan["folder"] / name), dtype=np.float32)
                    for name in scan["files"]
                    if f"{scan['folder']}/{name}" not in skipped
                ]
            ),
        }
        for scan in truth["scans"]
        if scan["folder"] not in skipped
    ]


def test_neither_size_nor_length_nor_format_tells_the_classes_apart(scans: list[Scan]) -> None:
    lengths = {
        label: float(np.mean([len(scan["files"]) for scan in scans if scan["label"] == label]))
        for label in ("CP", "NCP", "Normal")
    }
    assert max(lengths.values()) - min(lengths.values()) < 4
    styles = [sorted(scan["style"] for scan in scans if scan["label"] == label) for label in ("CP", "NCP", "Normal")]
    odd = [[style for style in found if style != "padded"] for found in styles]
    assert odd[0] == odd[1] == odd[2]


def test_the_nearest_scan_is_often_the_patients_own(scans: list[Scan]) -> None:
    """So a split by scan rewards memory: the nearest neighbour knows the label where the patient is known."""
    pictures = np.stack([_skin(scan["pixels"]) for scan in scans])
    likeness = pictures @ pictures.T
    np.fill_diagonal(likeness, -np.inf)
    patients = np.array([scan["patient"] for scan in scans])
    labels = np.array([scan["label"] for scan in scans])
    several = np.array([(patients == patient).sum() > 1 for patient in patients])

    by_scan = labels[likeness.argmax(axis=1)] == labels
    likeness[patients[:, None] == patients[None, :]] = -np.inf
    by_patient = labels[likeness.argmax(axis=1)] == labels
    assert by_scan[several].mean() > by_patient[several].mean() + 0.15
    assert by_patient.mean() < 0.5


def _skin(pixels: np.ndarray) -> np.ndarray:
    """The body cut out of its mean slice, brought to one size, without brightness: what a memory of patients sees."""
    mean = pixels.mean(axis=0)
    rows, columns = (np.flatnonzero((mean > mean.mean()).mean(axis=axis) > 0.05) for axis in (1, 0))
    box = Image.fromarray(mean[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    picture = np.asarray(box.resize((64, 64), Image.Resampling.BILINEAR))
    return (picture - picture.mean()).ravel() / np.linalg.norm(picture - picture.mean())
