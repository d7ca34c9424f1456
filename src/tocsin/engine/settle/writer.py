"""Writes settlements in batches."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from uuid import UUID
from weakref import WeakSet

import msgspec
import structlog

from tocsin.domain.ids import LeaseId
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import LeasedDelivery
from tocsin.engine.duty import raise_if_cancelled
from tocsin.engine.settle.report import INTERNAL_ERROR, report_written
from tocsin.engine.settle.sent_counts import SentCounts
from tocsin.engine.settle.settlements import (
    report_internal_error,
    settle_internal_error,
    settle_sent_barely,
)
from tocsin.store.deliveries import digests
from tocsin.store.deliveries.failover import collapse_older, supersede, supersede_late
from tocsin.store.deliveries.holds import release_next
from tocsin.store.deliveries.settle import (
    SentDelivery,
    Settled,
    Settlement,
    UnsentDelivery,
    settle_sent,
    settle_unsent,
)
from tocsin.store.deliveries.successors import find_followed, reassign
from tocsin.store.health.provider_health import Alarm
from tocsin.store.inbox import items as inbox
from tocsin.store.inbox.notices import Notice, notify
from tocsin.store.pool import Connection, Pool, is_transient
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import before_read

SHORTEST_LINGER = 0.005
LONGEST_LINGER = 0.05
LINGER_EACH = 0.005
"""Seconds to gather settlements for each that the last write had: under load fewer and larger writes."""
LARGEST_WRITE = 1_000
SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
LARGEST_BACKLOG = 4_000
"""Settlements that wait to be written; with more, nothing new is claimed."""

REMEMBERED_FOR = timedelta(minutes=2)
ALARM_SUBJECT = "worker"

_log = structlog.stdlib.get_logger(__name__)


class SettlementWriter:
    """Gathers settlements for a moment and writes them together; a failed write is retried.

    While the database cannot be written to, nothing is claimed, and what is known about a delivery is
    remembered by its id: an outcome is written before anything else, and never asked of the provider twice.
    """

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        *,
        on_release: Callable[[], None],
        raise_alarm: Callable[[Alarm], None],
        sent: SentCounts | None = None,
    ) -> None:
        self._pool = pool
        self._sent = sent
        self._on_release = on_release
        self._raise_alarm = raise_alarm
        self._clock = clock
        self._waiting: list[Settlement] = []
        self._known: dict[UUID, Settlement] = {}
        self._lost: dict[UUID, tuple[Settlement, datetime]] = {}
        self._some = asyncio.Event()
        self._failing = False
        self._closed = False
        self._on_progress: list[Callable[[], None]] = []
        _writers.add(self)

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call this whenever more may be claimed again."""
        self._on_progress.append(callback)

    @property
    def has_room(self) -> bool:
        """Whether the database takes settlements and the backlog is short enough to claim more."""
        return not self._failing and len(self._waiting) <= LARGEST_BACKLOG

    @property
    def unwritten(self) -> int:
        """How many settlements wait to be written, with those that are being written."""
        return len(self._known)

    def put(self, *settlements: Settlement) -> None:
        """Queue settlements to be written."""
        self._waiting += settlements
        for settlement in settlements:
            self._known[settlement.id] = settlement
        self._some.set()

    def settle(self, attempt: LeasedDelivery, build: Callable[[], Settlement]) -> None:
        """Queue the settlement that `build` returns; a bug in building it ends this delivery alone."""
        try:
            settlement = build()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            self.fail(attempt, error)
        else:
            self.put(settlement)

    def fail(self, attempt: LeasedDelivery, error: Exception, *, was_sent: bool = False) -> None:
        """Settle a delivery in which a step raised unexpectedly, and raise an alarm."""
        detail = self._report(attempt, error)
        now = self._clock()
        self.put(settle_sent_barely(attempt) if was_sent else settle_internal_error(attempt, detail, now))

    def knows_any(self, ids: Sequence[UUID]) -> bool:
        """Return whether something is remembered of one of these deliveries."""
        return not (self._known.keys().isdisjoint(ids) and self._lost.keys().isdisjoint(ids))

    def settle_known(self, delivery_id: UUID, lease: LeaseId, *, taken_over: bool) -> bool:
        """Settle a delivery that was claimed again by what is remembered of it, if anything is.

        One that is not taken over was free: that it was not sent is written already.
        """
        settlement = self._known.get(delivery_id)
        if settlement is None and (lost := self._lost.pop(delivery_id, None)) and lost[1] > self._clock():
            settlement = lost[0]
        if settlement is None or (isinstance(settlement, UnsentDelivery) and not taken_over):
            return False
        _log.warning("delivery settled from memory", delivery_id=str(delivery_id))
        self.put(msgspec.structs.replace(settlement, lease=lease))
        return True

    async def run(self) -> None:
        """Write until closed and nothing waits."""
        linger = SHORTEST_LINGER
        while not (self._closed and not self._waiting):
            await self._some.wait()
            if not self._closed and not self._failing and len(self._waiting) < LARGEST_WRITE:
                await asyncio.sleep(linger)
            self._some.clear()
            had_room = self.has_room
            batch, self._waiting = self._waiting, []
            if not had_room and self.has_room:
                self._report_progress()
            if batch:
                await self._write_until_done(batch)
                linger = min(LONGEST_LINGER, max(SHORTEST_LINGER, LINGER_EACH * len(batch)))
            if self._failing and not self._waiting:
                self._failing = False
                self._report_progress()

    def close(self) -> None:
        """Write what waits and then end."""
        self._closed = True
        self._some.set()

    def _report_progress(self) -> None:
        for callback in self._on_progress:
            callback()

    def _report(self, delivery: LeasedDelivery | Settlement, error: Exception) -> str:
        detail = report_internal_error(delivery, error)
        self._raise_alarm(Alarm(ALARM_SUBJECT, INTERNAL_ERROR, f"delivery {delivery.id}: {detail}"))
        return detail

    async def _write_until_done(self, batch: Sequence[Settlement]) -> None:
        pause = SHORTEST_PAUSE
        while True:
            try:
                await self._write(batch)
            except Exception as error:  # noqa: BLE001 - a bug about one row must not stop the settling of others
                raise_if_cancelled()
                if not is_transient(error):
                    await self._write_apart(batch, error)
                    return
                self._failing = True
                _log.warning("settling failed", error=repr(error), deliveries=len(batch))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _write_apart(self, batch: Sequence[Settlement], error: Exception) -> None:
        """Write the halves of a refused batch; settle a single one without what may be at fault."""
        if len(batch) > 1:
            half = len(batch) // 2
            await self._write_until_done(batch[:half])
            await self._write_until_done(batch[half:])
            return
        (refused,) = batch
        self._report(refused, error)
        self._forget(batch)
        if (replacement := _minimal(refused, self._clock())) is not None:
            self._known[replacement.id] = replacement
            await self._write_until_done([replacement])

    async def _write(self, batch: Sequence[Settlement]) -> None:
        began = time.monotonic()
        sent = [each for each in batch if isinstance(each, SentDelivery)]
        async with self._pool.acquire() as connection:
            if len(sent) == len(batch) and all(each.plain and each.item is None for each in sent):
                settled = await settle_sent(connection, sent, self._clock())
                ids, keys = settled.ids, set(settled.ordering_keys)
            else:
                ids, keys = await self._write_with_consequences(connection, batch, sent)
            if keys:
                await release_next(connection, sorted(keys), self._clock())
                self._on_release()
        self._forget(batch)
        lost: Sequence[Settlement] = ()
        if len(ids) != len(batch):
            written = set(ids)
            lost = [each for each in batch if each.id not in written]
            sent = [each for each in sent if each.id in written]
        self._count_sent(sent)
        report_written(len(batch), len(batch) - len(lost), time.monotonic() - began)
        if lost:
            _log.warning("lease lost", deliveries=len(lost))
        if lost or self._lost:
            self._remember(lost)

    async def _write_with_consequences(
        self, connection: Connection, batch: Sequence[Settlement], sent: Sequence[SentDelivery]
    ) -> tuple[Sequence[UUID], set[str]]:
        """Settle a batch and write what follows; return what was settled, and ordering keys to release."""
        digest_ids = sorted({each.digest_id for each in batch if each.digest_id})
        # What settlements lead to is written with them: a repeat finds them settled and leads to nothing.
        async with connection.transaction():
            settled, followed = await self._settle(connection, batch, sent)
            ids = [each for part in settled for each in part.ids]
            await self._store_items(connection, sent, set(ids))
            if digest_ids:
                await digests.end(connection, digest_ids, self._clock())
            if collapsing := [each for part in settled for each in part.collapsing]:
                await collapse_older(connection, collapsing, self._clock())
            keys = {key for part in settled for key in part.ordering_keys}
            if fallbacks := [each for part in settled for each in part.fallbacks]:
                keys.update(await supersede(connection, fallbacks, self._clock()))
            if failed := [
                each.id for each in batch if isinstance(each, UnsentDelivery) and each.has_fallback
            ]:
                keys.update(await supersede_late(connection, failed, self._clock()))
        if followed:
            # It locks the owner before devices, as a registration does: not while the others are locked.
            await reassign(connection, followed, self._clock())
        return ids, keys

    async def _store_items(
        self, connection: Connection, sent: Sequence[SentDelivery], written: AbstractSet[UUID]
    ) -> None:
        """Store the inbox items of what was settled as sent, and notify the sessions of their people."""
        items = [each.item for each in sent if each.item is not None and each.id in written]
        if items:
            added = await inbox.add(connection, items, self._clock())
            await notify(connection, [Notice("created", user_id, item_id) for user_id, item_id in added])

    def _count_sent(self, sent: Sequence[SentDelivery]) -> None:
        if self._sent is None:
            return
        for kind, number in Counter([each.kind for each in sent]).items():
            if kind is not None:
                self._sent.add(*kind, number, self._clock())

    def _forget(self, batch: Sequence[Settlement]) -> None:
        for each in batch:
            known = self._known.pop(each.id, each)
            if known is not each:
                # Something newer was put meanwhile.
                self._known[each.id] = known

    def _remember(self, lost: Sequence[Settlement]) -> None:
        """Keep for a while the outcomes of attempts under a lost lease: this worker may claim them again."""
        now = self._clock()
        self._lost = {key: kept for key, kept in self._lost.items() if kept[1] > now}
        for each in lost:
            was_tried = isinstance(each, SentDelivery) or each.outcome is not None
            if was_tried and each.id not in self._known:
                self._lost[each.id] = each, now + REMEMBERED_FOR

    async def _settle(
        self, connection: Connection, batch: Sequence[Settlement], sent: Sequence[SentDelivery]
    ) -> tuple[list[Settled], list[UUID]]:
        """Settle a batch; return the results, and the deliveries that go to the successor of their device."""
        unsent = [each for each in batch if isinstance(each, UnsentDelivery)]
        now = self._clock()
        settled = [await settle_sent(connection, sent, now)] if sent else []
        followed: Mapping[UUID, UnsentDelivery] = {}
        if unsent:
            followed = await find_followed(connection, unsent)
            unsent = [followed.get(each.id, each) for each in unsent]
            settled.append(await settle_unsent(connection, unsent, now))
        return settled, list(followed)


def _minimal(refused: Settlement, now: datetime) -> Settlement | None:
    """Return what to write instead of a settlement that Postgres refuses; None leaves it to its lease."""
    if isinstance(refused, SentDelivery) and refused.item is None:
        barely = settle_sent_barely(refused)
        return barely if refused != barely else settle_internal_error(refused, None, now)
    if isinstance(refused, UnsentDelivery) and refused.code == INTERNAL_ERROR:
        return None
    return settle_internal_error(refused, None, now)


_writers: WeakSet[SettlementWriter] = WeakSet()


def _measure_waiting() -> None:
    """Set the gauge when it is read: while the database is away, nothing is written that could set it."""
    if _writers:
        metrics.settlements_waiting.set((), sum(writer.unwritten for writer in _writers))


before_read(_measure_waiting)
