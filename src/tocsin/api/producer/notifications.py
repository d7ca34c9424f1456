"""Accepting notifications, and showing them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import assert_never

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import NUL
from tocsin.api.http.problems import (
    AMBIGUOUS_ID,
    IDEMPOTENCY_CONFLICT,
    INVALID_INTENT,
    NOT_FOUND,
    TOO_MANY_DELIVERIES,
    ProblemError,
    faults_problem,
)
from tocsin.api.http.requests import ApiRequest
from tocsin.api.producer.intents import EXAMPLE, read_intent, read_items, read_keyed_intent, split_batch
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import Intent
from tocsin.domain.trace_context import traceparent_of
from tocsin.engine.accept.acceptor import TooManyDeliveriesError
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.organisations import bind_all
from tocsin.engine.inspect.show import AmbiguousIdError, identify, show
from tocsin.engine.time_slice import TimeSlice
from tocsin.telemetry.tracing import tracing
from tocsin.wire.answers import (
    LARGEST_BATCH,
    Accepted,
    Answer,
    BatchResults,
    Conflict,
    Duplicate,
    IntentBatch,
    Invalid,
    Taken,
)
from tocsin.wire.notifications import Notification

routes = Routes(Tag.NOTIFICATIONS)

TRACEPARENT = "The W3C trace context that is continued; kept as the `trace_id` of intents without one."


@routes(
    "POST /v1/notifications",
    "Hand in an intent: what happened and who should know",
    Right.ACCEPT,
    status=202,
    headers={
        "Idempotency-Key": "Can be sent instead of the body's `idempotency_key`.",
        "traceparent": TRACEPARENT,
    },
    body=Intent,
    invalid=INVALID_INTENT,
    problems=(IDEMPOTENCY_CONFLICT, TOO_MANY_DELIVERIES),
    example=EXAMPLE,
    within_organisation=True,
)
async def accept_notification(request: ApiRequest) -> Taken:
    """Accept one intent; the answer comes when it is durable."""
    body = await request.body()
    key = request.headers.get("idempotency-key")
    return await accept_intent(request, read_intent(body) if key is None else read_keyed_intent(body, key))


async def accept_intent(request: ApiRequest, intent: Intent | Unreadable) -> Taken:
    """Accept an intent of the caller; raise a problem if it is refused."""
    [answer] = await _accept(request, [intent])
    match answer:
        case Accepted() | Duplicate():
            return answer
        case Conflict(notification_id=notification_id):
            raise ProblemError(
                IDEMPOTENCY_CONFLICT,
                "This idempotency key was used before with other content; use a new one.",
                notification_id=notification_id,
            )
        case Invalid(errors=errors):
            raise faults_problem(INVALID_INTENT, *errors)
        case _:
            assert_never(answer)


@routes(
    "POST /v1/notifications/batch",
    f"Hand in up to {LARGEST_BATCH:,} intents and get an answer for each",
    Right.ACCEPT,
    headers={"traceparent": TRACEPARENT},
    body=IntentBatch,
    problems=(TOO_MANY_DELIVERIES,),
    example={"notifications": [EXAMPLE]},
    within_organisation=True,
)
async def accept_batch(request: ApiRequest) -> BatchResults:
    """Accept many intents at once; a faulty one does not affect the others."""
    body = await request.body()
    items = await split_batch(body)
    return BatchResults(await _accept(request, await read_items(items, may_hold_nul=NUL in body)))


async def _accept(request: ApiRequest, intents: Sequence[Intent | Unreadable]) -> list[Answer]:
    limit = request.services.http.max_deliveries
    try:
        with _trace_of(request, intents) as trace:
            traced = intents if trace is None else await _traced(intents, trace)
            own = bind_all(traced, request.holder.org_id)
            return await request.services.acceptor.accept(request.holder.producer, own, limit=limit)
    except TooManyDeliveriesError as error:
        raise ProblemError(
            TOO_MANY_DELIVERIES,
            f"The request has {error.deliveries:,} deliveries, counting recipients times channels; at most "
            f"{error.limit:,} are accepted at once, and nothing was accepted. Split it into several "
            "requests, or raise TOCSIN_HTTP__MAX_DELIVERIES.",
        ) from None


def _trace_of(
    request: ApiRequest, intents: Sequence[Intent | Unreadable]
) -> AbstractContextManager[str | None]:
    """Return the trace that intents continue: that of this request if it is traced, or else of its caller."""
    traceparent = traceparent_of(request.headers.get("traceparent"))
    if tracing.tracer is None:
        return nullcontext(traceparent)
    own = intents[0].trace_id if len(intents) == 1 and isinstance(intents[0], Intent) else None
    return tracing.tracer.accepting(traceparent or own, len(intents))


async def _traced(intents: Sequence[Intent | Unreadable], traceparent: str) -> Sequence[Intent | Unreadable]:
    """Have intents without a trace id of their own continue the trace of the request."""
    traced, slice_ = [], TimeSlice()
    for intent in intents:
        if slice_.is_over:
            await slice_.pause()
        has_own = not isinstance(intent, Intent) or intent.trace_id is not None
        traced.append(intent if has_own else msgspec.structs.replace(intent, trace_id=traceparent))
    return traced


@routes(
    "GET /v1/notifications/{notification_id}",
    "See a notification with its deliveries, their attempts and reasons",
    Right.SEE_OWN,
    problems=(NOT_FOUND, AMBIGUOUS_ID),
    within_organisation=True,
)
async def show_notification(request: ApiRequest, notification_id: str) -> Notification:
    """Return a notification to its producer or to an operator, by its id or that of its stream entry."""
    return await find_notification(request, notification_id)


async def find_notification(request: ApiRequest, notification_id: str) -> Notification:
    """Read a notification that the caller may see; raise a problem if there is none."""
    own = None if request.holder.may(Right.SEE_ALL) else request.holder.producer
    default_zone = request.services.explainer.rules.quiet.default_timezone
    async with request.pool.acquire() as connection:
        try:
            found = await identify(connection, notification_id, own, request.holder.org_id)
        except AmbiguousIdError as error:
            raise ProblemError(AMBIGUOUS_ID, str(error)) from None
        shown = await show(connection, found, request.now(), default_zone) if found else None
    if shown is None or not request.holder.may_see(shown.producer, shown.org_id):
        raise ProblemError(NOT_FOUND, "There is no such notification.")
    return shown
