"""`m3builder dataset check DIR`: no system is up; what it prints, how it ends, and that it changes nothing."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.gate.conftest import call, snapshot
from tests.gate.folders import crowd, films, scans


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return dict(os.environ) | {"M3_HOME": str(tmp_path / "home"), "M3_ISOLATION": "auto"}


def test_errors_are_printed_with_their_repair_and_nothing_is_changed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    root = scans(tmp_path / "data")
    path = root / "images/case_03.nii.gz"
    path.write_bytes(path.read_bytes()[:-300])
    before = snapshot(root)
    told = call(environment, "dataset", "check", str(root), code=1)
    assert "ERROR truncated: 1 x file that is cut off" in told and "images/case_03.nii.gz" in told
    assert "repair: copy it again from its source" in told and "1 kind of errors" in told
    assert told.index("ERROR") < told.index("WARNING")
    assert snapshot(root) == before


def test_a_clean_dataset_ends_with_0_and_json_holds_everything(environment: dict[str, str], tmp_path: Path) -> None:
    found = json.loads(call(environment, "dataset", "check", str(films(tmp_path / "data")), "--json"))
    assert found["errors"] == found["warnings"] == 0 and found["findings"] == []
    assert found["isolation"] in ("bwrap", "landlock") and found["overview"]["images"] == 24
    assert not (tmp_path / "home").exists()


def test_wrong_input_ends_with_2(environment: dict[str, str], tmp_path: Path) -> None:
    assert "does not exist" in call(environment, "dataset", "check", str(tmp_path / "nowhere"), code=2)
    (tmp_path / "data.zip").write_bytes(b"PK")
    assert "unpack it" in call(environment, "dataset", "check", str(tmp_path / "data.zip"), code=2)


def test_without_a_sandbox_it_says_so_and_does_not_look(environment: dict[str, str], tmp_path: Path) -> None:
    environment |= {"M3_ISOLATION": "bwrap", "PATH": str(Path(sys.executable).parent)}
    told = call(environment, "dataset", "check", str(films(tmp_path / "data")), code=3)
    assert "was not checked: no sandbox works here" in told and "Install bubblewrap" in told


def test_memory_stays_bounded_and_what_was_skipped_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    root = crowd(tmp_path / "data", 20_000)
    found = json.loads(call(environment, "dataset", "check", str(root), "--json"))
    assert found["overview"]["images"] == 20_000 and found["errors"] == 0
    assert found["peak_memory_mb"] < 300
    said = " ".join(found["skipped"])
    assert "3,000 of 20,000" in said and "400 of 20,000" in said
