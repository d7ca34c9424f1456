"""Accepts the intents of one queue."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import structlog

from tocsin.domain.faults import Fault
from tocsin.engine.accept.acceptor import delivery_counts, split
from tocsin.engine.accept.answers import Accepted, Answer, Conflict, Duplicate, Invalid, Unreadable
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.write import Sourced, accept_sourced_within
from tocsin.engine.clock import Clock
from tocsin.engine.duty import RETRIED_FAULTS, repeat
from tocsin.engine.time_slice import TimeSlice
from tocsin.ingress.report import SourceReport
from tocsin.ingress.source import is_not_storable, not_storable
from tocsin.ingress.sqs.envelopes import message_decoder
from tocsin.ingress.sqs.queue import Received, SqsQueue
from tocsin.ingress.sqs.reader import BACKOFF, QueueReader, until_stopped
from tocsin.ingress.sqs.settings import QueueSettings
from tocsin.providers.aws.json_calls import AwsCallError
from tocsin.providers.aws.settings import AwsSettings
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import Pool, is_transient
from tocsin.store.sources.progress import clear_alarms
from tocsin.telemetry import metrics

SOURCE = "sqs"
STOP_SECONDS = 10.0
"""How long messages under way may take to be accepted after a stop."""
LONGEST_PAUSE = 900
"""Seconds for which a refused message is invisible at most, until it is handed out again."""
LONGEST_GROUP_PAUSE = 2
"""The same in a FIFO queue, which hands out nothing of a group while a message of it is invisible."""
MEASURE_SECONDS = 10.0
"""Each measurement is a call that AWS charges for."""

_log = structlog.stdlib.get_logger(__name__)


class QueueConsumer:
    """Reads a queue until stopped; any number of them may read the same queue.

    A message is deleted once its intent is committed. While the database is away messages are held, and not
    handed back: each time a queue hands one out counts for its redrive policy.
    """

    def __init__(
        self,
        name: str,
        settings: QueueSettings,
        aws: AwsSettings,
        *,
        pool: Pool,
        planner: Planner,
        clock: Clock,
        org_scoping: bool = False,
    ) -> None:
        self._name = name
        self.report = SourceReport("queue", name)
        self._received_ms: int | None = None
        self._settings = settings
        self._pool = pool
        self._planner = planner
        self._clock = clock
        self._decode = message_decoder(name, settings, planner.catalog, org_scoping=org_scoping)
        self._queue = SqsQueue(name, settings.url, aws)
        self._stop = asyncio.Event()
        self._reader = QueueReader(
            self._queue,
            receivers=settings.receivers,
            visibility=settings.visibility_seconds,
            alarms=_StoredAlarms(f"sqs:{name}", pool, clock, self.report),
            handle=self._handle,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set, then finish what is under way."""
        self._stop = stop
        try:
            await self._check_redrive_policy()
            measuring = asyncio.create_task(
                repeat(self._measure, name="queue lag", subject=self._name, every=MEASURE_SECONDS)
            )
            try:
                async with self._reader.held.keeping():
                    await self._reader.run(stop)
            finally:
                measuring.cancel()
                await asyncio.wait([measuring])
        finally:
            await self._queue.aclose()

    async def _measure(self) -> None:
        """Report how many messages wait, and how old the oldest is of those that were received last."""
        try:
            waiting = await self._queue.count_messages()
        except AwsCallError as error:
            if not self._reader.is_reading:
                return
            # Reading needs no right to count.
            self.report.noted(f"messages are not counted: {error.code}")
            waiting = None
        sent_ms = self._received_ms
        age = None if sent_ms is None or waiting == 0 else self._clock().timestamp() - sent_ms / 1_000
        self.report.measured(waiting, None if age is None else max(0.0, age))

    async def _check_redrive_policy(self) -> None:
        """Log a warning if refused messages would come again and again."""
        if self._settings.refused == "delete":
            return
        try:
            has_policy = await self._queue.redrive_policy()
        except AwsCallError as error:
            _log.warning("redrive policy not checked", queue=self._name, error=error.code)
            return
        if not has_policy:
            _log.warning(
                "queue without redrive policy",
                queue=self._name,
                detail="a refused message is handed out again and again until its retention ends; give the "
                f"queue a dead-letter queue, or set queues.{self._name}.refused to delete",
            )

    async def _handle(self, messages: Sequence[Received]) -> None:
        self._received_ms = min((each.sent_ms for each in messages if each.sent_ms), default=None)
        if not messages:
            return
        try:
            await until_stopped(self._accept(messages), self._stop, STOP_SECONDS)
        finally:
            self._reader.held.drop(message.receipt for message in messages)

    async def _accept(self, messages: Sequence[Received]) -> None:
        """Accept or refuse messages in their order, in parts that are each one transaction."""
        slice_ = TimeSlice()
        decoded = []
        for message in messages:
            await slice_.pause()
            decoded.append(self._decode(message))
        sizes = await delivery_counts(self._planner, [each.intent for each in decoded])
        for start, end in split(sizes):
            answers = await self._answered(decoded[start:end])
            await self._settle(messages[start:end], answers)

    async def _answered(self, part: Sequence[Sourced]) -> list[Answer]:
        """Return the answers to intents once they are committed, however long the database is away."""
        answers: list[Answer] = []
        done = asyncio.Event()

        async def step() -> None:
            answers[:] = await self._answer(part)
            done.set()

        await repeat(step, name="queue consumer", subject=self._name, every=1.0, stop=done, backoff=BACKOFF)
        return answers

    async def _answer(self, part: Sequence[Sourced]) -> list[Answer]:
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                return await accept_sourced_within(
                    connection, self._planner, part, self._clock(), source=SOURCE
                )
        except Exception as error:
            if is_transient(error):
                raise
            if is_not_storable(part[0]):
                _log.exception("queue message not recorded", queue=self._name, alarm=True)
                return [Invalid(_faults(part[0]))]
        # One odd message must not keep the others from being accepted: it is refused, alone.
        if len(part) == 1:
            return await self._answer([not_storable(part[0])])
        half = len(part) // 2
        return [*await self._answer(part[:half]), *await self._answer(part[half:])]

    async def _settle(self, messages: Sequence[Received], answers: Sequence[Answer]) -> None:
        """Delete what was accepted, and leave what was refused to the redrive policy."""
        answered = list(zip(messages, answers, strict=True))
        done = [message for message, answer in answered if isinstance(answer, Accepted | Duplicate)]
        refused = [message for message, answer in answered if isinstance(answer, Invalid | Conflict)]
        metrics.sqs_messages.add((self._name, "accepted"), len(done))
        metrics.sqs_messages.add((self._name, "refused"), len(refused))
        self.report.progressed()
        if self._settings.refused == "delete":
            done, refused = list(messages), []
        if done:
            await self._queue.delete([message.receipt for message in done])
        longest = LONGEST_GROUP_PAUSE if self._queue.is_fifo else LONGEST_PAUSE
        for message in refused:
            await self._queue.change_visibility([message.receipt], pause_of(message.receives, longest))


def pause_of(receives: int, longest: int = LONGEST_PAUSE) -> int:
    """Return for how many seconds a refused message is invisible: few at first, at most `longest`.

    A redrive policy moves it after some receives; without one it must not keep its readers busy.
    """
    return min(1 << min(receives - 1, 20), longest)


def _faults(sourced: Sourced) -> Sequence[Fault]:
    return sourced.intent.faults if isinstance(sourced.intent, Unreadable) else ()


class _StoredAlarms:
    """Stores the alarms of a queue; while the database is away they are in the log alone."""

    def __init__(self, subject: str, pool: Pool, clock: Clock, report: SourceReport) -> None:
        self._subject = subject
        self._pool = pool
        self._clock = clock
        self._report = report

    async def raise_(self, code: str, detail: str) -> None:
        """Raise an alarm, or renew it."""
        _log.error("queue alarm raised", queue=self._subject, code=code, detail=detail, alarm=True)
        self._report.failed(code, detail)
        try:
            async with self._pool.acquire() as connection:
                await raise_alarms(connection, Counter([Alarm(self._subject, code, detail)]), self._clock())
        except RETRIED_FAULTS as error:
            _log.warning("queue alarm not stored", queue=self._subject, code=code, error=repr(error))

    async def clear(self, code: str) -> bool:
        """Clear an alarm whose cause is gone, and return whether that is stored."""
        self._report.recovered(code)
        try:
            async with self._pool.acquire() as connection:
                await clear_alarms(connection, [self._subject], [code], self._clock())
        except RETRIED_FAULTS as error:
            _log.warning("queue alarm not stored", queue=self._subject, code=code, error=repr(error))
            return False
        return True
