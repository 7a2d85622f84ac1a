"""Rules that language models wrote for datasets of other hands: they find exactly the cases that are meant."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from bench.families import compare, patients
from shared.dataset.rules.reading import read_rules
from shared.dataset.rules.resolve import resolve

RULES = sorted((Path(__file__).parents[2] / "bench/strangers/rules").glob("*.yaml"))
FAMILIES = {
    name: family
    for room in ("ninth", "tenth", "eleventh")
    for name, family in import_module(f"bench.strangers.{room}").FAMILIES.items()
}
QUICK = ("coluna_lombar_slicer", "tiroid_usg_via")


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, id=one.stem, marks=() if one.stem in QUICK else pytest.mark.slow) for one in RULES],
)
def test_rules_find_the_cases_that_are_meant(path: Path, tmp_path: Path) -> None:
    data, told = tmp_path / "data", tmp_path / "truth.json"
    FAMILIES[path.stem].make(data, told, 7)
    truth = json.loads(told.read_text(encoding="utf-8"))
    done = resolve(read_rules(path.read_bytes(), path.name), data)
    assert not compare(done.cases, truth)
    assert patients(done.cases, truth) == "ok"
    broken = {*truth.get("broken", ()), *truth.get("uncertain", ())}
    whole = [case for case in done.cases if broken.isdisjoint(part.files[0] for view in case.images for part in view)]
    assert len(whole) == len([case for case in truth["cases"] if broken.isdisjoint(case["files"])])
