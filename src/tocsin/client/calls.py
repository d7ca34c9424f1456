"""The calls of a producer, each a plan that any face can carry out."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec

from tocsin.client.answers import (
    Accepted,
    Answer,
    Cancelled,
    Conflict,
    Duplicate,
    Invalid,
    Rescheduled,
    Taken,
    User,
)
from tocsin.client.errors import UnreadableError
from tocsin.client.exchange import Call, Plan, Reply
from tocsin.client.intents import Intent, Question, wire
from tocsin.client.replies import read
from tocsin.wire.notifications import Explanation, Notification

LARGEST_BATCH = 1_000
# A quarter of what a server takes by default; one that takes less is answered by halving.
LARGEST_BATCH_BYTES = 1_048_576
TOO_LARGE = 413


class Prepared(NamedTuple):
    """An intent, and how it is written on its way."""

    intent: Intent
    body: bytes


class _Results(msgspec.Struct, frozen=True):
    results: list[Accepted | Duplicate | Conflict | Invalid]


def send(intent: Intent) -> Plan[Taken]:
    """Hand in what happened and who should know; the answer comes when it is durable."""
    key = intent.key
    reply = yield Call("POST", "/v1/notifications", wire(intent), idempotency_key=key)
    taken: Taken = read(reply, Accepted | Duplicate)  # type: ignore[arg-type]  # a union is a type to msgspec
    return msgspec.structs.replace(taken, idempotency_key=key)


def send_many(intents: Sequence[Intent]) -> Plan[list[Answer]]:
    """Hand in any number of intents and give an answer for each, in order; a bad one spoils no other.

    If Tocsin cannot be reached, hand the same intents in again: what was accepted is answered as duplicate.
    """
    return (yield from send_prepared([prepare(intent) for intent in intents]))


def send_prepared(prepared: Sequence[Prepared]) -> Plan[list[Answer]]:
    """Hand in intents that are written already."""
    answers: list[Answer] = []
    waiting = [prepared[start:end] for start, end in cut([len(each.body) for each in prepared])]
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
    """Write an intent down, so that nothing that happens to its payload later changes it."""
    return Prepared(intent, wire(intent))


def _answers(reply: Reply, batch: Sequence[Prepared]) -> list[Answer]:
    results = read(reply, _Results).results
    if len(results) != len(batch):
        raise UnreadableError(reply.status, f"it answers {len(results)} intents of {len(batch)}")
    return [
        msgspec.structs.replace(answer, idempotency_key=each.intent.key)
        for each, answer in zip(batch, results, strict=True)
    ]


def cut(
    sizes: Sequence[int], most: int = LARGEST_BATCH, most_bytes: int = LARGEST_BATCH_BYTES
) -> list[tuple[int, int]]:
    """Cut a row of things into runs, each as long as count and bytes allow, and give where each lies."""
    runs: list[tuple[int, int]] = []
    start, held = 0, 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == most or held + size > most_bytes):
            runs.append((start, at))
            start, held = at, 0
        held += size
    return [*runs, (start, len(sizes))] if sizes else []


def explain(question: Question) -> Plan[Explanation]:
    """Ask what would become of an intent, for each recipient and channel; nothing is accepted or sent."""
    query = (("at", question.at.isoformat()),) if question.at else ()
    reply = yield Call("POST", "/v1/notifications/explain", wire(question), query)
    return read(reply, Explanation)


def show(notification_id: UUID | str) -> Plan[Notification]:
    """See a notification with its deliveries, their attempts and the reasons for each."""
    reply = yield Call("GET", f"/v1/notifications/{_part(notification_id)}")
    return read(reply, Notification)


def cancel(notification_id: UUID | str) -> Plan[Cancelled]:
    """Take back what has not left."""
    reply = yield Call("POST", f"/v1/notifications/{_part(notification_id)}/cancel")
    return read(reply, Cancelled)


def cancel_by_key(idempotency_key: str) -> Plan[Cancelled]:
    """Take back what has not left, by the key it was handed in with."""
    reply = yield Call(
        "POST", "/v1/notifications/cancel", msgspec.json.encode({"idempotency_key": idempotency_key})
    )
    return read(reply, Cancelled)


def reschedule(notification_id: UUID | str, send_at: datetime) -> Plan[Rescheduled]:
    """Move what waits and was never tried to another time, given with its offset."""
    body = msgspec.json.encode({"send_at": send_at})
    reply = yield Call("POST", f"/v1/notifications/{_part(notification_id)}/reschedule", body)
    return read(reply, Rescheduled)


def put_user(
    user_id: str | int,
    *,
    email: str | None = None,
    locale: str | None = None,
    timezone: str | None = None,
    gmt_offset_seconds: int | None = None,
    allowed_window: str | None = None,
) -> Plan[User]:
    """Store what is known of a person; what is left out is forgotten."""
    fields = {
        "email": email,
        "locale": locale,
        "timezone": timezone,
        "gmt_offset_seconds": gmt_offset_seconds,
        "allowed_window": allowed_window,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    reply = yield Call("PUT", f"/v1/users/{_part(user_id)}", msgspec.json.encode(given))
    return read(reply, User)


def get_user(user_id: str | int) -> Plan[User]:
    """Read what is known of a person."""
    reply = yield Call("GET", f"/v1/users/{_part(user_id)}")
    return read(reply, User)


def _part(value: UUID | str | int) -> str:
    """Write a value as one part of a path, whatever it holds."""
    return quote(str(value), safe="")
