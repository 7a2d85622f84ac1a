"""The same files through intake and through the door of each template's package: identical arrays."""

import json
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest

from shared.contracts.cases import CaseSpec, Part
from shared.dataset.intake.intake_records import Order
from shared.training.imports import as_exported
from tests.dataset.intake_files import CANARY, VOLUME, write_all
from tests.dataset.intake_shard import Ran, run
from tests.templates.conftest import ROOT, TEMPLATES, bare_environment

EXPORTED = ROOT / "shared" / "training" / "exported"
PICTURED = """
from types import SimpleNamespace
from imaging.inputs import input_files
import images
def door(path, channels):
    how = SimpleNamespace(views=1, input_shape=(8, 9, 10), channels=channels, intensity="zscore", window=None)
    return images.read(input_files(path), how)
"""
DOORS = {
    "diagnosis": PICTURED,
    "report_generation": PICTURED,
    "segmentation": """
from imaging.inputs import input_files
from types import SimpleNamespace
from imaging.case import load_image
from data import prepare
def door(path, channels):
    how = SimpleNamespace(
        dimensions=3, spacing=(2.0, 0.9, 0.9), nominal_spacing=None, intensity="zscore", channels=channels
    )
    return prepare(load_image(input_files(path), channels), how)
""",
}
"""Template -> what its predict.py does with an INPUT, up to the network."""
READ = """
import json, pathlib, sys
import numpy as np
for name, (path, channels) in json.loads(sys.argv[1]).items():
    np.save(name, door(pathlib.Path(path), channels))
"""
SERIES = tuple(f"series/{CANARY}{z}.dcm" for z in range(8))
INPUTS = {
    "series": (SERIES,),
    "nrrd": (("copy.nrrd",),),
    "nifti": (("turned.nii",),),
    "files": (("files/1.nii",), ("files/2.nrrd",)),
    "two_series": (tuple(f"both/a{z}.dcm" for z in range(8)), tuple(f"both/b{z}.dcm" for z in range(8))),
}
"""Name -> the files of each channel; an INPUT is the file, or the folder that holds them."""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The raw files, and what intake made of them."""
    home = tmp_path_factory.mktemp("doors")
    data = home / "data"
    data.mkdir()
    write_all(data)
    (data / "files").mkdir()
    # On the same grid, with one axis turned round.
    turned = nibabel.load(data / "turned.nii")
    nibabel.save(nibabel.Nifti1Image(VOLUME[::-1] // 2, turned.affine), data / "files" / "1.nii")
    (data / "files" / "2.nrrd").write_bytes((data / "copy.nrrd").read_bytes())
    second_series(data)
    specs = [
        CaseSpec(key=key, images=(tuple(Part(files=files) for files in channels),), patient=key, label="x")
        for key, channels in INPUTS.items()
    ]
    return data, run(data, home / "out", specs, Order(dimensions=3))


def second_series(data: Path) -> None:
    """Two series of one examination in one folder, the second of other values."""
    import pydicom

    (data / "both").mkdir()
    for z, name in enumerate(SERIES):
        for letter, add in (("a", 0), ("b", 7)):
            item = pydicom.dcmread(data / name)
            item.SeriesInstanceUID = f"{item.SeriesInstanceUID}.{add}"
            item.SOPInstanceUID = item.file_meta.MediaStorageSOPInstanceUID = f"{item.SOPInstanceUID[:50]}.{add}"
            item.PixelData = (np.frombuffer(item.PixelData, np.int16) // (1 + add) + np.int16(add)).tobytes()
            item.save_as(data / "both" / f"{letter}{z}.dcm")


@pytest.mark.parametrize("template", DOORS)
def test_what_intake_wrote_and_what_it_read_give_the_same_array(
    template: str, taken: tuple[Path, Ran], tmp_path: Path
) -> None:
    data, ran = taken
    parts = [ROOT / "shared" / "imaging", *(TEMPLATES / template).glob("*.py")]
    for part in parts:
        for file in sorted(part.rglob("*.py")) if part.is_dir() else [part]:
            made = tmp_path / file.relative_to(part.parent)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(as_exported(file.read_text()))
    asked: dict[str, tuple[str, int]] = {}
    for key, channels in INPUTS.items():
        assert not ran.taken[key].left_out, ran.taken[key]
        first = data / channels[0][0]
        raw = first if len(channels) == len(channels[0]) == 1 else first.parent
        [case] = ran.files(key).values()
        asked |= {f"raw_{key}": (str(raw), len(channels)), f"case_{key}": (str(case), len(channels))}
    (tmp_path / "read.py").write_text(DOORS[template] + READ)
    done = subprocess.run(
        [sys.executable, "read.py", json.dumps(asked)], cwd=tmp_path, env=bare_environment(), capture_output=True,
        text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for key, channels in INPUTS.items():
        raw, case = (np.load(tmp_path / f"{side}_{key}.npy") for side in ("raw", "case"))
        assert raw.shape[0] == len(channels) and raw.std() > 0
        np.testing.assert_array_equal(raw, case, err_msg=key)
    same = [np.load(tmp_path / f"raw_{key}.npy") for key in ("series", "nrrd", "nifti")]
    np.testing.assert_array_equal(same[0], same[1])
