"""What was published of rows that are not done: in Tocsin's database, and in memory until it is there."""

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from tocsin.aws.publisher.messages import digest
from tocsin.engine.time_slice import paced
from tocsin.ingress.outbox.rows import Position
from tocsin.store.pool import Pool
from tocsin.store.sources import publications
from tocsin.store.sources.publications import Publication

REMEMBERED_SECONDS = 86_400.0


class Progress:
    """The progress of the rows of one outbox.

    The outbox may be a table of somebody else, in another database, which has no place for it. What was
    published but could be recorded nowhere stays in memory, so that a database which is away for longer than
    SNS recognises duplicates does not cause any.
    """

    def __init__(self, outbox: str, pool: Pool) -> None:
        self._outbox = outbox
        self._pool = pool
        self._stored: set[UUID] = set()
        self._unrecorded: dict[UUID, tuple[float, frozenset[UUID]]] = {}

    async def published_to(self, row_keys: Sequence[UUID]) -> dict[UUID, frozenset[UUID]]:
        """Return the groups that rows were published to already, for rows of which any are known."""
        async with self._pool.acquire() as connection:
            known = await publications.published_to(connection, self._outbox, row_keys)
        self._stored.update(known)
        now = time.monotonic()
        for key in row_keys:
            since, published = self._unrecorded.get(key, (now, frozenset[UUID]()))
            if published and now - since < REMEMBERED_SECONDS:
                known[key] = known.get(key, frozenset()) | published
        return known

    def has(self, row_key: UUID) -> bool:
        """Return whether anything is known of a row that was asked for."""
        return row_key in self._stored or row_key in self._unrecorded

    async def first_waiting(
        self, waiting: Sequence[Position], groups: Collection[UUID]
    ) -> dict[UUID, Position]:
        """Return for each group the first row that waits to be published to it, if any does."""
        if not waiting or not groups:
            return {}
        positions = dict(await paced((row_key(each.id), each) for each in waiting))
        async with self._pool.acquire() as connection:
            found = await publications.waiting_for(connection, self._outbox, list(positions), list(groups))
        first: dict[UUID, Position] = {}
        for key in sorted(found, key=positions.__getitem__, reverse=True):
            first.update(dict.fromkeys(found[key], positions[key]))
        return first

    def remember(self, published: Iterable[tuple[UUID, Collection[UUID]]]) -> None:
        """Keep what rows were published to in memory, until `recorded` is called for them."""
        now = time.monotonic()
        self._unrecorded = {
            key: kept for key, kept in self._unrecorded.items() if now - kept[0] < REMEMBERED_SECONDS
        }
        self._unrecorded.update((key, (now, frozenset(groups))) for key, groups in published if groups)

    async def save(self, unfinished: Sequence[Publication], now: datetime) -> None:
        """Store the progress of rows that are not done."""
        if not unfinished:
            return
        async with self._pool.acquire() as connection:
            await publications.save(connection, self._outbox, unfinished, now)
        self.recorded(each.row_key for each in unfinished)
        self._stored.update(each.row_key for each in unfinished)

    def recorded(self, row_keys: Iterable[UUID]) -> None:
        """Drop what is known elsewhere by now."""
        for key in row_keys:
            self._unrecorded.pop(key, None)

    async def forget(self, row_keys: Sequence[UUID]) -> None:
        """Drop rows that are done."""
        if stored := self._stored.intersection(row_keys):
            async with self._pool.acquire() as connection:
                await publications.forget(connection, self._outbox, sorted(stored))
            self._stored -= stored


def row_key(row_id: object) -> UUID:
    """Return the key by which the progress of a row is stored."""
    return digest(str(row_id))
