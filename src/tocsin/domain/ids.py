"""Identifiers that sort by their creation time (UUIDv7).

Time-ordered keys keep new rows next to each other in every index. Random keys scatter them over the
whole table, and the cost of a claim then grows with the backlog.
"""

import os
import random
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import NewType

NotificationId = NewType("NotificationId", uuid.UUID)
DeliveryId = NewType("DeliveryId", uuid.UUID)
DeviceId = NewType("DeviceId", uuid.UUID)
LeaseId = NewType("LeaseId", uuid.UUID)
AlarmId = NewType("AlarmId", uuid.UUID)

LAST = uuid.UUID(int=(1 << 128) - 1)
"""Greater than every id: the cursor of the first page, newest first."""

_COUNTER_BITS = 12
_MILLISECONDS_SHIFT = 80
_VERSION = 7
_VERSION_7 = _VERSION << 76
_VARIANT = 0x2 << 62
_FIXED = _VERSION_7 | _VARIANT

_new, _set = object.__new__, object.__setattr__
_UUID, _UNKNOWN = uuid.UUID, uuid.SafeUUID.unknown


class _Generator:
    """Counts up so that the ids of one process strictly increase, even within a millisecond."""

    def __init__(self) -> None:
        self._last = 0
        # Ids are not secrets, so a seeded generator is enough, at a tenth of the cost of the system's. A
        # forked process must not continue its parent's sequence.
        chance = random.Random()  # noqa: S311
        os.register_at_fork(after_in_child=chance.seed)
        self._bits = chance.getrandbits

    def next(self) -> uuid.UUID:
        """Return a new UUIDv7: 48 bits of milliseconds, a 12-bit counter, 62 random bits."""
        tick, last = time.time_ns() // 1_000_000 << _COUNTER_BITS, self._last
        self._last = last = tick if tick > last else last + 1
        value = last >> _COUNTER_BITS << _MILLISECONDS_SHIFT | (last & 0xFFF) << 64 | self._bits(62) | _FIXED
        # As the constructor does, without its checks, which cost more than all of the above.
        identifier = _new(_UUID)
        _set(identifier, "int", value)
        _set(identifier, "is_safe", _UNKNOWN)
        return identifier


uuid7 = _Generator().next


def created_at(identifier: uuid.UUID) -> datetime | None:
    """Return when a UUIDv7 was made, to the millisecond; None for any other UUID."""
    if identifier.version != _VERSION:
        return None
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=identifier.int >> _MILLISECONDS_SHIFT)


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the smallest UUIDv7 of a moment: those of earlier ones sort before it."""
    milliseconds = max((moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1), 0)
    return uuid.UUID(int=milliseconds << _MILLISECONDS_SHIFT | _VERSION_7 | _VARIANT)


def new_notification_id() -> NotificationId:
    """Return a new notification id."""
    return NotificationId(uuid7())


def new_delivery_id() -> DeliveryId:
    """Return a new delivery id."""
    return DeliveryId(uuid7())


def new_device_id() -> DeviceId:
    """Return a new device id."""
    return DeviceId(uuid7())


def new_alarm_id() -> AlarmId:
    """Return a new alarm id."""
    return AlarmId(uuid7())


def new_lease_id() -> LeaseId:
    """Return a new lease id, unique to one claim."""
    return LeaseId(uuid7())
