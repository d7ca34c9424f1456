"""The calls of a producer, without I/O: either client runs them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tocsin.client.encoding import encode_intent
from tocsin.client.errors import RefusedError, UnreadableError
from tocsin.client.exchange import ApiReply, Call, Flow
from tocsin.client.intents import Intent, Question
from tocsin.client.replies import call, read
from tocsin.domain.faults import Fault
from tocsin.wire.answers import LARGEST_BATCH, Accepted, Answer, BatchResults, Duplicate, Invalid, Taken
from tocsin.wire.notifications import (
    CancelByKey,
    Cancelled,
    Explanation,
    Notification,
    Reschedule,
    Rescheduled,
)
from tocsin.wire.people import PutUser, User

# A quarter of the default limit of a server; a batch that is too large for another is halved.
LARGEST_BATCH_BYTES = 1_048_576
TOO_LARGE = 413


class Prepared(NamedTuple):
    """An intent and its encoded form."""

    intent: Intent
    body: bytes


def send(intent: Intent) -> Flow[Taken]:
    """Hand in an intent; the answer comes when it is stored durably."""
    key = intent.key
    reply = yield Call("POST", "/v1/notifications", encode_intent(intent), idempotency_key=key)
    taken: Taken = read(reply, Accepted | Duplicate)  # type: ignore[arg-type]  # a union is a type to msgspec
    return msgspec.structs.replace(taken, idempotency_key=key)


def send_many(intents: Sequence[Intent]) -> Flow[list[Answer]]:
    """Hand in any number of intents and return an answer for each, in order.

    One that cannot be encoded is answered as invalid and not sent. If Tocsin cannot be reached, hand the
    same intents in again: accepted ones are answered as duplicate.
    """
    prepared = [_prepare_or_refuse(intent) for intent in intents]
    sent = iter((yield from send_prepared([each for each in prepared if isinstance(each, Prepared)])))
    return [each if isinstance(each, Invalid) else next(sent) for each in prepared]


def send_prepared(prepared: Sequence[Prepared]) -> Flow[list[Answer]]:
    """Hand in intents that are encoded already."""
    answers: list[Answer] = []
    waiting = [prepared[start:end] for start, end in split([len(each.body) for each in prepared])]
    waiting.reverse()
    while waiting:
        batch = waiting.pop()
        body = b'{"notifications":[' + b",".join(each.body for each in batch) + b"]}"
        reply = yield Call("POST", "/v1/notifications/batch", body)
        if reply.status == TOO_LARGE and len(batch) > 1:
            middle = len(batch) // 2
            waiting += [batch[middle:], batch[:middle]]
            continue
        answers += _answers(reply, batch)
    return answers


def prepare(intent: Intent) -> Prepared:
    """Encode an intent now, so that a later change of its payload has no effect."""
    return Prepared(intent, encode_intent(intent))


def _prepare_or_refuse(intent: Intent) -> Prepared | Invalid:
    try:
        return prepare(intent)
    except RefusedError as error:
        faults = error.faults
    except TypeError as error:
        faults = (Fault(field="$", code="invalid", message=f"cannot be written as JSON: {error}"),)
    return Invalid(faults, idempotency_key=intent.key)


def _answers(reply: ApiReply, batch: Sequence[Prepared]) -> list[Answer]:
    results = read(reply, BatchResults).results
    if len(results) != len(batch):
        raise UnreadableError(reply.status, f"it answers {len(results)} intents of {len(batch)}")
    return [
        msgspec.structs.replace(answer, idempotency_key=each.intent.key)
        for each, answer in zip(batch, results, strict=True)
    ]


def split(
    sizes: Sequence[int], most: int = LARGEST_BATCH, most_bytes: int = LARGEST_BATCH_BYTES
) -> list[tuple[int, int]]:
    """Split a sequence into ranges, each as long as the limits on count and bytes allow."""
    ranges: list[tuple[int, int]] = []
    start, held = 0, 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == most or held + size > most_bytes):
            ranges.append((start, at))
            start, held = at, 0
        held += size
    return [*ranges, (start, len(sizes))] if sizes else []


def explain(question: Question) -> Flow[Explanation]:
    """Return what would happen to an intent, for each recipient and channel; nothing is accepted or sent."""
    query = (("at", question.at.isoformat()),) if question.at else ()
    reply = yield Call("POST", "/v1/notifications/explain", encode_intent(question), query)
    return read(reply, Explanation)


def show(notification_id: UUID | str) -> Flow[Notification]:
    """Return a notification with its deliveries, their attempts and the reasons for each."""
    return call(Notification, "GET", f"/v1/notifications/{_part(notification_id)}")


def cancel(notification_id: UUID | str) -> Flow[Cancelled]:
    """Cancel the deliveries that have not been sent."""
    return call(Cancelled, "POST", f"/v1/notifications/{_part(notification_id)}/cancel")


def cancel_by_key(idempotency_key: str) -> Flow[Cancelled]:
    """Cancel the deliveries that have not been sent, by the key of the intent."""
    return call(Cancelled, "POST", "/v1/notifications/cancel", CancelByKey(idempotency_key))


def reschedule(notification_id: UUID | str, send_at: datetime) -> Flow[Rescheduled]:
    """Move the deliveries that were never attempted to another time, given with its offset."""
    path = f"/v1/notifications/{_part(notification_id)}/reschedule"
    return call(Rescheduled, "POST", path, Reschedule(send_at))


def put_user(
    user_id: str | int,
    *,
    email: str | None = None,
    locale: str | None = None,
    timezone: str | None = None,
    gmt_offset_seconds: int | None = None,
    allowed_window: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    org_id: str | UnsetType | None = UNSET,
) -> Flow[User]:
    """Store the data of a user; a field that is left out is cleared.

    Without `org_id` the user stays in the organisation where they are; None removes them from it.
    """
    user = PutUser(
        email=email,
        locale=locale,
        timezone=timezone,
        gmt_offset_seconds=gmt_offset_seconds,
        allowed_window=allowed_window,
        attributes=dict(attributes) if attributes else None,
        org_id=org_id,
    )
    return call(User, "PUT", f"/v1/users/{_part(user_id)}", user)


def get_user(user_id: str | int) -> Flow[User]:
    """Return the data of a user."""
    return call(User, "GET", f"/v1/users/{_part(user_id)}")


def _part(value: UUID | str | int) -> str:
    """Quote a value as one part of a path."""
    return quote(str(value), safe="")
