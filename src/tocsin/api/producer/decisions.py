"""Before and after the fact: what would become of a notification, taking it back, moving it."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import holder_of
from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Broken, decode
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_INTENT,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.producer.intents import read_question
from tocsin.api.services import services_of
from tocsin.domain.intent import Intent, Key, Moment
from tocsin.engine.accept.answers import Unreadable
from tocsin.store import notifications
from tocsin.store.deliveries import holds
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Explanation


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The moment to explain for; now, if it is left out."""

    at: Moment | None = None


class ByKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a notification by the idempotency key its producer gave it."""

    idempotency_key: Key


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new time."""

    send_at: Annotated[Moment, msgspec.Meta(description="An instant, with its offset.")]


class Cancelled(msgspec.Struct, frozen=True):
    """How many deliveries were taken back; what had left, or is leaving, is not among them."""

    notification_id: UUID
    cancelled: int


class Rescheduled(msgspec.Struct, frozen=True):
    """How many deliveries were moved; what was tried before stays where it is."""

    notification_id: UUID
    rescheduled: int


@post(
    "/v1/notifications/explain",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="Ask what would become of an intent; nothing is accepted or sent",
            access=KeyMay(Right.ACCEPT),
            query=At,
            body=Intent,
            answers={200: Explanation},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_QUERY, INVALID_INTENT),
            example={
                "type": "new_customer",
                "audience": {"users": ["42"]},
                "payload": {"customer_name": "Ada"},
                "idempotency_key": "order-1001",
            },
        )
    ),
)
async def explain_notification(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Tell, for each recipient and channel, what would happen, when, and why; a key is not needed."""
    services = services_of(request)
    intent = read_question(await request.body())
    if isinstance(intent, Broken):
        raise ProblemError(MALFORMED_JSON, intent.reason)
    if isinstance(intent, Unreadable):
        raise faulty(INVALID_INTENT, intent.faults)
    now = read_query(request, At).at or services.clock()
    async with services.pool.acquire() as connection:
        explained = await services.explainer.explain(connection, holder_of(request).producer, intent, now)
    if isinstance(explained, list):
        raise faulty(INVALID_INTENT, explained)
    return reply(explained)


@post(
    "/v1/notifications/{notification_id:str}/cancel",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="Take back what has not left",
            access=KeyMay(Right.CANCEL),
            answers={200: Cancelled},
            problems=(NOT_FOUND,),
        )
    ),
)
async def cancel_notification(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Cancel the deliveries of a notification that still wait."""
    which = read_path_id(request, "notification_id")
    async with services_of(request).pool.acquire() as connection:
        return await _cancel(request, connection, await _own(request, connection, which))


@post(
    "/v1/notifications/cancel",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="Take back what has not left, by the producer's own key",
            access=KeyMay(Right.ACCEPT),
            body=ByKey,
            answers={200: Cancelled},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY, NOT_FOUND),
        )
    ),
)
async def cancel_by_key(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Cancel a notification whose id the producer did not keep."""
    key = decode(await request.body(), ByKey).idempotency_key
    async with services_of(request).pool.acquire() as connection:
        found = await notifications.existing(connection, [(holder_of(request).producer, key)])
        if not found:
            raise ProblemError(NOT_FOUND, "There is no notification with this key.")
        return await _cancel(request, connection, found[0][0])


@post(
    "/v1/notifications/{notification_id:str}/reschedule",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.NOTIFICATIONS,
            summary="Move what was never tried to another time",
            access=KeyMay(Right.CANCEL),
            body=Move,
            answers={200: Rescheduled},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY, NOT_FOUND),
        )
    ),
)
async def reschedule_notification(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Move the deliveries of a notification that wait and were never tried."""
    which = read_path_id(request, "notification_id")
    send_at = decode(await request.body(), Move).send_at
    services = services_of(request)
    async with services.pool.acquire() as connection:
        await _own(request, connection, which)
        moved = await holds.reschedule(connection, which, send_at, services.clock())
    return reply(Rescheduled(which, moved))


async def _cancel(
    request: Request[Any, Any, Any], connection: Connection, notification_id: UUID
) -> ASGIResponse:
    count = await holds.cancel(connection, notification_id, services_of(request).clock())
    return reply(Cancelled(notification_id, count))


async def _own(request: Request[Any, Any, Any], connection: Connection, notification_id: UUID) -> UUID:
    """Give the id back if the caller may touch that notification."""
    holder = holder_of(request)
    row = await notifications.get(connection, notification_id)
    if row is None or not (row.producer == holder.producer or holder.may(Right.SEE_ALL)):
        raise ProblemError(NOT_FOUND, "There is no such notification.")
    return notification_id
