"""The main job as spans: one trace over all seven services, with every turn, call and job in its place."""

from collections import Counter
from typing import Any

import pytest

from shared.contracts.base import AGENTS, SERVICES
from tests.e2e.conftest import Running
from tests.telemetry.receiver import above, orphans, tree

pytestmark = pytest.mark.timeout(900)


def test_the_main_job_is_one_trace(running: Running, main_job: dict[str, Any]) -> None:
    run_id, state, receiver = main_job["run_id"], main_job["state"], running.spans
    assert receiver is not None
    last = "process evt.{run}.task_manager.RunFinished.all"
    receiver.until(lambda: any(span.name == last for span in receiver.of_run(run_id)))
    receiver.until(lambda: not orphans(receiver.of_run(run_id)))
    spans = receiver.of_run(run_id)
    (root,) = tree(spans)[""]
    assert (root.service, root.name) == ("gateway", "publish evt.{run}.gateway.RunRequested.all")
    assert {span.service for span in spans} == set(SERVICES)

    turns = [span for span in spans if span.name.startswith("invoke_agent ")]
    assert len(turns) == state.spent.turns and {span.service for span in turns} == set(AGENTS)
    jobs = [span for span in spans if span.name.startswith("job ")]
    assert Counter(span.name for span in jobs) == {"job intake": 1, "job train": 1, "job predict": 1}
    calls = [span for span in spans if span.name.startswith("execute_tool ")]
    assert {span.service for span in (*jobs, *calls)} == {"tool_runner"}
    # Every call was asked for by a turn; a job by a turn or by the scorer.
    for span in (*calls, *jobs):
        asked = above(span, spans)
        assert any(one in turns for one in asked) or any(one.service == "scorer" for one in asked), span.name
    published = Counter(span.name for span in spans if span.name.startswith("publish evt."))
    assert sum(published.values()) == len(main_job["events"])


def test_nothing_of_a_patient_or_a_request_is_in_a_span(running: Running, main_job: dict[str, Any]) -> None:
    split = running.split(main_job["state"])
    assert running.spans is not None
    told = b"\n".join(running.spans.bodies)
    assert b"execute_tool" in told, "the search would find what is there"
    assert not any(span.events for span in running.spans.spans)
    for row, key in zip(split.rows, split.keys, strict=True):
        assert row.sample_id.encode() not in told and key.encode() not in told
    for text in (main_job["state"].requested.requirement, str(running.replica), running.replica.name):
        assert text.encode() not in told
