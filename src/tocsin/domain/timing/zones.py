"""The time zone of a person."""

from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

import msgspec

ZoneSource = Literal["device", "person", "offset", "default"]

FURTHEST_OFFSET = 18 * 60 * 60
_LONGEST_NAME = 64
# Systems list these names among their time zones, but they belong to no place.
_NO_PLACES = frozenset({"Factory", "localtime"})


class ZoneChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen zone, its source, and the unknown names that came before it."""

    zone: tzinfo
    name: str
    source: ZoneSource
    unknown: tuple[str, ...] = ()


@cache
def _known_timezones() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_PLACES)


def is_known_timezone(name: str) -> bool:
    """Return whether a name is an IANA time zone, such as `Europe/Istanbul`."""
    return name in _known_timezones()


@lru_cache(maxsize=4096)
def choose_zone(
    device_timezone: str | None, person_timezone: str | None, gmt_offset_seconds: int | None, default: str
) -> ZoneChoice:
    """Return the first known of the device's zone, the person's zone, the person's offset and the default.

    If the default is unknown too, the zone is UTC.
    """
    unknown: list[str] = []
    named: tuple[tuple[ZoneSource, str | None], ...] = (
        ("device", device_timezone),
        ("person", person_timezone),
    )
    for source, name in named:
        if name and is_known_timezone(name):
            return ZoneChoice(zone=ZoneInfo(name), name=name, source=source, unknown=tuple(unknown))
        if name:
            unknown.append(_shortened(name))
    if gmt_offset_seconds is not None:
        if abs(gmt_offset_seconds) <= FURTHEST_OFFSET:
            zone = timezone(timedelta(seconds=gmt_offset_seconds))
            return ZoneChoice(zone=zone, name=str(zone), source="offset", unknown=tuple(unknown))
        unknown.append(f"{gmt_offset_seconds} seconds from GMT")
    if is_known_timezone(default):
        return ZoneChoice(zone=ZoneInfo(default), name=default, source="default", unknown=tuple(unknown))
    return ZoneChoice(zone=UTC, name="UTC", source="default", unknown=(*unknown, _shortened(default)))


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
