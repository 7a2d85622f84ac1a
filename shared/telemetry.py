"""Traces and logs. One call, `setup`, turns them on; without it every helper here is a cheap no-op.

A run is one trace: its request is the root, and every message carries on the trace of what led to it. Only spans that
have ended are parents: an open span is lost when its process is killed, and what hung below it would hang nowhere.

Nothing of a patient, no file name and no text of a message belongs into an attribute or a log line.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_PROPAGATOR = TraceContextTextMapPropagator()
_run_id: ContextVar[str | None] = ContextVar("run_id", default=None)
_provider: "TracerProvider | None" = None

Attributes = dict[str, str | int | float | bool]
EXPORT_SECONDS = 1.0
"""How long an ended span waits to be sent: what a killed process had not sent yet is lost."""


class Name:
    """Attribute names of ours: the GenAI and messaging conventions are still in development, so we pin what we write.

    After semantic-conventions-genai as of 2026-11 and core semantic conventions 1.42.
    """

    OPERATION = "gen_ai.operation.name"
    AGENT = "gen_ai.agent.name"
    CONVERSATION = "gen_ai.conversation.id"
    PROVIDER = "gen_ai.provider.name"
    MODEL = "gen_ai.request.model"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    """Includes cached tokens."""
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    TOOL = "gen_ai.tool.name"
    TOOL_CALL = "gen_ai.tool.call.id"
    ERROR = "error.type"
    MESSAGING_SYSTEM = "messaging.system"
    MESSAGING_OPERATION = "messaging.operation.type"
    MESSAGING_VERB = "messaging.operation.name"
    DESTINATION = "messaging.destination.template"
    MESSAGE_ID = "messaging.message.id"
    MESSAGE_SIZE = "messaging.message.body.size"
    CONSUMER_GROUP = "messaging.consumer.group.name"
    STREAM_SEQUENCE = "nats.stream_seq"
    DELIVERIES = "nats.num_delivered"
    TURN = "m3builder.turn"
    JOB = "m3builder.job.kind"
    JOB_ID = "m3builder.job.id"
    ATTEMPT = "m3builder.job.attempt"


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, service, logger, message, and the ids of trace, span and run if any."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self.service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            line["trace_id"], line["span_id"] = f"{span.trace_id:032x}", f"{span.span_id:016x}"
        run_id = _run_id.get()
        if run_id:
            line["run_id"] = run_id
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def setup(service: str, settings: Settings) -> None:
    """Install the tracer, and JSON logs on stderr, for this process. A second call only changes the logs."""
    global _provider
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    root = logging.getLogger()
    root.handlers = [old for old in root.handlers if not isinstance(old.formatter, JsonLines)] + [handler]
    root.setLevel(settings.log_level.upper())
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # the bus reports what the client library would log raw
    if _provider is not None:
        return
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    _provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
    if settings.otlp_endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = OTLPSpanExporter(endpoint=settings.otlp_endpoint.rstrip("/") + "/v1/traces")
        _provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=EXPORT_SECONDS * 1000))


def shutdown(seconds: float = 3.0) -> None:
    """Send what is still held. Blocks up to `seconds`; does nothing when telemetry was never set up."""
    if _provider is not None:
        _provider.force_flush(int(seconds * 1000))


def inject(headers: dict[str, str]) -> dict[str, str]:
    """Add the W3C trace context of the current span to message headers, in place."""
    _PROPAGATOR.inject(headers)
    return headers


def extract(headers: Mapping[str, str] | None) -> otel_context.Context:
    """The context that a message's headers carry; an empty one when there is none. Header case does not matter."""
    found = {key.lower(): value for key, value in (headers or {}).items()}
    return _PROPAGATOR.extract(found, context=otel_context.Context())


@contextmanager
def bind_run(run_id: str | None) -> Iterator[None]:
    """Log lines inside carry this run id."""
    token = _run_id.set(run_id)
    try:
        yield
    finally:
        _run_id.reset(token)


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
    template: str, headers: Mapping[str, str] | None, *, group: str, sequence: int, deliveries: int
) -> Iterator[None]:
    """Around the handling of one message.

    What happens inside hangs below a span of the delivery, which ends at once; its parent and link is the publisher's.
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
    links = [Link(producer)] if producer.is_valid else None
    received = tracer().start_span(
        f"receive {template}",
        parent,
        SpanKind.CONSUMER,
        attributes | {Name.MESSAGING_OPERATION: "receive", Name.MESSAGING_VERB: "fetch"},
        links,
    )
    received.end()
    with _inside(received):
        handling = attributes | {Name.MESSAGING_OPERATION: "process", Name.MESSAGING_VERB: "process"}
        with _span(f"process {template}", SpanKind.CONSUMER, handling):
            yield


@contextmanager
def tool_span(tool: str, call_id: str) -> Iterator[None]:
    """Around the execution of one tool call."""
    attributes: Attributes = {Name.OPERATION: "execute_tool", Name.TOOL: tool, Name.TOOL_CALL: call_id}
    with _span(f"execute_tool {tool}", SpanKind.INTERNAL, attributes):
        yield


@contextmanager
def job_span(kind: str, job_id: str, attempt: int) -> Iterator[None]:
    """Around one attempt at a job."""
    attributes: Attributes = {Name.JOB: kind, Name.JOB_ID: job_id, Name.ATTEMPT: attempt}
    with _span(f"job {kind}", SpanKind.INTERNAL, attributes):
        yield


@contextmanager
def turn_span(agent: str, run_id: str, number: int, core: str) -> Iterator[Span]:
    """Around the decision of one turn; its calls come after it, `below` it."""
    provider, _, model = core.partition(":")
    attributes: Attributes = {
        Name.OPERATION: "invoke_agent",
        Name.AGENT: agent,
        Name.CONVERSATION: run_id,
        Name.TURN: number,
        Name.PROVIDER: provider,
    }
    if provider != "scripted":  # that names a file
        attributes[Name.MODEL] = model
    with _span(f"invoke_agent {agent}", SpanKind.INTERNAL, attributes) as span:
        yield span


def tracer() -> trace.Tracer:
    # Not the global one: what a library tells of our requests is not ours to vouch for, nor part of a run's trace.
    return _provider.get_tracer("m3builder") if _provider else trace.NoOpTracer()


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
