"""The search finds the cases and patients of families that each stand for a cause of wrong ones."""

import json
from pathlib import Path

import pytest

from bench.families import judge
from bench.strangers import sixth
from tests.families import FAMILIES

FOUND = {
    "doubled_folder": "right",
    "two_eyes_and_small_copies": "right",
    "overlays_beside_frames": "right",
    "parts_and_some_again": "right",
    "sides_by_letter": "right",
    "class_letter_before_number": "right",
    "initials_in_quarters": "right",
    "ids_of_several_sources": "right",
    "series_by_vendor": "right",
    "cine_beside_frames": "right",
    "ordinal_observers": "right",
    "planes_of_an_examination": "right",
    "good_without_masks": "right",
    "breast_two_deliveries": "right",
    "skulls_in_percent": "asked",
    "films_and_one_dump": "right",
    "pacs_with_letters": "right",
}
"""Family -> what `bench.families` says of it."""


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    family = (FAMILIES | sixth.FAMILIES)[name]
    family.make(tmp_path / "set", tmp_path / "truth.json", 7)
    truth = json.loads((tmp_path / "truth.json").read_text("utf-8"))
    outcome, patients, why = judge(tmp_path / "set", truth, family.request)
    assert (outcome, patients) == (FOUND[name], "ok" if truth["patients_known"] else "-"), why
