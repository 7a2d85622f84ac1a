"""Spans. A run is one trace: its request is the root, and every message carries on the trace of what led to it.

Only spans that have ended are parents: an open span is lost when its process is killed, and what hung below it would
hang nowhere. So no span lasts longer than a message is handled, and only `run_span` tells of more, once it is over.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.telemetry.export import Attributes, record, tracer
from shared.telemetry.names import Metric, Metrics, Name

_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass
class Work:
    """What a span is around. `outcome` says how it ended where nothing was raised; any but `ok` marks the span."""

    span: Span
    outcome: str = "ok"

    def failed(self, outcome: str, error: BaseException) -> None:
        """Of an error only the type is told: texts name files."""
        self.outcome = outcome
        self.span.set_attribute(Name.ERROR, type(error).__name__)


def inject(headers: dict[str, str]) -> dict[str, str]:
    """Add the W3C trace context of the current span to message headers, in place."""
    _PROPAGATOR.inject(headers)
    return headers


def extract(headers: Mapping[str, str] | None) -> otel_context.Context:
    """The context that a message's headers carry; an empty one when there is none. Header case does not matter."""
    found = {key.lower(): value for key, value in (headers or {}).items()}
    return _PROPAGATOR.extract(found, context=otel_context.Context())


def in_trace() -> bool:
    return trace.get_current_span().get_span_context().is_valid


@contextmanager
def continued(headers: Mapping[str, str] | None) -> Iterator[None]:
    """What is published inside belongs to the trace of the message with these headers, if they name one."""
    with _inside(trace.get_current_span(extract(headers))):
        yield


@contextmanager
def below(turn: Span | None) -> Iterator[None]:
    """What is published inside follows from this turn."""
    with _inside(turn or trace.INVALID_SPAN):
        yield


@contextmanager
def publish_span(template: str, message_id: str | None, size: int) -> Iterator[None]:
    """Around a publish. `template` is the subject with its ids left out: `evt.{run}.scorer.RunScored.all`.

    What is injected inside names this span, which is about to end.
    """
    attributes: Attributes = {
        Name.MESSAGING_SYSTEM: "nats",
        Name.MESSAGING_OPERATION: "send",
        Name.MESSAGING_VERB: "publish",
        Name.DESTINATION: template,
        Name.MESSAGE_SIZE: size,
    }
    if message_id:
        attributes[Name.MESSAGE_ID] = message_id
    with _span(f"publish {template}", SpanKind.PRODUCER, attributes) as span, _inside(span):
        yield


@contextmanager
def process_span(
    template: str,
    headers: Mapping[str, str] | None,
    *,
    group: str,
    sequence: int,
    deliveries: int,
    stored: datetime,
    handed_back: bool,
) -> Iterator[Work]:
    """Around the handling of one message, `stored` when it was published.

    What happens inside hangs below a span of the delivery, which ends at once; its parent and link is the publisher's.
    A delivery that was not the first says why it came again: `handed_back` by this process, or lost with another.
    """
    parent = extract(headers)
    producer = trace.get_current_span(parent).get_span_context()
    attributes: Attributes = {
        Name.MESSAGING_SYSTEM: "nats",
        Name.DESTINATION: template,
        Name.CONSUMER_GROUP: group,
        Name.STREAM_SEQUENCE: sequence,
        Name.DELIVERIES: deliveries,
    }
    mine: Attributes = {Name.CONSUMER_GROUP: group}
    if deliveries > 1:
        attributes[Name.REDELIVERY] = "handed_back" if handed_back else "lost"
        record(Metrics.AGAIN, 1, mine | {Name.REDELIVERY: attributes[Name.REDELIVERY]})
    else:
        record(Metrics.WAIT, max(0.0, (datetime.now(UTC) - stored).total_seconds()), mine)
    links = [Link(producer)] if producer.is_valid else None
    fetched: Attributes = {Name.MESSAGING_OPERATION: "receive", Name.MESSAGING_VERB: "fetch"}
    received = tracer().start_span(f"receive {template}", parent, SpanKind.CONSUMER, attributes | fetched, links)
    received.end()
    with _inside(received):
        if deliveries > 1 and not handed_back:
            lost = tracer().start_span(f"attempt_lost {template}", attributes=attributes)
            lost.set_status(Status(StatusCode.ERROR))
            lost.end()
        handling: Attributes = attributes | {Name.MESSAGING_OPERATION: "process", Name.MESSAGING_VERB: "process"}
        record(Metrics.HANDLING, 1, mine)
        try:
            with _work(f"process {template}", handling, Metrics.HANDLE, mine, SpanKind.CONSUMER) as work:
                yield work
        finally:
            record(Metrics.HANDLING, -1, mine)


@contextmanager
def tool_span(tool: str, call_id: str) -> Iterator[Work]:
    """Around the execution of one tool call."""
    mine: Attributes = {Name.TOOL: tool}
    attributes = mine | {Name.OPERATION: "execute_tool", Name.TOOL_CALL: call_id}
    with _work(f"execute_tool {tool}", attributes, Metrics.TOOL, mine) as work:
        yield work


@contextmanager
def job_span(kind: str, job_id: str, attempt: int) -> Iterator[Work]:
    """Around one attempt at a job."""
    mine: Attributes = {Name.JOB: kind}
    attributes = mine | {Name.JOB_ID: job_id, Name.ATTEMPT: attempt}
    with _work(f"job {kind}", attributes, Metrics.JOB, mine) as work:
        yield work


@contextmanager
def scorer_span(what: Literal["lock", "score"], task: str) -> Iterator[None]:
    """Around what the scorer itself computes."""
    with _span(f"{what} {task}", SpanKind.INTERNAL, {Name.TASK: task}):
        yield


@contextmanager
def turn_span(agent: str, run_id: str, number: int, core: str) -> Iterator[Span]:
    """Around the decision of one turn; its calls come after it, `below` it."""
    attributes: Attributes = {
        Name.OPERATION: "invoke_agent",
        Name.AGENT: agent,
        Name.CONVERSATION: run_id,
        Name.TURN: number,
        **core_of(core),
    }
    with _span(f"invoke_agent {agent}", SpanKind.INTERNAL, attributes) as span:
        yield span


@contextmanager
def chat_span(agent: str, run_id: str, core: str) -> Iterator[Span]:
    """Around one request to a language model, repetitions by its SDK included."""
    mine: Attributes = {Name.OPERATION: "chat", Name.AGENT: agent, **core_of(core)}
    name = f"chat {mine.get(Name.MODEL, '')}"
    with _work(name, mine | {Name.CONVERSATION: run_id}, Metrics.CHAT, mine, SpanKind.CLIENT) as work:
        yield work.span


def run_span(headers: Mapping[str, str] | None, began: float, ended: float, attributes: Attributes) -> None:
    """A whole run, told at its end. `headers` are those of its first message, times are seconds since the epoch."""
    about: Attributes = {Name.OPERATION: "invoke_workflow", Name.WORKFLOW: "m3builder"}
    span = tracer().start_span(
        "invoke_workflow m3builder", extract(headers), attributes=about | attributes, start_time=int(began * 1e9)
    )
    span.end(int(ended * 1e9))


def core_of(core: str) -> Attributes:
    """A core as an endpoint and its model; of recorded turns not which, since that names a file."""
    provider, _, model = core.partition(":")
    return {Name.PROVIDER: provider, **({Name.MODEL: model} if model and provider != "scripted" else {})}


@contextmanager
def _work(
    name: str, attributes: Attributes, metric: Metric, labels: Attributes, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[Work]:
    """A span whose outcome is told with it and with its duration."""
    began, outcome = time.monotonic(), "broken"
    try:
        with _span(name, kind, attributes) as span:
            work = Work(span)
            yield work
            outcome = work.outcome
            span.set_attribute(Name.OUTCOME, outcome)
            if outcome != "ok":
                span.set_status(Status(StatusCode.ERROR))
    finally:
        record(metric, time.monotonic() - began, labels | {Name.OUTCOME: outcome})


@contextmanager
def _span(name: str, kind: SpanKind, attributes: Attributes) -> Iterator[Span]:
    """A child of the current span that does not become current. Of an error only the type is told: texts name files."""
    span = tracer().start_span(name, kind=kind, attributes=attributes)
    try:
        yield span
    except BaseException as error:
        span.set_attribute(Name.ERROR, type(error).__name__)
        span.set_status(Status(StatusCode.ERROR))
        raise
    finally:
        span.end()


@contextmanager
def _inside(span: Span) -> Iterator[None]:
    if not span.get_span_context().is_valid:
        yield
        return
    token = otel_context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        otel_context.detach(token)
