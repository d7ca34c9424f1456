"""Reads a queue: several receives at a time, an alarm while SQS is away, messages kept while in work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.engine.duty import RETRIED_FAULTS, pause, raise_if_cancelled, repeat
from tocsin.ingress.sqs.queue import Received, SqsQueue
from tocsin.ingress.sqs.visibility import HeldMessages
from tocsin.providers.aws.clients import LONG_POLL_SECONDS
from tocsin.providers.aws.json_calls import AwsCallError
from tocsin.telemetry import metrics

BACKOFF = parse_backoff("exponential(250ms, 20s, 2, 0.2)")
ALARM_AFTER = 3
"""Failures in a row that raise an alarm."""
UNREACHABLE = "sqs_unreachable"

T = TypeVar("T")

_log = structlog.stdlib.get_logger(__name__)


class AlarmSink(Protocol):
    """Where alarms go: the database, or the log of a process that has none."""

    async def raise_(self, code: str, detail: str) -> None:
        """Raise an alarm, or renew it; it never raises an exception."""
        ...

    async def clear(self, code: str) -> bool:
        """Clear an alarm whose cause is gone, and return whether that is done; it never raises."""
        ...


class Watch:
    """Counts the failures in a row of one thing; an alarm stands while it fails again and again."""

    def __init__(self, code: str, alarms: AlarmSink) -> None:
        self._code = code
        self._alarms = alarms
        self._failures = 0
        # An earlier process may have left one.
        self._may_stand = True

    @property
    def is_failing(self) -> bool:
        """Whether an alarm is due."""
        return self._failures >= ALARM_AFTER

    async def failed(self, why: str) -> None:
        """Note a failure."""
        self._failures += 1
        if self.is_failing:
            self._may_stand = True
            await self._alarms.raise_(self._code, f"{self._failures} tries in a row failed: {why}")

    async def worked(self) -> None:
        """Note that it works."""
        self._failures = 0
        if self._may_stand:
            self._may_stand = not await self._alarms.clear(self._code)


class QueueReader:
    """Receives messages until stopped, and hands those of each receive to `handle`, also if there are none.

    Of a FIFO queue nobody else gets messages of a group that one receive has, so that `handle` has them in
    their order. `wait` is asked how long a receive may wait for messages.
    """

    def __init__(
        self,
        queue: SqsQueue,
        *,
        receivers: int,
        visibility: int,
        alarms: AlarmSink,
        handle: Callable[[Sequence[Received]], Awaitable[None]],
        wait: Callable[[], float] = lambda: LONG_POLL_SECONDS,
    ) -> None:
        self.held = HeldMessages(queue, visibility)
        self._queue = queue
        self._receivers = receivers
        self._visibility = visibility
        self._handle = handle
        self._wait = wait
        self._watch = Watch(UNREACHABLE, alarms)

    @property
    def is_reading(self) -> bool:
        """Whether SQS answers."""
        return not self._watch.is_failing

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set, then finish what is under way; whoever calls it keeps what is `held`."""
        try:
            async with asyncio.TaskGroup() as running:
                for _ in range(self._receivers):
                    running.create_task(self._receive_all(stop))
        finally:
            metrics.sqs_reading.set((self._queue.name,), 0)

    async def _receive_all(self, stop: asyncio.Event) -> None:
        async def step() -> bool:
            messages = await self._receive(stop)
            if messages is not None:
                await self._handle(messages)
            return True

        await repeat(
            step,
            name="queue reader",
            subject=self._queue.name,
            every=1.0,
            stop=stop,
            backoff=BACKOFF,
            faults=(AwsCallError, *RETRIED_FAULTS),
        )

    async def _receive(self, stop: asyncio.Event) -> list[Received] | None:
        """Receive some messages; return None if stopped meanwhile.

        What SQS hands out at that moment becomes visible again after a while.
        """
        asking = self._queue.receive(wait=self._wait(), visibility=self._visibility)
        try:
            messages = await until_stopped(asking, stop)
        except AwsCallError as error:
            metrics.sqs_reading.set((self._queue.name,), 0)
            await self._watch.failed(error.code)
            raise
        if messages is not None:
            self.held.add(messages)
            metrics.sqs_reading.set((self._queue.name,), 1)
            await self._watch.worked()
        return messages


async def until_stopped(work: Awaitable[T], stop: asyncio.Event, grace: float = 0.0) -> T | None:
    """Return what `work` returns; None if it had to be cancelled, `grace` seconds after `stop`."""
    working = asyncio.ensure_future(work)
    ended = asyncio.Event()
    working.add_done_callback(lambda _: ended.set())
    try:
        await pause(None, ended, stop)
        if not ended.is_set() and grace:
            await pause(grace, ended)
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    raise_if_cancelled()
    return None if working.cancelled() else working.result()
