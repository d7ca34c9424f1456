"""Tocsin's API as far as an application's tests meet it, answered from memory."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
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
)
from tocsin.client.calls import LARGEST_BATCH
from tocsin.client.exchange import Lost, Reply, Request
from tocsin.client.testing.checks import intent_faults
from tocsin.client.testing.notifications import Notifications, Recorded, shown
from tocsin.client.testing.people import People
from tocsin.domain.faults import Fault
from tocsin.wire.notifications import Explanation

_MISSING = "There is no such thing."


class _Batch(msgspec.Struct, frozen=True):
    notifications: list[msgspec.Raw]


class InMemory:
    """Answers requests; `losses` is how many of the next get no answer."""

    def __init__(self) -> None:
        self.notifications = Notifications()
        self.people = People()
        self.losses = 0

    def clear(self) -> None:
        """Forget everything."""
        self.notifications.clear()
        self.people = People()
        self.losses = 0

    def answer(self, request: Request) -> Reply | Lost:
        """Answer a request as Tocsin would."""
        if self.losses:
            self.losses -= 1
            return Lost("it was told to be unreachable")
        call = request.call
        section, *rest = map(unquote, call.path.removeprefix("/v1/").split("/"))
        body = call.body or b"{}"
        match section:
            case "notifications":
                return self._notification(call.method, rest, body)
            case "users":
                return self._user(call.method, rest[0], body)
            case _:
                return self._person(request, (section, *rest))

    def _notification(self, method: str, parts: list[str], body: bytes) -> Reply:
        match method, parts:
            case "POST", []:
                return _taken(self.notifications.accept(body))
            case "POST", ["batch"]:
                return self._batch(body)
            case "POST", ["explain"]:
                return _explained(body)
            case "POST", ["cancel"]:
                key = msgspec.json.decode(body)["idempotency_key"]
                return self._cancel(self.notifications.by_key(key))
            case "POST", [which, "cancel"]:
                return self._cancel(self.notifications.find(which))
            case "POST", [which, "reschedule"]:
                return self._reschedule(self.notifications.find(which), body)
            case _, [which]:
                found = self.notifications.find(which)
                return _ok(shown(found)) if found else _problem(404, "not_found", _MISSING)
            case _:
                return _problem(404, "not_found", _MISSING)

    def _batch(self, body: bytes) -> Reply:
        batch = msgspec.json.decode(body, type=_Batch).notifications
        if not 1 <= len(batch) <= LARGEST_BATCH:
            return _problem(422, "invalid_body", f"notifications: must be 1 to {LARGEST_BATCH:,}")
        return _ok({"results": [self.notifications.accept(bytes(each)) for each in batch]})

    def _cancel(self, found: Recorded | None) -> Reply:
        if found is None:
            return _problem(404, "not_found", _MISSING)
        self.notifications.change(found, cancelled=True)
        count = 0 if found.cancelled else 1
        return _ok(Cancelled(notification_id=found.notification_id, cancelled=count))

    def _reschedule(self, found: Recorded | None, body: bytes) -> Reply:
        if found is None:
            return _problem(404, "not_found", _MISSING)
        send_at = datetime.fromisoformat(msgspec.json.decode(body)["send_at"])
        self.notifications.change(found, send_at=send_at)
        return _ok(Rescheduled(notification_id=found.notification_id, rescheduled=1))

    def _user(self, method: str, which: str, body: bytes) -> Reply:
        if method == "PUT":
            return _ok(self.people.put_user(which, msgspec.json.decode(body)))
        user = self.people.users.get(which)
        return _ok(user) if user else _problem(404, "not_found", _MISSING)

    def _person(self, request: Request, parts: tuple[str, ...]) -> Reply:
        people, person, call = self.people, request.secret.value, request.call
        fields: dict[str, Any] = msgspec.json.decode(call.body or b"{}")
        found: object = None
        match call.method, parts:
            case "POST", ("devices", "register"):
                found = people.register(person, fields)
            case "POST", ("devices", "unregister"):
                found = people.retire(person, fields)
            case "GET", ("devices",):
                found = {"devices": people.devices_of(person, include_retired=bool(call.query))}
            case "PATCH", ("devices", which):
                found = people.change(person, {"device_id": which}, **fields)
            case "GET", ("preferences",):
                found = people.preferences.get(person, {})
            case "PATCH", ("preferences",):
                found = people.choose(person, fields)
        return _ok(found) if found is not None else _problem(404, "not_found", _MISSING)


def _taken(answer: Answer) -> Reply:
    match answer:
        case Accepted() | Duplicate():
            return Reply(202, msgspec.json.encode(answer))
        case Conflict(notification_id=notification_id):
            return _problem(409, "idempotency_conflict", "The key is taken.", notification_id=notification_id)
        case Invalid(errors=errors):
            return _problem(422, "invalid_intent", answer.why, errors=errors)


def _explained(body: bytes) -> Reply:
    """Answer without routes: what would become of it is the affair of a catalog that is not here."""
    if faults := intent_faults(body):
        return _problem(422, "invalid_intent", "; ".join(map(str, faults)), errors=faults)
    fields = msgspec.json.decode(body)
    version = fields.get("version") or 1
    return _ok(Explanation(type=fields["type"], version=version, now=datetime.now(UTC), routes=[]))


def _ok(value: object) -> Reply:
    return Reply(200, msgspec.json.encode(value))


def _problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[Fault] | None = None,
    notification_id: UUID | None = None,
) -> Reply:
    problem = {"code": code, "detail": detail, "errors": errors or [], "notification_id": notification_id}
    return Reply(status, msgspec.json.encode(problem))
