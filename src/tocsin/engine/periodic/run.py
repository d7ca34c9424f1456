"""One run of a periodic producer: batches of intents, each accepted together with its checkpoint."""

import asyncio
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import msgspec
import structlog

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.acceptor import LARGEST_WRITE
from tocsin.engine.accept.answers import Accepted, Answer, Duplicate, Unreadable
from tocsin.engine.accept.organisations import bind_all
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.write import accept_within
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.engine.periodic.claim import ClaimedRun
from tocsin.engine.periodic.ends import describe, record_failure, record_success, retry_after
from tocsin.engine.periodic.source import Source, SourceStep
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Counts

LONGEST_BATCH = timedelta(seconds=1)
"""How long intents wait for their batch to fill while the producer keeps yielding."""
YIELD_EVERY = 50
"""After so many intents other tasks of the worker get a turn: rows already read come without a pause."""

_log = structlog.stdlib.get_logger(__name__)


class LeaseLostError(Exception):
    """Another worker has the lease of the run, or an operator has set the checkpoint."""


class RunTools(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs of a worker share."""

    pool: Pool
    planner: Planner
    lease_for: timedelta
    clock: Clock


class Run:
    """A run that this worker holds the lease of."""

    def __init__(self, source: Source, claimed: ClaimedRun, tools: RunTools) -> None:
        self._source = source
        self._name = source.name
        self._claimed = claimed
        self._lease = claimed.lease
        self._tools = tools
        self._counts: Counter[str] = Counter()
        self._lost = asyncio.Event()

    async def perform(self) -> None:
        """Run to the end and record the result; when cancelled, release the lease."""
        try:
            await self._perform()
        except asyncio.CancelledError:
            await self._release()
            raise

    async def _perform(self) -> None:
        raised: Exception | None = None
        try:
            async with asyncio.TaskGroup() as both:
                renewing = both.create_task(self._keep_lease())
                await self._work()
                renewing.cancel()
        except* Exception as errors:  # noqa: BLE001 - a producer may raise anything; others go on
            raised = errors.exceptions[0]
        try:
            match raised:
                case None:
                    await self._succeed()
                case LeaseLostError():
                    _log.warning("periodic run abandoned", producer=self._name, reason="lease lost")
                case error:
                    await self._fail(error)
        except DATABASE_FAULTS as error:
            # The lease expires; whoever claims the run then continues from the checkpoint.
            _log.warning("periodic run not recorded", producer=self._name, error=repr(error))

    async def _work(self) -> None:
        batch: list[SourceStep] = []
        opened, deliveries = self._tools.clock(), 0
        async with aclosing(self._source.steps(self._claimed.checkpoint)) as steps:
            async for step in steps:
                if not batch:
                    opened, deliveries = self._tools.clock(), 0
                batch.append(step)
                if isinstance(step.intent, Intent):
                    deliveries += self._tools.planner.delivery_count(step.intent)
                if len(batch) % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                if (
                    len(batch) >= self._source.batch
                    or deliveries >= LARGEST_WRITE
                    or self._tools.clock() - opened >= LONGEST_BATCH
                ):
                    await self._write(batch)
                    batch = []
        if batch:
            await self._write(batch)

    async def _write(self, batch: Sequence[SourceStep]) -> None:
        """Move the checkpoint and accept, in one transaction that holds the lock of the producer's row."""
        now = self._tools.clock()
        checkpoints = [step.checkpoint for step in batch if step.checkpoint is not msgspec.UNSET]
        async with self._tools.pool.acquire() as connection, connection.transaction():
            if not await self._advance(connection, checkpoints[-1] if checkpoints else msgspec.UNSET):
                raise LeaseLostError
            read = [step.intent for step in batch if step.intent is not None]
            intents = bind_all(read, self._source.org_id)
            counts = Counter(map(_counted_as, await self._accept(connection, intents, now)))
            await progress.count(connection, self._name, self._lease, Counts(**counts))
        self._counts += counts

    async def _accept(
        self, connection: Connection, intents: Sequence[Intent | Unreadable], now: datetime
    ) -> list[Answer]:
        """Accept intents; one with a value that cannot be stored is refused, and the others are accepted."""
        planner, producer = self._tools.planner, self._source.producer
        accept = partial(accept_within, connection, planner, producer, now=now, source="periodic")
        try:
            async with connection.transaction():
                return await accept(intents)
        except asyncpg.DataError as error:
            fault = Fault(field="$", code="not_storable", message=f"cannot be stored: {error}")
        if len(intents) > 1:
            return [answer for intent in intents for answer in await self._accept(connection, [intent], now)]
        return await accept([Unreadable(faults=[fault], content=repr(intents[0]))])

    async def _keep_lease(self) -> None:
        interval = self._tools.lease_for.total_seconds() / 3
        await asyncio.sleep(interval)
        await repeat(self._renew, name="periodic lease", subject=self._name, every=interval, stop=self._lost)
        raise LeaseLostError

    async def _renew(self) -> None:
        async with self._tools.pool.acquire() as connection:
            if not await self._advance(connection):
                self._lost.set()

    async def _advance(self, connection: Connection, checkpoint: Any = msgspec.UNSET) -> bool:
        until = self._tools.clock() + self._tools.lease_for
        return await progress.advance(connection, self._name, self._lease, until, checkpoint)

    async def _succeed(self) -> None:
        ended = await record_success(self._tools.pool, self._name, self._claimed, self._tools.clock())
        if ended:
            _log.info(
                "periodic run completed",
                producer=self._name,
                scheduled_for=self._claimed.checkpoint.scheduled_for.isoformat(),
                accepted=self._counts["accepted"],
                duplicates=self._counts["duplicates"],
                refused=self._counts["refused"],
            )

    async def _fail(self, error: Exception) -> None:
        _log.error(
            "periodic run failed",
            producer=self._name,
            error=describe(error),
            retry_in_seconds=retry_after(self._claimed).total_seconds(),
            traceback="".join(traceback.format_exception(error)),
        )
        await record_failure(self._tools.pool, self._name, self._claimed, error, self._tools.clock())

    async def _release(self) -> None:
        try:
            async with self._tools.pool.acquire() as connection:
                await progress.release(connection, self._name, self._lease)
        except DATABASE_FAULTS as error:
            # The lease expires instead.
            _log.warning("periodic lease release failed", producer=self._name, error=repr(error))


def _counted_as(answer: Answer) -> str:
    if isinstance(answer, Accepted):
        return "accepted"
    return "duplicates" if isinstance(answer, Duplicate) else "refused"
