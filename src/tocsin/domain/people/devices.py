"""The rules of devices: their fields, how many a person may have, and the hash of a token."""

import hashlib
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.people.push_subscription import endpoint_of

Platform = Literal["ios", "android", "web"]
ProviderName = Annotated[str, Meta(min_length=1, max_length=64)]
DeviceToken = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Policy = Literal["many", "one_per_platform"]

LONGEST_UNSEEN_DAYS = 36_500

_SHORT_HASH = 12
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")


class RetiredReason(StrEnum):
    """Why a device was retired; a provider's `Gone` adds the code of the provider."""

    UNREGISTERED = "unregistered"
    REPLACED = "replaced"
    SURPLUS = "too_many_devices"
    SAME_PLATFORM = "newer_device_on_platform"
    UNSEEN = "not_seen"


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many devices a person may have, how often they may register one, and when unseen ones are retired.

    `many` keeps the `max_active` devices seen last; `one_per_platform` keeps the newest of each platform.
    A device not seen for `stale_after_days` is marked as stale, and after `retire_after_days` it is
    retired; 0 means never.
    """

    policy: Policy = "many"
    max_active: int = 5
    registrations_per_hour: int = 60
    stale_after_days: int = 30
    retire_after_days: int = 270


def device_settings_faults(settings: DeviceSettings) -> Iterator[Fault]:
    """List what is out of range or contradictory in the device settings."""
    for name in ("max_active", "registrations_per_hour"):
        value = getattr(settings, name)
        if value < 1:
            yield Fault(field=f"devices.{name}", code="too_small", message=f"must be at least 1, not {value}")
    stale, retire = settings.stale_after_days, settings.retire_after_days
    for name, days in (("stale_after_days", stale), ("retire_after_days", retire)):
        if not 0 <= days <= LONGEST_UNSEEN_DAYS:
            message = f"must be 0 (never) to {LONGEST_UNSEEN_DAYS}, not {days}"
            yield Fault(field=f"devices.{name}", code="out_of_range", message=message)
    if 0 < retire <= stale:
        message = (
            f"must be more than devices.stale_after_days, which is {stale}, or 0 for never; not {retire}"
        )
        yield Fault(field="devices.retire_after_days", code="contradiction", message=message)


def token_hash(token: str) -> bytes:
    """Return the SHA-256 hash that identifies a device where its token must not appear.

    Two spellings of one token have one hash: of a push subscription only the endpoint counts, and
    hexadecimal is compared without case.
    """
    return hashlib.sha256(_identity(token).encode()).digest()


def _identity(token: str) -> str:
    if token.startswith("{"):
        return endpoint_of(token) or token
    return token.lower() if _HEXADECIMAL.fullmatch(token) else token


def short_hash(digest: bytes) -> str:
    """Return the first characters of a token's hash, enough to compare by eye."""
    return digest.hex()[:_SHORT_HASH]
