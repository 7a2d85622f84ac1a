"""A delivered package is run alone: it answers, it sees nothing of ours, and a package that is broken says so."""

import os
from pathlib import Path

import pytest

from services.command.package import predict_alone
from shared.errors import ToolBroken, UserError
from shared.settings import Settings

PREDICT = """
import json, os, pathlib, sys
scan, out = sys.argv[1], pathlib.Path(sys.argv[3])
files = sorted(os.listdir(scan))
try:
    seen = pathlib.Path({secret!r}).read_text()
except OSError:
    seen = ""
out.mkdir()
case = dict(input=scan, label="x", probabilities=dict(x=1.0), files=files, seen=seen, uid=os.getuid(),
            key=os.environ.get("ANTHROPIC_API_KEY"))
(out / "predictions.json").write_text(json.dumps(dict(cases=[case])))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    for name in ("package", "scan"):
        (tmp_path / name).mkdir()
    (tmp_path / "scan" / "0.png").write_bytes(b"x")
    (tmp_path / "secret").write_text("secret")
    return tmp_path


def test_it_sees_its_input_and_nothing_of_ours(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    (place / "package" / "predict.py").write_text(PREDICT.format(secret=str(place / "secret")))
    case, isolation = predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)
    assert case["label"] == "x" and case["files"] == ["0.png"]
    assert case["seen"] == "" and case["key"] is None and case["uid"] != 0
    assert isolation.split()[0] in ("bwrap", "landlock")
    assert os.getuid() == place.stat().st_uid, "the caller stays who it was"


def test_a_package_that_fails_is_told_with_its_output(place: Path) -> None:
    (place / "package" / "predict.py").write_text("raise SystemExit('weights are missing')")
    with pytest.raises(ToolBroken, match="weights are missing"):
        predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)


MASK = """
import json, os, pathlib, sys
out = pathlib.Path(sys.argv[3])
out.mkdir()
(out / "masks").mkdir()
(out / "masks" / "scan.nii.gz").write_bytes(b"mask")
os.symlink("/etc/passwd", out / "link.nii.gz")
case = dict(input=sys.argv[1], mask={mask!r})
(out / "predictions.json").write_text(json.dumps(dict(task="organ_segmentation", cases=[case])))
"""


def test_a_mask_comes_back_as_a_path(place: Path) -> None:
    (place / "package" / "predict.py").write_text(MASK.format(mask="masks/scan.nii.gz"))
    case, _ = predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)
    assert Path(case["mask"]).is_relative_to(place / "out") and Path(case["mask"]).read_bytes() == b"mask"


@pytest.mark.parametrize("mask", ["link.nii.gz", "../predict.log"])
def test_a_mask_that_is_no_file_of_the_package_is_refused(place: Path, mask: object) -> None:
    (place / "package" / "predict.py").write_text(MASK.format(mask=mask))
    with pytest.raises(ToolBroken, match="no regular file"):
        predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)


def test_links_in_the_place_of_folders_are_refused(place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "predictions.json").write_text('{"cases": [{"label": "planted"}]}')
    (place / "package" / "predict.py").write_text(f"import os; os.symlink({str(place / 'other')!r}, 'result')")
    with pytest.raises(ToolBroken, match="no prediction"):
        predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)
    (place / "linked").symlink_to(place / "package")
    with pytest.raises(UserError, match="link"):
        predict_alone(place / "linked", place / "scan", place / "again", Settings().runner_uid)


def test_a_package_that_breaks_its_sandboxed_run_is_never_run_bare(place: Path) -> None:
    mark = place / "mark"
    mark.mkdir(mode=0o777)
    mark.chmod(0o777)
    code = f"""
import os, pathlib
pathlib.Path("result").mkdir()
os.chmod("result", 0o555)
try:
    pathlib.Path({str(mark / "here")!r}).write_text("bare")
except OSError:
    pass
"""
    (place / "package" / "predict.py").write_text(code)
    with pytest.raises(ToolBroken):
        predict_alone(place / "package", place / "scan", place / "out", Settings().runner_uid)
    assert list(mark.iterdir()) == []
