"""The bill of materials and the audit, both from the locks as they are."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
LOCKS = "".join(path.read_text() for path in (DEPLOY.parent / "requirements").glob("*.lock"))
NUMPY = re.findall(r"^numpy==(\S+)", LOCKS, re.MULTILINE)[0]


def called(program: str, *words: object, code: int = 0) -> str:
    argv = [sys.executable, str(DEPLOY / program), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_pin_is_in_the_bill_with_its_hashes(tmp_path: Path) -> None:
    called("sbom.py", tmp_path / "one.json")
    called("sbom.py", tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    bom = json.loads((tmp_path / "one.json").read_bytes())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bom["serialNumber"])
    there = {(one["name"], one["version"]): one for one in bom["components"]}
    pinned = set(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCKS, re.MULTILINE))
    assert there.keys() == {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pinned}
    hashes = {one["content"] for component in bom["components"] for one in component["hashes"]}
    assert hashes == set(re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCKS))
    assert len({one["bom-ref"] for one in bom["components"]}) == len(bom["components"])
    numpy = there["numpy", NUMPY]
    assert numpy["purl"] == f"pkg:pypi/numpy@{NUMPY}" and numpy["scope"] == "required"
    assert "BSD" in json.dumps(numpy["licenses"])
    assert next(one for name, one in there.items() if name[0] == "torch")["scope"] == "optional"


def record(name: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    package = {"ecosystem": "PyPI", "name": name}
    about = {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": list(events)}]}
    return {"id": f"PYSEC-{name}", "summary": "A made up fault.", "affected": [about | more]}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([{"introduced": "0"}, {"fixed": "9999"}], "mended in 9999"),
        ([{"introduced": "0"}], "not mended yet"),
        ([{"introduced": "0"}, {"last_affected": NUMPY}], "not mended yet"),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": NUMPY}, {"fixed": "9999"}], "mended in 9999"),
        ([{"introduced": "0"}, {"fixed": NUMPY}], None),
        ([{"introduced": "0"}, {"fixed": "1.0"}], None),
        ([{"introduced": "9999"}], None),
        ([{"introduced": "0"}, {"last_affected": "1.0"}], None),
    ],
)
def test_an_advisory_meets_the_versions_that_it_means(tmp_path: Path, events: list[dict[str, str]], found: str) -> None:
    (tmp_path / "one.json").write_text(json.dumps(record("NumPy", *events)))
    told = called("audit.py", tmp_path / "one.json", code=1 if found else 0)
    assert (f"numpy {NUMPY}: PYSEC-NumPy, {found}" in told) if found else "0 found" in told


def test_folders_zips_and_lists_are_read_and_what_is_none_is_refused(tmp_path: Path) -> None:
    named = record("torch", versions=re.findall(r"^torch==(\S+)", LOCKS, re.MULTILINE))
    withdrawn = record("pillow", {"introduced": "0"}) | {"withdrawn": "2026-01-01T00:00:00Z"}
    other = record("numpy", {"introduced": "0"})
    other["affected"][0]["package"]["ecosystem"] = "npm"
    folder = tmp_path / "advisories"
    folder.mkdir()
    (folder / "list.json").write_text(json.dumps([named, withdrawn]))
    (folder / "other.json").write_text(json.dumps(other))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for number, one in enumerate((named, withdrawn, other)):
            archive.writestr(f"{number}.json", json.dumps(one))
    for place in (folder, tmp_path / "all.zip"):
        told = called("audit.py", place, code=1)
        assert "PYSEC-torch, not mended yet" in told and "2 advisories: 1 found" in told
    (tmp_path / "odd.json").write_text(json.dumps(record("numpy", {"introduced": "no version"})))
    assert "cannot be judged" in called("audit.py", tmp_path / "odd.json", code=1)
    (tmp_path / "none.json").write_text('{"name": "x"}')
    assert "OSV format" in called("audit.py", tmp_path / "none.json", code=2)
    (tmp_path / "empty").mkdir()
    assert "no record" in called("audit.py", tmp_path / "empty", code=2)
    assert "osv.dev" in called("audit.py", tmp_path / "nowhere", code=2)
