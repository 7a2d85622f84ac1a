"""The table of formats: by name, by content, and in what order names stand."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.imaging.formats import FORMATS, is_image, kind_of, refusal, stem_of, suffix_of
from shared.imaging.headers import BadImage, peek
from shared.imaging.order import natural
from tests.imaging.make import dicom


@pytest.mark.parametrize(
    ("name", "suffix", "kind"),
    [
        ("a/b.NII.GZ", ".nii.gz", "volume"),
        ("scan.v2.nii.gz", ".nii.gz", "volume"),
        ("x.JPeG", ".jpeg", "picture"),
        ("1.2.840.113619.2.5", "", None),
        (".nii.gz", "", None),
        (".png", "", None),
        ("archive.tar.gz", "", None),
        ("a.dcm.png", ".png", "picture"),
        ("IMG.IMA", ".ima", "dicom"),
        ("x.seg.nrrd", ".nrrd", "volume"),
        ("labels.csv", ".csv", "annotation"),
        ("movie.mp4", ".mp4", "video"),
        ("data.h5", ".h5", "array"),
        ("noext", "", None),
    ],
)
def test_names_tell_the_format(name: str, suffix: str, kind: str | None) -> None:
    assert suffix_of(name) == suffix
    assert kind_of(name) == kind


def test_what_counts_as_an_image() -> None:
    assert all(is_image(name) for name in ("a.png", "a.nii", "a.dcm", "a.mat", "a.hdr"))
    assert not any(is_image(name) for name in ("a.img", "a.mp4", "a.csv", "a.svs", "a.unknown"))
    assert stem_of("x/Case 1.nii.gz") == "Case 1" and stem_of("1.2.840.5") == "1.2.840.5"


def test_what_is_not_read_says_what_to_convert_it_to(tmp_path: Path) -> None:
    for row in FORMATS:
        assert (row.reader != "") != (row.convert != "") or row.kind == "annotation"
    assert "PNG" in str(refusal("a.avi")) and refusal("a.png") is None
    film = tmp_path / "film.mp4"
    film.write_bytes(b"something")
    with pytest.raises(BadImage, match=r"film\.mp4 is not supported yet: video.*convert to one PNG a frame"):
        peek(film)


def test_content_decides_where_the_name_says_nothing(tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.arange(64, dtype=np.int16).reshape(8, 8)
    dicom(tmp_path / "1.2.840.1", pixels)
    dicom(tmp_path / "IM0001", pixels, preamble=False)
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "picture", format="png")
    (tmp_path / "text").write_text("hello")
    kinds = {path.name: kind_of(path) for path in tmp_path.iterdir()}
    assert kinds == {"1.2.840.1": "dicom", "IM0001": "dicom", "picture": "picture", "text": None}
    assert peek(tmp_path / "IM0001").shape == (8, 8)
    assert kind_of(str(tmp_path / "1.2.840.1")) is None  # a text is a name, nothing is opened
    assert kind_of(tmp_path / "missing") is None


def test_importing_the_table_costs_nothing() -> None:
    code = (
        "import sys, shared.imaging.formats, shared.imaging.order; print('numpy' in sys.modules, 'PIL' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_natural_order() -> None:
    names = ["s/10.png", "s/9.png", "S/1.png", "a 2", "a10", "s2/1.png", "7"]
    assert natural(names) == ["7", "a10", "a 2", "S/1.png", "s/9.png", "s/10.png", "s2/1.png"]


@given(st.lists(st.text(alphabet="ab1290 ._/-²", max_size=8), unique=True, max_size=12), st.randoms())
def test_order_does_not_depend_on_the_order_of_names(names: list[str], chance: random.Random) -> None:
    mixed = list(names)
    chance.shuffle(mixed)
    assert natural(mixed) == natural(names)
