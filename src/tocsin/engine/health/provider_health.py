"""The health of every provider in use, for operators."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.toggles import toggle_of
from tocsin.store import toggles
from tocsin.store.health.circuit_breakers import CircuitRow, troubled
from tocsin.store.health.provider_health import (
    AlarmRecord,
    CountRow,
    count_due,
    count_in_flight,
    counts_since,
    list_alarms,
)
from tocsin.store.pool import Connection
from tocsin.store.toggles import ToggleRow

MIX_OVER = timedelta(minutes=5)
MOST_CIRCUITS = 50
MOST_WAITING = 10_000
MOST_ALARMS = 1_000
NEWEST = UUID(int=(1 << 128) - 1)

_MINUTE = timedelta(minutes=1)
_SENT = "sent"

ProviderState: TypeAlias = Literal["paused", "open", "half_open", "closed"]


class ProviderInUse(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that is set up; `rate` is how many a second it is sent at most, if that is limited."""

    name: str
    channel: Channel
    rate: float | None = None


class CircuitHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit breaker that is not closed; `retry_at` is when it may be probed next."""

    name: str
    state: ProviderState
    since: datetime
    retry_at: datetime | None
    code: str | None
    detail: str | None
    openings: int


class Pause(msgspec.Struct, frozen=True):
    """Who paused a provider, when and why."""

    by: str
    at: datetime
    reason: str | None


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The limit a second, if there is one, and what went out in the last minute."""

    limit: float | None
    sent_per_second: float
    attempts_last_minute: int


class OutcomeShare(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the last attempts came to one outcome."""

    outcome: str
    code: str
    count: int
    share: float


class Waiting(msgspec.Struct, frozen=True):
    """How many due deliveries wait for a provider; counting ends at 10,000, then there may be more."""

    count: int
    or_more: bool


class ProviderHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a provider.

    It is `paused` by an operator, or else in the state of its worst circuit breaker, whose `retry_at`, `code`
    and `detail` it has. `circuits` lists those that are not closed, the first fifty of
    `circuits_in_trouble`. `outcomes` covers the last five minutes. `in_flight` is how many deliveries workers
    hold to send them, counted among the first 10,000 that are due.
    """

    name: str
    channel: Channel
    state: ProviderState
    since: datetime | None
    retry_at: datetime | None
    code: str | None
    detail: str | None
    paused: Pause | None
    circuits: list[CircuitHealth]
    circuits_in_trouble: int
    rate: Rate
    outcomes: list[OutcomeShare]
    waiting: Waiting
    alarms: list[AlarmRecord]
    in_flight: int = 0


async def providers_health(
    connection: Connection, in_use: Iterable[ProviderInUse], now: datetime
) -> list[ProviderHealth]:
    """Read the health of every provider in use, as of one moment."""
    in_use = list(in_use)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        circuits = (await troubled(connection)).values()
        counts = await counts_since(connection, _minute_of(now) - MIX_OVER)
        switched = {row.name: row for row in await toggles.list_all(connection)}
        alarms = await list_alarms(connection, cleared=False, before=NEWEST, limit=MOST_ALARMS)
        names = [each.name for each in in_use]
        waiting = await count_due(connection, names, now, MOST_WAITING + 1)
        in_flight = await count_in_flight(connection, names, now, MOST_WAITING)
    return [
        _health(
            provider,
            circuits=[row for row in circuits if row.provider == provider.name],
            counts=[row for row in counts if row.provider == provider.name],
            toggle=switched.get(toggle_of(provider.name)),
            alarms=[alarm for alarm in alarms if alarm.provider == provider.name],
            waiting=waiting[provider.name],
            in_flight=in_flight[provider.name],
            now=now,
        )
        for provider in in_use
    ]


def not_in_use(name: str, in_use: Iterable[ProviderInUse]) -> str | None:
    """Return a message if a name is not that of a provider in use, else None."""
    names = [provider.name for provider in in_use]
    if name in names:
        return None
    known = f"in use are {', '.join(names)}" if names else "none is set up"
    return f"There is no provider {name[:80]!r} in use; {known}."


def outcome_mix(counts: Iterable[CountRow]) -> list[OutcomeShare]:
    """List the outcomes of attempts, the most frequent first."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in counts:
        sums[row.outcome, row.code] += row.count
    total = sums.total()
    return [
        OutcomeShare(outcome=outcome, code=code, count=count, share=round(count / total, 4))
        for (outcome, code), count in sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    ]


def last_minute(counts: Iterable[CountRow], now: datetime) -> float:
    """Estimate how many there were in the last sixty seconds.

    Attempts are counted by whole minutes; of the one before, as much counts as is not over yet.
    """
    minute = _minute_of(now)
    weight = {minute: 1.0, minute - _MINUTE: 1 - (now - minute) / _MINUTE}
    return sum(row.count * weight.get(row.minute, 0.0) for row in counts)


def _health(
    provider: ProviderInUse,
    *,
    circuits: Sequence[CircuitRow],
    counts: Sequence[CountRow],
    toggle: ToggleRow | None,
    alarms: list[AlarmRecord],
    waiting: int,
    in_flight: int,
    now: datetime,
) -> ProviderHealth:
    worst_first = sorted(circuits, key=lambda row: (row.state != "open", row.changed_at, row.name))
    shown = [_circuit(row) for row in worst_first]
    worst = shown[0] if shown else None
    pause = None
    if toggle and not toggle.enabled:
        pause = Pause(toggle.updated_by, toggle.updated_at, toggle.reason)
    return ProviderHealth(
        name=provider.name,
        channel=provider.channel,
        state="paused" if pause else worst.state if worst else "closed",
        since=pause.at if pause else worst.since if worst else None,
        retry_at=worst.retry_at if worst else None,
        code=worst.code if worst else None,
        detail=worst.detail if worst else None,
        paused=pause,
        circuits=shown[:MOST_CIRCUITS],
        circuits_in_trouble=len(shown),
        rate=Rate(
            limit=provider.rate,
            sent_per_second=round(last_minute((row for row in counts if row.outcome == _SENT), now) / 60, 2),
            attempts_last_minute=round(last_minute(counts, now)),
        ),
        outcomes=outcome_mix(counts),
        waiting=Waiting(min(waiting, MOST_WAITING), or_more=waiting > MOST_WAITING),
        alarms=alarms,
        in_flight=in_flight,
    )


def _circuit(row: CircuitRow) -> CircuitHealth:
    return CircuitHealth(
        name=row.name,
        state=row.state,
        since=row.changed_at,
        retry_at=row.probe_until if row.state == "half_open" else row.retry_at,
        code=row.code,
        detail=row.detail,
        openings=row.openings,
    )


def _minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)
