"""How far behind the readers of outboxes, streams and queues are."""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from tocsin.engine.health.provider_health import Waiting
from tocsin.store.pool import Connection
from tocsin.store.sources import lags
from tocsin.store.sources.lags import SourceKind, SourceRow

UNREAD_AFTER = timedelta(seconds=30)
"""A reader writes every five seconds; after this time it is gone."""

SourceState: TypeAlias = Literal["reading", "failing", "no_reader"]


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An outbox, a stream or a queue that intents are read from, and how far behind its reader is.

    `waiting` is what was there at `measured_at`; `lag_seconds` is the age of the oldest of it, and grows
    until it is read. Both are null where they are not known. `checkpoint` is the last entry of a stream that
    was accepted or refused. `progressed_at` is when anything was.
    """

    kind: SourceKind
    name: str
    state: SourceState
    stream: str | None
    checkpoint: str | None
    entries_read: int | None
    waiting: Waiting | None
    oldest_at: datetime | None
    lag_seconds: float | None
    progressed_at: datetime | None
    measured_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None


async def list_sources(connection: Connection, now: datetime) -> list[SourceRecord]:
    """List every source that was ever read, by kind and name."""
    return [source_record(row, now) for row in await lags.list_all(connection)]


def source_record(row: SourceRow, now: datetime) -> SourceRecord:
    """Build the record of a source at a time."""
    state = _state(row, now)
    return SourceRecord(
        kind=row.kind,
        name=row.name,
        state=state,
        stream=row.stream,
        checkpoint=row.entry_id,
        entries_read=row.entries_read,
        waiting=None if row.waiting is None else Waiting(row.waiting, row.waiting_or_more),
        oldest_at=row.oldest_at,
        lag_seconds=_lag(row, state, now),
        progressed_at=row.progressed_at,
        measured_at=row.measured_at,
        last_error=row.last_error,
        last_error_at=row.last_error_at,
    )


def _state(row: SourceRow, now: datetime) -> SourceState:
    if row.seen_at is None:
        # A version that does not measure has only the lease of its stream.
        return "reading" if row.is_leased else "no_reader"
    if now - row.seen_at > UNREAD_AFTER:
        return "no_reader"
    return "failing" if row.failing else "reading"


def _lag(row: SourceRow, state: SourceState, now: datetime) -> float | None:
    """Return the age of the oldest entry; of a source that is not read, what came since is not known."""
    if row.oldest_at is not None:
        return round(max(0.0, (now - row.oldest_at).total_seconds()), 3)
    return 0.0 if row.waiting == 0 and state == "reading" else None
