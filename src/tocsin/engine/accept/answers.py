"""What a producer is told of an intent."""

from collections.abc import Sequence

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.ids import NotificationId


class Accepted(msgspec.Struct, frozen=True):
    """It is stored and will be kept."""

    notification_id: NotificationId


class Duplicate(msgspec.Struct, frozen=True):
    """The same key and content came before; this is what it became then."""

    notification_id: NotificationId


class Conflict(msgspec.Struct, frozen=True):
    """The key belongs to other content."""

    notification_id: NotificationId


class Invalid(msgspec.Struct, frozen=True):
    """It cannot be accepted as it is; every fault is named."""

    faults: Sequence[Fault]


Answer = Accepted | Duplicate | Conflict | Invalid


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An intent whose shape is already wrong, handed on so that it is recorded with the rest."""

    faults: Sequence[Fault]
    content: str
    type: str | None = None
    idempotency_key: str | None = None
