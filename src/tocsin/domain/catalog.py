"""Notification types as the catalog declares them, and upgrades of old payloads."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tocsin.domain.delivery.backoff import Backoff, Exponential
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance

Channel: TypeAlias = Literal["push", "email", "webhook", "inbox"]
Payload: TypeAlias = Mapping[str, Any]

LocaleMatch: TypeAlias = Literal["closest", "exact"]

CHANNELS: tuple[Channel, ...] = get_args(Channel)

DEFAULT_ATTEMPTS = 5
DEFAULT_LOCALE = "en"
MOST_RECOVERIES = 20_000
DEFAULT_BACKOFF = Exponential(timedelta(seconds=1), timedelta(minutes=5), 2.0, 0.2)


class Parts(msgspec.Struct, frozen=True):
    """The parts that the texts of a channel consist of."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every part in its usual order."""
        return self.required + self.optional


PARTS: Mapping[Channel, Parts] = {
    "push": Parts(("title", "body")),
    "email": Parts(("subject", "text"), ("html",)),
    "inbox": Parts(("title", "body")),
    "webhook": Parts(),
}


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` of a type for one person in each window of `per`; the rest is skipped or deferred."""

    limit: int
    per: timedelta
    beyond: Literal["skip", "defer"] = "skip"


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications of a type within `window` become one message, per value of the field `by` if given."""

    window: timedelta
    by: str | None = None


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """If a push is not sent within `after`, a delivery by the channel `to` follows."""

    to: Channel
    after: timedelta


class Recovery(msgspec.Struct, frozen=True, kw_only=True, rename={"lasts": "for"}):
    """How a delivery goes on after its last attempt if the provider was at fault: tried every `every`.

    It ends with the time to live, or after `for`, not counting quiet hours and open circuit breakers.
    """

    every: timedelta
    lasts: timedelta

    @property
    def tries(self) -> int:
        """How many more attempts there are."""
        return min(int(self.lasts / self.every), MOST_RECOVERIES)


class Policies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How deliveries of a type are treated."""

    ttl_seconds: int | None = None
    ordered: bool = False
    ordering_group: str | None = None
    urgent: bool = False
    critical: bool = False
    attempts: Mapping[Channel, int] = {}
    backoff: Backoff = DEFAULT_BACKOFF
    recover: Recovery | None = None
    throttle: Throttle | None = None
    digest: Digest | None = None
    failover: Failover | None = None

    def attempts_for(self, channel: Channel) -> int:
        """Return how many attempts a delivery by this channel has before it is dead or recovers."""
        return self.attempts.get(channel, DEFAULT_ATTEMPTS)

    def recovery_after(self, channel: Channel, attempt: int) -> timedelta | None:
        """Return how long a delivery waits for recovery after a last attempt; None if it has ended."""
        if self.recover is None or attempt >= self.attempts_for(channel) + self.recover.tries:
            return None
        return self.recover.every


NO_POLICIES = Policies()
"""The policies of a type that declares none, in a deployment that sets none."""


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """How a payload is changed to fit the next version: fields to rename, to remove, and to add."""

    rename: Mapping[str, str] = {}
    remove: tuple[str, ...] = ()
    default: Mapping[str, Any] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The push of a type as a structured event: the table of its encoding, and the payload fields in it."""

    table: str
    fields: tuple[str, ...]


class NotificationType(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one type of notification.

    `data`, `push` and `inbox` contain templates; the keys of `push` are the fields of PushAppearance, those
    of `inbox` are `link` and `icon`. The payload field `category_field`, where one is named, chooses another
    category than `category`. `attributes` are the schemas of the custom attributes of users that the
    templates read. `audiences` are the kinds of audience that it is for, each with its channels; None: every
    kind, by all channels.
    """

    name: str
    version: int
    category: str
    category_field: str | None = None
    channels: tuple[Channel, ...]
    audiences: Mapping[str, tuple[Channel, ...]] | None = None
    default_locale: str
    locale_match: LocaleMatch = "closest"
    payload_schema: Mapping[str, Any]
    data: Mapping[str, str] = {}
    push: Mapping[str, str] = {}
    inbox: Mapping[str, str] = {}
    event: Event | None = None
    attributes: Mapping[str, Mapping[str, Any]] = {}
    policies: Policies = NO_POLICIES
    upgrade: Upgrade | None = None

    def __str__(self) -> str:
        """Format the name and the version: `new_customer v2`."""
        return f"{self.name} v{self.version}"

    def channels_for(self, *kinds: str) -> tuple[Channel, ...]:
        """List the channels by which audiences of these kinds can be reached."""
        if self.audiences is None:
            return self.channels
        used = {channel for kind in kinds for channel in self.audiences.get(kind, ())}
        return tuple(channel for channel in self.channels if channel in used)

    @property
    def used_channels(self) -> tuple[Channel, ...]:
        """The channels that some audience uses."""
        return self.channels_for(*self.audiences or ())


def variable_form(name: str) -> str:
    """Return the name of a type as a part of a variable can be: with `_` for every `.` and `-`."""
    return name.replace(".", "_").replace("-", "_")


class Content(msgspec.Struct, frozen=True):
    """The rendered texts and data of one delivery, and the locale they are in."""

    locale: str
    parts: dict[str, str]
    data: dict[str, str]
    appearance: PushAppearance = DEFAULT_APPEARANCE


def upgraded(upgrade: Upgrade, payload: Payload) -> dict[str, Any]:
    """Return a payload of the next version: fields renamed, removed, then filled with defaults."""
    moved = {upgrade.rename[field]: value for field, value in payload.items() if field in upgrade.rename}
    kept = {
        field: value
        for field, value in payload.items()
        if field not in upgrade.rename and field not in upgrade.remove
    }
    return {**upgrade.default, **kept, **moved}


def upgrade_through(
    versions: Mapping[int, NotificationType], start: NotificationType, payload: Payload
) -> tuple[NotificationType, Payload]:
    """Upgrade a payload from version to version as far as the upgrades lead; return that version too."""
    current = start
    for number in sorted(versions) if start.upgrade else ():
        if number > current.version and current.upgrade is not None:
            payload = upgraded(current.upgrade, payload)
            current = versions[number]
    return _with_chosen_category(current, payload), payload


def _with_chosen_category(notification_type: NotificationType, payload: Payload) -> NotificationType:
    """Return a type with the category that a payload chooses, if its type allows that."""
    if notification_type.category_field is None or notification_type.category_field not in payload:
        return notification_type
    return msgspec.structs.replace(notification_type, category=payload[notification_type.category_field])
