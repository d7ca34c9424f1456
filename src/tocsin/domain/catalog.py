"""What the catalog declares about a type, and how an old payload becomes a new one."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from tocsin.domain.delivery.backoff import Backoff, Exponential
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE, PushAppearance

Channel: TypeAlias = Literal["push", "email", "webhook", "inbox"]
Payload: TypeAlias = Mapping[str, Any]

DEFAULT_ATTEMPTS = 5
DEFAULT_BACKOFF = Exponential(timedelta(seconds=1), timedelta(minutes=5), 2.0, 0.2)


class Parts(msgspec.Struct, frozen=True):
    """The texts a channel is made of."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


PARTS: Mapping[Channel, Parts] = {
    "push": Parts(("title", "body")),
    "email": Parts(("subject", "text"), ("html",)),
    "inbox": Parts(("title", "body")),
    "webhook": Parts(),
}


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` of a type for one person in each window of `per`, and what becomes of the rest."""

    limit: int
    per: timedelta
    beyond: Literal["skip", "defer"] = "skip"


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a type within `window` becomes one message, for each value of the field `by` if given."""

    window: timedelta
    by: str | None = None


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """A push not confirmed sent within `after` is followed by a delivery by the channel `to`."""

    to: Channel
    after: timedelta


class Policies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How deliveries of a type are treated."""

    ttl_seconds: int | None = None
    ordered: bool = False
    urgent: bool = False
    critical: bool = False
    attempts: Mapping[Channel, int] = {}
    backoff: Backoff = DEFAULT_BACKOFF
    throttle: Throttle | None = None
    digest: Digest | None = None
    failover: Failover | None = None

    def attempts_for(self, channel: Channel) -> int:
        """How often a delivery by this channel is tried before it is dead."""
        return self.attempts.get(channel, DEFAULT_ATTEMPTS)


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What turns a payload into one of the next version."""

    rename: Mapping[str, str] = {}
    remove: tuple[str, ...] = ()
    default: Mapping[str, Any] = {}


class NotificationType(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one kind of notification.

    `data` and `push` hold templates; `push` says how a push of it looks, by the fields of a PushAppearance.
    """

    name: str
    version: int
    category: str
    channels: tuple[Channel, ...]
    default_locale: str
    payload_schema: Mapping[str, Any]
    data: Mapping[str, str] = {}
    push: Mapping[str, str] = {}
    policies: Policies = Policies()
    upgrade: Upgrade | None = None

    def __str__(self) -> str:
        """Name the type and its version."""
        return f"{self.name} v{self.version}"


class Content(msgspec.Struct, frozen=True):
    """What one delivery says, in the locale that was found for it."""

    locale: str
    parts: dict[str, str]
    data: dict[str, str]
    appearance: PushAppearance = DEFAULT_APPEARANCE


def upgraded(upgrade: Upgrade, payload: Payload) -> dict[str, Any]:
    """Rename, remove, then fill in what is missing; the payload handed in stays as it is."""
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
    """Follow the upgrades of a type from one version as far as they lead."""
    current = start
    for number in sorted(versions):
        if number > current.version and current.upgrade is not None:
            payload = upgraded(current.upgrade, payload)
            current = versions[number]
    return current, payload
