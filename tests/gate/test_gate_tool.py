"""The gate as the agents' tool, through the real sandbox at both levels that isolate."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.data_engineer.role import ROLE as DATA_ENGINEER
from services.module_architect.role import ROLE as MODULE_ARCHITECT
from shared.contracts.tools import MAX_RESULT_CHARS, TOOLS, CheckDataset
from tests.gate.conftest import snapshot
from tests.gate.folders import mask, nifti, scans

UID = 64331
DRIVER = Path(__file__).with_name("sandboxed_gate.py")


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def seen(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    base = Path(tempfile.mkdtemp(prefix="m3-gate-"))
    scans(base / "data")
    nifti(base / "data/masks/case_03.nii.gz", mask((12, 10, 9)))
    before = snapshot(base / "data")
    if os.geteuid() == 0:
        os.chown(base, UID, UID)
    argv = [sys.executable, str(DRIVER), request.param, str(base), str(UID)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    try:
        assert done.returncode == 0, done.stderr
        results: dict[str, Any] = json.loads(done.stdout)
        if "unavailable" in results:
            pytest.skip(results["unavailable"])
        assert snapshot(base / "data") == before
        yield results | {"level": request.param}
    finally:
        shutil.rmtree(base)


def test_what_an_agent_reads(seen: dict[str, Any]) -> None:
    whole = seen["whole"]
    assert whole["ok"] and whole["isolation"] == seen["level"], whole["summary"]
    assert "ERROR shape_mismatch: 1 x" in whole["summary"] and len(whole["summary"]) <= MAX_RESULT_CHARS
    one = next(one for one in whole["data"]["findings"] if one["kind"] == "shape_mismatch")
    assert one["examples"] == ["masks/case_03.nii.gz"] and "into your workspace" in one["repair"]


def test_a_part_of_a_dataset_can_be_looked_at(seen: dict[str, Any]) -> None:
    assert seen["part"]["ok"] and seen["part"]["data"]["overview"]["images"] == 8


def test_what_cannot_be_looked_at_is_refused_in_words(seen: dict[str, Any]) -> None:
    assert not seen["file"]["ok"] and "preview_files" in seen["file"]["summary"]
    assert not seen["none"]["ok"] and seen["none"]["summary"]


def test_who_has_the_tool() -> None:
    assert TOOLS["check_dataset"] is CheckDataset and CheckDataset.reads_only
    assert CheckDataset in DATA_ENGINEER.tools and CheckDataset in MODULE_ARCHITECT.tools
