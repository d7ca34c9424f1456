"""The intents a producer hands in, and those that were refused."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.ids import uuid7
from tocsin.domain.intent import Audience
from tocsin.wire.answers import Conflict, Invalid

AUDIENCES = Audience.__struct_fields__


def new_key() -> str:
    """Return a unique idempotency key; keys sort by the time they were made."""
    return str(uuid7())


class _Typed(msgspec.Struct, frozen=True):
    type: str


class Intent(_Typed, frozen=True, kw_only=True):
    """A type, a payload and exactly one of the audiences, from `users` to `segment`.

    A key is generated unless one is given. The same intent can be sent repeatedly and is accepted once.
    """

    users: Sequence[str | int] | None = None
    emails: Sequence[str] | None = None
    admins: bool | None = None
    topic: str | None = None
    condition: str | None = None
    attributes: Mapping[str, Any] | None = None
    everyone: bool | None = None
    segment: str | None = None
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
    locale: str | None = None
    org_id: str | None = None

    def __post_init__(self) -> None:
        """Generate a key, so that this intent is accepted once however often it is sent."""
        if self.idempotency_key is None:
            msgspec.structs.force_setattr(self, "idempotency_key", new_key())

    @property
    def key(self) -> str:
        """The idempotency key, given or generated."""
        return self.idempotency_key or ""


class Question(Intent, frozen=True, kw_only=True):
    """An intent to explain, as of `at` or now."""

    at: datetime | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A queued intent that will never be accepted as it is, and the answer it got."""

    intent: Intent
    answer: Conflict | Invalid
