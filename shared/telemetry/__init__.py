"""Traces, metrics and logs. One call, `setup`, turns them on; without it every helper here is a cheap no-op.

Nothing of a patient, no file name and no text of a message belongs into an attribute or a log line.
"""

from shared.telemetry.export import Attributes, Figures, observe, record, setup, shutdown, tracer
from shared.telemetry.logs import JsonLines, bind_run
from shared.telemetry.names import METRICS, SPANS, Metric, Metrics, Name
from shared.telemetry.spans import (
    Work,
    below,
    chat_span,
    continued,
    extract,
    in_trace,
    inject,
    job_span,
    process_span,
    publish_span,
    run_span,
    scorer_span,
    tool_span,
    turn_span,
)
from shared.telemetry.usage import core_label, used

__all__ = [
    "METRICS", "SPANS", "Attributes", "Figures", "JsonLines", "Metric", "Metrics", "Name", "Work", "below", "bind_run",
    "chat_span", "continued", "core_label", "extract", "in_trace", "inject", "job_span", "observe", "process_span",
    "publish_span", "record", "run_span", "scorer_span", "setup", "shutdown", "tool_span", "tracer", "turn_span",
    "used",
]  # fmt: skip
