"""Miniatures of public datasets: what is said of them is true, and nothing sound is called an error."""

from pathlib import Path

import pytest

from m3bench.replicas import make
from tests.gate.conftest import Check


@pytest.mark.parametrize(("name", "patients"), [("instance2022", 10), ("oasis", 10), ("chestx-det10", 16),
                                                ("ct-kidney", 6)])  # fmt: skip
def test_a_sound_dataset_has_no_errors(check: Check, tmp_path: Path, name: str, patients: int) -> None:
    root = tmp_path / "data"
    make(name, root, patients=patients, workers=1)
    found = check(root)
    assert found["errors"] == 0, found["summary"]
    said = found["overview"]
    assert said["images"] > 0 and said["images_read"] > 0 and not found["skipped"]
    if name == "ct-kidney":
        assert set(said["classes"]["folders <class>"]) == {"Cyst", "Normal", "Stone", "Tumor"}
        assert found["kinds"]["patients_unknown"]["severity"] == "warning"
    else:
        assert said["pairs"] == said["masks"] == said["images"] // 2
        assert len(said["structures"]) >= {"instance2022": 1, "oasis": 35, "chestx-det10": 5}[name]
    if name == "instance2022":
        assert found["kinds"]["oblique"]["measured"]["largest_degrees"] > 5
