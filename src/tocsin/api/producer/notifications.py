"""Producers hand in notifications; they and operators see what became of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, assert_never
from uuid import UUID

import msgspec
from litestar import Request, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import holder_of
from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Broken, decode_outline
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    IDEMPOTENCY_CONFLICT,
    INVALID_BODY,
    INVALID_INTENT,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import LAST, Page, read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.producer.intents import read_intent, read_item, read_keyed_intent
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate, Invalid
from tocsin.engine.inspect.show import show
from tocsin.store import notifications
from tocsin.wire.notifications import Notification

LARGEST_BATCH = 1_000

_EXAMPLE = {
    "type": "new_customer",
    "audience": {"users": ["42"]},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "order-1001",
}


class Taken(msgspec.Struct, frozen=True):
    """The notification is kept; `duplicate` tells that the same came before."""

    notification_id: UUID
    status: Literal["accepted", "duplicate"]


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Several intents; each is answered by itself."""

    notifications: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=LARGEST_BATCH)]


class IntentBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch as the caller should write it; `Batch` reads it without judging its items."""

    notifications: Annotated[list[Intent], msgspec.Meta(min_length=1, max_length=LARGEST_BATCH)]


class BatchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one intent of a batch."""

    status: Literal["accepted", "duplicate", "conflict", "invalid"]
    notification_id: UUID | None = None
    errors: Sequence[Fault] | None = None


class BatchResults(msgspec.Struct, frozen=True):
    """An answer for each intent, in the order they came."""

    results: list[BatchResult]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A notification in a list."""

    notification_id: UUID
    producer: str
    idempotency_key: str
    type: str
    version: int
    request_id: str | None
    trace_id: str | None
    send_at: datetime | None
    expires_at: datetime | None
    accepted_at: datetime


class NotificationPage(msgspec.Struct, frozen=True):
    """Notifications, newest first; `next` is the `before` of the following page."""

    notifications: list[Summary]
    next: UUID | None


@post(
    "/v1/notifications",
    status_code=202,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="Hand in what happened and who should know",
            access=KeyMay(Right.ACCEPT),
            headers={"Idempotency-Key": "Stands for the body's `idempotency_key`."},
            body=Intent,
            answers={202: Taken},
            problems=(MALFORMED_JSON, IDEMPOTENCY_CONFLICT, BODY_TOO_LARGE, INVALID_INTENT),
            example=_EXAMPLE,
        )
    ),
)
async def accept_notification(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Accept one intent; the answer comes when it is durable."""
    body = await request.body()
    key = request.headers.get("idempotency-key")
    intent = read_intent(body) if key is None else read_keyed_intent(body, key)
    if isinstance(intent, Broken):
        raise ProblemError(MALFORMED_JSON, intent.reason)
    [answer] = await services_of(request).acceptor.accept(holder_of(request).producer, [intent])
    match answer:
        case Accepted(notification_id=notification_id):
            return reply(Taken(notification_id, "accepted"), 202)
        case Duplicate(notification_id=notification_id):
            return reply(Taken(notification_id, "duplicate"), 202)
        case Conflict(notification_id=notification_id):
            raise ProblemError(
                IDEMPOTENCY_CONFLICT,
                "This idempotency key was used before with other content; use a new one.",
                notification_id=str(notification_id),
            )
        case Invalid(errors=faults):
            raise faulty(INVALID_INTENT, faults)
        case _:
            assert_never(answer)


@post(
    "/v1/notifications/batch",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary=f"Hand in up to {LARGEST_BATCH:,} intents and get an answer for each",
            access=KeyMay(Right.ACCEPT),
            body=IntentBatch,
            answers={200: BatchResults},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"notifications": [_EXAMPLE]},
        )
    ),
)
async def accept_batch(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Accept many intents at once; a bad one does not spoil the rest."""
    batch = decode_outline(await request.body(), Batch)
    answers = await services_of(request).acceptor.accept(
        holder_of(request).producer, [read_item(item) for item in batch.notifications]
    )
    return reply(BatchResults([_result(answer) for answer in answers]))


@get(
    "/v1/notifications/{notification_id:str}",
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="See a notification with its deliveries, their attempts and reasons",
            access=KeyMay(Right.SEE_OWN),
            answers={200: Notification},
            problems=(NOT_FOUND,),
        )
    ),
)
async def show_notification(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Show one notification to its producer or to an operator."""
    holder = holder_of(request)
    which = read_path_id(request, "notification_id")
    async with services_of(request).pool.acquire() as connection:
        shown = await show(connection, which)
    if shown is None or not (shown.producer == holder.producer or holder.may(Right.SEE_ALL)):
        raise ProblemError(NOT_FOUND, "There is no such notification.")
    return reply(shown)


@get(
    "/v1/notifications",
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="List notifications, newest first",
            access=KeyMay(Right.SEE_ALL),
            query=Page,
            answers={200: NotificationPage},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_notifications(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List the notifications of every producer."""
    page = read_query(request, Page)
    rows = await notifications.list_recent(services_of(request).pool, page.before or LAST, page.limit)
    summaries = [
        Summary(
            notification_id=row.id,
            producer=row.producer,
            idempotency_key=row.idempotency_key,
            type=row.type,
            version=row.version,
            request_id=row.request_id,
            trace_id=row.trace_id,
            send_at=row.send_at,
            expires_at=row.expires_at,
            accepted_at=row.accepted_at,
        )
        for row in rows
    ]
    return reply(NotificationPage(summaries, rows[-1].id if len(rows) == page.limit else None))


def _result(answer: Answer) -> BatchResult:
    match answer:
        case Accepted(notification_id=notification_id):
            return BatchResult("accepted", notification_id)
        case Duplicate(notification_id=notification_id):
            return BatchResult("duplicate", notification_id)
        case Conflict(notification_id=notification_id):
            return BatchResult("conflict", notification_id)
        case Invalid(errors=faults):
            return BatchResult("invalid", errors=faults)
        case _:
            assert_never(answer)
