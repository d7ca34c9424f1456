"""A collector of OpenTelemetry that keeps what it gets, by OTLP over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The spans and metrics that were exported."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.services: set[str] = set()
        self.url = ""

    def receive(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for resource in traces.resource_spans:
                self._note(resource.resource)
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        else:
            exported = ExportMetricsServiceRequest.FromString(body)
            for measured in exported.resource_metrics:
                self._note(measured.resource)
                self.metrics |= {
                    each.name: each for scope in measured.scope_metrics for each in scope.metrics
                }

    def of_trace(self, trace_id: str) -> dict[str, list[Any]]:
        """Return the spans of a trace by their names."""
        found: dict[str, list[Any]] = {}
        for span in self.spans:
            if span.trace_id.hex() == trace_id:
                found.setdefault(span.name, []).append(span)
        return found

    def _note(self, resource: Any) -> None:
        self.services |= {
            each.value.string_value for each in resource.attributes if each.key == "service.name"
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.receive(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield collector
        finally:
            server.shutdown()
            serving.join()
