"""Where spans and metrics go: by OTLP to a collector, if one is named. Until `setup` all of it costs next to nothing.

`M3_OTLP_ENDPOINT` names it. The rest is the SDK's own: OTEL_EXPORTER_OTLP_PROTOCOL, _HEADERS (a secret), _CERTIFICATE,
_CLIENT_CERTIFICATE, _CLIENT_KEY, _TIMEOUT and OTEL_METRIC_EXPORT_INTERVAL.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.metrics import CallbackOptions, Observation

from shared.settings import Settings
from shared.telemetry.logs import to_stderr
from shared.telemetry.names import METRICS, Metric, Metrics

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

Attributes = dict[str, str | int | float | bool]
Figures = Iterable[tuple[float, Attributes]]

SPAN_SECONDS = 1.0
"""How long an ended span waits to be sent: what a killed process had not sent yet is lost."""
METRIC_SECONDS = 15.0
_SUFFIX = {"trace": "/v1/traces", "metric": "/v1/metrics"}

# Neither is the global one: what a library tells of our requests is not ours to vouch for, nor part of a run's trace.
_traces: TracerProvider | None = None
_meters: MeterProvider | None = None
_instruments: dict[str, Any] = {}


def setup(service: str, settings: Settings) -> None:
    """JSON logs on stderr, and spans and metrics for this process. A second call only changes the logs."""
    global _traces, _meters
    to_stderr(service, settings.log_level)
    if _traces is not None:
        return
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    own = Resource.create({"service.name": service, "service.instance.id": f"{os.uname().nodename}-{os.getpid()}"})
    _traces = TracerProvider(resource=own, shutdown_on_exit=False)
    if not settings.otlp_endpoint:
        return
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    try:
        spans, metrics = (_exporter(kind, protocol, settings.otlp_endpoint) for kind in _SUFFIX)
    except (ImportError, ValueError) as error:
        # Whoever wants to be watched is told; work goes on.
        log.error("nothing is told by OTLP: %s", error)
        return
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _traces.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=SPAN_SECONDS * 1000))
    _meters = _provider(own, metrics)
    began = time.monotonic()
    observe(Metrics.UPTIME, lambda: [(time.monotonic() - began, {})])


def tracer() -> trace.Tracer:
    return _traces.get_tracer("m3builder") if _traces else trace.NoOpTracer()


def record(metric: Metric, value: float, attributes: Attributes) -> None:
    """Count, measure or move; a gauge is observed instead."""
    if _meters:
        instrument = _instruments.get(metric.name) or _make(metric)
        (instrument.record if metric.kind == "histogram" else instrument.add)(value, attributes)


def observe(metric: Metric, look: Callable[[], Figures]) -> None:
    """Have a gauge looked at whenever it is sent, in a thread of its own; what it does not tell any more is gone."""
    if _meters:
        _make(metric, [lambda _: [Observation(value, attributes) for value, attributes in look()]])


def shutdown(seconds: float = 3.0) -> None:
    """Send what is still held. Blocks up to `seconds`, also where the collector hangs; nothing without `setup`."""
    found = [provider for provider in (_traces, _meters) if provider]
    # The SDK's own flush waits for its exporter, whatever time it is given.
    flushing = [threading.Thread(target=partial(one.force_flush, int(seconds * 1000)), daemon=True) for one in found]
    deadline = time.monotonic() + seconds
    for thread in flushing:
        thread.start()
    for thread in flushing:
        thread.join(max(0.0, deadline - time.monotonic()))


def _make(metric: Metric, callbacks: list[Callable[[CallbackOptions], Iterable[Observation]]] | None = None) -> Any:
    assert _meters and metric in METRICS
    meter = _meters.get_meter("m3builder")
    about: dict[str, Any] = {"unit": metric.unit, "description": metric.text}
    if metric.kind == "gauge":
        made: Any = meter.create_observable_gauge(metric.name, callbacks, **about)
    elif metric.kind == "histogram":
        made = meter.create_histogram(metric.name, explicit_bucket_boundaries_advisory=metric.bounds, **about)
    else:
        made = (meter.create_counter if metric.kind == "counter" else meter.create_up_down_counter)(
            metric.name, **about
        )
    _instruments[metric.name] = made
    return made


def _provider(own: Resource, exporter: Any) -> MeterProvider:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    interval = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", METRIC_SECONDS * 1000))
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=interval)
    return MeterProvider([reader], resource=own, shutdown_on_exit=False)


def _exporter(kind: str, protocol: str, endpoint: str) -> Any:
    """Raises ValueError for a protocol that there is none for, ImportError where its package is not installed."""
    package = {"grpc": "grpc", "http/protobuf": "http"}.get(protocol)
    if package is None:
        raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc, not {protocol}")
    name = f"opentelemetry.exporter.otlp.proto.{package}.{kind}_exporter"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{error}; install opentelemetry-exporter-otlp-proto-grpc, or use http/protobuf") from None
    make = module.OTLPSpanExporter if kind == "trace" else module.OTLPMetricExporter
    return make(endpoint=endpoint if package == "grpc" else endpoint.rstrip("/") + _SUFFIX[kind])
