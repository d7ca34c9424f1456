"""Identifiers that sort by the time they were made.

UUID version 7 keeps new rows beside each other in every index; random keys
scatter them over the whole table, and a claim then costs more the longer the
backlog is.
"""

import os
import random
import time
import uuid
from typing import NewType

NotificationId = NewType("NotificationId", uuid.UUID)
DeliveryId = NewType("DeliveryId", uuid.UUID)
DeviceId = NewType("DeviceId", uuid.UUID)
LeaseId = NewType("LeaseId", uuid.UUID)
AlarmId = NewType("AlarmId", uuid.UUID)

_COUNTER_BITS = 12
_VERSION_7 = 0x7 << 76
_VARIANT = 0x2 << 62


class _Sequence:
    """Makes ids of one process strictly increasing, even within a millisecond."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        tick = (time.time_ns() // 1_000_000) << _COUNTER_BITS
        self._last = max(tick, self._last + 1)
        return self._last


_sequence = _Sequence()
# Ids are names, not secrets: a seeded generator does, at a tenth of the cost of asking the system each
# time. A forked process must not go on with its parent's numbers.
_random = random.Random()  # noqa: S311
os.register_at_fork(after_in_child=_random.seed)


def uuid7() -> uuid.UUID:
    """Make a UUIDv7: 48 bits of milliseconds, a 12-bit counter, 62 random bits."""
    moment = _sequence.next()
    milliseconds, counter = moment >> _COUNTER_BITS, moment & 0xFFF
    tail = _random.getrandbits(62)
    return uuid.UUID(int=milliseconds << 80 | _VERSION_7 | counter << 64 | _VARIANT | tail)


def new_notification_id() -> NotificationId:
    """Name a new notification."""
    return NotificationId(uuid7())


def new_delivery_id() -> DeliveryId:
    """Name a new delivery."""
    return DeliveryId(uuid7())


def new_device_id() -> DeviceId:
    """Name a new device."""
    return DeviceId(uuid7())


def new_alarm_id() -> AlarmId:
    """Name a new alarm."""
    return AlarmId(uuid7())


def new_lease_id() -> LeaseId:
    """Name one claim; a lease is never used twice."""
    return LeaseId(uuid7())
