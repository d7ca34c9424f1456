"""Identifiers that sort by their creation time (UUIDv7).

Time-ordered keys keep new rows next to each other in every index. Random keys scatter them over the
whole table, and the cost of a claim then grows with the backlog.
"""

import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NewType, cast

NotificationId = NewType("NotificationId", uuid.UUID)
DeliveryId = NewType("DeliveryId", uuid.UUID)
DeviceId = NewType("DeviceId", uuid.UUID)
LeaseId = NewType("LeaseId", uuid.UUID)
AlarmId = NewType("AlarmId", uuid.UUID)

LAST = uuid.UUID(int=(1 << 128) - 1)
"""Greater than every id: the cursor of the first page, newest first."""

_MILLISECONDS_SHIFT = 80
_NANOSECONDS = 1_000_000
"""In a millisecond."""
_VERSION = 7
_VERSION_7 = _VERSION << 76
_VARIANT = 0x2 << 62
_FIXED = _VERSION_7 | _VARIANT
_COUNTER_STEP = 1 << 64
_COUNTER = 0xFFF << 64

_new, _UUID, _UNKNOWN = object.__new__, uuid.UUID, uuid.SafeUUID.unknown
# A UUID refuses to be changed; its slots do not, and cost less than object.__setattr__.
_set_int, _set_is_safe = vars(_UUID)["int"].__set__, vars(_UUID)["is_safe"].__set__


class Generator:
    """Counts up so that the ids of one process strictly increase, even within a millisecond."""

    def __init__(self) -> None:
        self._base = self._begin(time.time_ns())
        # Ids are not secrets, so a seeded generator is enough, at a tenth of the cost of the system's. A
        # forked process must not continue its parent's sequence.
        chance = random.Random()  # noqa: S311
        os.register_at_fork(after_in_child=chance.seed)
        self._bits = chance.getrandbits

    def next(self) -> uuid.UUID:
        """Return a new UUIDv7: 48 bits of milliseconds, a 12-bit counter, 62 random bits."""
        now = time.time_ns()
        if now < self._ends:
            # Within the millisecond of the last id, or the clock was set back.
            base = self._base + _COUNTER_STEP
            if not base & _COUNTER:
                # The counter is used up: borrow from the next millisecond.
                base = self._begin(self._ends)
        else:
            base = self._begin(now)
        self._base = base
        # As the constructor does, without its checks, which cost more than all of the above.
        identifier = _new(_UUID)
        _set_int(identifier, base | self._bits(62))
        _set_is_safe(identifier, _UNKNOWN)
        return identifier

    def _begin(self, now: int) -> int:
        """Begin the millisecond of a time in nanoseconds; return the base of its first id."""
        millisecond = now // _NANOSECONDS
        self._ends = (millisecond + 1) * _NANOSECONDS
        return millisecond << _MILLISECONDS_SHIFT | _FIXED


uuid7 = Generator().next


def created_at(identifier: uuid.UUID) -> datetime | None:
    """Return when a UUIDv7 was made, to the millisecond; None for any other UUID."""
    if identifier.version != _VERSION:
        return None
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=identifier.int >> _MILLISECONDS_SHIFT)


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the smallest UUIDv7 of a moment: those of earlier ones sort before it."""
    milliseconds = max((moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1), 0)
    return uuid.UUID(int=milliseconds << _MILLISECONDS_SHIFT | _VERSION_7 | _VARIANT)


# The kinds of ids differ by type alone: a function for each would double the cost of an id.
new_notification_id = cast("Callable[[], NotificationId]", uuid7)
new_delivery_id = cast("Callable[[], DeliveryId]", uuid7)
new_device_id = cast("Callable[[], DeviceId]", uuid7)
new_alarm_id = cast("Callable[[], AlarmId]", uuid7)
new_lease_id = cast("Callable[[], LeaseId]", uuid7)
