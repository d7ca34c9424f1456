"""One run of a periodic producer: batches of intents, each accepted together with its checkpoint."""

import asyncio
import traceback
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta

import asyncpg
import msgspec
import structlog

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.timing.schedule import pause_after
from tocsin.engine.accept.acceptor import accept_within
from tocsin.engine.accept.answers import Accepted, Answer, Duplicate, Unreadable
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import Clock
from tocsin.engine.periodic.claim import ClaimedRun
from tocsin.engine.periodic.source import Source, Step
from tocsin.periodic import Checkpoint
from tocsin.store import progress
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import DATABASE_FAULTS, Connection, Pool
from tocsin.store.progress import Counts

ALARM_AFTER = 5
ALARM_CODE = "periodic_failed"
SOURCE = "periodic"
LONGEST_BATCH = timedelta(seconds=1)
"""How long intents wait for their batch to fill, as far as the producer keeps giving any."""
TURN = 50
"""After so many intents the worker's other duties have their turn: rows already read come without a pause."""

_log = structlog.stdlib.get_logger(__name__)


class LeaseLostError(Exception):
    """Another worker took the run over, or the checkpoint was set by an operator."""


class RunTools(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs of a worker share."""

    pool: Pool
    planner: Planner
    lease_for: timedelta
    clock: Clock


class Run:
    """A run that this worker holds the lease of."""

    def __init__(self, source: Source, claimed: ClaimedRun, tools: RunTools, *, failures: int) -> None:
        self._source = source
        self._claimed = claimed
        self._lease = claimed.lease
        self._tools = tools
        self._failures = failures
        self._counts = Counts()

    async def perform(self) -> None:
        """Run to the end, good or bad; when cancelled, leave the rest to another worker at once."""
        try:
            await self._perform()
        except asyncio.CancelledError:
            await self._give_back()
            raise

    async def _perform(self) -> None:
        raised: Exception | None = None
        try:
            async with asyncio.TaskGroup() as both:
                renewing = both.create_task(self._renew())
                await self._work()
                renewing.cancel()
        except* Exception as errors:  # noqa: BLE001 - a producer may raise anything; others go on
            raised = errors.exceptions[0]
        try:
            match raised:
                case None:
                    await self._succeed()
                case LeaseLostError():
                    _log.warning("periodic run given up: its lease is another's", producer=self._source.name)
                case error:
                    await self._fail(error)
        except DATABASE_FAULTS as error:
            # The lease ends by itself; whoever takes it goes on from the checkpoint.
            _log.warning("the end of a periodic run was not recorded", error=repr(error))

    async def _work(self) -> None:
        checkpoint = Checkpoint(
            value=self._claimed.begun.last_value,
            scheduled_for=self._claimed.scheduled_for,
            last_success_at=self._claimed.begun.last_success_at,
        )
        batch: list[Step] = []
        opened = self._tools.clock()
        async with aclosing(self._source.steps(checkpoint)) as steps:
            async for step in steps:
                if not batch:
                    opened = self._tools.clock()
                batch.append(step)
                if len(batch) % TURN == 0:
                    await asyncio.sleep(0)
                if len(batch) >= self._source.batch or self._tools.clock() - opened >= LONGEST_BATCH:
                    await self._accept(batch)
                    batch = []
        if batch:
            await self._accept(batch)

    async def _accept(self, batch: Sequence[Step]) -> None:
        try:
            counts = await self._write(batch, one_by_one=False)
        except asyncpg.DataError:
            # One odd value must not keep the others from being accepted.
            counts = await self._write(batch, one_by_one=True)
        self._counts = Counts(
            self._counts.accepted + counts.accepted,
            self._counts.duplicates + counts.duplicates,
            self._counts.refused + counts.refused,
        )

    async def _write(self, batch: Sequence[Step], *, one_by_one: bool) -> Counts:
        """Move the checkpoint and accept, in one transaction; the row's lock keeps others out meanwhile."""
        name, now = self._source.name, self._tools.clock()
        moved = next((step.moved for step in reversed(batch) if step.moved), None)
        intents = [step.intent for step in batch if step.intent is not None]
        async with self._tools.pool.acquire() as connection, connection.transaction():
            ours = await progress.advance(
                connection,
                name,
                self._lease,
                now + self._tools.lease_for,
                moved=moved is not None,
                value=moved.value if moved else None,
            )
            if not ours:
                raise LeaseLostError
            if one_by_one:
                answers = [await self._accept_one(connection, intent, now) for intent in intents]
            else:
                answers = await self._accept_all(connection, intents, now)
            counts = _counted(answers)
            await progress.count(connection, name, self._lease, counts)
        return counts

    async def _accept_all(
        self, connection: Connection, intents: Sequence[Intent | Unreadable], now: datetime
    ) -> list[Answer]:
        return await accept_within(
            connection, self._tools.planner, self._source.producer, intents, now, source=SOURCE
        )

    async def _accept_one(self, connection: Connection, intent: Intent | Unreadable, now: datetime) -> Answer:
        try:
            async with connection.transaction():
                [answer] = await self._accept_all(connection, [intent], now)
        except asyncpg.DataError as error:
            fault = Fault(field="$", code="not_storable", message=f"cannot be stored: {error}")
            unfit = Unreadable(faults=[fault], content=repr(intent))
            [answer] = await self._accept_all(connection, [unfit], now)
        return answer

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._tools.lease_for.total_seconds() / 3)
            try:
                async with self._tools.pool.acquire() as connection:
                    until = self._tools.clock() + self._tools.lease_for
                    if not await progress.renew(connection, self._source.name, self._lease, until):
                        raise LeaseLostError
            except DATABASE_FAULTS as error:
                _log.warning("renewing a lease failed, trying again", error=repr(error))

    async def _succeed(self) -> None:
        name, now = self._source.name, self._tools.clock()
        async with self._tools.pool.acquire() as connection, connection.transaction():
            ended = await progress.succeed(
                connection, name, self._lease, next_run_at=self._claimed.next_run_at, now=now
            )
            if ended and self._failures >= ALARM_AFTER:
                await progress.clear_recovered(connection, [_subject(name)], [ALARM_CODE], now)
        if ended:
            _log.info(
                "periodic run ended",
                producer=name,
                scheduled_for=self._claimed.scheduled_for.isoformat(),
                **msgspec.structs.asdict(self._counts),
            )

    async def _fail(self, error: Exception) -> None:
        name, now = self._source.name, self._tools.clock()
        said = f"{type(error).__name__}: {error}"
        rest = pause_after(self._failures + 1)
        _log.error(
            "periodic run failed",
            producer=name,
            error=said,
            again_in_seconds=rest.total_seconds(),
            traceback="".join(traceback.format_exception(error)),
        )
        async with self._tools.pool.acquire() as connection, connection.transaction():
            failures = await progress.fail(connection, name, self._lease, retry_at=now + rest, error=said)
            if failures is not None and failures >= ALARM_AFTER:
                alarm = Alarm(_subject(name), ALARM_CODE, f"failed {failures} times in a row: {said}")
                await raise_alarms(connection, {alarm: 1}, now)

    async def _give_back(self) -> None:
        try:
            async with self._tools.pool.acquire() as connection:
                await progress.give_back(connection, self._source.name, self._lease)
        except DATABASE_FAULTS as error:
            _log.warning("giving a lease back failed, it will expire", error=repr(error))


def _subject(name: str) -> str:
    return f"periodic:{name}"


def _counted(answers: Sequence[Answer]) -> Counts:
    accepted = sum(isinstance(answer, Accepted) for answer in answers)
    duplicates = sum(isinstance(answer, Duplicate) for answer in answers)
    return Counts(accepted, duplicates, len(answers) - accepted - duplicates)
