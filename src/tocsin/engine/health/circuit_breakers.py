"""Circuit breakers: a provider or host in trouble is left alone and probed with one message at a time.

Each worker judges by what it sees itself and shares it through the database. When an open circuit breaker has
rested, one worker takes the probe; its outcome closes the circuit breaker or opens it again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Concatenate, ParamSpec

import msgspec
import structlog

from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.health.settings import HealthSettings
from tocsin.store.health.circuit_breakers import (
    CircuitRow,
    Opening,
    close_circuit,
    open_circuit,
    return_probe,
    take_probe,
    troubled,
)
from tocsin.store.health.provider_health import Alarm, Counted, count_outcomes, raise_alarms
from tocsin.store.pool import DATABASE_FAULTS, ROW_FAULTS, Connection, Pool

EXCHANGE_SECONDS = 1.0
PROBE_WITHIN = timedelta(seconds=60)
LONGEST_HOST = 300
LONGEST_CODE = 100
LONGEST_DETAIL = 500

P = ParamSpec("P")

_log = structlog.stdlib.get_logger(__name__)


def host_circuit(provider: str, host: str) -> str:
    """Return the name of a host's circuit breaker, which indexes hold; a host that is too long is hashed."""
    short = (
        host
        if len(host.encode(errors="replace")) <= LONGEST_HOST
        else sha256(host.encode(errors="replace")).hexdigest()
    )
    return f"{provider}/{short}"


class _Tally(msgspec.Struct):
    """Attempts through one circuit breaker since a time."""

    began: datetime
    total: int = 0
    failed: int = 0


class CircuitBreakers:
    """The state of every circuit breaker as this worker knows it, and what it has yet to share."""

    def __init__(self, pool: Pool, settings: HealthSettings, clock: Clock) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._span = timedelta(seconds=settings.window_seconds)
        self._open: dict[str, CircuitRow] = {}
        self._windows: dict[str, _Tally] = {}
        # Failures without a success in between; where much is sent, a few in a row are chance.
        self._in_a_row: dict[str, _Tally] = {}
        self._counts: Counter[Counted] = Counter()
        self._alarms: Counter[Alarm] = Counter()
        self._openings: dict[str, Opening] = {}
        self._closings: set[str] = set()
        self._news = asyncio.Event()
        self._room_at: dict[str, Callable[[str], int]] = {}
        self._on_room: list[Callable[[], None]] = []
        self.crowded: dict[str, datetime] = {}
        """Hosts that had no room for a message, which is held, and since when the last one is."""

    def is_closed(self, name: str) -> bool:
        """Return whether messages may pass."""
        return name not in self._open

    @property
    def opened(self) -> AbstractSet[str]:
        """The names of those that are not closed."""
        return self._open.keys()

    def is_probe_due(self, name: str, now: datetime) -> bool:
        """Return whether an open circuit breaker has rested long enough to be probed."""
        row = self._open.get(name)
        if row is None:
            return False
        return ((row.probe_until if row.state == "half_open" else row.retry_at) or row.changed_at) <= now

    def describe(self, name: str) -> str:
        """Return why messages may not pass."""
        row = self._open.get(name)
        state = f"open: {row.code}" if row else "closed"
        return f"circuit breaker of {name} is {state}"

    def room_at(self, name: str) -> int | None:
        """Return how many more messages of this worker a host takes; None if the worker sends it none."""
        room_at = self._room_at.get(name.partition("/")[0])
        return None if room_at is None else room_at(name)

    def count_room(self, provider: str, room_at: Callable[[str], int]) -> None:
        """Set how the room at the hosts of a provider is counted."""
        self._room_at[provider] = room_at

    def on_room(self, call: Callable[[], None]) -> None:
        """Call back when a host that had no room has room again."""
        self._on_room.append(call)

    def has_room(self) -> None:
        """Call those who wait for room at a host."""
        for call in self._on_room:
            call()

    async def take_probe(self, name: str, now: datetime) -> bool:
        """Take the permission to send one message, if the rest is over and no other worker has it."""
        if not self.is_probe_due(name, now):
            return False
        async with self._pool.acquire() as connection:
            taken = await take_probe(connection, name, now, now + PROBE_WITHIN)
        if taken:
            _log.info("circuit probed", circuit=name)
        return taken

    async def return_probe(self, name: str, now: datetime) -> None:
        """Return a permission that no message could use."""
        async with self._pool.acquire() as connection:
            await return_probe(connection, name, now)

    def record(
        self, name: str, provider: str, outcome: Outcome, now: datetime, *, probe: bool = False
    ) -> None:
        """Count the outcome of an attempt; that of a probe closes the circuit breaker or opens it again."""
        if isinstance(outcome, Sent) and not probe:
            self.record_sent(name, provider, 1, now)
            return
        code = "" if isinstance(outcome, Sent) else outcome.code[:LONGEST_CODE]
        self._counts[Counted(provider, str(outcome.__struct_config__.tag), code)] += 1
        self._raise_alarm(provider, outcome)
        match outcome:
            case Defer(pauses=True):
                self._trip(name, provider, outcome, outcome.after, now)
            case Retry(speaks_against="provider"):
                if probe or self._is_failing(name, provider, now):
                    # Only a quota or a credential may ask for a longer pause.
                    longest = timedelta(seconds=self._settings.longest_rest_seconds)
                    self._trip(name, provider, outcome, min(outcome.after or timedelta(), longest), now)
            case _ if probe:
                self._close(name)
            case _:
                self._succeed(name, now)

    def record_sent(self, name: str, provider: str, count: int, now: datetime) -> None:
        """Count attempts whose message was sent, and which were no probes."""
        self._counts[Counted(provider, "sent", "")] += count
        self._succeed(name, now, count)

    def raise_alarm(self, alarm: Alarm) -> None:
        """Raise an alarm with the next exchange."""
        self._alarms[alarm] += 1
        self._news.set()

    async def run(self) -> None:
        """Exchange with the database every second, and at once when something changed, until cancelled."""
        await repeat(self.exchange, name="circuit breakers", every=EXCHANGE_SECONDS, wake=self._news)

    async def exchange(self) -> None:
        """Write what happened and read the state of all circuit breakers."""
        openings, self._openings = self._openings, {}
        closings, self._closings = self._closings, set()
        counts, self._counts = self._counts, Counter()
        alarms, self._alarms = self._alarms, Counter()
        now = self._clock()
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                for name in sorted(openings):
                    await _write(connection, open_circuit, openings[name], now)
                for name in sorted(closings):
                    await _write(connection, close_circuit, name, now)
                if counts:
                    await _write(connection, count_outcomes, counts)
                if alarms:
                    await _write(connection, raise_alarms, alarms, now)
                known = await troubled(connection)
        except BaseException as error:
            # A worker that stops cancels the exchange that is under way and exchanges once more.
            self._openings = {**openings, **self._openings}
            self._closings |= closings
            self._counts.update(counts)
            self._alarms.update(alarms)
            if not isinstance(error, DATABASE_FAULTS):
                raise
            _log.warning("circuit exchange failed", error=repr(error))
            return
        self._windows = {name: each for name, each in self._windows.items() if now - each.began <= self._span}
        # One that opened meanwhile is not in the database yet.
        fresh = {name: self._open[name] for name in self._openings if name in self._open}
        self._open = {**{name: row for name, row in known.items() if name not in self._closings}, **fresh}

    def _succeed(self, name: str, now: datetime, count: int = 1) -> None:
        """Count attempts that do not speak against the provider."""
        self._in_a_row.pop(name, None)
        # One without a failure needs no window: there may be as many as there are hosts.
        if name in self._windows:
            self._window(name, now).total += count

    def _window(self, name: str, now: datetime) -> _Tally:
        window = self._windows.get(name)
        if window is None or now - window.began > self._span:
            window = self._windows[name] = _Tally(now)
        return window

    def _is_failing(self, name: str, provider: str, now: datetime) -> bool:
        """Count a failure and return whether the circuit breaker has to open."""
        window = self._window(name, now)
        window.total += 1
        window.failed += 1
        often = window.failed >= self._settings.error_share * window.total
        return (often and window.total >= self._settings.least_attempts) or self._is_silent(
            name, provider, now
        )

    def _is_silent(self, name: str, provider: str, now: datetime) -> bool:
        """Return whether nothing but failures came for a while, however seldom it is used.

        Per-host circuit breakers skip this check, so that deliveries to a dead host run out of attempts.
        """
        if name != provider:
            return False
        streak = self._in_a_row.setdefault(name, _Tally(now))
        streak.failed += 1
        lasts = now - streak.began >= timedelta(seconds=self._settings.rest_seconds)
        return lasts and streak.failed >= self._settings.failures_in_a_row

    def _close(self, name: str) -> None:
        self._open.pop(name, None)
        self._openings.pop(name, None)
        self._closings.add(name)
        self._news.set()
        _log.info("circuit closed", circuit=name)

    def _trip(
        self, name: str, provider: str, outcome: Retry | Defer, after: timedelta, now: datetime
    ) -> None:
        self._windows.pop(name, None)
        self._in_a_row.pop(name, None)
        self._closings.discard(name)
        code, detail = outcome.code[:LONGEST_CODE], outcome.detail[:LONGEST_DETAIL]
        rest = timedelta(seconds=self._settings.rest_seconds)
        asked = self._openings.get(name)
        longest_asked = max(after, asked.after) if asked else after
        self._openings[name] = Opening(
            name=name,
            provider=provider,
            code=code,
            detail=detail,
            after=longest_asked,
            rest=rest,
            # A provider is probed at a steady pace, so that it is used again soon after it is back.
            longest=rest if name == provider else timedelta(seconds=self._settings.longest_rest_seconds),
        )
        self._news.set()
        if name in self._open and self._open[name].state == "open":
            return
        retry_at = now + max(longest_asked, rest)
        self._open[name] = CircuitRow(
            name=name,
            provider=provider,
            state="open",
            code=code,
            detail=detail,
            openings=1,
            changed_at=now,
            retry_at=retry_at,
            probe_until=None,
        )
        alarm = isinstance(outcome, Defer) and outcome.alarm
        log = _log.error if alarm else _log.warning
        log(
            "circuit opened",
            circuit=name,
            code=code,
            detail=detail,
            until=retry_at.isoformat(),
            alarm=alarm,
        )

    def _raise_alarm(self, provider: str, outcome: Outcome) -> None:
        match outcome:
            case Defer(alarm=True) | Rejected(quarantine=True) | Rejected(alarm=True):
                alarm = Alarm(provider, outcome.code[:LONGEST_CODE], outcome.detail[:LONGEST_DETAIL])
                if alarm not in self._alarms and isinstance(outcome, Defer) and not outcome.pauses:
                    _log.error("deliveries deferred", provider=provider, code=alarm.code, alarm=True)
                self.raise_alarm(alarm)


async def _write(
    connection: Connection,
    write: Callable[Concatenate[Connection, P], Awaitable[object]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Write a part of an exchange; one that Postgres refuses is dropped, and the other parts are written."""
    try:
        async with connection.transaction():
            await write(connection, *args, **kwargs)
    except ROW_FAULTS as error:
        _log.error("circuit state refused", statement=write.__name__, error=type(error).__name__)
