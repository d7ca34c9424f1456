"""Accepts intents: callers that arrive together share one transaction.

A request with many deliveries shares its transaction with nobody. It is planned and written part by part,
each in a transaction of its own: a notification is stored with all of its deliveries, or not at all. A caller
that is not answered hands in the same keys again; what was stored is answered as a duplicate.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import NotificationId, new_delivery_id, uuid7
from tocsin.domain.intent import Intent, repeated_recipients
from tocsin.engine.accept.answers import (
    Accepted,
    Answer,
    Conflict,
    Duplicate,
    Invalid,
    Unreadable,
    accepted_answer,
)
from tocsin.engine.accept.planner import Planner
from tocsin.engine.accept.report import CONFLICT, INVALID, report_answers, storable
from tocsin.engine.clock import Clock
from tocsin.engine.time_slice import TimeSlice
from tocsin.store import notifications, refused
from tocsin.store.deliveries import digests
from tocsin.store.deliveries.digests import NewMember
from tocsin.store.notifications import NewNotification
from tocsin.store.pool import Connection, Pool, is_transient
from tocsin.store.refused import LONGEST_CONTENT, RefusedIntent

WRITERS = 2
LARGEST_WRITE = 1_000
"""How many deliveries, or intents, are written in one transaction, unless one intent alone has more."""
LARGE_WRITERS = 2
"""How many large requests are planned and written at a time; it bounds their memory and connections."""

STORE_TRIES = 3
"""How often an intent is stored if what held its key is pruned each time before it was read."""

_encoder = msgspec.json.Encoder()

_Key: TypeAlias = tuple[str, str]


class TooManyDeliveriesError(TocsinError):
    """A request has more deliveries than the caller allows."""

    def __init__(self, deliveries: int, limit: int) -> None:
        super().__init__(f"the request has {deliveries:,} deliveries; at most {limit:,} are accepted at once")
        self.deliveries = deliveries
        self.limit = limit


class _Request:
    """The intents of one caller and their answers."""

    def __init__(self, producer: str, source: str, intents: Sequence[Intent | Unreadable]) -> None:
        self.producer = producer
        self.source = source
        self.intents = intents
        self.answers: list[Answer | None] = [None] * len(intents)
        self.good: list[tuple[int, NewNotification]] = []

    async def check(self, planner: Planner, now: datetime) -> None:
        """Plan the valid intents and answer the others."""
        slice_ = TimeSlice()
        for position, intent in enumerate(self.intents):
            await slice_.pause()
            match intent:
                case Unreadable(faults=faults):
                    self.answers[position] = Invalid(faults)
                case Intent():
                    checked = planner.check(self.producer, intent, now)
                    if isinstance(checked, NewNotification):
                        self.good.append((position, checked))
                    else:
                        self.answers[position] = Invalid(checked)

    def answered(self) -> list[Answer]:
        """Return the answers, once all are known."""
        return [answer for answer in self.answers if answer is not None]


class _Waiting(_Request):
    """A request whose caller waits for the next write."""

    def __init__(self, producer: str, source: str, intents: Sequence[Intent | Unreadable]) -> None:
        super().__init__(producer, source, intents)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def size(self) -> int:
        """How much of a write it takes, in deliveries or intents."""
        return max(len(self.intents), sum(len(notification.deliveries) for _, notification in self.good))


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
            raise TooManyDeliveriesError(sum(sizes), limit)
        parts = split(sizes)
        if len(parts) > 1 or sum(sizes) > LARGEST_WRITE:
            return [
                answer
                for start, end in parts
                for answer in await self._accept_part(_Request(producer, source, intents[start:end]))
            ]
        return await self._accept_with_others(_Waiting(producer, source, intents))

    async def _accept_part(self, request: _Request) -> list[Answer]:
        """Plan and write a part of a large request; the parts of several requests alternate."""
        async with self._large:
            await request.check(self._planner, self._clock())
            async with self._pool.acquire() as connection:
                await _write_all(connection, self._planner, [request], self._clock())
        _report(request, self._planner)
        return request.answered()

    async def _accept_with_others(self, request: _Waiting) -> list[Answer]:
        await request.check(self._planner, self._clock())
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
            await _write_all(connection, self._planner, requests, self._clock())
        for request in requests:
            _report(request, self._planner)
            if not request.done.done():
                request.done.set_result(None)


async def delivery_counts(planner: Planner, intents: Sequence[Intent | Unreadable]) -> list[int]:
    """Count the deliveries that each intent will have, before they are planned."""
    slice_ = TimeSlice()
    counts = []
    for intent in intents:
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


async def accept_within(
    connection: Connection,
    planner: Planner,
    producer: str,
    intents: Sequence[Intent | Unreadable],
    now: datetime,
    *,
    source: str,
) -> list[Answer]:
    """Answer each intent, in order; all of it is durable when the caller's transaction is."""
    request = _Request(producer, source, intents)
    await request.check(planner, now)
    await _write_all(connection, planner, [request], now)
    _report(request, planner)
    return request.answered()


async def _write_all(
    connection: Connection, planner: Planner, requests: Sequence[_Request], now: datetime
) -> None:
    """Store what is good, record the rest, and fill in the answers."""
    firsts = list(_first_of_each_key(requests).values())
    stored = await _store(connection, firsts, planner.providers.get("push", ()), now)
    for request in requests:
        for position, notification in request.good:
            request.answers[position] = _answer(request.intents[position], notification, stored)
    if refusals := [refusal for request in requests for refusal in _refusals(request, now)]:
        await refused.record(connection, refusals)


def _fail(requests: Sequence[_Waiting], error: BaseException) -> None:
    for request in requests:
        if not request.done.done():
            request.done.set_exception(error)


def _key(notification: NewNotification) -> _Key:
    return notification.producer, notification.idempotency_key


def _first_of_each_key(requests: Sequence[_Request]) -> dict[_Key, NewNotification]:
    firsts: dict[_Key, NewNotification] = {}
    for request in requests:
        for _, notification in request.good:
            firsts.setdefault(_key(notification), notification)
    return {key: firsts[key] for key in sorted(firsts)}


async def _store(
    connection: Connection,
    firsts: Sequence[NewNotification],
    push_providers: Sequence[str],
    now: datetime,
) -> dict[_Key, tuple[NotificationId, bytes]]:
    """Store what is new; return, for every key, the notification that holds it and its fingerprint."""
    stored: dict[_Key, tuple[NotificationId, bytes]] = {}
    remaining = list(firsts)
    for _ in range(STORE_TRIES):
        if not remaining:
            break
        accepted = await _accept_new(connection, remaining, push_providers, now)
        stored |= {
            _key(notification): (notification.id, notification.fingerprint)
            for notification in remaining
            if notification.id in accepted
        }
        known = [_key(each) for each in remaining if each.id not in accepted]
        found = await notifications.existing(connection, known) if known else {}
        stored |= {known[position]: holder for position, holder in found.items()}
        # What held the key was pruned in between: the key is free now.
        remaining = [each for each in remaining if _key(each) not in stored]
    return stored


async def _accept_new(
    connection: Connection,
    firsts: Sequence[NewNotification],
    push_providers: Sequence[str],
    now: datetime,
) -> set[UUID]:
    """Store the notifications whose keys are new; return their ids."""
    members = [each for notification in firsts for each in _members(notification)]
    if not members:
        return await notifications.accept(connection, firsts, push_providers, now)
    # A delivery and its membership in a digest are one transaction.
    async with connection.transaction():
        accepted = await notifications.accept(connection, firsts, push_providers, now)
        joining = [member for notification_id, member in members if notification_id in accepted]
        if joining:
            await digests.join(connection, joining, now)
    return accepted


def _members(notification: NewNotification) -> Iterator[tuple[NotificationId, NewMember]]:
    """List the deliveries of a notification that become members of a digest."""
    for delivery in notification.deliveries:
        if delivery.digest_key is not None:
            yield (
                notification.id,
                NewMember(
                    delivery_id=delivery.id,
                    key=delivery.digest_key,
                    type=notification.type,
                    version=notification.version,
                    channel=delivery.channel,
                    user_id=delivery.user_id,
                    address=delivery.address,
                    lane=delivery.lane,
                    due_at=delivery.due_at,
                    digest_id=uuid7(),
                    carrier_id=new_delivery_id(),
                ),
            )


def _answer(
    intent: Intent | Unreadable,
    notification: NewNotification,
    stored: dict[_Key, tuple[NotificationId, bytes]],
) -> Answer:
    holder, fingerprint = stored[_key(notification)]
    if holder == notification.id:
        repeated = repeated_recipients(intent.audience) if isinstance(intent, Intent) else 0
        return accepted_answer(notification, repeated)
    return Duplicate(holder) if fingerprint == notification.fingerprint else Conflict(holder)


def _refusals(request: _Request, now: datetime) -> list[RefusedIntent]:
    refusals = []
    for intent, answer in zip(request.intents, request.answers, strict=True):
        if isinstance(answer, Invalid):
            code, faults = INVALID, _encoder.encode(answer.errors)
        elif isinstance(answer, Conflict):
            code = CONFLICT
            faults = _encoder.encode([{"notification_id": answer.notification_id}])
        else:
            continue
        content = intent.content if isinstance(intent, Unreadable) else _written(intent)
        refusals.append(
            RefusedIntent(
                id=uuid7(),
                producer=request.producer,
                source=request.source,
                code=code,
                type=storable(intent.type),
                idempotency_key=storable(intent.idempotency_key),
                faults=faults.decode().replace("\\u0000", "\\ufffd"),
                content=content[:LONGEST_CONTENT].replace("\x00", "\ufffd"),
                refused_at=now,
            )
        )
    return refusals


def _written(intent: Intent) -> str:
    try:
        return _encoder.encode(intent).decode()
    except UnicodeEncodeError:
        return repr(msgspec.to_builtins(intent)).encode(errors="replace").decode()


def _report(request: _Request, planner: Planner) -> None:
    accepted = [each for position, each in request.good if isinstance(request.answers[position], Accepted)]
    report_answers(
        request.producer, request.source, request.intents, request.answers, accepted, planner.catalog
    )
