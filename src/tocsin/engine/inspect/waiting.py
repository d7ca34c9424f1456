"""When a delivery is due, and why it is not sent yet."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tocsin.domain.decide import asked_for, device_timezone
from tocsin.domain.delivery.held_by import DIGEST
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.people.profile import UNKNOWN_RECIPIENT
from tocsin.domain.timing.wall_clock import instant_of
from tocsin.domain.timing.zones import choose_zone
from tocsin.domain.toggles import ProviderToggle, read_toggle
from tocsin.store import toggles
from tocsin.store.deliveries.digests import Carrier, carriers_of
from tocsin.store.deliveries.read import DeliveryRow
from tocsin.store.health.circuit_breakers import troubled
from tocsin.store.people.profiles import profiles
from tocsin.store.pool import Connection


class Due(NamedTuple):
    """When a delivery is due, and why it is not sent yet."""

    at: datetime | None
    reason: str | None


async def blocked_lanes(connection: Connection) -> dict[str, str]:
    """Return why deliveries of a lane are not claimed at present, by lane."""
    circuits = await troubled(connection)
    blocked = {
        row.provider: f"circuit breaker of {row.provider} is {row.state.replace('_', '-')}: {row.code}"
        for row in circuits.values()
        if row.name == row.provider
    }
    for row in await toggles.list_all(connection):
        toggle = read_toggle(row.name)
        if not row.enabled and isinstance(toggle, ProviderToggle):
            blocked[toggle.provider] = f"{toggle} is switched off"
    return blocked


async def read_due(
    connection: Connection,
    rows: Sequence[DeliveryRow],
    wall_times: Mapping[UUID, datetime],
    now: datetime,
    default_zone: str | None = None,
) -> dict[UUID, Due]:
    """Return when each delivery is due and why it waits, by its id.

    A member of a digest is due with the delivery that carries the digest. One with a wall time is due when
    the person's own clock shows it, although it is decided first when that time comes in the zone furthest
    ahead. `wall_times` are those of the notifications that have one; `default_zone` is for people without a
    zone.
    """
    waiting = [row for row in rows if row.state in WAITING]
    members = {row.id: row.digest_id for row in waiting if row.held_by == DIGEST and row.digest_id}
    carriers = await carriers_of(connection, sorted(set(members.values()))) if members else {}
    local = [row for row in waiting if row.notification_id in wall_times and _is_undecided(row)]
    people = sorted({row.user_id for row in local if row.user_id is not None})
    known = await profiles(connection, people) if people else {}
    blocked = await blocked_lanes(connection) if waiting else {}
    due = {row.id: Due(row.due_at, waiting_for(row, blocked, now)) for row in rows}
    for delivery_id, digest_id in members.items():
        due[delivery_id] = _due_with_digest(digest_id, carriers.get(digest_id), blocked, now)
    for row in local:
        wall, profile = wall_times[row.notification_id], known.get(row.user_id or "", UNKNOWN_RECIPIENT)
        zone = choose_zone(
            device_timezone(profile), profile.timezone, profile.gmt_offset_seconds, default_zone or "UTC"
        )
        own = instant_of(wall, zone.zone)
        if row.due_at is not None and own >= max(row.due_at, now):
            due[row.id] = Due(own, f"{asked_for(wall, zone)}, {_until(own)}")
    return due


def waiting_for(row: DeliveryRow | Carrier, blocked: Mapping[str, str], now: datetime) -> str | None:
    """Return why a delivery is not sent yet: the rule that makes it wait, or the state of its provider."""
    if row.state not in WAITING or row.due_at is None:
        return None
    if row.due_at <= now:
        return blocked.get(row.lane)
    holds = [step for step in row.decisions if step.result == "hold" and step.until == row.due_at]
    return f"{holds[-1].detail}, {_until(row.due_at)}" if holds else None


def _due_with_digest(
    digest_id: UUID, carrier: Carrier | None, blocked: Mapping[str, str], now: datetime
) -> Due:
    """Return when a member of a digest is due: with the delivery that carries the digest."""
    digest = f"digest {digest_id}"
    if carrier is None:
        return Due(None, digest)
    reason = f"held by {carrier.held_by}" if carrier.held_by else waiting_for(carrier, blocked, now)
    if reason is None and carrier.due_at is not None and carrier.due_at > now:
        reason = _until(carrier.due_at)
    return Due(carrier.due_at, f"{digest}, {reason}" if reason else digest)


def _is_undecided(row: DeliveryRow) -> bool:
    """Return whether the wall time of a delivery was not compared with the person's own clock yet."""
    is_compared = any(step.rule == "local_time" for step in row.decisions)
    return row.state is State.SCHEDULED and row.attempts == 0 and not is_compared


def _until(moment: datetime) -> str:
    return f"until {moment:%Y-%m-%d %H:%M:%S %Z}"
