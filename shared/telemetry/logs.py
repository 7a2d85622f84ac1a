"""Logs: one JSON object a line, with the ids of trace, span and run."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from opentelemetry import trace

_run_id: ContextVar[str | None] = ContextVar("run_id", default=None)


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


class NowAndThen(logging.Filter):
    """Lets the exporters complain once a minute: they would at every try, for as long as a collector is away."""

    SECONDS = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("opentelemetry."):
            return True
        due = record.created >= self._next
        self._next = record.created + self.SECONDS if due else self._next
        return due


def to_stderr(service: str, level: str) -> None:
    """Log as JSON lines from now on, in place of an earlier call's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    handler.addFilter(NowAndThen())
    root = logging.getLogger()
    root.handlers = [old for old in root.handlers if not isinstance(old.formatter, JsonLines)] + [handler]
    root.setLevel(level.upper())
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # the bus reports what the client library would log raw


@contextmanager
def bind_run(run_id: str | None) -> Iterator[None]:
    """Log lines inside carry this run id."""
    token = _run_id.set(run_id)
    try:
        yield
    finally:
        _run_id.reset(token)
