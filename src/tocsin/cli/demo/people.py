"""The people of the demo and their virtual devices."""

import secrets
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.people.devices import Platform, ProviderName
from tocsin.sandbox import Sandbox

DAY, NIGHT = 14, 3
"""The hours of a local time that is clearly within the day, and clearly within quiet hours."""
_DAY_HOURS = range(10, 20)
# One for each hour of the clock, so that it is day and night somewhere at any moment.
_ZONES = (
    "Pacific/Honolulu",
    "America/Anchorage",
    "America/Los_Angeles",
    "America/Denver",
    "America/Chicago",
    "America/New_York",
    "America/Halifax",
    "America/Sao_Paulo",
    "Atlantic/South_Georgia",
    "Atlantic/Azores",
    "Europe/London",
    "Europe/Paris",
    "Europe/Athens",
    "Europe/Istanbul",
    "Asia/Dubai",
    "Asia/Karachi",
    "Asia/Dhaka",
    "Asia/Bangkok",
    "Asia/Singapore",
    "Asia/Seoul",
    "Australia/Brisbane",
    "Pacific/Noumea",
    "Pacific/Auckland",
    "Pacific/Tongatapu",
)


class DemoPerson(NamedTuple):
    """A user of the demo and their virtual device."""

    user_id: str
    locale: str
    device: str
    platform: Platform
    provider: ProviderName
    home: str

    @property
    def email(self) -> str:
        """The address of the person's mailbox."""
        return f"{self.user_id}@example.com"

    def day_zone(self, now: datetime) -> str:
        """Return the zone of the person's home if it is day there, otherwise one where it is."""
        return self.home if now.astimezone(ZoneInfo(self.home)).hour in _DAY_HOURS else zone_at(DAY, now)


PEOPLE = (
    DemoPerson("ada", "en", "an Android phone", "android", "fcm", "Europe/London"),
    DemoPerson("kerem", "tr", "an iPhone", "ios", "apns", "Europe/Istanbul"),
    DemoPerson("mina", "fa", "an Expo app", "android", "expo", "Asia/Tehran"),
    DemoPerson("linh", "vi", "a browser", "web", "webpush", "Asia/Ho_Chi_Minh"),
)


class Installation(NamedTuple):
    """An app on a virtual device: its token, and the name under which the sandbox keeps its messages."""

    token: str
    target: str


def zone_at(hour: int, now: datetime) -> str:
    """Return a time zone in which it is about a full hour now."""

    def distance(name: str) -> timedelta:
        local = now.astimezone(ZoneInfo(name)).replace(tzinfo=None)
        wanted = local.replace(hour=hour, minute=0, second=0, microsecond=0)
        return min(abs(local - wanted + timedelta(days=days)) for days in (-1, 0, 1))

    return min(_ZONES, key=distance)


def install(sandbox: Sandbox, person: DemoPerson) -> Installation:
    """Install the app on a person's device: it gets a new token from its provider."""
    unique = f"{person.user_id}-{secrets.token_hex(8)}"
    match person.provider:
        case "webpush":
            return Installation(msgspec.json.encode(sandbox.subscription(unique)).decode(), unique)
        case "apns":
            token = secrets.token_hex(32)
        case "expo":
            token = f"ExponentPushToken[{unique}]"
        case _:
            token = f"virtual-phone-of-{unique}"
    return Installation(token, token)
