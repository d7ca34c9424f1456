"""Reads a stream from Redis and finds out what was lost before it could be read."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.store.sources.stream_offsets import Offset
from tocsin.wire.streams.entry_ids import EntryId

START = "0-0"
TRIMMED = "the entry that was read last was trimmed, and perhaps others after it"
LOOK_SECONDS = 30.0
"""An answer may be large: longer than Redis needs otherwise, and no batch is tried again in full."""

# An entry may be huge, and XINFO answers with the first and the last one: only their ids leave the server.
STATE = """
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if info.err then
    return info
end
local known = {}
for position = 1, #info, 2 do
    known[info[position]] = info[position + 1]
end
local first = known['first-entry']
return {
    known['last-generated-id'], known['length'], first and first[1] or '', known['entries-added'] or -1,
    known['max-deleted-entry-id'] or '0-0'
}
"""


class Entry(NamedTuple):
    """An entry of a stream."""

    id: str
    fields: Mapping[bytes, bytes]


class Gap(msgspec.Struct, frozen=True):
    """Entries that are gone though nobody read them.

    `entries` is how many, None if the server cannot say. `continue_at` is where to read on, if the offset
    itself is not within the stream.
    """

    entries: int | None
    detail: str
    continue_at: Offset | None = None


class Look(msgspec.Struct, frozen=True):
    """What a stream had after an offset at one moment, by the clock of Redis.

    `added` is how many entries were ever added, None if the server cannot say. `deleted` is the last one that
    somebody deleted by its id.
    """

    entries: list[Entry]
    now_ms: int
    added: int | None
    gap: Gap | None
    is_all: bool
    deleted: EntryId

    def waiting(self, offset: Offset) -> int | None:
        """Return how many entries the stream has after the offset; None if the server cannot say."""
        if self.is_all:
            return len(self.entries)
        read = 0 if offset.entry_id == START else offset.entries_read
        if self.added is None or read is None:
            return None
        return max(self.added - read, len(self.entries))

    def deleted_before_first(self, offset: Offset) -> bool:
        """Return whether an entry was deleted by its id between the offset and the first entry read."""
        return EntryId.parse(offset.entry_id) < self.deleted < EntryId.parse(self.entries[0].id)

    def age_of(self, entry: Entry) -> float:
        """Return how many seconds an entry had waited."""
        return max(0.0, (self.now_ms - EntryId.parse(entry.id).milliseconds) / 1_000)


class _State(NamedTuple):
    last: EntryId
    length: int
    first: EntryId | None
    added: int | None
    deleted: EntryId


class StreamReader:
    """Reads one stream by plain `XREAD`."""

    def __init__(self, settings: StreamSettings, redis: RedisSettings) -> None:
        self._settings = settings
        self._redis = Redis.from_url(
            settings.url or redis.url,
            socket_timeout=max(LOOK_SECONDS, redis.timeout + settings.block_seconds),
            socket_connect_timeout=redis.timeout,
            # The consumer tries again by itself.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._count = settings.batch
        self._was_missing = False

    async def look(self, offset: Offset) -> Look:
        """Read the entries after an offset, and compare the stream with it at the same moment.

        After a time-out fewer entries are read at once.
        """
        count = self._count
        try:
            time, state, found = await self._read(offset, count)
        except (RedisTimeoutError, TimeoutError):
            self._count = max(1, count // 10)
            raise
        self._count = min(self._settings.batch, 2 * count)
        for answer in (time, found):
            if isinstance(answer, Exception):
                raise answer
        entries = [
            Entry(entry_id.decode(), fields) for _, listed in found or () for entry_id, fields in listed
        ]
        known = _state(state)
        gap = self._gap(offset, known)
        return Look(
            entries=entries,
            now_ms=_milliseconds(time),
            added=known.added if known else None,
            gap=gap,
            is_all=len(entries) < count,
            deleted=known.deleted if known else EntryId.parse(START),
        )

    async def _read(self, offset: Offset, count: int) -> tuple[Any, ...]:
        """Return the time, the state of the stream and its entries after an offset, of one moment."""
        try:
            return tuple(await self._commands(offset, count).execute(raise_on_error=False))
        except OutOfMemoryError:
            # A full server takes no transaction, not even to read. Little can change meanwhile: it takes no
            # entries either.
            pipeline = self._commands(offset, count, transaction=False)
            pipeline.eval(STATE, 1, self._settings.stream)
            time, state, found, afterwards = await pipeline.execute(raise_on_error=False)
            if _state(state) != _state(afterwards):
                raise RedisError("the stream changed while it was read from a full server") from None
            return time, state, found

    def _commands(self, offset: Offset, count: int, *, transaction: bool = True) -> Pipeline:
        pipeline = self._redis.pipeline(transaction=transaction)
        pipeline.time()
        pipeline.eval(STATE, 1, self._settings.stream)
        pipeline.xread({self._settings.stream: offset.entry_id}, count=count)
        return pipeline

    def _gap(self, offset: Offset, state: _State | None) -> Gap | None:
        at = EntryId.parse(offset.entry_id)
        if state is None:
            # It may come back, as after a failover: where it was read up to is kept.
            self._was_missing = True
            return None if offset.entry_id == START else Gap(None, f"there is no stream; {at} was read last")
        was_missing, self._was_missing = self._was_missing, False
        is_new = state.added is not None and state.added < (offset.entries_read or 0)
        if is_new or (was_missing and at > state.last):
            return Gap(None, f"{at} was read last, and the stream began anew", Offset(START, 0))
        return _gap(offset, state)

    async def wait(self, offset: Offset) -> None:
        """Wait until there is an entry after the offset, at most `block_seconds`."""
        block = int(self._settings.block_seconds * 1_000)
        await self._redis.xread({self._settings.stream: offset.entry_id}, count=1, block=block)

    async def newest(self, count: int) -> list[Entry]:
        """Return the newest entries, at most `count`, oldest first; they are read in pages."""
        entries: list[Entry] = []
        before = "+"
        while len(entries) < count:
            size = min(self._settings.batch, count - len(entries))
            page: Any = await self._redis.xrevrange(self._settings.stream, max=before, count=size)
            entries += (Entry(entry_id.decode(), fields) for entry_id, fields in page)
            if len(page) < size:
                break
            before = f"({entries[-1].id}"
        return entries[::-1]

    async def has(self, entry_id: str) -> bool:
        """Return whether the stream has an entry."""
        return bool(await self._redis.xrange(self._settings.stream, entry_id, entry_id))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


async def ping(settings: RedisSettings) -> str | None:
    """Return the kind of failure if the server does not answer, or refuses; None if it answers."""
    redis = Redis.from_url(
        settings.url,
        socket_timeout=settings.timeout,
        socket_connect_timeout=settings.timeout,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    try:
        await redis.ping()
    except (RedisError, OSError) as error:
        return type(error).__name__
    finally:
        await redis.aclose()
    return None


def _state(answer: Any) -> _State | None:
    """Parse what the server says of a stream; None if there is none."""
    if isinstance(answer, ResponseError) and "no such key" in str(answer):
        return None
    if isinstance(answer, Exception):
        raise answer
    last, length, first, added, deleted = answer
    return _State(
        last=EntryId.parse(last.decode()),
        length=length,
        first=EntryId.parse(first.decode()) if first else None,
        added=added if added >= 0 else None,
        deleted=EntryId.parse(deleted.decode()),
    )


def _gap(offset: Offset, state: _State) -> Gap | None:
    """Return what is missing between an offset and what the stream still has."""
    at = EntryId.parse(offset.entry_id)
    if at > state.last:
        detail = f"the stream ends at {state.last}, before {at}, which was read"
        return Gap(None, detail, Offset(str(state.last), state.added))
    if at == state.last or (state.first is not None and state.first <= at):
        return None
    end = Offset(str(state.last), state.added) if state.length == 0 else None
    if state.added is not None and (offset.entries_read is not None or offset.entry_id == START):
        # What was deleted by its id, an operator wanted gone; trimming is not noted there.
        missing = state.added - (offset.entries_read or 0) - state.length - (state.deleted > at)
        return Gap(missing, f"after {at} the stream was trimmed", end) if missing > 0 else None
    if offset.entry_id == START and end is None:
        return None
    return Gap(None, TRIMMED, end)


def _milliseconds(time: Any) -> int:
    seconds, microseconds = time
    return int(seconds) * 1_000 + int(microseconds) // 1_000
