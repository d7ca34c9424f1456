"""Drains a queue into files."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

from tocsin.aws.archive.batch import ArchiveFile, Batch
from tocsin.aws.archive.destination import Destination, WriteFailedError
from tocsin.aws.archive.lines import archive_line
from tocsin.aws.archive.settings import ArchiveSettings
from tocsin.domain.errors import TocsinError
from tocsin.engine.clock import utc_now
from tocsin.engine.duty import pause, repeat
from tocsin.engine.time_slice import TimeSlice
from tocsin.ingress.sqs.queue import Received, SqsQueue
from tocsin.ingress.sqs.reader import BACKOFF, QueueReader, Watch, until_stopped
from tocsin.providers.aws.clients import LONG_POLL_SECONDS
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read

NAME = "archive"
UNWRITABLE = "archive_unwritable"
DRAIN_SECONDS = 2.0
"""How long a receive waits for messages before a queue counts as drained."""
FIFO_SECONDS = 1.0
"""The same for a FIFO queue of which messages are held: others of their groups wait for them."""
STOP_SECONDS = 20.0
"""How long a file may take to be written after a stop."""

_log = structlog.stdlib.get_logger(__name__)


class ArchiveFailedError(TocsinError):
    """The queue could not be drained."""


class ArchiveTotals(msgspec.Struct, kw_only=True):
    """What was written; messages that could not be deleted come again, and are counted again."""

    messages: int = 0
    files: int = 0
    bytes: int = 0
    not_deleted: int = 0


class Archive:
    """Reads a queue into files until stopped, or until it is drained.

    While one file is written the next one is filled, and no more: memory is that of two files. A message is
    deleted once its file is durable.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        queue: SqsQueue,
        destination: Destination,
        *,
        once: bool = False,
        wrote: Callable[[ArchiveTotals], None] = lambda _: None,
    ) -> None:
        self.totals = ArchiveTotals()
        self._settings = settings
        self._queue = queue
        self._destination = destination
        self._once = once
        self._wrote = wrote
        self._stop = asyncio.Event()
        self._failure: str | None = None
        self._batch = Batch(settings)
        self._should_write = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._empty_receives = 0
        self._grace = STOP_SECONDS
        alarms = _LoggedAlarms(self._note_failure)
        self._writing = Watch(UNWRITABLE, alarms)
        self._reader = QueueReader(
            queue,
            receivers=settings.receivers,
            visibility=settings.visibility_seconds,
            alarms=alarms,
            handle=self._handle,
            wait=self._patience,
        )

    async def fault(self) -> str | None:
        """Return why the archive is not ready."""
        if not self._reader.is_reading:
            return "SQS does not answer."
        return "The destination takes no files." if self._writing.is_failing else None

    @property
    def held(self) -> int:
        """How many messages are held."""
        return len(self._reader.held)

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set, or the queue is drained, and write what is held.

        Raise ArchiveFailedError if the queue was to be drained and could not be.
        """
        self._stop = stop
        _running.add(self)
        ended = asyncio.Event()
        try:
            async with self._reader.held.keeping(), asyncio.TaskGroup() as running:
                running.create_task(self._write_all(ended))
                try:
                    await self._reader.run(stop)
                finally:
                    ended.set()
                    self._wake.set()
        finally:
            _running.discard(self)
        if self._failure is not None:
            raise ArchiveFailedError(f"The queue was not drained: {self._failure}")

    def _patience(self) -> float:
        if self._once:
            return DRAIN_SECONDS
        return FIFO_SECONDS if self._queue.is_fifo and self._batch.messages else LONG_POLL_SECONDS

    async def _handle(self, messages: Sequence[Received]) -> None:
        if not messages:
            self._note_empty()
            return
        self._empty_receives = 0
        slice_ = TimeSlice()
        lines = []
        for message in messages:
            await slice_.pause()
            lines.append((message, archive_line(message, utc_now())))
        await self._room.wait()
        # From here to the end nothing is awaited: the batch may be taken away then.
        is_first = not self._batch.messages
        self._batch.add(lines)
        if self._batch.is_full:
            self._room.clear()
            self._should_write = True
        if is_first or self._should_write:
            self._wake.set()

    def _note_empty(self) -> None:
        """Write what is held if nothing else can come, and end once a queue that is drained has nothing."""
        if self._batch.messages and (self._once or self._queue.is_fifo):
            self._should_write = True
            self._wake.set()
        if self._once and not self.held:
            self._empty_receives += 1
            if self._empty_receives >= self._settings.receivers:
                self._stop.set()

    async def _write_all(self, ended: asyncio.Event) -> None:
        while True:
            left = self._batch.seconds_left
            if self._batch.messages and (
                self._should_write or ended.is_set() or (left is not None and left <= 0)
            ):
                await self._write_batch()
            elif ended.is_set():
                return
            else:
                self._wake.clear()
                await pause(left, self._wake)

    async def _write_batch(self) -> None:
        batch, self._batch, self._should_write = self._batch, Batch(self._settings), False
        self._room.set()
        for file in await asyncio.to_thread(batch.finish):
            try:
                if await until_stopped(self._store(file), self._stop, self._grace) is None:
                    # The others have had their time too.
                    self._grace = 0.0
                    _log.error("archive file not written", messages=len(file.receipts))
                    self._note_failure("the destination takes no files")
                    continue
                self.totals.not_deleted += await self._queue.delete(file.receipts)
            finally:
                self._reader.held.drop(file.receipts)
            self._count(file)

    async def _store(self, file: ArchiveFile) -> bool:
        """Write a file, however long its destination is away; return True."""
        done = asyncio.Event()

        async def step() -> None:
            try:
                await self._destination.write(file.name, file.content)
            except WriteFailedError as error:
                metrics.archive_writing.set((), 0)
                await self._writing.failed(str(error))
                raise
            done.set()

        await repeat(
            step, name="archive writer", every=1.0, stop=done, backoff=BACKOFF, faults=(WriteFailedError,)
        )
        metrics.archive_writing.set((), 1)
        await self._writing.worked()
        return True

    def _count(self, file: ArchiveFile) -> None:
        count, size = len(file.receipts), len(file.content)
        self.totals.messages += count
        self.totals.files += 1
        self.totals.bytes += size
        metrics.sqs_messages.add((NAME, "archived"), count)
        metrics.archive_files.add(())
        metrics.archive_bytes.add((), size)
        _log.info("archive file written", file=file.name, messages=count, bytes=size)
        self._wrote(self.totals)

    def _note_failure(self, why: str) -> None:
        """End a run that was to drain the queue and cannot."""
        if self._once and self._failure is None:
            self._failure = why
            self._stop.set()


class _LoggedAlarms:
    """Logs alarms: the archive needs no database, and has none to store them in."""

    def __init__(self, raised: Callable[[str], None]) -> None:
        self._raised = raised
        self._standing: set[str] = set()

    async def raise_(self, code: str, detail: str) -> None:
        """Log an alarm."""
        self._standing.add(code)
        _log.error("archive alarm raised", code=code, detail=detail, alarm=True)
        self._raised(f"{code}: {detail}")

    async def clear(self, code: str) -> bool:
        """Log that the cause of an alarm is gone."""
        if code in self._standing:
            self._standing.discard(code)
            _log.info("archive alarm cleared", code=code)
        return True


_running: set[Archive] = set()


def _measure_held() -> None:
    for archive in _running:
        metrics.sqs_held.set((NAME,), archive.held)


before_read(_measure_held)
