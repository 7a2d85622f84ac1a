"""Whole runs, from the sentence to the scored package: python -m bench.whole_runs FOLDER [NAME ...] [--seconds N]

One embedded system, the built-in expert, and one run after the other: a replica of m3bench (its name, such as btcv), a
family of tests/families (families/NAME) or of bench/strangers (second/NAME). A row says how the run ended, its level
and score, the cases and patients that were taken in, and the turns. Questions are answered with their first option, and
the row says which were asked.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from m3bench import replicas
from m3bench.cards import paths
from m3bench.runs import followed
from m3bench.tasks import card_of, find
from services.gateway.client import Gateway
from shared.contracts.runs import Budget
from shared.contracts.state import RunState, fold
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.settings import Settings
from tests.families import FAMILIES


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=40, help="of each training")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--layout", default="distributed")
    given = parser.parse_args()
    names = given.names or [path.stem for path in paths()]
    print(f"{'dataset':34} {'end':14} {'level':7} {'score':28} {'cases':>11} {'turns':>5} {'s':>5}  asked / reason")
    with running(given.folder.absolute()) as (gateway, data):
        for name in names:
            began = time.monotonic()
            text, card = made(name, data / name.replace("/", "-"), given.size, given.layout)
            dataset = gateway.add_dataset(card, data / name.replace("/", "-"))["dataset_ids"][0]
            run_id = gateway.request_run(text, budget=Budget(train_seconds=given.seconds), dataset=dataset)
            events, asked = followed(gateway, run_id, dataset)
            state = fold(run_id, enumerate(events, 1))
            print(_row(name, state, asked, time.monotonic() - began), flush=True)
            gateway.add_dataset(card, here=False)


@contextmanager
def running(folder: Path) -> Iterator[tuple[Gateway, Path]]:
    """An embedded system of its own below `folder`, and where its datasets may lie."""
    data = folder / "data"
    data.mkdir(parents=True)
    try:
        with Gateway(up(Settings(home=folder / "home"), (data,)).settings) as gateway:
            yield gateway, data
    finally:
        down(Home(folder / "home"))


def made(name: str, folder: Path, size: str, layout: str) -> tuple[str, str]:
    """The request and the card of a dataset that is written to `folder`."""
    kind, _, own = name.rpartition("/")
    if kind:
        room = None if kind == "families" else import_module(f"bench.strangers.{kind}")
        family = (room.FAMILIES if room else FAMILIES)[own]
        family.make(folder, folder.with_suffix(".truth.json"), 7)
        told = getattr(room, "CARDS", {}).get(own, f"Images of our hospital: {family.request}")
        described = {"dataset name": folder.name, "dataset description": told}
        _opened(folder)
        return family.request, json.dumps(described)
    replicas.make(name, folder, size=size, seed=7, layout=layout, workers=2)
    _opened(folder)
    return find(name).requests[0], card_of(find(name))


def _opened(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def _row(name: str, state: RunState, asked: Sequence[str], seconds: float) -> str:
    score = scored(state)
    cases = "-"
    if state.locked:
        # Where several labels may hold, a case counts for each and once for `all`.
        many = sum(side.get("all", sum(side.values())) for side in state.locked.counts.values())
        cases = f"{many}/{sum(state.locked.patients.values())}"
    end = state.finished.end if state.finished else state.status
    level = state.finished.level if state.finished else ""
    failed = [gate.name for gate in state.scored.gates if not gate.passed] if state.scored else []
    why = "; ".join([*asked, *failed]) or (state.finished.reason if state.finished and end != "succeeded" else "")
    return f"{name:34} {end:14} {level:7} {score:28} {cases:>11} {state.spent.turns:>5} {seconds:>5.0f}  {why[:200]}"


def scored(state: RunState) -> str:
    """The figure of the test cases with its interval."""
    metric = state.scored.metric if state.scored else None
    return f"{metric.name} {metric.value:.3f} [{metric.low:.2f}, {metric.high:.2f}]" if metric else "-"


if __name__ == "__main__":
    os.environ.setdefault("M3_LOG_LEVEL", "WARNING")
    main()
