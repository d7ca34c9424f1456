"""Which time zone a person's day is reckoned in."""

from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.timing.timezones import is_known_timezone

ZoneSource = Literal["device", "person", "offset", "default"]

FURTHEST_OFFSET = 18 * 60 * 60
_LONGEST_NAME = 64
# These stand among the names of a system's zones, but say nothing about where a person is.
_NO_PLACES = frozenset({"Factory", "localtime"})


class ZoneChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The zone that was chosen, where it came from, and what was named before it but is not known."""

    zone: tzinfo
    name: str
    source: ZoneSource
    unknown: tuple[str, ...] = ()


def is_known_zone(name: str) -> bool:
    """Tell whether a name is that of a time zone by which a person's clock can be read."""
    return is_known_timezone(name) and name not in _NO_PLACES


@lru_cache(maxsize=4096)
def choose_zone(
    device_timezone: str | None, person_timezone: str | None, gmt_offset_seconds: int | None, default: str
) -> ZoneChoice:
    """Take the first known of the device's zone, the person's, the person's offset and the default.

    If even the default is unknown, it is UTC.
    """
    unknown: list[str] = []
    named: tuple[tuple[ZoneSource, str | None], ...] = (
        ("device", device_timezone),
        ("person", person_timezone),
    )
    for source, name in named:
        if name and is_known_zone(name):
            return ZoneChoice(zone=ZoneInfo(name), name=name, source=source, unknown=tuple(unknown))
        if name:
            unknown.append(_shortened(name))
    if gmt_offset_seconds is not None:
        if abs(gmt_offset_seconds) <= FURTHEST_OFFSET:
            zone = timezone(timedelta(seconds=gmt_offset_seconds))
            return ZoneChoice(zone=zone, name=str(zone), source="offset", unknown=tuple(unknown))
        unknown.append(f"{gmt_offset_seconds} seconds from GMT")
    if is_known_zone(default):
        return ZoneChoice(zone=ZoneInfo(default), name=default, source="default", unknown=tuple(unknown))
    return ZoneChoice(zone=UTC, name="UTC", source="default", unknown=(*unknown, _shortened(default)))


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
