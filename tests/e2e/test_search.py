"""The trainer's search in a whole run: compared in two rounds, gone on with, scored, and told."""

import pytest

from shared.contracts.events import decode_event
from shared.contracts.runs import Budget
from shared.contracts.state import fold
from tests.e2e.conftest import REQUEST, Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_what_the_search_chose_is_gone_on_with_and_delivered(running: Running) -> None:
    run_id = running.gateway.request_run(REQUEST, budget=Budget(train_seconds=165, search_seconds=120), seed=4)
    items = running.follow(run_id)
    events = [decode_event(item.data.encode()) for item in items if item.kind[0].isupper()]
    state = fold(run_id, enumerate(events, 1))
    assert state.finished and state.finished.end == "succeeded" and state.scored, state.finished
    trainings = {done.tried.name: done for done in state.trainings if done.tried}
    assert [*trainings] == ["as-it-is-1", "more-steps-1", "as-it-is-2", "more-steps-2", "last"]
    assert "training.batch_size 8 -> 4" in trainings["more-steps-1"].tried.change
    for name in ("as-it-is", "more-steps"):
        first, second = (trainings[f"{name}-{number}"] for number in (1, 2))
        assert second.tried.continues == first.job_id
        assert second.metrics["epochs"] > first.metrics["epochs"] and first.metrics["spread"] is not None
    last, trained = trainings["last"], state.trained
    assert trained and trained.package == last.outputs["fitted"]
    assert [name for name, done in trainings.items() if "fitted" in done.outputs] == ["last"]
    chosen = "more-steps" if "more-steps is taken" in trained.notes else "as-it-is"
    assert last.tried.continues == trainings[f"{chosen}-2"].job_id
    assert " by patient)" in trained.notes and "figures" not in trained.validation
    for done in [*trainings.values()][:-1]:
        assert f"{done.metrics['metric']:.3f}" in trained.notes
    assert trained.hyper_parameters["batch_size"] == (4 if chosen == "more-steps" else 8)
    assert trained.hyper_parameters["seed"] == 4
