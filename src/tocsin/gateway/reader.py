"""Reads the stream of client events once for all sessions of the process."""

import asyncio
from collections.abc import Sequence

import structlog
from redis.exceptions import RedisError

from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.engine.duty import repeat
from tocsin.gateway.events import SourceUnavailableError
from tocsin.gateway.sessions import Sessions
from tocsin.gateway.settings import GatewaySettings
from tocsin.gateway.stream_events import MalformedEntryError, read_event
from tocsin.ingress.redis_streams.reader import START, Entry, Gap, Look, StreamReader
from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.logs import LineBudget
from tocsin.store.sources.stream_offsets import Offset
from tocsin.telemetry import metrics
from tocsin.wire.streams.entry_ids import EntryId

BACKOFF = parse_backoff("exponential(250ms, 5s, 2, 0)")
BLOCK_SECONDS = 2.0
STARTING = "The stream was not read yet."
UNREACHABLE = "Redis does not answer."
FAULTS = (RedisError, OSError)
SKIPPED_PER_SECOND = 10

_log = structlog.stdlib.get_logger(__name__)


class EventReader:
    """Publishes the entries of the stream to the sessions, from the newest on.

    While Redis is away it tries again from the entry that was read last. What the stream dropped meanwhile is
    reported to every session as a reset. `fault` is why the process is not ready, None if it is.
    """

    def __init__(self, settings: GatewaySettings, redis: RedisSettings, sessions: Sessions) -> None:
        self.fault: str | None = None
        self._report_fault(STARTING)
        self._settings = settings
        self._timeout = redis.timeout
        self._sessions = sessions
        stream = StreamSettings(url=settings.url, stream=settings.stream, block_seconds=BLOCK_SECONDS)
        self._reader = StreamReader(stream, redis)
        self._lines = LineBudget(SKIPPED_PER_SECOND)
        self._gap: Gap | None = None

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            await repeat(
                self._step,
                name="event reader",
                subject=self._settings.stream,
                every=0,
                backoff=BACKOFF,
                faults=FAULTS,
            )
        finally:
            await self._reader.aclose()

    async def has(self, entry_id: EntryId) -> bool:
        """Return whether the stream has an entry; raise SourceUnavailableError if Redis does not answer."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._reader.has(str(entry_id))
        except FAULTS as error:
            raise SourceUnavailableError(UNREACHABLE) from error

    async def _step(self) -> None:
        try:
            if self._sessions.position is None:
                await self._load()
            else:
                await self._advance(self._sessions.position)
        except FAULTS:
            self._report_fault(UNREACHABLE)
            raise
        self._report_fault(None)

    def _report_fault(self, fault: str | None) -> None:
        self.fault = fault
        metrics.gateway_reading.set((), 0 if fault else 1)

    async def _load(self) -> None:
        """Fill the history with the newest entries; what follows them is published."""
        entries = await self._reader.newest(max(1, self._settings.history))
        first = EntryId.parse(entries[0].id if entries else START)
        self._sessions.history.clear(first)
        self._publish(entries)
        self._sessions.position = EntryId.parse(entries[-1].id if entries else START)

    async def _advance(self, position: EntryId) -> None:
        offset = Offset(str(position), None)
        look = await self._reader.look(offset)
        # A stream that is gone has the same gap at each look; any other gap is left behind at once.
        was_missing, self._gap = self._gap, look.gap
        if look.gap is not None and (look.entries or look.gap.continue_at or look.gap != was_missing):
            self._report(look, look.gap, position)
        if look.gap is not None and look.gap.continue_at is not None:
            self._sessions.position = EntryId.parse(look.gap.continue_at.entry_id)
        elif look.entries:
            self._publish(look.entries)
            self._sessions.position = EntryId.parse(look.entries[-1].id)
        else:
            self._report_fault(None)
            # A connection that is dead without a sign of it is noticed no later than one that is closed.
            async with asyncio.timeout(BLOCK_SECONDS + self._timeout):
                await self._reader.wait(offset)

    def _report(self, look: Look, gap: Gap, position: EntryId) -> None:
        """Report a gap: entries that the stream dropped before they were read."""
        _log.error("client events lost", stream=self._settings.stream, detail=gap.detail)
        known = [gap.continue_at.entry_id] if gap.continue_at else [entry.id for entry in look.entries[:1]]
        self._sessions.restart_at(EntryId.parse(known[0]) if known else position)

    def _publish(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            try:
                event = read_event(entry)
            except MalformedEntryError as error:
                result = str(error)
                if self._lines.take():
                    _log.warning(
                        "client event skipped",
                        stream=self._settings.stream,
                        entry_id=entry.id,
                        reason=result,
                        left_out=self._lines.left_out(),
                    )
            else:
                result = "published" if self._sessions.publish(event) else "no_session"
            metrics.gateway_entries.add((result,))
