"""Publishes what changes in inboxes to the sessions of the process, by one connection that listens.

A notice says whose inbox changed and which item. What it is about is read for people with a session, in
batches, on the same connection. Positions are those of this process: a client that comes from another one,
or after the connection was lost, is told to read its inbox anew.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tocsin.engine.duty import repeat
from tocsin.engine.inspect.inbox import shown_item
from tocsin.engine.listen import RECONNECT_SECONDS, listen
from tocsin.gateway.inbox.events import InboxBody, InboxEvent, ItemsEvent, UnreadEvent, item_event
from tocsin.gateway.sessions import Sessions
from tocsin.store.inbox import items
from tocsin.store.inbox.items import Counts, ItemRow
from tocsin.store.inbox.notices import Notice, read_notices
from tocsin.store.pool import Connection, PoolSettings, connect, opened_connection
from tocsin.telemetry import metrics
from tocsin.wire.streams.entry_ids import EntryId

STARTING = "The inboxes are not listened to yet."
UNREACHABLE = "The database does not answer."
BATCH = 500
RANDOM_BITS = 20

_log = structlog.stdlib.get_logger(__name__)


class InboxSource:
    """Listens for notices and publishes events; `fault` is why the process is not ready, None if it is."""

    def __init__(self, url: str, schema: str, settings: PoolSettings, sessions: Sessions) -> None:
        self.fault: str | None = STARTING
        self._url = url
        self._schema = schema
        self._settings = settings
        self._sessions = sessions
        self._position = EntryId(0, 0)
        self._is_listening = False

    async def run(self) -> None:
        """Listen until cancelled; a lost connection is opened again."""
        await repeat(self._listen, name="inbox listener", every=RECONNECT_SECONDS)

    async def has(self, entry_id: EntryId) -> bool:  # noqa: ARG002 - the position of another process
        """Return False: only this process has its positions."""
        return False

    async def _listen(self) -> None:
        self._is_listening = False
        opening = connect(
            self._url, self._schema, self._settings, command_timeout=self._settings.command_timeout
        )
        try:
            await listen(opened_connection(opening), f"{self._schema}_inbox", self._notified)
        finally:
            self.fault = UNREACHABLE

    async def _notified(self, connection: Any, payloads: AbstractSet[str]) -> None:
        if not self._is_listening:
            self._begin()
        await self._publish(connection, list(_read(payloads)))

    def _begin(self) -> None:
        """Begin positions that no other process or connection had: nobody knows what was missed."""
        self._is_listening = True
        milliseconds = time.time_ns() // 1_000_000
        self._position = EntryId(milliseconds << RANDOM_BITS | secrets.randbits(RANDOM_BITS), 0)
        self._sessions.restart_at(self._position)
        self._sessions.position = self._position
        self.fault = None

    async def _publish(self, connection: Connection, notices: Sequence[Notice]) -> None:
        # Payloads come in no order; the ids of items have one.
        known = sorted(
            (notice for notice in notices if self._sessions.has_user(notice.user_id)),
            key=lambda notice: (notice.kind in {"created", "changed"}, notice.item_id),
        )
        for user_id in dict.fromkeys(notice.user_id for notice in notices):
            if not self._sessions.has_user(user_id):
                self._sessions.publish(UnreadEvent(self._next(), user_id))
                metrics.gateway_entries.add(("no_session",))
        for start in range(0, len(known), BATCH):
            await self._publish_batch(connection, known[start : start + BATCH])
        self._sessions.position = self._position

    async def _publish_batch(self, connection: Connection, notices: Sequence[Notice]) -> None:
        """Read the items and the counts, then publish: those of many items first, since items are newer."""
        wanted: dict[UUID, Notice] = {}
        for notice in notices:
            if notice.kind == "created" or (notice.kind == "changed" and notice.item_id not in wanted):
                wanted[notice.item_id] = notice
        found = {row.id: row for row in await items.get_many(connection, list(wanted))} if wanted else {}
        counts = await items.count_many(connection, sorted({notice.user_id for notice in notices}))
        for notice in notices:
            if notice.kind in {"seen", "read"}:
                self._offer(notice, counts, found)
        for item_id in sorted(found):
            self._offer(wanted[item_id], counts, found)

    def _offer(self, notice: Notice, counts: Mapping[str, Counts], found: Mapping[UUID, ItemRow]) -> None:
        position, of_user = self._next(), counts[notice.user_id]
        body: InboxBody
        match notice:
            case Notice(kind=("created" | "changed") as kind):
                row = found[notice.item_id]
                if row.user_id != notice.user_id:
                    return
                body = item_event(position, kind, shown_item(row), of_user)
            case Notice(kind=("seen" | "read") as change):
                body = ItemsEvent(
                    id=str(position),
                    change=change,
                    up_to=notice.item_id,
                    category=notice.category,
                    at=notice.at,
                    unread=of_user.unread,
                    unseen=of_user.unseen,
                )
        self._sessions.publish(InboxEvent(position, notice.user_id, body))
        metrics.gateway_entries.add(("published",))

    def _next(self) -> EntryId:
        self._position = EntryId(self._position.milliseconds, self._position.sequence + 1)
        return self._position


def _read(payloads: AbstractSet[str]) -> Iterator[Notice]:
    for payload in payloads:
        try:
            yield from read_notices(payload)
        except msgspec.DecodeError:
            # Whoever may connect may NOTIFY; another version may say more.
            _log.warning("inbox notice skipped", reason="not readable")
