"""Publishes the rows of an outbox to a topic, and decides the result of each."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from tocsin.aws.publisher.batches import batches
from tocsin.aws.publisher.calls import ContentRefusedError, Topic, TopicUnavailableError
from tocsin.aws.publisher.envelopes import envelope_reader
from tocsin.aws.publisher.messages import Message, message
from tocsin.aws.publisher.organisations import outsider_faults
from tocsin.aws.publisher.progress import Progress, row_key
from tocsin.aws.publisher.round import OpenRow, Pending, Round
from tocsin.aws.publisher.warnings import PersonalDataWarnings
from tocsin.catalog.catalog import Catalog
from tocsin.domain.faults import Fault
from tocsin.engine.clock import Clock
from tocsin.engine.time_slice import TimeSlice
from tocsin.ingress.outbox.handler import Handled, RowsBlockedError
from tocsin.ingress.outbox.refusals import ALARM_AFTER, refused, report
from tocsin.ingress.outbox.rows import Failed, Position, Published, Row, RowResult
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import DATABASE_FAULTS, Pool
from tocsin.store.sources.progress import clear_alarms
from tocsin.store.sources.publications import Publication
from tocsin.telemetry import metrics
from tocsin.wire.fisa.envelope import FisaEnvelope

UNAVAILABLE = "topic_unavailable"
CALLS_AT_ONCE = 20
MOST_MESSAGES = 2_000
"""Rows with more messages together are left to the next round, except for the first."""
ROUND_SECONDS = 20.0
"""No call begins later: the rows are locked, and the application's server ends idle transactions."""


class TopicPublisher:
    """Publishes rows, one message for each recipient, in the order of the rows if the topic is FIFO.

    A message that SNS refuses holds back later ones of its recipient alone. A row is retried until it was
    published to everybody, but to nobody again. With `org_scoping`, or if the outbox is bound to an
    organisation, a row of an organisation is refused unless all of its recipients are people of it.
    """

    def __init__(
        self,
        outbox: str,
        settings: OutboxSettings,
        *,
        catalog: Catalog,
        topic: Topic,
        pool: Pool,
        clock: Clock,
        org_scoping: bool = False,
    ) -> None:
        self._outbox = outbox
        self._scoped = org_scoping or settings.org_id is not None
        self._fifo = settings.is_fifo
        self._read = envelope_reader(outbox, settings, catalog)
        self._warnings = PersonalDataWarnings(outbox) if settings.check_personal_data else None
        self._topic = topic
        self._progress = Progress(outbox, pool)
        self._pool = pool
        self._clock = clock
        self._outages = 0
        self._is_clear = False

    async def handle(self, rows: Sequence[Row], waiting: Sequence[Position]) -> Handled:
        """Publish rows and return their results, except for rows of which messages are left."""
        envelopes, failures = await self._read_rows(rows)
        try:
            opened, outside = await self._of_organisations(await self._open(envelopes))
            round_ = await self._round(opened, waiting)
        except DATABASE_FAULTS as error:
            raise _database_away(error) from error
        unavailable = await self._publish(round_)
        return await self._conclude(round_, [*failures, *outside], unavailable, self._clock())

    async def recorded(self, results: Sequence[RowResult]) -> None:
        """Drop the progress of rows that are done."""
        keys = {row_key(result.id): result for result in results}
        self._progress.recorded(keys)
        await self._progress.forget([key for key, result in keys.items() if isinstance(result, Published)])

    async def _read_rows(self, rows: Sequence[Row]) -> tuple[list[tuple[Row, FisaEnvelope]], list[Failed]]:
        """Decode rows, as many as can be published in one round."""
        slice_, count, now = TimeSlice(), 0, self._clock()
        envelopes: list[tuple[Row, FisaEnvelope]] = []
        failures: list[Failed] = []
        for row in rows:
            found = self._read(row)
            await slice_.pause()
            if isinstance(found, Fault):
                failures.append(refused(row, str(found), now))
                continue
            count += max(1, len(found.recipients))
            if count > MOST_MESSAGES and envelopes:
                break
            envelopes.append((row, found))
        return envelopes, failures

    async def _open(self, envelopes: Sequence[tuple[Row, FisaEnvelope]]) -> list[OpenRow]:
        """Find out what was published before."""
        keys = [row_key(row.id) for row, _ in envelopes]
        known = await self._progress.published_to(keys)
        return [
            OpenRow(row, key, envelope, known.get(key, ()))
            for key, (row, envelope) in zip(keys, envelopes, strict=True)
        ]

    async def _of_organisations(self, rows: Sequence[OpenRow]) -> tuple[Sequence[OpenRow], list[Failed]]:
        """Refuse rows with recipients who are not people of their organisation; nobody waits for them."""
        if not self._scoped:
            return rows, []
        faults = await outsider_faults(self._pool, rows)
        now = self._clock()
        outside = [(row, fault) for row, fault in zip(rows, faults, strict=True) if fault]
        # Somebody may have left the organisation since the row was held, or published to others.
        known = [Publication(row.key, row.published, ()) for row, _ in outside if self._progress.has(row.key)]
        await self._progress.save(known, now)
        kept = [row for row, fault in zip(rows, faults, strict=True) if not fault]
        return kept, [refused(row.row, str(fault), now) for row, fault in outside]

    async def _round(self, rows: Sequence[OpenRow], waiting: Sequence[Position]) -> Round:
        """Find out which groups wait for a row that is not due."""
        if self._warnings:
            slice_ = TimeSlice()
            for row in (each for each in rows if not each.row.failed_attempts and not each.published):
                self._warnings.check(row.envelope)
                await slice_.pause()
        groups = {group.key for row in rows for group in row.waiting}
        first = await self._progress.first_waiting(waiting, groups)
        return Round(rows, first, fifo=self._fifo)

    async def _publish(self, round_: Round) -> TopicUnavailableError | None:
        """Publish wave by wave until nothing is left, the time is up, or the topic is unavailable."""
        until = time.monotonic() + ROUND_SECONDS
        unavailable: list[TopicUnavailableError] = []

        async def send(left: Iterator[list[tuple[Pending, Message]]]) -> None:
            for batch in left:
                if unavailable or time.monotonic() >= until:
                    return
                try:
                    await self._send(round_, batch)
                except TopicUnavailableError as error:
                    unavailable.append(error)

        while (wave := round_.wave()) and not unavailable and time.monotonic() < until:
            left = batches(self._written(wave))
            async with asyncio.TaskGroup() as calls:
                for _ in range(min(CALLS_AT_ONCE, len(wave))):
                    calls.create_task(send(left))
        return unavailable[0] if unavailable else None

    def _written(self, wave: Sequence[Pending]) -> Iterator[tuple[tuple[Pending, Message], int]]:
        for pending in wave:
            written = message(pending.row.envelope, pending.group, fifo=self._fifo)
            yield (pending, written), written.size

    async def _send(self, round_: Round, batch: Sequence[tuple[Pending, Message]]) -> None:
        """Publish a batch; if SNS refuses it for its content, each message by itself."""
        try:
            refusals = await self._topic.publish([written for _, written in batch])
        except ContentRefusedError as error:
            if len(batch) > 1:
                for each in batch:
                    await self._send(round_, [each])
                return
            refusals = [str(error)]
        for (pending, _), refusal in zip(batch, refusals, strict=True):
            round_.settle(pending, refusal)
        metrics.topic_messages.add((self._outbox, "published"), refusals.count(None))

    async def _conclude(
        self,
        round_: Round,
        failures: list[Failed],
        unavailable: TopicUnavailableError | None,
        now: datetime,
    ) -> Handled:
        """Store what must be remembered, raise alarms, and return the results."""
        for result, count in round_.counts().items():
            metrics.topic_messages.add((self._outbox, result), count)
        self._outages = self._outages + 1 if unavailable else 0
        self._progress.remember((row.key, row.published) for row in round_.rows)
        results: list[RowResult] = [
            *failures,
            *(row_result for row in round_.rows if (row_result := row.result(now))),
        ]
        unfinished = [kept for row in round_.rows if (kept := row.publication())]
        try:
            await self._progress.save(unfinished, now)
            refusals = [result for result in results if isinstance(result, Failed)]
            await report(self._outbox, refusals, self._pool, now)
            await self._alarm(unavailable, now)
        except DATABASE_FAULTS as error:
            # Other rows would overtake a row that is retried later, if nobody knew who it is for.
            published = [result for result in results if isinstance(result, Published)]
            return Handled(list[RowResult](published), unavailable or _database_away(error))
        return Handled(results, unavailable)

    async def _alarm(self, unavailable: TopicUnavailableError | None, now: datetime) -> None:
        """Raise an alarm while the topic is unavailable, and clear it afterwards, or one from before."""
        subject = f"outbox:{self._outbox}"
        if unavailable is None and not self._is_clear:
            async with self._pool.acquire() as connection:
                await clear_alarms(connection, [subject], [UNAVAILABLE], now)
            self._is_clear = True
        elif unavailable and self._outages >= ALARM_AFTER:
            self._is_clear = False
            alarm = Alarm(subject, UNAVAILABLE, f"{self._outages} rounds in a row failed: {unavailable}")
            async with self._pool.acquire() as connection:
                await raise_alarms(connection, Counter({alarm: 1}), now)


def _database_away(error: Exception) -> RowsBlockedError:
    return RowsBlockedError(f"Tocsin's database does not answer ({type(error).__name__}: {error})")
