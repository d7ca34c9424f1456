"""The notifications of a stand-in: kept in memory, by key, with Tocsin's own answers."""

from collections import deque
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.client.answers import Accepted, Answer, Conflict, Duplicate, Invalid
from tocsin.client.testing.checks import intent_faults
from tocsin.domain.faults import Fault
from tocsin.domain.ids import uuid7
from tocsin.wire.notifications import Notification

_NOT_CONTENT = {"idempotency_key", "request_id", "trace_id"}


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A notification as it was handed in."""

    notification_id: UUID
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
    cancelled: bool = False


class Notifications:
    """Accepts, refuses and remembers as Tocsin does, without its catalog."""

    def __init__(self) -> None:
        self._by_key: dict[str, Recorded] = {}
        self._content: dict[str, dict[str, Any]] = {}
        self.refusals: deque[Fault] = deque()

    @property
    def recorded(self) -> list[Recorded]:
        """Everything that was accepted, in order."""
        return list(self._by_key.values())

    def clear(self) -> None:
        """Forget everything."""
        self._by_key.clear()
        self._content.clear()
        self.refusals.clear()

    def accept(self, raw: bytes) -> Answer:
        """Answer one intent."""
        faults = [self.refusals.popleft()] if self.refusals else intent_faults(raw)
        if faults:
            return Invalid(errors=faults)
        fields: dict[str, Any] = msgspec.json.decode(raw)
        key = fields["idempotency_key"]
        content = {name: value for name, value in fields.items() if name not in _NOT_CONTENT}
        if known := self._by_key.get(key):
            same = self._content[key] == content
            kind = Duplicate if same else Conflict
            return kind(notification_id=known.notification_id)
        made = uuid7()
        self._by_key[key] = msgspec.convert({**fields, "notification_id": made}, Recorded)
        self._content[key] = content
        return Accepted(notification_id=made)

    def find(self, notification_id: str) -> Recorded | None:
        """Find a notification by its id."""
        return next((each for each in self.recorded if str(each.notification_id) == notification_id), None)

    def by_key(self, key: str) -> Recorded | None:
        """Find a notification by its key."""
        return self._by_key.get(key)

    def change(self, recorded: Recorded, **changes: Any) -> None:
        """Keep a notification with changes."""
        self._by_key[recorded.idempotency_key] = msgspec.structs.replace(recorded, **changes)


def shown(recorded: Recorded) -> Notification:
    """Show a notification; nothing is delivered here."""
    now = datetime.now(UTC)
    return Notification(
        notification_id=recorded.notification_id,
        producer="fake",
        idempotency_key=recorded.idempotency_key,
        type=recorded.type,
        version=recorded.version or 1,
        audience=recorded.audience,
        payload=recorded.payload,
        collapse_key=recorded.collapse_key,
        request_id=recorded.request_id,
        trace_id=recorded.trace_id,
        occurred_at=recorded.occurred_at,
        send_at=recorded.send_at,
        send_at_local=recorded.send_at_local,
        expires_at=None,
        accepted_at=now,
        cancelled_at=now if recorded.cancelled else None,
        deliveries=[],
        truncated=False,
    )
