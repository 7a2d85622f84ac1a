"""The search for rules on worlds of every family: what it finds, and what it asks."""

from pathlib import Path

import pytest
from propose_worlds import World
from propose_worlds_classes import WORLDS as CLASSES
from propose_worlds_common import WORLDS as COMMON
from propose_worlds_hospital import WORLDS as HOSPITAL
from propose_worlds_marks import WORLDS as MARKS
from propose_worlds_masks import WORLDS as MASKS
from propose_worlds_regions import WORLDS as REGIONS
from propose_worlds_texts import WORLDS as TEXTS

from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve

KINDS = {
    "classes": CLASSES,
    "common": COMMON,
    "hospital": HOSPITAL,
    "masks": MASKS,
    "marks": MARKS,
    "regions": REGIONS,
    "texts": TEXTS,
}
ALL = {f"{kind}: {name}": world for kind, worlds in KINDS.items() for name, world in worlds.items()}


@pytest.mark.parametrize("name", ALL)
def test_a_world_is_understood(name: str, tmp_path: Path) -> None:
    world: World = ALL[name]
    world.make(tmp_path)
    proposals = propose(tmp_path, world.task, **world.asked)
    assert proposals, "nothing was found"
    best = proposals[0]
    assert resolve(Rules.model_validate(best.rules), tmp_path).coverage == best.coverage
    assert not best.coverage.problems
    assert (best.coverage.cases, best.coverage.patients) == (world.cases, world.patients), best.says
    assert best.key == world.key, best.says
    if world.key:
        asked = [one.choice for one in proposals if one.key == world.key]
        assert len(asked) == len(set(asked)) == world.choices
    if world.counts is not None:
        assert best.coverage.counts == world.counts
    if world.names is not None:
        assert best.coverage.label_names == world.names
    if world.channels is not None:
        assert best.coverage.channels == world.channels
    if world.splits is not None:
        assert best.coverage.splits == world.splits
    if world.dimensions is not None:
        assert best.coverage.dimensions == world.dimensions
    for name, settled in world.rules.items():
        assert best.rules[name] == settled
