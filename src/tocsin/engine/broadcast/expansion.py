"""Expands broadcasts: stores the deliveries to an audience in chunks, as fast as the lanes take them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import structlog

from tocsin.catalog.catalog import UnknownTypeError
from tocsin.domain.catalog import NotificationType
from tocsin.domain.intent import Audience, Intent
from tocsin.domain.plan import FAN_OUT, PlannedDelivery
from tocsin.engine.accept.audiences import members_of
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.report import report_planned
from tocsin.engine.accept.write import add_planned
from tocsin.engine.broadcast.pace import LOOK_AGAIN, enough_waiting, next_chunk
from tocsin.engine.clock import Clock
from tocsin.engine.duty import raise_if_cancelled, repeat
from tocsin.engine.inspect.waiting import blocked_lanes
from tocsin.engine.time_slice import paced
from tocsin.store import notifications
from tocsin.store.broadcasts import broadcasts
from tocsin.store.broadcasts.broadcasts import BroadcastRow
from tocsin.store.broadcasts.members import count_members, next_members
from tocsin.store.deliveries.queue import count_unclaimed
from tocsin.store.notifications import NotificationRow
from tocsin.store.pool import Connection, Pool

EVERY_SECONDS = 0.5
RETRY_AFTER = timedelta(seconds=5)
PAUSED_FOR = timedelta(seconds=1)

_audience = msgspec.json.Decoder(Audience)
_log = structlog.stdlib.get_logger(__name__)


class Chunk(msgspec.Struct, frozen=True):
    """The deliveries of a notification that one step stored."""

    notification: NotificationRow
    deliveries: Sequence[PlannedDelivery]


class Expander:
    """Takes turns with other workers: a chunk is one transaction, and whoever locks the broadcast writes it.

    A chunk moves the broadcast's position together with the deliveries. If its worker dies, nothing of it
    happened, and the next one repeats it.
    """

    def __init__(self, pool: Pool, planner: Planner, clock: Clock) -> None:
        self._pool = pool
        self._planner = planner
        self._clock = clock

    async def run(self) -> None:
        """Expand until cancelled."""
        await repeat(self.step, name="broadcast", every=EVERY_SECONDS)

    async def step(self) -> bool:
        """Write the chunk that is due first; return whether another one follows."""
        row, now = None, self._clock()
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                row = await broadcasts.take(connection)
                if row is None:
                    return False
                wait = (row.next_at - now).total_seconds()
                chunk = await self._expand(connection, row, now) if wait <= 0 else None
        except Exception as error:
            raise_if_cancelled()
            if row is None:
                raise
            await self._put_off(row, error)
            return True
        if chunk is not None:
            report_planned(chunk.notification, chunk.deliveries)
        elif wait > 0:
            await asyncio.sleep(min(wait, EVERY_SECONDS))
        return True

    async def _put_off(self, row: BroadcastRow, error: Exception) -> None:
        """Retry later what failed, so that one broadcast does not hold up the others."""
        _log.warning(
            "broadcast failed", notification_id=str(row.notification_id), error=repr(error), exc_info=error
        )
        async with self._pool.acquire() as connection:
            until = self._clock() + RETRY_AFTER
            await broadcasts.postpone(connection, row.notification_id, until, "retried after an error")

    async def _expand(self, connection: Connection, row: BroadcastRow, now: datetime) -> Chunk | None:
        """Do the next step of a broadcast that is under lock, within the transaction of the caller."""
        notification = await notifications.get(connection, row.notification_id)
        ended = _end(notification, now)
        if notification is None or ended is not None:
            await self._finish(connection, row, ended or "cancelled", now)
            return None
        audience = _audience.decode(notification.audience)
        members = members_of(audience, notification.org_id, row.segment_id)
        if row.total is None:
            await broadcasts.set_total(
                connection, row.notification_id, await count_members(connection, members)
            )
            return None
        try:
            size = await self._size(connection, row, notification, now)
        except _PausedError as paused:
            await broadcasts.postpone(connection, row.notification_id, now + paused.seconds, paused.why)
            return None
        stretch = await next_members(connection, members, row.position, size)
        intent = _intent(notification, audience)
        planned = await paced(self._planner.plan_people(intent, stretch.people, now))
        if planned:
            push_providers = self._planner.providers.get("push", ())
            await add_planned(connection, notification, planned, push_providers, now)
        await broadcasts.advance(connection, row, stretch.position, len(stretch.people), size, now)
        if stretch.is_last:
            await self._finish(connection, row, "finished", now)
        return Chunk(notification, planned)

    async def _size(
        self, connection: Connection, row: BroadcastRow, notification: NotificationRow, now: datetime
    ) -> int:
        """Return the size of the next chunk; raise why it has to wait."""
        notification_type = self._planner.catalog.find(notification.type, notification.version)
        if notification_type is None:
            raise _PausedError(str(UnknownTypeError(notification.type, notification.version)), RETRY_AFTER)
        if self._planner.off(notification_type) >= set(notification_type.channels):
            raise _PausedError(f"{notification.type} is switched off", PAUSED_FOR)
        lanes = self._lanes(notification_type)
        enough = enough_waiting(row.chunk_size)
        waiting = await count_unclaimed(connection, lanes, now, enough + 1)
        if waiting > enough and (blocked := lanes & (await blocked_lanes(connection)).keys()):
            # Nothing is claimed of these; the people of other providers do not wait for them.
            waiting = await count_unclaimed(connection, lanes - blocked, now, enough + 1)
        size = next_chunk(row.chunk_size, row.chunk_at, waiting, now)
        if size is None:
            raise _PausedError(None, LOOK_AGAIN)
        return size

    def _lanes(self, notification_type: NotificationType) -> set[str]:
        """List the lanes that deliveries of a type may start in."""
        providers = self._planner.providers
        return {FAN_OUT} | {name for each in notification_type.channels for name in providers.get(each, ())}

    async def _finish(self, connection: Connection, row: BroadcastRow, state: str, now: datetime) -> None:
        await broadcasts.finish(connection, row.notification_id, state, now)
        _log.info("broadcast ended", notification_id=str(row.notification_id), state=state)


class _PausedError(Exception):
    """The next chunk has to wait, for a reason that is shown unless it is only the pace."""

    def __init__(self, why: str | None, seconds: timedelta) -> None:
        super().__init__(why)
        self.why = why
        self.seconds = seconds


def _end(notification: NotificationRow | None, now: datetime) -> str | None:
    """Return the state in which an expansion ends early, or None."""
    if notification is None or notification.pruned_at is not None or notification.cancelled_at is not None:
        return "cancelled"
    if notification.expires_at is not None and notification.expires_at <= now:
        return "expired"
    return None


def _intent(notification: NotificationRow, audience: Audience) -> Intent:
    """Return the intent of a notification, as far as planning needs it."""
    return Intent(
        type=notification.type,
        version=notification.version,
        audience=audience,
        payload=msgspec.json.decode(notification.payload),
        idempotency_key=notification.idempotency_key,
        send_at=notification.send_at,
        send_at_local=notification.send_at_local,
        collapse_key=notification.collapse_key,
        locale=notification.locale,
        org_id=notification.org_id,
    )
