"""What is known of one person: how they are reached, and what they got and did not get."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from tocsin.domain.decide import WEBHOOK, zone_of_person
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.limits import Allowance, device_allowances, person_allowances
from tocsin.domain.people.devices import short_hash
from tocsin.domain.people.profile import RecipientProfile
from tocsin.domain.timing.zones import ZoneChoice
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.search import search
from tocsin.store.deliveries.search import outcomes_of_user
from tocsin.store.limits import used
from tocsin.store.people import devices, preferences, users
from tocsin.store.people.devices import DeviceRow
from tocsin.store.people.profiles import profiles
from tocsin.store.pool import Connection
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.people import Device, Preferences, User
from tocsin.wire.search import FoundNotification

MOST_DEVICES = 20
MOST_OUTCOMES = 500


class PersonZone(msgspec.Struct, frozen=True, kw_only=True):
    """The person's time zone and where it comes from, the time there, and the hours that are not quiet."""

    name: str
    source: str
    local_time: datetime
    allowed_window: str
    allowed_window_source: str
    open_now: bool


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit is used; it starts anew at `ends_at`."""

    limit: str
    most: int
    used: int
    ends_at: datetime


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the newest deliveries are in a state; `cause` is a reason or an error code."""

    state: str
    cause: str | None
    meaning: str | None
    count: int


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person as an operator sees them.

    `outcomes` covers the newest 500 deliveries. `notifications` are the newest, with the person's own
    deliveries. `devices` are at most 20, the active first; `webhook_endpoints` are counted only.
    `address_suppressed` is null for whoever is bound to an organisation.
    """

    user_id: str
    directory: User | None
    address_suppressed: bool | None
    zone: PersonZone
    preferences: Preferences
    devices: list[Device]
    webhook_endpoints: int
    limits: list[LimitUse]
    outcomes: list[Outcome]
    notifications: list[FoundNotification]


async def read_person(
    connection: Connection,
    rules: DeliveryRules,
    user_id: str,
    now: datetime,
    *,
    limit: int = 20,
    org_id: str | None = None,
) -> Person | None:
    """Read everything about a person; None if nothing at all is known of them.

    With an `org_id`, only notifications of that organisation are listed and counted.
    """
    profile = (await profiles(connection, [user_id]))[user_id]
    row = await users.get(connection, user_id)
    owned = await devices.of_user(connection, user_id, include_retired=True)
    choices = await preferences.get(connection, user_id)
    own = DeliveryFilter(user=user_id, org_id=org_id)
    default_zone = rules.quiet.default_timezone
    found = await search(connection, own, now, limit=limit, default_zone=default_zone)
    if not (row or owned or choices or found.items or profile.devices):
        return None
    zone = zone_of_person(profile, rules.quiet)
    return Person(
        user_id=user_id,
        directory=None if row is None else User(**msgspec.structs.asdict(row)),
        address_suppressed=profile.suppressed if org_id is None else None,
        zone=_zone(rules, profile, zone, now),
        preferences=msgspec.convert(choices, Preferences),
        devices=[shown_device(device) for device in owned[:MOST_DEVICES]],
        webhook_endpoints=sum(device.provider == WEBHOOK for device in profile.devices),
        limits=await _limits(connection, rules, user_id, profile, zone, now),
        outcomes=[
            Outcome(state=each.state, cause=each.cause, meaning=_meaning(each.cause), count=each.count)
            for each in await outcomes_of_user(connection, user_id, MOST_OUTCOMES, org_id)
        ],
        notifications=found.items,
    )


def shown_device(row: DeviceRow) -> Device:
    """Build a device as it is shown: with a short hash of its token."""
    fields = msgspec.structs.asdict(row)
    return Device(
        device_id=fields.pop("id"),
        token_hash=short_hash(fields.pop("token_hash")),
        stale=fields.pop("stale_at") is not None,
        **fields,
    )


def _zone(rules: DeliveryRules, profile: RecipientProfile, zone: ZoneChoice, now: datetime) -> PersonZone:
    local = now.astimezone(zone.zone)
    choice = rules.quiet.window_for("", profile.allowed_window)
    return PersonZone(
        name=zone.name,
        source=zone.source,
        local_time=local,
        allowed_window=str(choice.window),
        allowed_window_source=choice.source,
        open_now=choice.window.is_open(local),
    )


async def _limits(
    connection: Connection,
    rules: DeliveryRules,
    user_id: str,
    profile: RecipientProfile,
    zone: ZoneChoice,
    now: datetime,
) -> list[LimitUse]:
    allowances = {each.key: each for each in _allowances(rules, user_id, profile, zone, now)}
    counts = await used(connection, list(allowances.values()))
    return [
        LimitUse(limit=each.detail, most=each.limit, used=counts.get(key, 0), ends_at=each.ends_at)
        for key, each in allowances.items()
    ]


def _allowances(
    rules: DeliveryRules, user_id: str, profile: RecipientProfile, zone: ZoneChoice, now: datetime
) -> Iterator[Allowance]:
    """List every limit that something sent to the person now could count against."""
    for kind in rules.catalog.types.values():
        if not kind.policies.critical:
            yield from person_allowances(rules.limits, kind, user_id, zone.zone, now)
    for device in profile.devices:
        if device.id is not None and device.provider != WEBHOOK:
            yield from device_allowances(rules.limits, device.id, zone.zone, now)


def _meaning(cause: str | None) -> str | None:
    return MEANING[Reason(cause)] if cause in set(Reason) else None
