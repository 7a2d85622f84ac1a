"""Planted copies are found; different patients with alike images are not taken for copies."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from case_tables import case, looks
from looking_alike import body, cropped, jpeg, resized
from mask_files import OBLIQUE
from PIL import Image

from services.scorer.lock.copies import compare
from services.scorer.lock.near import near

PEOPLE = 40


def saved(array: np.ndarray, quality: int) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(jpeg(array, quality))))


def found(originals: list[np.ndarray], others: list[np.ndarray]) -> list[tuple[int, int]]:
    """Pairs (original, other); every picture is a patient of its own."""
    pairs = near(looks([*originals, *others]), np.arange(len(originals) + len(others)))
    return [(one, other - len(originals)) for one, other in pairs]


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    return [body(seed) for seed in range(PEOPLE)]


SAVED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as JPEG": lambda a: saved(a, 40),
    "cropped": lambda a: cropped(a, 0.06),
    "cropped by a tenth and as JPEG": lambda a: saved(cropped(a, 0.1), 60),
    "smaller": lambda a: resized(a, 0.6),
    "larger": lambda a: resized(a, 1.5),
    "darker": lambda a: (a * 0.6 + 30).astype(np.uint8),
    "16 bits": lambda a: a.astype(np.uint16) * 37 + 900,
}


@pytest.mark.parametrize("how", list(SAVED))
def test_a_picture_that_was_saved_again_is_found_and_no_other(pictures: list[np.ndarray], how: str) -> None:
    # Three copies among ten strangers, before and behind the originals.
    others = [SAVED[how](pictures[n]) for n in (4, 11, 25)] + pictures[30:]
    assert found(pictures[:30], others) == [(4, 0), (11, 1), (25, 2)]
    assert found(others, pictures[:30]) == [(0, 4), (1, 11), (2, 25)]


def test_a_mirrored_picture_is_another(pictures: list[np.ndarray]) -> None:
    assert found(pictures[:5], [one[:, ::-1] for one in pictures[:5]]) == []


VOLUMES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "floats": lambda a: (a.astype(np.float32) * 3.7 - 1000, OBLIQUE),
    "resampled": lambda a: (resized(a, 0.75), OBLIQUE @ np.diag([4 / 3, 4 / 3, 4 / 3, 1])),
    "axes stored the other way": lambda a: (
        a.transpose(1, 0, 2)[:, ::-1],
        OBLIQUE @ np.array([[0, -1, 0, 35], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
    ),
}


@pytest.mark.parametrize("how", list(VOLUMES))
def test_a_volume_that_was_saved_again_is_found_and_no_other(how: str) -> None:
    # Of all pairs, not of two sides alone: those of different patients have to differ more than in pictures.
    volumes = [body(seed, (36, 40, 32), apart=1.5) for seed in range(16)]
    copy, affine = VOLUMES[how](volumes[7])
    records = np.concatenate([looks(volumes, OBLIQUE), looks([copy], affine)])
    assert near(records, np.arange(17)) == [(7, 16)]


def test_among_scans_that_are_all_alike_only_the_copy_is_one() -> None:
    scans = [body(seed, (36, 40, 32), apart=0.8) for seed in range(24)]
    copy = scans[7].astype(np.float32) * 3.7 - 1000
    assert near(looks([*scans, copy], OBLIQUE), np.arange(25)) == [(7, 24)]
    # A dozen copies of one are each other's nearest, and copies even so.
    many = [copy * (1 + number / 10) for number in range(12)]
    assert len(near(looks([*scans, *many], OBLIQUE), np.arange(36))) == 12 * 13 / 2
    # Of eight and fewer nothing says how alike strangers are: as alike as copies counts as copies.
    assert len(near(looks(scans[:8], OBLIQUE), np.arange(8))) > 10


def test_among_pictures_that_are_all_alike_only_the_copy_is_one() -> None:
    pictures = [body(seed, apart=0.3) for seed in range(24)]
    records = looks([*pictures, saved(pictures[7], 75)])
    assert near(records, np.arange(25)) == [(7, 24)]
    # Where nothing says whose they are, they may be slices of one study.
    assert len(near(records, np.arange(25), named=False)) > 20


def test_copies_are_told_from_near_duplicates_and_patients_from_one_another(pictures: list[np.ndarray]) -> None:
    images = [pictures[0], pictures[1], saved(pictures[0], 70), pictures[3], pictures[1], np.full((9, 9), 7, np.uint8)]
    cases = [case(number) for number in range(6)]
    copies = compare(cases, looks(images))
    # The canonical files differ in name only to this test: intake's digest of their pixels finds the second copy.
    assert copies.content[1] == copies.content[4] and len(set(copies.content.tolist())) == 5
    assert copies.near == ((0, 2),) and copies.no_look == 1
    same = [one.model_copy(update={"patient": "same"}) if n in (0, 2) else one for n, one in enumerate(cases)]
    assert compare(same, looks(images)).near == ()
    twice = [one.model_copy(update={"images": cases[0].images}) if n == 3 else one for n, one in enumerate(cases)]
    blind = compare(twice)
    assert blind.content[0] == blind.content[3] and (blind.near, blind.no_look) == ((), 6)


def test_a_case_without_a_record_is_a_copy_of_nothing() -> None:
    records = np.zeros(3, looks([body(0)]).dtype)
    assert len(set(compare([case(number) for number in range(3)], records).content.tolist())) == 3
