"""Records spans by OpenTelemetry; samplers and exporters are set by its standard variables."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from tocsin.domain.trace_context import trace_id_of, traceparent_of
from tocsin.telemetry.environment import Exporter
from tocsin.telemetry.resource import own_resource

CLOSE_SECONDS = 3.0


class _Ids(RandomIdGenerator):
    """Generates ids at random, except for the trace that the next span begins if its id is set."""

    def __init__(self) -> None:
        self.next_trace_id: int | None = None

    def generate_trace_id(self) -> int:
        wanted, self.next_trace_id = self.next_trace_id, None
        return super().generate_trace_id() if wanted is None else wanted


class Tracer:
    """Starts spans in the trace that a request or a notification carries, and exports them.

    A trace is given as a `traceparent`, whose span is continued and whose sampling is followed, or as an id
    alone, under which a trace begins.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=own_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        export = OTLPSpanExporter() if exporter == "otlp" else ConsoleSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(export))
        self._tracer = self._provider.get_tracer("tocsin")

    @contextmanager
    def accepting(self, trace: str | None, intents: int) -> Iterator[str]:
        """Record the acceptance of intents; yield the `traceparent` of its span."""
        span = self._begin("accept", trace, SpanKind.SERVER, {"tocsin.intents": intents})
        try:
            yield _written(span)
        except Exception as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    def start_send(
        self, trace: str | None, attributes: Mapping[str, str | int], claimed_at: datetime, now: datetime
    ) -> tuple[Span, str]:
        """Record the time from the claim until now, and start the span of the call; return its trace too."""
        claim = self._begin("claim", trace, SpanKind.CONSUMER, attributes, claimed_at)
        claim.end(_nanoseconds(now))
        within = set_span_in_context(claim, Context())
        began = _nanoseconds(now)
        send = self._tracer.start_span("send", within, SpanKind.CLIENT, attributes, start_time=began)
        return send, _written(send)

    def end_send(self, span: Span, outcome: str, code: str | None, now: datetime) -> None:
        """End the span of a call with its outcome; one without a code is a success."""
        span.set_attribute("tocsin.outcome", outcome)
        if code is not None:
            span.set_attribute("tocsin.code", code)
            span.set_status(Status(StatusCode.ERROR, code))
        span.end(_nanoseconds(now))

    def close(self) -> None:
        """Export what is recorded, as far as that is done within seconds."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _begin(
        self,
        name: str,
        trace: str | None,
        kind: SpanKind,
        attributes: Mapping[str, str | int],
        at: datetime | None = None,
    ) -> Span:
        context = Context()
        if traceparent := traceparent_of(trace):
            context = set_span_in_context(NonRecordingSpan(_span_context(traceparent)), context)
        elif trace_id := trace_id_of(trace):
            self._ids.next_trace_id = int(trace_id, 16)
        return self._tracer.start_span(
            name, context, kind, attributes, start_time=_nanoseconds(at) if at else None
        )


def _span_context(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = (int(part, 16) for part in traceparent.split("-"))
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))


def _written(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
