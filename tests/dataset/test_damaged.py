"""Files that cannot be read are named where rules are proposed and tried."""

import gzip
import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from propose_files import picture, volume
from resolve_files import carried_out, dicom

from shared.dataset.files.listing import list_files
from shared.dataset.profile.damaged import in_words
from shared.dataset.rules.reasons import UNREAD
from shared.dataset.rules.targets import NO_PATIENT

ROOT = Path(__file__).parents[2]
RULES = """
task: diagnosis
dimensions: 2
images: [{files: "{label}/{name}.png"}]
label: {source: {field: label}}
exclude: [{files: "normal/6.png", reason: nothing in it}]
"""


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def films(root: Path) -> None:
    for name in ("normal", "benign"):
        for number in range(8):
            picture(root / name / f"{number}.png")
    cut(root / "benign/3.png")
    (root / "normal/6.png").write_bytes(b"")


def told(probe: str, argument: str, root: Path, workspace: Path) -> str:
    more = {"PYTHONPATH": str(ROOT), "M3_DATA": str(root), "M3_WORKSPACE": str(workspace)}
    command = [sys.executable, ROOT / "services/tool_runner/probes" / probe, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | more)
    return str(json.loads(done.stdout.splitlines()[-1])["summary"])


def test_unreadable_files_are_named_with_size_and_cause(tmp_path: Path) -> None:
    for number in range(3):
        volume(tmp_path / f"{number}.nii.gz")
    assert in_words(list_files(tmp_path), list_files(tmp_path).images) == ""
    cut(tmp_path / "1.nii.gz")
    (tmp_path / "2.nii.gz").write_bytes(b"")
    said = in_words(list_files(tmp_path), list_files(tmp_path).images, {"0.nii.gz": "holds NaN", "x.png": "not asked"})
    size = (tmp_path / "1.nii.gz").stat().st_size
    assert said.startswith("UNREADABLE: 3 of 3 image files cannot be read: ")
    assert f"0.nii.gz (holds NaN), 1.nii.gz (cut off, {size} bytes), 2.nii.gz (0 bytes)" in said


@pytest.mark.parametrize("what", ["stream", "offset", "length"])
def test_nonsense_in_a_volume_ends_nothing(tmp_path: Path, what: str) -> None:
    volume(tmp_path / "1.nii.gz")
    packed = bytearray((tmp_path / "1.nii.gz").read_bytes())
    plain = bytearray(gzip.decompress(packed))
    if what == "offset":
        plain[108:112] = struct.pack("<f", math.inf)
    elif what == "length":
        plain = plain[:300]
    packed = bytearray(gzip.compress(plain))
    if what == "stream":
        packed[10:40] = b"\x00" * 30
    (tmp_path / "1.nii.gz").write_bytes(packed)
    said = in_words(list_files(tmp_path), list_files(tmp_path).images)
    assert ("1.nii.gz (cut off" in said) == (what != "offset")


def test_proposals_and_tried_rules_name_them(tmp_path: Path) -> None:
    films(tmp_path / "data")
    (tmp_path / "dataset.yaml").write_text(RULES)
    proposed = told("propose_rules.py", '{"task": "diagnosis"}', tmp_path / "data", tmp_path)
    assert proposed.startswith("UNREADABLE: 2 of 16 image files cannot be read: benign/3.png (cut off, ")
    assert "normal/6.png (0 bytes)" in proposed and "## 1. " in proposed
    tried = told("resolve_rules.py", "dataset.yaml", tmp_path / "data", tmp_path)
    assert tried.startswith("UNREADABLE: 1 of 15 image files cannot be read: benign/3.png (cut off, ")


@pytest.mark.parametrize("case", ["file", "series", ["header.AccessionNumber"]])
def test_a_file_without_a_readable_header_is_told_once(tmp_path: Path, case: str | list[str]) -> None:
    for number in range(4):
        dicom(tmp_path / f"a/{number}.dcm", f"P{number}", f"s{number}", AccessionNumber=f"A{number}")
    (tmp_path / "a/1.dcm").write_bytes((tmp_path / "a/1.dcm").read_bytes()[:200])
    (tmp_path / "a/2.dcm").write_bytes(b"")
    dicom(tmp_path / "a/3.dcm", "", "s3", AccessionNumber="A3")
    several = {"several": "views"} if isinstance(case, list) else {}
    done = carried_out(tmp_path, images="a/{n}.dcm", case=case, **several, patient={"header": "PatientID"},
                       label={"source": {"header": "Modality"}})  # fmt: skip
    told = {reason: len(names) for reason, names in done.left_out.items()}
    assert told == {UNREAD: 2, NO_PATIENT: 1}, "only what can be read has no patient"
    assert len(done.cases) == 1
