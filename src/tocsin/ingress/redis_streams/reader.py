"""Reads a stream from Redis and finds out what was lost before it could be read."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.store.stream_offsets import Offset

START = "0-0"
TRIMMED = "the entry that was read last was trimmed, and perhaps others after it"


class EntryId(NamedTuple):
    """The id of an entry: milliseconds and a sequence number, in the order of the stream."""

    milliseconds: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """Parse an id as Redis writes it."""
        milliseconds, _, sequence = text.partition("-")
        return cls(int(milliseconds), int(sequence or 0))


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
    """What a stream had after an offset at one moment, by the clock of Redis."""

    entries: list[Entry]
    now_ms: int
    added: int | None
    gap: Gap | None

    @property
    def oldest_age(self) -> float:
        """How many seconds the oldest entry that was not read has waited."""
        if not self.entries:
            return 0.0
        return max(0.0, (self.now_ms - EntryId.parse(self.entries[0].id).milliseconds) / 1_000)


class StreamReader:
    """Reads one stream by plain `XREAD`."""

    def __init__(self, settings: StreamSettings, redis: RedisSettings) -> None:
        self._settings = settings
        self._redis = Redis.from_url(
            settings.url or redis.url,
            socket_timeout=redis.timeout + settings.block_seconds,
            socket_connect_timeout=redis.timeout,
            # The consumer tries again by itself.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._empty_at: str | None = None

    async def look(self, offset: Offset) -> Look:
        """Read the entries after an offset, and compare the stream with it at the same moment."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.time()
        pipeline.xinfo_stream(self._settings.stream)
        pipeline.xread({self._settings.stream: offset.entry_id}, count=self._settings.batch)
        time, info, found = await pipeline.execute(raise_on_error=False)
        for answer in (time, found):
            if isinstance(answer, Exception):
                raise answer
        if isinstance(info, Exception):
            if not isinstance(info, ResponseError) or "no such key" not in str(info):
                raise info
            info = {}
        entries = [
            Entry(entry_id.decode(), fields) for _, listed in found or () for entry_id, fields in listed
        ]
        gap = _gap(offset, info)
        # Redis before 7 cannot count: what follows where the stream was empty is no sign of a gap.
        if gap == Gap(None, TRIMMED) and offset.entry_id == self._empty_at:
            gap = None
        if not info.get("length"):
            self._empty_at = _text(info.get("last-generated-id", START))
        return Look(entries, _milliseconds(time), info.get("entries-added"), gap)

    async def wait(self, offset: Offset) -> None:
        """Wait until there is an entry after the offset, at most `block_seconds`."""
        block = int(self._settings.block_seconds * 1_000)
        await self._redis.xread({self._settings.stream: offset.entry_id}, count=1, block=block)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _gap(offset: Offset, info: Mapping[str, Any]) -> Gap | None:
    """Return what is missing between an offset and what the stream still has."""
    last = EntryId.parse(_text(info.get("last-generated-id", START)))
    at = EntryId.parse(offset.entry_id)
    added: int | None = info.get("entries-added")
    if at > last:
        detail = (
            f"the stream ends at {_show(last)}, before {offset.entry_id}, which was read: it was replaced"
        )
        return Gap(None, detail, Offset(_show(last), added))
    first = info.get("first-entry")
    length: int = info.get("length", 0)
    if at == last or (first and EntryId.parse(_text(first[0])) <= at):
        return None
    end = Offset(_show(last), added) if length == 0 else None
    if added is not None and (offset.entries_read is not None or offset.entry_id == START):
        missing = added - (offset.entries_read or 0) - length
        return Gap(missing, f"after {offset.entry_id} the stream was trimmed", end) if missing > 0 else None
    if offset.entry_id == START and end is None:
        return None
    return Gap(None, TRIMMED, end)


def _show(entry_id: EntryId) -> str:
    return f"{entry_id.milliseconds}-{entry_id.sequence}"


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _milliseconds(time: Any) -> int:
    seconds, microseconds = time
    return int(seconds) * 1_000 + int(microseconds) // 1_000
