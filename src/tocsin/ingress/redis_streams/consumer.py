"""Accepts the intents of one stream."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar

import msgspec
import structlog
from redis.exceptions import RedisError, ResponseError

from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.domain.faults import Fault
from tocsin.domain.ids import new_lease_id
from tocsin.domain.intent import Intent
from tocsin.engine.accept.acceptor import delivery_counts, split
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.organisations import bind
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.write import Sourced, accept_sourced_within
from tocsin.engine.clock import Clock
from tocsin.engine.duty import RETRIED_FAULTS, repeat
from tocsin.engine.time_slice import TimeSlice
from tocsin.ingress.directory.lookup import Directory, DirectoryUnavailableError, People
from tocsin.ingress.redis_streams.reader import START, Gap, Look, StreamReader
from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.ingress.report import SourceReport
from tocsin.ingress.source import EntryDecoder, is_not_storable, not_storable
from tocsin.providers.redis_streams.answers import error_word
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.people import users
from tocsin.store.pool import Connection, Pool, is_transient
from tocsin.store.sources import stream_offsets
from tocsin.store.sources.progress import clear_alarms
from tocsin.store.sources.stream_offsets import Offset, StreamName
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read

BACKOFF = parse_backoff("exponential(250ms, 5s, 2, 0)")
LEASE_EVERY = 1.0
"""Seconds between two looks at a stream that another reader holds."""
ALARM_AFTER = 3
"""Failures of Redis in a row that raise an alarm."""
UNREACHABLE = "redis_unreachable"
ENTRIES_LOST = "entries_lost"
NO_DIRECTORY = "directory_unavailable"
NOT_FOUND = "recipient_not_found"
FAULTS = (RedisError, OSError, DirectoryUnavailableError)
T = TypeVar("T")

_log = structlog.stdlib.get_logger(__name__)


class LeaseLostError(Exception):
    """Another reader took the stream over."""


class StreamConsumer:
    """Reads a stream until stopped; of several readers of a stream one reads, by lease.

    The offset moves in the transaction that accepts or refuses an entry, so that a crash at any moment
    neither loses an entry nor accepts it twice.
    """

    def __init__(
        self,
        name: str,
        settings: StreamSettings,
        redis: RedisSettings,
        *,
        pool: Pool,
        planner: Planner,
        clock: Clock,
        decoder: EntryDecoder,
        directory: Directory | None = None,
    ) -> None:
        self._name = name
        self.report = SourceReport("stream", name)
        self._stream = StreamName(name, settings.stream)
        self._settings = settings
        self._reader = StreamReader(settings, redis)
        self._pool = pool
        self._planner = planner
        self._clock = clock
        self._decoder = decoder
        self._directory = directory
        self._lease = new_lease_id()
        self._failures: Counter[str] = Counter()
        self._standing = {UNREACHABLE, NO_DIRECTORY}
        self._reported: Gap | None = None
        self._looked_at = time.monotonic()
        self._oldest_at: float | None = None

    @property
    def lag(self) -> tuple[str, float]:
        """The name of the stream, and for how many seconds its oldest entry waits.

        While the stream cannot be read, whatever waits in it gets older.
        """
        now = time.monotonic()
        if self._oldest_at is not None:
            return self._name, now - self._oldest_at
        unread = now - self._looked_at
        return self._name, unread if unread > 2 * self._settings.block_seconds + LEASE_EVERY else 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set, then let another reader continue."""
        self._looked_at = time.monotonic()
        _running.add(self)
        try:
            await repeat(
                self._step,
                name="stream consumer",
                subject=self._name,
                every=LEASE_EVERY,
                stop=stop,
                backoff=BACKOFF,
                faults=(*FAULTS, *RETRIED_FAULTS),
            )
            await self._release()
        finally:
            _running.discard(self)
            await self._reader.aclose()

    async def _release(self) -> None:
        try:
            async with self._pool.acquire() as connection:
                await stream_offsets.release(connection, self._stream, self._lease)
        except RETRIED_FAULTS as error:
            # It expires by itself.
            _log.warning("stream not released", stream=self._name, error=repr(error))

    async def _hold(self) -> Offset | None:
        async with self._pool.acquire() as connection:
            seconds = self._settings.lease_seconds
            return await stream_offsets.hold(connection, self._stream, self._lease, seconds)

    async def _keep(self) -> None:
        """Renew the lease for as long as a batch takes; whether it is lost shows when the offset moves."""
        interval = self._settings.lease_seconds / 3
        await asyncio.sleep(interval)
        await repeat(self._renew, name="stream lease", subject=self._name, every=interval)

    async def _renew(self) -> None:
        async with self._pool.acquire() as connection:
            seconds = self._settings.lease_seconds
            await stream_offsets.renew(connection, self._stream, self._lease, seconds)

    async def _step(self) -> bool:
        """Accept what the stream has, or wait for more; return False while another reader holds it."""
        offset = await self._hold()
        if offset is None:
            # Whoever reads meanwhile may leave alarms that are this one's to clear.
            self._standing = {UNREACHABLE, NO_DIRECTORY}
            self._note_oldest(None)
            self.report.left_to_another()
            return False
        keeping = asyncio.create_task(self._keep())
        try:
            await self._advance(offset)
        except LeaseLostError:
            _log.warning("stream lease lost", stream=self._name)
            return False
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
        return True

    async def _advance(self, offset: Offset) -> None:
        look = await self._watched(UNREACHABLE, self._reader.look(offset))
        self._note_waiting(look, offset)
        if look.gap is not None:
            await self._report_gap(look.gap, offset)
            if look.gap.continue_at is not None:
                return
        if look.entries:
            await self._accept(look, offset)
            if look.is_all:
                self._note_oldest(None)
                self.report.measured(0, None)
        else:
            await self._reader.wait(offset)

    def _note_waiting(self, look: Look, offset: Offset, done: int = 0) -> None:
        """Note how many entries wait after the first `done` of those that were found, and since when."""
        left = look.entries[done:]
        age = look.age_of(left[0]) if left else None
        self._note_oldest(age)
        waiting = look.waiting(offset)
        count = len(look.entries) if waiting is None else waiting
        self.report.measured(count - done, age, or_more=waiting is None)

    def _note_oldest(self, age: float | None) -> None:
        """Note the age of the oldest entry that waits, None if there is none."""
        self._looked_at = time.monotonic()
        self._oldest_at = None if age is None else self._looked_at - age

    async def _watched(self, code: str, call: Awaitable[T]) -> T:
        """Return what a call returns; an alarm stands while it fails again and again."""
        try:
            answer = await call
        except FAULTS as error:
            self._failures[code] += 1
            self.report.failed(code, _reason(error))
            if self._failures[code] >= ALARM_AFTER:
                detail = f"{self._failures[code]} tries in a row failed: {_reason(error)}"
                self._standing.add(code)
                await self._raise_alarm(code, detail)
            raise
        if code in self._standing:
            async with self._pool.acquire() as connection:
                await clear_alarms(connection, [self._subject], [code], self._clock())
            self._standing.discard(code)
        self._failures[code] = 0
        self.report.recovered(code)
        return answer

    async def _accept(self, look: Look, offset: Offset) -> None:
        """Accept entries in parts that are each one transaction; a part ends with the offset behind it."""
        unknown = f"stream:{self._name}"
        slice_ = TimeSlice()
        sourced = []
        for entry in look.entries:
            await slice_.pause()
            decoded = self._decoder.decode(entry.id, entry.fields, unknown)
            if (org_id := self._settings.org_id) is not None:
                decoded = msgspec.structs.replace(decoded, intent=bind(decoded.intent, org_id))
            sourced.append(decoded)
        read = offset.entries_read if offset.entry_id != START else 0
        if read is not None and look.gap is not None:
            read += look.gap.entries or 0
        if read is not None and look.deleted_before_first(offset):
            read += 1
        if look.is_all and look.added is not None:
            # All of the stream is here, so what was ever added ends with these.
            read = look.added - len(look.entries)
        before = Offset(offset.entry_id, read)
        if self._directory is None:
            await self._accept_all(sourced, before, {})
            return
        try:
            people = await self._watched(NO_DIRECTORY, _look_up(self._directory, sourced))
        except DirectoryUnavailableError as error:
            # Whoever comes before the first of whom nothing is known does not wait for the directory.
            people = error.found
            known = [_found(each, people) for each in takewhile(partial(_is_known, people), sourced)]
            if known:
                await self._accept_all(known, before, people)
                self._note_waiting(look, offset, len(known))
            raise
        await self._accept_all([_found(each, people) for each in sourced], before, people)

    async def _accept_all(self, sourced: Sequence[Sourced], before: Offset, people: People) -> None:
        sizes = await delivery_counts(self._planner, [each.intent for each in sourced])
        for start, end in split(sizes):
            before = await self._accept_part(sourced[start:end], before, people)

    async def _accept_part(self, part: Sequence[Sourced], before: Offset, people: People) -> Offset:
        """Accept or refuse entries and move the offset behind them, in one transaction; return it."""
        read = before.entries_read
        behind = Offset(part[-1].external_id, None if read is None else read + len(part))
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await self._move(connection, before, behind)
                known = {each: people.get(each) for one in part for each in _users(one)}
                if present := {
                    each: (person.email, person.preferred_language)
                    for each, person in known.items()
                    if person is not None
                }:
                    await users.refresh(connection, present, self._clock())
                await accept_sourced_within(
                    connection, self._planner, part, self._clock(), source=self._decoder.source
                )
        except Exception as error:
            if isinstance(error, LeaseLostError) or is_transient(error) or is_not_storable(part[0]):
                raise
        else:
            metrics.stream_entries.add((self._name,), len(part))
            self.report.progressed()
            return behind
        # One odd entry must not keep the others from being accepted: it is refused, alone.
        if len(part) == 1:
            return await self._accept_part([not_storable(part[0])], before, {})
        half = len(part) // 2
        before = await self._accept_part(part[:half], before, people)
        return await self._accept_part(part[half:], before, people)

    async def _report_gap(self, gap: Gap, offset: Offset) -> None:
        """Raise an alarm about entries that are gone, once, and continue where the stream is."""
        if gap != self._reported:
            self._reported = gap
            count = "an unknown number of" if gap.entries is None else f"{gap.entries:,}"
            await self._raise_alarm(ENTRIES_LOST, f"lost {count} entries: {gap.detail}")
        if gap.continue_at is not None:
            async with self._pool.acquire() as connection:
                await self._move(connection, offset, gap.continue_at)

    async def _move(self, connection: Connection, before: Offset, to: Offset) -> None:
        seconds = self._settings.lease_seconds
        if not await stream_offsets.move(
            connection, self._stream, self._lease, seconds, before=before.entry_id, to=to
        ):
            raise LeaseLostError

    @property
    def _subject(self) -> str:
        return f"stream:{self._name}"

    async def _raise_alarm(self, code: str, detail: str) -> None:
        _log.error("stream alarm raised", stream=self._name, code=code, detail=detail, alarm=True)
        async with self._pool.acquire() as connection:
            await raise_alarms(connection, Counter([Alarm(self._subject, code, detail)]), self._clock())


def _reason(error: Exception) -> str:
    """Return why a call failed, without an address; what a directory raises has none."""
    match error:
        case DirectoryUnavailableError():
            return str(error)
        case ResponseError():
            return f"Redis answered with {error_word(error)}"
        case _:
            return type(error).__name__


async def _look_up(directory: Directory, sourced: Sequence[Sourced]) -> People:
    """Return the people of entries, or raise DirectoryUnavailableError with the entry that waits for one.

    They are asked for in the order of the entries, so that the first of them are known first.
    """
    try:
        return await directory.find(list(dict.fromkeys(each for one in sourced for each in _users(one))))
    except DirectoryUnavailableError as error:
        waiting = next((each for each in sourced if not _is_known(error.found, each)), None)
        if waiting is None:
            # The look-up that failed was shared with another stream, and is of people of that one.
            return error.found
        why = f"reading waits at the entry {waiting.external_id}: {error}"
        raise DirectoryUnavailableError(why, error.found) from error


def _users(sourced: Sourced) -> list[str]:
    """List the people that an intent is for."""
    intent = sourced.intent
    return list(map(str, intent.audience.users or ())) if isinstance(intent, Intent) else []


def _is_known(people: People, sourced: Sourced) -> bool:
    """Return whether everybody of an intent was looked up."""
    return people.keys() >= set(_users(sourced))


def _found(sourced: Sourced, people: People) -> Sourced:
    """Return an intent as it is, or refused if one of its people is in no directory."""
    missing = [each for each in _users(sourced) if people.get(each) is None]
    if not missing:
        return sourced
    message = f"lists {len(missing):,} whom the directory does not have"
    fault = Fault(field="recipient_user_ids_json", code=NOT_FOUND, message=message)
    intent = sourced.intent
    refused = Unreadable(
        code=NOT_FOUND,
        faults=[fault],
        content=sourced.content,
        type=intent.type,
        idempotency_key=intent.idempotency_key,
    )
    return msgspec.structs.replace(sourced, intent=refused)


_running: set[StreamConsumer] = set()


def _measure_lags() -> None:
    """Set the gauge when it is read: while a stream is away, nobody measures it."""
    for name, lag in (consumer.lag for consumer in _running):
        metrics.stream_lag.set((name,), lag)


before_read(_measure_lags)
