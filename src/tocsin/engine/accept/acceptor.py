"""Accepts intents: callers that arrive together share one transaction.

A request with many deliveries shares its transaction with nobody. It is planned and written part by part,
each in a transaction of its own: a notification is stored with all of its deliveries, or not at all. A caller
that is not answered hands in the same keys again; what was stored is answered as a duplicate.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from tocsin.domain.errors import TocsinError
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import (
    Answer,
    Unreadable,
)
from tocsin.engine.accept.audiences import find_people
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.write import Request, report, write_all
from tocsin.engine.clock import Clock
from tocsin.engine.time_slice import TimeSlice
from tocsin.store.pool import Pool, is_transient

WRITERS = 2
LARGEST_WRITE = 1_000
"""How many deliveries, or intents, are written in one transaction, unless one intent alone has more."""
LARGE_WRITERS = 2
"""How many large requests are planned and written at a time; it bounds their memory and connections."""


class TooManyDeliveriesError(TocsinError):
    """A request has more deliveries than the caller allows."""

    def __init__(self, deliveries: int, limit: int) -> None:
        super().__init__(f"the request has {deliveries:,} deliveries; at most {limit:,} are accepted at once")
        self.deliveries = deliveries
        self.limit = limit


class _Waiting(Request):
    """A request whose caller waits for the next write; `size` is its part of it, in deliveries or intents."""

    def __init__(
        self, producer: str, source: str, intents: Sequence[Intent | Unreadable], deliveries: int
    ) -> None:
        super().__init__(producer, source, intents)
        self.size = max(len(intents), deliveries)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Acceptor:
    """Checks intents, stores the good ones with their plan, records the rest."""

    def __init__(self, pool: Pool, planner: Planner, clock: Clock) -> None:
        self._pool = pool
        self._planner = planner
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._large = asyncio.Semaphore(LARGE_WRITERS)

    async def accept(
        self,
        producer: str,
        intents: Sequence[Intent | Unreadable],
        *,
        source: str = "http",
        limit: int | None = None,
    ) -> list[Answer]:
        """Answer each intent, in order, once it is durable.

        Raise TooManyDeliveriesError, and store nothing, if there are more deliveries than `limit`.
        """
        sizes = await delivery_counts(self._planner, intents)
        if limit is not None and sum(sizes) > limit:
            sizes = await self._counts_of_people(intents, sizes)
            if sum(sizes) > limit:
                raise TooManyDeliveriesError(sum(sizes), limit)
        parts = split(sizes)
        if len(parts) > 1 or sum(sizes) > LARGEST_WRITE:
            return [
                answer
                for start, end in parts
                for answer in await self._accept_part(Request(producer, source, intents[start:end]))
            ]
        return await self._accept_with_others(_Waiting(producer, source, intents, sum(sizes)))

    async def _counts_of_people(
        self, intents: Sequence[Intent | Unreadable], sizes: Sequence[int]
    ) -> list[int]:
        """Replace the largest size of audiences by attributes by what they find now.

        One that finds more is a broadcast: its deliveries are not stored with the request.
        """
        counts, most = list(sizes), self._planner.largest_audience
        for position, intent in enumerate(intents):
            if isinstance(intent, Intent) and intent.audience.attributes is not None:
                found = await find_people(self._pool.acquire, intent, most)
                counts[position] = sizes[position] // most * len(found.people)
        return counts

    async def _accept_part(self, request: Request) -> list[Answer]:
        """Plan and write a part of a large request; the parts of several requests alternate."""
        async with self._large:
            await request.check(self._planner, self._clock(), self._pool.acquire)
            async with self._pool.acquire() as connection:
                await write_all(connection, self._planner, [request], self._clock())
        report(request, self._planner)
        return request.answered()

    async def _accept_with_others(self, request: _Waiting) -> list[Answer]:
        await request.check(self._planner, self._clock(), self._pool.acquire)
        self._waiting.append(request)
        if len(self._writers) < WRITERS:
            writer = asyncio.create_task(self._write_waiting())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        await request.done
        return request.answered()

    async def _write_waiting(self) -> None:
        # Yield once, so that callers woken by the same turn of the loop ride along.
        await asyncio.sleep(0)
        while self._waiting:
            requests = self._take()
            try:
                await self._write(requests)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are told
                if is_transient(error):
                    _fail(requests, error)
                else:
                    # One odd value must not fail the callers that happened to come with it.
                    await self._write_apart(requests)

    def _take(self) -> list[_Waiting]:
        taken = [self._waiting.popleft()]
        size = taken[0].size
        while self._waiting and size + self._waiting[0].size <= LARGEST_WRITE:
            size += self._waiting[0].size
            taken.append(self._waiting.popleft())
        return taken

    async def _write_apart(self, requests: Sequence[_Waiting]) -> None:
        for request in requests:
            try:
                await self._write([request])
            except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits is told
                _fail([request], error)

    async def _write(self, requests: Sequence[_Waiting]) -> None:
        # The accepting statement is a transaction by itself. What follows may fail without harm:
        # nobody was answered yet, and a producer that tries again is told of the duplicate.
        async with self._pool.acquire() as connection:
            await write_all(connection, self._planner, requests, self._clock())
        for request in requests:
            report(request, self._planner)
            if not request.done.done():
                request.done.set_result(None)


async def delivery_counts(planner: Planner, intents: Sequence[Intent | Unreadable]) -> list[int]:
    """Count the deliveries that each intent will have, before they are planned."""
    slice_ = TimeSlice()
    counts = []
    for intent in intents:
        if slice_.is_over:
            await slice_.pause()
        counts.append(planner.delivery_count(intent) if isinstance(intent, Intent) else 0)
    return counts


def split(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Split intents, by their numbers of deliveries, into consecutive parts that are each one write."""
    parts, start, size = [], 0, 0
    for position, deliveries in enumerate(sizes):
        if position > start and (size + deliveries > LARGEST_WRITE or position - start >= LARGEST_WRITE):
            parts.append((start, position))
            start, size = position, 0
        size += deliveries
    return [*parts, (start, len(sizes))]


def _fail(requests: Sequence[_Waiting], error: BaseException) -> None:
    for request in requests:
        if not request.done.done():
            request.done.set_exception(error)
