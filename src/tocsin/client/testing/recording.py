"""A transport that reaches no server: it records calls and answers them with typed responses."""

from collections import deque
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from tocsin.client.exchange import ApiReply, Call, ClientRequest, NoReply
from tocsin.client.testing.recorded_people import RecordedPeople
from tocsin.domain.faults import Fault
from tocsin.domain.ids import NotificationId, new_notification_id
from tocsin.domain.intent import Intent, audience_faults, locale_faults
from tocsin.wire.answers import Accepted, Answer, Conflict, Duplicate, Invalid
from tocsin.wire.faults import validation_fault
from tocsin.wire.notifications import (
    CancelByKey,
    Cancelled,
    Explanation,
    Notification,
    Reschedule,
    Rescheduled,
)
from tocsin.wire.problems import Problem

_NOT_FOUND = ApiReply(404, msgspec.json.encode(Problem(code="not_found", detail="It was not recorded.")))


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A notification as it was handed in."""

    notification_id: NotificationId
    type: str
    audience: dict[str, Any]
    payload: dict[str, Any]
    idempotency_key: str
    version: int | None = None
    send_at: datetime | None = None
    send_at_local: datetime | None = None
    ttl_seconds: int | None = None
    collapse_key: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    occurred_at: datetime | None = None
    locale: str | None = None
    org_id: str | None = None
    cancelled: bool = False


class _Batch(msgspec.Struct, frozen=True):
    notifications: list[msgspec.Raw]


class Recording:
    """A transport that records calls; the next ones can be refused or left without a reply."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Delete everything recorded."""
        self.calls: list[Call] = []
        self.refusals: deque[Fault] = deque()
        self.lost_replies = 0
        self._people = RecordedPeople()
        self._intents: dict[str, Intent] = {}
        self._by_key: dict[str, Recorded] = {}

    @property
    def notifications(self) -> list[Recorded]:
        """Every notification accepted so far, in order."""
        return list(self._by_key.values())

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Record a call and answer it."""
        if self.lost_replies:
            self.lost_replies -= 1
            return NoReply("the test made it unreachable")
        self.calls.append(request.call)
        method, body = request.call.method, request.call.body or b"{}"
        match [unquote(part) for part in request.call.path.removeprefix("/v1/").split("/")]:
            case ["notifications", *rest]:
                return self._notification([method, *rest], body)
            case parts:
                return _found(self._people.answer(request, [method, *parts], body))

    def _notification(self, parts: list[str], body: bytes) -> ApiReply:
        match parts:
            case ["POST"]:
                return _single(self._accept(body))
            case ["POST", "batch"]:
                batch = msgspec.json.decode(body, type=_Batch).notifications
                return _found({"results": [self._accept(bytes(each)) for each in batch]})
            case ["POST", "explain"]:
                return _explained(body)
            case ["POST", "cancel"]:
                key = msgspec.json.decode(body, type=CancelByKey).idempotency_key
                return self._change(self._by_key.get(key), Cancelled, cancelled=True)
            case ["POST", notification_id, "cancel"]:
                return self._change(self._find(notification_id), Cancelled, cancelled=True)
            case ["POST", notification_id, "reschedule"]:
                send_at = msgspec.json.decode(body, type=Reschedule).send_at
                return self._change(self._find(notification_id), Rescheduled, send_at=send_at)
            case _:
                return _found(_shown(self._find(parts[-1])))

    def _accept(self, body: bytes) -> Answer:
        decoded = [self.refusals.popleft()] if self.refusals else _decoded(body)
        if isinstance(decoded, list):
            return Invalid(decoded)
        key = decoded.idempotency_key
        content = msgspec.structs.replace(decoded, request_id=None, trace_id=None)
        if known := self._by_key.get(key):
            answer = Duplicate if self._intents[key] == content else Conflict
            return answer(known.notification_id)
        made = new_notification_id()
        self._intents[key] = content
        fields = msgspec.to_builtins(decoded, builtin_types=(datetime,))
        self._by_key[key] = Recorded(notification_id=made, **fields)
        return Accepted(made)

    def _find(self, notification_id: str) -> Recorded | None:
        found = (each for each in self.notifications if str(each.notification_id) == notification_id)
        return next(found, None)

    def _change(self, found: Recorded | None, to: type[Cancelled | Rescheduled], **changes: Any) -> ApiReply:
        """Change a notification; the answer counts its one delivery unless it was cancelled before."""
        if found is None:
            return _NOT_FOUND
        self._by_key[found.idempotency_key] = msgspec.structs.replace(found, **changes)
        return _found(to(found.notification_id, 0 if found.cancelled else 1))


class AsyncRecording:
    """A transport for event loops that answers from a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Record a request and answer it."""
        return self._recording.send(request)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _decoded(body: bytes) -> Intent | list[Fault]:
    """Decode an intent with the checks of the domain; a catalog would check its type and payload too."""
    try:
        intent = msgspec.json.decode(body, type=Intent)
    except msgspec.ValidationError as error:
        return [validation_fault(error)]
    faults = audience_faults(intent.audience) + locale_faults(intent.locale)
    if intent.send_at is not None and intent.send_at_local is not None:
        faults.append(Fault(field="send_at_local", code="one_of", message="cannot be given with send_at"))
    return faults or intent


def _single(answer: Answer) -> ApiReply:
    match answer:
        case Accepted() | Duplicate():
            return ApiReply(202, msgspec.json.encode(answer))
        case Conflict(notification_id=notification_id):
            problem = Problem(code="idempotency_conflict", detail=answer.why, notification_id=notification_id)
            return ApiReply(409, msgspec.json.encode(problem))
        case Invalid(errors=errors):
            problem = Problem(code="invalid_intent", detail=answer.why, errors=errors)
            return ApiReply(422, msgspec.json.encode(problem))


def _explained(body: bytes) -> ApiReply:
    """Answer without routes, which only a catalog could decide."""
    intent = _decoded(body)
    if isinstance(intent, list):
        return _single(Invalid(intent))
    version = intent.version or 1
    return _found(Explanation(type=intent.type, version=version, now=datetime.now(UTC), routes=[]))


def _found(value: object) -> ApiReply:
    return _NOT_FOUND if value is None else ApiReply(200, msgspec.json.encode(value))


def _shown(recorded: Recorded | None) -> Notification | None:
    """Return a notification without deliveries."""
    if recorded is None:
        return None
    now = datetime.now(UTC)
    fields = msgspec.structs.asdict(recorded)
    for name in ("ttl_seconds", "cancelled"):
        del fields[name]
    return Notification(
        **fields | {"version": recorded.version or 1},
        producer="fake",
        expires_at=None,
        accepted_at=now,
        cancelled_at=now if recorded.cancelled else None,
        deliveries=[],
        truncated=False,
    )
