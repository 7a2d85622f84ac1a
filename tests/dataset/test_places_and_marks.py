"""Folders that say where images came from, and sentences that say what an image without a mark shows."""

from pathlib import Path

import pytest
from propose_files import picture

from shared.dataset.propose import propose
from shared.dataset.propose.legend import says_unmarked


def films(root: Path, forms: tuple[str, str]) -> None:
    for number in range(24):
        picture(root / forms[number % 2].format(number=number))


@pytest.mark.parametrize(
    ("forms", "classes"),
    [
        (("centre_A/{number}.png", "centre_B/{number}.png"), False),
        (("te7/E{number}.png", "venue/{number}/V{number}.jpg"), False),
        (("viral/E{number}.png", "bacterial/{number}/V{number}.jpg"), True),
        (("aap/{number}.png", "noot/{number}.png"), True),
    ],
)
def test_folders_of_places_are_no_classes(tmp_path: Path, forms: tuple[str, str], classes: bool) -> None:
    films(tmp_path, forms)
    found = propose(tmp_path, "diagnosis", target="is a pneumonia viral or bacterial?")
    assert bool(found) == classes


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("Every frame was looked at: a frame\nwithout a polyp shape shows no polyp.", True),
        ("Images with no mask are normal.", True),
        ("Slices without contours contain no tumour", True),
        ("Images without boxes show no abnormal findings.", True),
        ("Images without a mask are not normal, nobody has read them.", False),
        ("An image without an outline does not mean normal.", False),
        ("Cases without a mask have no consensus yet.", False),
        ("Scans without annotations are not included.", False),
        ("No masks are provided for the test set.", False),
    ],
)
def test_what_an_image_without_a_mark_shows(sentence: str, says: bool) -> None:
    assert says_unmarked(sentence) == says
