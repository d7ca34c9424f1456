"""What a producer hands in, written as it is said: what happened, to whom, with which particulars."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.ids import uuid7

AUDIENCES = ("users", "emails", "admins", "topic", "condition")


def new_key() -> str:
    """Make an idempotency key that nobody else makes and that sorts by time."""
    return str(uuid7())


class _Typed(msgspec.Struct, frozen=True):
    type: str


class Intent(_Typed, frozen=True, kw_only=True):
    """What happened and who should know: a type and exactly one of users, emails, admins, topic, condition.

    A key is made unless one is given. The same intent can be sent any number of times and is accepted once.
    """

    users: Sequence[str | int] | None = None
    emails: Sequence[str] | None = None
    admins: bool | None = None
    topic: str | None = None
    condition: str | None = None
    payload: Mapping[str, Any] = {}
    idempotency_key: str | None = None
    version: int | None = None
    send_at: datetime | None = None
    send_at_local: datetime | None = None
    ttl_seconds: int | None = None
    collapse_key: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    occurred_at: datetime | None = None

    def __post_init__(self) -> None:
        """Make a key, so that this very intent is accepted once however often it is sent."""
        if self.idempotency_key is None:
            msgspec.structs.force_setattr(self, "idempotency_key", new_key())

    @property
    def key(self) -> str:
        """The idempotency key, given or made."""
        return self.idempotency_key or ""


class Question(Intent, frozen=True, kw_only=True):
    """An intent that is only asked about, as of `at` or now."""

    at: datetime | None = None


_NOT_FIELDS = {*AUDIENCES, "at"}
_encoder = msgspec.json.Encoder()


def wire(intent: Intent) -> bytes:
    """Write an intent as the API reads it."""
    given = {name: value for name, value in msgspec.structs.asdict(intent).items() if value is not None}
    audience = {name: given[name] for name in AUDIENCES if name in given}
    fields = {name: value for name, value in given.items() if name not in _NOT_FIELDS}
    return _encoder.encode({**fields, "audience": audience})
