"""Records the spans of attempts, from their claim to their provider's answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import structlog

from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.telemetry.tracing import tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from tocsin.telemetry.tracer import Tracer

_log = structlog.stdlib.get_logger(__name__)

Spans: TypeAlias = "list[Span]"


def start_spans(provider: str, attempts: Sequence[Attempt], now: datetime) -> Spans:
    """Start a span for each message, which carries it on to its receiver; none if nothing is traced."""
    tracer = tracing.tracer
    if tracer is None:
        return []
    try:
        return _started(tracer, provider, attempts, now)
    except Exception:  # noqa: BLE001 - what cannot be traced is sent all the same
        _log.exception("spans not started", provider=provider, messages=len(attempts))
        return []


def _started(tracer: "Tracer", provider: str, attempts: Sequence[Attempt], now: datetime) -> Spans:
    spans = []
    for attempt in attempts:
        delivery = attempt.delivery
        attributes: dict[str, str | int] = {
            "tocsin.delivery_id": str(attempt.id),
            "tocsin.type": delivery.type,
            "tocsin.channel": attempt.channel,
            "tocsin.provider": provider,
            "tocsin.attempt": attempt.attempts + 1,
        }
        if attempt.notification_id is not None:
            attributes["tocsin.notification_id"] = str(attempt.notification_id)
        span, traceparent = tracer.start_send(delivery.trace_id, attributes, attempt.claimed_at, now)
        if attempt.message is not None:
            attempt.message = msgspec.structs.replace(attempt.message, traceparent=traceparent)
        spans.append(span)
    return spans


def end_spans(spans: Spans, outcomes: Sequence[Outcome], now: datetime) -> None:
    """End the spans of messages with what their provider answered."""
    tracer = tracing.tracer
    if tracer is None:
        return
    # The tracer may be younger than the call.
    for span, outcome in zip(spans, outcomes, strict=False):
        code = None if isinstance(outcome, Sent) else outcome.code
        tracer.end_send(span, str(outcome.__struct_config__.tag), code, now)
