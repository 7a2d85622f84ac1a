"""An OTLP/HTTP receiver that keeps what it is sent: spans, metrics, and the bytes of every request."""

import gzip
import http.server
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from shared.telemetry import METRICS, SPANS, Name


@dataclass(frozen=True)
class Seen:
    """A span, with its ids as hex; `parent` is empty for a root."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    events: int
    began: int
    ended: int


@dataclass(frozen=True)
class Figure:
    """One point of a metric; `value` is the sum of a histogram."""

    service: str
    name: str
    kind: str
    unit: str
    attributes: dict[str, Any]
    value: float
    monotonic: bool


@dataclass
class Receiver:
    endpoint: str = ""
    spans: list[Seen] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request, in lower case."""

    def of(self, trace: str) -> list[Seen]:
        return [span for span in list(self.spans) if span.trace == trace]

    def of_run(self, run_id: str) -> list[Seen]:
        """Every span of every trace in which the run's id stands in an attribute."""
        traces = {span.trace for span in list(self.spans) if run_id in map(str, span.attributes.values())}
        return [span for span in list(self.spans) if span.trace in traces]

    def until(self, true: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, sorted({(span.service, span.name) for span in self.spans})
            time.sleep(0.2)

    def take(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        if path == "/v1/metrics":
            self._figures(ExportMetricsServiceRequest.FromString(body))
            return
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Seen(
                            service, span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                            _values(span.attributes), len(span.events), span.start_time_unix_nano,
                            span.end_time_unix_nano,
                        )
                    )  # fmt: skip

    def _figures(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            service = _values(resource.resource.attributes)["service.name"]
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                kind = str(metric.WhichOneof("data"))
                data = getattr(metric, kind)
                for point in data.data_points:
                    value = point.sum if kind == "histogram" else getattr(point, str(point.WhichOneof("value")))
                    grows = kind == "histogram" or (kind == "sum" and data.is_monotonic)
                    values = _values(point.attributes)
                    self.figures.append(Figure(service, metric.name, kind, metric.unit, values, value, grows))


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in attributes}


@contextmanager
def receiving(certificate: tuple[Path, Path] | None = None) -> Iterator[Receiver]:
    """With TLS where it has a certificate and its key."""
    receiver = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Who does not trust our certificate goes away in the middle."""

    server = Server(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.endpoint = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def unnamed(receiver: Receiver) -> set[str]:
    """Whatever was told under a name that does not stand in `shared.telemetry.names`."""
    names = {value for key, value in vars(Name).items() if key.isupper()}
    spans, figures = list(receiver.spans), list(receiver.figures)
    attributes = {key for one in (*spans, *figures) for key in one.attributes}
    verbs = {span.name.split(" ")[0] for span in spans}
    metrics = {(one.name, one.unit) for one in figures} - {(one.name, one.unit) for one in METRICS}
    return (attributes - names) | (verbs - {*SPANS}) | {name for name, _ in metrics}


def orphans(spans: list[Seen]) -> list[Seen]:
    """Spans whose parent has not come, or not yet: every service sends in its own time."""
    ids = {span.id for span in spans}
    return [span for span in spans if span.parent and span.parent not in ids]


def tree(spans: list[Seen]) -> dict[str, list[Seen]]:
    """Parent id -> children, in the order of their begin. Asserts one trace, one root and no parent that is missing."""
    ids = {span.id for span in spans}
    assert len({span.trace for span in spans}) == 1, sorted({(span.trace, span.service, span.name) for span in spans})
    assert len(ids) == len(spans)
    roots = [span for span in spans if not span.parent]
    assert len(roots) == 1, [(root.service, root.name) for root in roots]
    assert not orphans(spans), [(span.service, span.name) for span in orphans(spans)]
    found: dict[str, list[Seen]] = defaultdict(list)
    for span in sorted(spans, key=lambda one: one.began):
        found[span.parent].append(span)
    return found


def above(span: Seen, spans: list[Seen]) -> list[Seen]:
    """The spans from the parent of `span` up to the root."""
    by_id = {one.id: one for one in spans}
    path = []
    while span.parent:
        span = by_id[span.parent]
        path.append(span)
    return path
