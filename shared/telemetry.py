"""Traces and logs. One call, `setup`, turns them on; without it every helper here is a cheap no-op.

Nothing of a patient, no file name and no text of a message belongs into an attribute or a log line.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_PROPAGATOR = TraceContextTextMapPropagator()
_run_id: ContextVar[str | None] = ContextVar("run_id", default=None)
_provider: "TracerProvider | None" = None

Attributes = dict[str, str | int | float | bool]


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
        _provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(_provider)


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


def _span(
    name: str,
    kind: SpanKind,
    attributes: Attributes,
    context: otel_context.Context | None = None,
    links: list[Link] | None = None,
) -> AbstractContextManager[Span]:
    tracer = trace.get_tracer("m3builder")
    return tracer.start_as_current_span(name, context=context, kind=kind, attributes=attributes, links=links)


def publish_span(template: str, message_id: str | None, size: int) -> AbstractContextManager[Span]:
    """Around a publish. `template` is the subject with its ids left out: `evt.{run}.scorer.RunScored.all`."""
    attributes: Attributes = {
        Name.MESSAGING_SYSTEM: "nats",
        Name.MESSAGING_OPERATION: "send",
        Name.MESSAGING_VERB: "publish",
        Name.DESTINATION: template,
        Name.MESSAGE_SIZE: size,
    }
    if message_id:
        attributes[Name.MESSAGE_ID] = message_id
    return _span(f"publish {template}", SpanKind.PRODUCER, attributes)


def process_span(
    template: str, headers: Mapping[str, str] | None, *, group: str, sequence: int, deliveries: int
) -> AbstractContextManager[Span]:
    """Around the handling of one message: its publisher's span is both parent and link."""
    parent = extract(headers)
    producer = trace.get_current_span(parent).get_span_context()
    attributes: Attributes = {
        Name.MESSAGING_SYSTEM: "nats",
        Name.MESSAGING_OPERATION: "process",
        Name.MESSAGING_VERB: "process",
        Name.DESTINATION: template,
        Name.CONSUMER_GROUP: group,
        Name.STREAM_SEQUENCE: sequence,
        Name.DELIVERIES: deliveries,
    }
    links = [Link(producer)] if producer.is_valid else None
    return _span(f"process {template}", SpanKind.CONSUMER, attributes, parent, links)


def tool_span(tool: str, call_id: str) -> AbstractContextManager[Span]:
    """Around the execution of one tool call."""
    attributes: Attributes = {Name.OPERATION: "execute_tool", Name.TOOL: tool, Name.TOOL_CALL: call_id}
    return _span(f"execute_tool {tool}", SpanKind.INTERNAL, attributes)


def agent_span(agent: str, run_id: str, provider: str = "", model: str = "") -> AbstractContextManager[Span]:
    """Around one turn of an agent, never around a whole run: an open span is lost when the process dies."""
    attributes: Attributes = {Name.OPERATION: "invoke_agent", Name.AGENT: agent, Name.CONVERSATION: run_id}
    if provider:
        attributes[Name.PROVIDER] = provider
    if model:
        attributes[Name.MODEL] = model
    return _span(f"invoke_agent {agent}", SpanKind.INTERNAL, attributes)
