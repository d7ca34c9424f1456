"""Explaining what would happen to an intent; cancelling and rescheduling notifications."""

from datetime import datetime
from uuid import UUID

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import (
    INVALID_BODY,
    INVALID_INTENT,
    INVALID_QUERY,
    NOT_FOUND,
    ProblemError,
    faults_problem,
)
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.producer.intents import EXAMPLE, read_question
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import Intent, Moment
from tocsin.domain.timing.moments import moment_faults, send_time_faults
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.organisations import bind_all
from tocsin.store import notifications
from tocsin.store.deliveries import holds
from tocsin.wire.notifications import CancelByKey, Cancelled, Explanation, Reschedule, Rescheduled

routes = Routes(Tag.NOTIFICATIONS)


class At(Query, frozen=True, kw_only=True):
    """The moment to explain for; now, if it is left out."""

    at: Moment | None = None


@routes(
    "POST /v1/notifications/explain",
    "Explain what would happen to an intent; nothing is accepted or sent",
    Right.ACCEPT,
    body=Intent,
    invalid=INVALID_INTENT,
    example=EXAMPLE,
    within_organisation=True,
)
async def explain_notification(request: ApiRequest, query: At) -> Explanation:
    """Return, for each recipient and channel, what would happen, when, and why; a key is not required."""
    return await explain_intent(request, await request.body(), query.at)


async def explain_intent(request: ApiRequest, raw: bytes, at: datetime | None) -> Explanation:
    """Explain the intent of a JSON document at a moment, or now; raise a problem if it has faults."""
    [intent] = bind_all([read_question(raw)], request.holder.org_id)
    if isinstance(intent, Unreadable):
        raise faults_problem(INVALID_INTENT, *intent.faults)
    now = at or request.now()
    if faults := moment_faults("at", now):
        raise faults_problem(INVALID_QUERY, *faults)
    async with request.pool.acquire() as connection:
        explained = await request.services.explainer.explain(connection, request.holder.producer, intent, now)
    if isinstance(explained, list):
        raise faults_problem(INVALID_INTENT, *explained)
    return explained


@routes(
    "POST /v1/notifications/{notification_id}/cancel",
    "Cancel the deliveries that have not been sent",
    Right.CANCEL,
    within_organisation=True,
)
async def cancel_notification(request: ApiRequest, notification_id: UUID) -> Cancelled:
    """Cancel the waiting deliveries of a notification."""
    await _check_access(request, notification_id)
    return await _cancel(request, notification_id)


@routes(
    "POST /v1/notifications/cancel",
    "Cancel the deliveries that have not been sent, by the producer's own key",
    Right.ACCEPT,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def cancel_by_key(request: ApiRequest, body: CancelByKey) -> Cancelled:
    """Cancel a notification by its idempotency key."""
    key = request.holder.producer, body.idempotency_key
    found = await notifications.existing(request.pool, [key])
    if not found:
        raise ProblemError(NOT_FOUND, "There is no notification with this key.")
    await _check_access(request, found[0][0])
    return await _cancel(request, found[0][0])


@routes(
    "POST /v1/notifications/{notification_id}/reschedule",
    "Move the deliveries that were never attempted to another time",
    Right.CANCEL,
    within_organisation=True,
)
async def reschedule_notification(
    request: ApiRequest, notification_id: UUID, body: Reschedule
) -> Rescheduled:
    """Reschedule the waiting deliveries of a notification that were never attempted."""
    now = request.now()
    if faults := send_time_faults("send_at", body.send_at, now):
        raise faults_problem(INVALID_BODY, *faults)
    await _check_access(request, notification_id)
    # A time that has passed means now, as it does for a new notification; the time to live counts from it.
    moved = await holds.reschedule(request.pool, notification_id, max(body.send_at, now), now)
    return Rescheduled(notification_id, moved)


async def _cancel(request: ApiRequest, notification_id: UUID) -> Cancelled:
    return Cancelled(notification_id, await holds.cancel(request.pool, notification_id, request.now()))


async def _check_access(request: ApiRequest, notification_id: UUID) -> None:
    """Raise a problem unless the caller may see and change the notification."""
    row = await notifications.get(request.pool, notification_id)
    if row is None or not request.holder.may_see(row.producer, row.org_id):
        raise ProblemError(NOT_FOUND, "There is no such notification.")
