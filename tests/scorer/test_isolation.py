"""Where a package came to be, over all trainings that it goes on from."""

from typing import Any

from services.scorer.isolation import isolated
from shared.contracts.base import Event
from shared.contracts.training import JobFinished, JobStarted, Tried
from tests.cases import NOWHERE


def job(name: str, isolation: str, **end: Any) -> list[Event]:
    known: dict[str, Any] = {
        "run_id": "r", "sender": "tool_runner", "cause": None, "salt": name, "job_id": name,
        "job": "predict" if name == "predict" else "train", "isolation": isolation,
    }  # fmt: skip
    return [JobStarted.make(**known), JobFinished.make(**known, asked_by="model_trainer", outcome="ok", **end)]


def test_a_package_is_as_isolated_as_every_training_that_it_goes_on_from() -> None:
    for first, passed in (("bwrap", True), ("none", False)):
        events = [
            *job("first", first),
            *job("beside", "none"),
            *job("second", "bwrap", tried=Tried(name="second", continues="first")),
            *job("third", "bwrap", tried=Tried(name="third", continues="second"), outputs={"package": NOWHERE}),
            *job("predict", "bwrap"),
        ]
        assert isolated(events, NOWHERE, "predict").passed == passed
