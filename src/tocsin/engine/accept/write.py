"""Stores the intents of requests: what is good with its plan, the rest as refused."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.ids import NotificationId, new_delivery_id, uuid7
from tocsin.domain.intent import Intent, is_query, repeated_recipients
from tocsin.domain.plan import PlannedDelivery
from tocsin.engine.accept.answers import (
    Accepted,
    Answer,
    Conflict,
    Duplicate,
    Invalid,
    Unreadable,
    accepted_answer,
    written_intent,
)
from tocsin.engine.accept.audiences import NOT_LOOKED_UP, Connect, FoundPeople, find_people
from tocsin.engine.accept.organisations import outsider_faults
from tocsin.engine.accept.planner import Planner, Planning
from tocsin.engine.accept.report import has_refusals, refusal_code, report_answers, storable
from tocsin.engine.time_slice import TimeSlice, paced
from tocsin.store import notifications
from tocsin.store.broadcasts import broadcasts
from tocsin.store.deliveries import digests
from tocsin.store.deliveries.digests import NewMember
from tocsin.store.notifications import NewNotification, NotificationRow
from tocsin.store.pool import Connection
from tocsin.store.sources import refused
from tocsin.store.sources.refused import LONGEST_CONTENT, RefusedIntent

STORE_TRIES = 3
"""How often an intent is stored if what held its key is pruned each time before it was read."""

_encoder = msgspec.json.Encoder()

_Key: TypeAlias = tuple[str, str]
_Holder: TypeAlias = tuple[NotificationId, bytes]
"""The notification that holds a key, and its fingerprint."""


class Sourced(msgspec.Struct, frozen=True, kw_only=True):
    """An intent of a source that has its own id for it, with what it was decoded from.

    `written` is called for one that is refused: only then is it kept as it came.

    `reference` is the id that its producer has for it, if that is another one. A source that hands in again
    what was refused sets `message_id`, the same each time: the refusal is recorded and counted once.
    """

    producer: str
    intent: Intent | Unreadable
    external_id: str
    written: Callable[[], str]
    reference: str | None = None
    message_id: str | None = None

    @property
    def content(self) -> str:
        """What it was decoded from, as it is kept if it is refused."""
        return self.written()


class Request:
    """The intents of one caller and their answers."""

    def __init__(
        self,
        producer: str,
        source: str,
        intents: Sequence[Intent | Unreadable],
        origins: Sequence[Sourced] = (),
    ) -> None:
        self.producer = producer
        self.source = source
        self.intents = intents
        self.origins = origins
        self.answers: list[Answer | None] = [None] * len(intents)
        self.good: list[tuple[int, NewNotification]] = []
        self.unmatched: list[tuple[int, NewNotification, Sequence[Fault]]] = []
        self.repeated: set[int] = set()

    async def check(self, planner: Planner, now: datetime, connect: Connect) -> None:
        """Plan the valid intents and answer the others.

        One whose audience finds nobody, or people outside of its organisation, is refused unless it was
        accepted before. One whose audience is large becomes a broadcast: its deliveries are planned later.
        """
        slice_, planning = TimeSlice(), Planning(planner, self.producer, now)
        is_bound = False
        for position, intent in enumerate(self.intents):
            if slice_.is_over:
                await slice_.pause()
            if isinstance(intent, Unreadable):
                self.answers[position] = Invalid(intent.faults)
                continue
            found = NOT_LOOKED_UP
            if is_query(intent.audience):
                found = await find_people(connect, intent, planner.largest_audience)
            checked = planning.check(intent)
            if isinstance(checked, list):
                self.answers[position] = Invalid(checked)
                continue
            if found is not NOT_LOOKED_UP:
                checked = await _addressed(planner, intent, checked, found, now)
            if found.faults:
                self.unmatched.append((position, checked, found.faults))
                continue
            if self.origins:
                origin = self.origins[position]
                checked = msgspec.structs.replace(
                    checked, external_id=origin.external_id, reference=origin.reference
                )
            self.good.append((position, checked))
            is_bound = is_bound or checked.org_id is not None
        if is_bound:
            await self._check_organisations(connect)

    async def _check_organisations(self, connect: Connect) -> None:
        """Refuse what is for people outside of its organisation, unless it was accepted before."""
        intents = [
            intent for position, _ in self.good if isinstance(intent := self.intents[position], Intent)
        ]
        faults = await outsider_faults(connect, intents)
        good = list(zip(self.good, faults, strict=True))
        self.unmatched += [
            (position, notification, found) for (position, notification), found in good if found
        ]
        self.good = [each for each, found in good if not found]

    def answered(self) -> list[Answer]:
        """Return the answers, once all are known."""
        return [answer for answer in self.answers if answer is not None]


async def _addressed(
    planner: Planner, intent: Intent, checked: NewNotification, found: FoundPeople, now: datetime
) -> NewNotification:
    """Return a notification with the deliveries to the people that were found, or as a broadcast to them."""
    if found.people:
        planned = await paced(planner.plan_people(intent, found.people, now))
        return msgspec.structs.replace(checked, deliveries=planned)
    if found.members is not None:
        return msgspec.structs.replace(checked, broadcast=planner.broadcast(intent, found.members, now))
    return checked


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
    request = Request(producer, source, intents)
    await request.check(planner, now, lambda: nullcontext(connection))
    await write_all(connection, planner, [request], now)
    report(request, planner)
    return request.answered()


async def accept_sourced_within(
    connection: Connection, planner: Planner, sourced: Sequence[Sourced], now: datetime, *, source: str
) -> list[Answer]:
    """Answer the intents of several producers, in order; durable when the caller's transaction is."""
    positions: dict[str, list[int]] = {}
    for position, each in enumerate(sourced):
        positions.setdefault(each.producer, []).append(position)
    requests = []
    for producer, own in positions.items():
        origins = [sourced[position] for position in own]
        requests.append(Request(producer, source, [each.intent for each in origins], origins))
    for request in requests:
        await request.check(planner, now, lambda: nullcontext(connection))
    await write_all(connection, planner, requests, now)
    answers: dict[int, Answer] = {}
    for request, own in zip(requests, positions.values(), strict=True):
        report(request, planner)
        answers.update(zip(own, request.answered(), strict=True))
    return [answers[position] for position in range(len(sourced))]


async def write_all(
    connection: Connection, planner: Planner, requests: Sequence[Request], now: datetime
) -> None:
    """Store what is good, record the rest, and fill in the answers."""
    firsts = _first_of_each_key(requests)
    held = await _store(connection, firsts, planner.providers.get("push", ()), now)
    are_new = not held and len(firsts) == sum(len(request.good) for request in requests)
    for request in requests:
        for position, notification in request.good:
            intent = request.intents[position]
            # Most often all are new: then none has to look up who holds its key.
            request.answers[position] = (
                _accepted(intent, notification) if are_new else _answer(intent, notification, firsts, held)
            )
        if request.unmatched:
            await _answer_unmatched(connection, request)
    refusing = [request for request in requests if has_refusals(request.answers)]
    if refusals := [(request, *refusal) for request in refusing for refusal in _refusals(request, now)]:
        rows = [row for _, _, row in refusals]
        recorded = await refused.record(
            connection, rows, [_message_id(request, position) for request, position, _ in refusals]
        )
        for request, position, row in refusals:
            if row.id not in recorded:
                request.repeated.add(position)


def _message_id(request: Request, position: int) -> str | None:
    return request.origins[position].message_id if request.origins else None


async def _answer_unmatched(connection: Connection, request: Request) -> None:
    """Answer intents whose audience cannot be reached now; sent again, one is a duplicate even so."""
    found = await notifications.existing(connection, [_key(each) for _, each, _ in request.unmatched])
    for index, (position, notification, faults) in enumerate(request.unmatched):
        if index not in found:
            request.answers[position] = Invalid(faults)
            continue
        holder, fingerprint = found[index]
        is_same = fingerprint == notification.fingerprint
        request.answers[position] = Duplicate(holder) if is_same else Conflict(holder)


def _key(notification: NewNotification) -> _Key:
    return notification.producer, notification.idempotency_key


def _first_of_each_key(requests: Sequence[Request]) -> dict[_Key, NewNotification]:
    firsts: dict[_Key, NewNotification] = {}
    for request in requests:
        for _, notification in request.good:
            firsts.setdefault((request.producer, notification.idempotency_key), notification)
    return firsts


async def _store(
    connection: Connection,
    firsts: Mapping[_Key, NewNotification],
    push_providers: Sequence[str],
    now: datetime,
) -> dict[_Key, _Holder]:
    """Store what is new; return, for every other key, the notification that holds it."""
    held: dict[_Key, _Holder] = {}
    # In the order of their keys, to avoid deadlocks.
    remaining = [firsts[key] for key in sorted(firsts)]
    for _ in range(STORE_TRIES):
        if not remaining:
            break
        accepted = await _accept_new(connection, remaining, push_providers, now)
        if len(accepted) == len(remaining):
            return held
        known = [each for each in remaining if each.id not in accepted]
        found = await notifications.existing(connection, [_key(each) for each in known])
        held |= {_key(known[position]): holder for position, holder in found.items()}
        # What held the key was pruned in between: the key is free now.
        remaining = [each for position, each in enumerate(known) if position not in found]
    if remaining:
        raise KeyError(_key(remaining[0]))
    return held


async def _accept_new(
    connection: Connection,
    firsts: Sequence[NewNotification],
    push_providers: Sequence[str],
    now: datetime,
) -> set[UUID]:
    """Store the notifications whose keys are new; return their ids."""
    collected = {
        each.id: each for each in firsts for delivery in each.deliveries if delivery.digest_key is not None
    }
    members = {owner: digest_members(each, each.deliveries) for owner, each in collected.items()}
    begun = {each.id: each.broadcast for each in firsts if each.broadcast is not None}
    if not members and not begun:
        return await notifications.accept(connection, firsts, push_providers, now)
    # A delivery and its membership in a digest are one transaction, as are a notification and its broadcast.
    async with connection.transaction():
        accepted = await notifications.accept(connection, firsts, push_providers, now)
        if joining := [each for owner, own in members.items() if owner in accepted for each in own]:
            await digests.join(connection, joining, now)
        if new := {owner: each for owner, each in begun.items() if owner in accepted}:
            await broadcasts.create(connection, new)
    return accepted


async def add_planned(
    connection: Connection,
    notification: NotificationRow,
    deliveries: Sequence[PlannedDelivery],
    push_providers: Sequence[str],
    now: datetime,
) -> None:
    """Store more deliveries of a notification, within the transaction of the caller."""
    await notifications.add_deliveries(connection, notification.id, deliveries, push_providers, now)
    if joining := digest_members(notification, deliveries):
        await digests.join(connection, joining, now)


def digest_members(
    notification: NewNotification | NotificationRow, deliveries: Sequence[PlannedDelivery]
) -> list[NewMember]:
    """List the deliveries of a notification that become members of a digest."""
    return [
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
        )
        for delivery in deliveries
        if delivery.digest_key is not None
    ]


def _answer(
    intent: Intent | Unreadable,
    notification: NewNotification,
    firsts: Mapping[_Key, NewNotification],
    held: Mapping[_Key, _Holder],
) -> Answer:
    key = _key(notification)
    first = firsts[key]
    if held and key in held:
        holder, fingerprint = held[key]
        # Its own, if it was stored by a write that failed after that.
        is_own = holder == notification.id
    else:
        holder, fingerprint, is_own = first.id, first.fingerprint, first is notification
    if is_own:
        return _accepted(intent, notification)
    return Duplicate(holder) if fingerprint == notification.fingerprint else Conflict(holder)


def _accepted(intent: Intent | Unreadable, notification: NewNotification) -> Accepted:
    repeated = repeated_recipients(intent.audience) if isinstance(intent, Intent) else 0
    return accepted_answer(notification, repeated)


def _refusals(request: Request, now: datetime) -> Iterator[tuple[int, RefusedIntent]]:
    """Build the rows of refused intents, with their positions."""
    for position, (intent, answer) in enumerate(zip(request.intents, request.answers, strict=True)):
        if isinstance(answer, Invalid):
            faults = _encoder.encode(answer.errors)
        elif isinstance(answer, Conflict):
            faults = _encoder.encode([{"notification_id": answer.notification_id}])
        else:
            continue
        if request.origins:
            content = request.origins[position].content
        else:
            content = intent.content if isinstance(intent, Unreadable) else written_intent(intent)
        yield (
            position,
            RefusedIntent(
                id=uuid7(),
                producer=request.producer,
                source=request.source,
                code=refusal_code(intent, answer),
                type=storable(intent.type),
                idempotency_key=storable(intent.idempotency_key),
                org_id=intent.org_id,
                faults=faults.decode().replace("\\u0000", "\\ufffd"),
                content=content[:LONGEST_CONTENT].replace("\x00", "\ufffd"),
                refused_at=now,
            ),
        )


def report(request: Request, planner: Planner) -> None:
    """Count and log the answers of a request, but for refusals that were recorded before."""
    accepted = [each for position, each in request.good if isinstance(request.answers[position], Accepted)]
    intents, answers = request.intents, request.answers
    if request.repeated:
        first = [position for position in range(len(intents)) if position not in request.repeated]
        intents, answers = [intents[each] for each in first], [answers[each] for each in first]
    report_answers(request.producer, request.source, intents, answers, accepted, planner.catalog)
