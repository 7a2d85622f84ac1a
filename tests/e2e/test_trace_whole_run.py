"""The main job as spans: one trace over all seven services, with every turn, call and job in its place."""

from collections import Counter
from typing import Any

import pytest

from shared.contracts.base import AGENTS, SERVICES
from tests.e2e.conftest import Running
from tests.telemetry.edges import check_edges
from tests.telemetry.prometheus import ELSEWHERE, metrics_asked
from tests.telemetry.receiver import above, orphans, tree, unnamed

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
    # Every call was asked for by a turn, but the looks at files before the first; a job by a turn or by the scorer.
    for span in (*(call for call in calls if call.name != "execute_tool profile_dataset"), *jobs):
        asked = above(span, spans)
        assert any(one in turns for one in asked) or any(one.service == "scorer" for one in asked), span.name
    published = Counter(span.name for span in spans if span.name.startswith("publish evt."))
    assert sum(published.values()) == len(main_job["events"])

    # Told by the scorer and, at the end, of the whole.
    assert [span.service for span in spans if span.name == "score diagnosis"] == ["scorer"]
    (whole,) = [span for span in spans if span.name == "invoke_workflow m3builder"]
    assert whole.parent == root.id and whole.attributes["m3builder.end"] == state.finished.end
    assert whole.ended - whole.began >= max(span.ended - span.began for span in spans)
    assert whole.began <= root.began + 1e9 and not [span for span in spans if span.name.startswith("attempt_lost")]


def test_its_edges_are_those_of_the_stages(running: Running, main_job: dict[str, Any]) -> None:
    check_edges(running.spans, main_job["run_id"])


def test_what_dashboards_and_alerts_ask_for_is_told(running: Running, main_job: dict[str, Any]) -> None:
    receiver = running.spans
    assert receiver is not None

    def missing() -> set[str]:
        kinds = {"histogram": "histogram", "gauge": "gauge", "counter": "sum", "level": "sum"}
        told = {(one.name, one.unit, one.kind, one.monotonic) for one in list(receiver.figures)}
        return {
            metric.name
            for metric in metrics_asked() - ELSEWHERE
            if (metric.name, metric.unit, kinds[metric.kind], metric.kind in ("counter", "histogram")) not in told
        }

    receiver.until(lambda: not missing())
    assert not unnamed(receiver)
    ended = [one for one in receiver.figures if one.name == "m3builder.runs"]
    assert any(one.attributes["m3builder.level"] == main_job["state"].finished.level for one in ended)


def test_nothing_of_a_patient_or_a_request_is_told(running: Running, main_job: dict[str, Any]) -> None:
    split = running.split(main_job["state"])
    assert running.spans is not None
    told = b"\n".join(running.spans.bodies)
    assert b"execute_tool" in told, "the search would find what is there"
    assert not any(span.events for span in running.spans.spans)
    for row, key in zip(split.rows, split.keys, strict=True):
        assert row.sample_id.encode() not in told and key.encode() not in told
    for text in (main_job["state"].requested.requirement, str(running.replica), running.replica.name):
        assert text.encode() not in told
