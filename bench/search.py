"""What the trainer's search is worth: python -m bench.search FOLDER [NAME ...] [--seconds N] [--search N] [--seed N]

For each replica runs of the built-in expert, from the sentence to the score: with a part of the seconds spent on
comparing changes of the module as it was assembled; where another one was chosen, the first module in the seconds that
the chosen one was trained for; and the first one in all the seconds. The later runs begin with what the first said up
to the lock, so that all have the same sealed test cases. Printed are the tries, and what the scorer found. Ends with 1
where the search lost to the same seconds without it.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.whole_runs import made, running, scored
from m3bench.runs import followed
from services.gateway.client import Gateway
from services.model_trainer.search import PART, PLAIN
from shared.agent.tries import table
from shared.bus import Bus
from shared.contracts.base import Event, new_run_id
from shared.contracts.data import DatasetLocked
from shared.contracts.runs import Budget, RunRequested
from shared.contracts.state import RunState, fold
from shared.embedded.system import attach
from shared.settings import Settings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["adni", "verse"])
    parser.add_argument("--seconds", type=float, default=300, help="of training, in each run")
    parser.add_argument("--search", type=float, help="of these, for the search; its own share where none is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", default="tiny")
    given = parser.parse_args()
    part = PART * given.seconds if given.search is None else given.search
    search = Budget(train_seconds=given.seconds, search_seconds=part)
    lost = []
    with running(given.folder.absolute()) as (gateway, data):
        for name in given.names:
            text, card = made(name, data / name, given.size, "distributed")
            dataset = gateway.add_dataset(card, data / name)["dataset_ids"][0]
            run_id = gateway.request_run(text, budget=search, dataset=dataset, seed=given.seed)
            events = _told(name, gateway, run_id)
            values = [_value(events)]
            for seconds in (chosen_for(_state(events)), given.seconds):
                if seconds is not None:
                    plain = Budget(train_seconds=seconds, search_seconds=0)
                    run_id = asyncio.run(_from_the_lock(given.folder.absolute() / "home", events, plain))
                    values.append(_value(_told(name, gateway, run_id)))
            lost += [name] if values[0] < values[-1] else []
            gateway.add_dataset(card, here=False)
    return int(bool(lost))


def _told(name: str, gateway: Gateway, run_id: str) -> list[Event]:
    """The events of a run that is followed to its end and printed."""
    events, _ = followed(gateway, run_id, None)
    state = _state(events)
    seconds, search = state.budget.train_seconds or 0, state.budget.search_seconds or 0
    end = state.finished.end if state.finished else state.status
    print(f"{name}, {search:g} of {seconds:g} s for the search: {end}, test {scored(state)}")
    print(table(state, "model_trainer", seconds))
    if state.trained and state.trained.notes:
        print(f"Notes: {state.trained.notes}")
    print(f"load {os.getloadavg()[0]:.1f}\n", flush=True)
    return events


async def _from_the_lock(home: Path, events: Sequence[Event], budget: Budget) -> str:
    """Begin a run with what another one said until its dataset was locked, with another budget; -> its id."""
    system, run_id = attach(Settings(home=home)), new_run_id()
    assert system is not None
    bus = await Bus.connect(system.settings, "gateway")
    try:
        for event in events:
            changed: dict[str, object] = {"budget": budget} if isinstance(event, RunRequested) else {}
            await bus.append(event.model_copy(update={"run_id": run_id, **changed}))
            if isinstance(event, DatasetLocked):
                break
    finally:
        await bus.close()
    return run_id


def chosen_for(state: RunState) -> float | None:
    """Seconds that the chosen module was trained for, its tries included; None where the first one was chosen."""
    jobs = {done.job_id: done for done in state.trainings}
    package = state.trained.package if state.trained else None
    at = next((done for done in jobs.values() if done.tried and package in done.outputs.values()), None)
    seconds, name = 0.0, PLAIN
    while at and at.tried:
        seconds, name = seconds + at.tried.seconds, at.tried.name
        at = jobs.get(at.tried.continues or "")
    return None if name.startswith(PLAIN) else seconds


def _state(events: Sequence[Event]) -> RunState:
    return fold(events[0].run_id, enumerate(events, 1))


def _value(events: Sequence[Event]) -> float:
    found = _state(events).scored
    return found.metric.value if found and found.metric else 0.0


if __name__ == "__main__":
    os.environ.setdefault("M3_LOG_LEVEL", "WARNING")
    sys.exit(main())
