"""Dead letters as an operator sees them, and the start of a replay."""

import shlex
import time
from uuid import UUID

import msgspec

from tocsin.domain.delivery.hints import hint, recovery_hint
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import uuid7
from tocsin.domain.people.recipient import EmailRecipient, recipient_of
from tocsin.store import audit
from tocsin.store.dead_letters import reading, replays
from tocsin.store.dead_letters.reading import FIRST, LAST, DeadLetterRow, GroupRow, Stretch
from tocsin.store.dead_letters.replays import NewReplay, ReplayRow
from tocsin.store.pool import Connection
from tocsin.wire.dead_letters import (
    DeadLetter,
    DeadLetterExample,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterPage,
    Matches,
    Replay,
    ReplayRequest,
)

MOST_GROUPED = 50_000
MOST_GROUPS = 200
COUNT_SECONDS = 2.0
"""How long dead letters are counted at most."""
STRETCH = 1_000
"""How many are counted between two looks at the clock."""


class ReplayConflictError(Exception):
    """The idempotency key was used before, for another replay."""

    def __init__(self, replay_id: UUID) -> None:
        super().__init__(str(replay_id))
        self.replay_id = replay_id


async def list_groups(
    connection: Connection, given: DeadLetterFilter, most: int = MOST_GROUPED
) -> DeadLetterGroups:
    """Group the newest dead letters, at most so many, by cause, each with an example."""
    after, through = _bounds(given)
    # What is chosen by its id may be older than the newest.
    chosen = given.delivery_id is not None or given.delivery_ids is not None
    start = None if chosen else await reading.start_of_newest(connection, most)
    within = Stretch(start or after, through, last=True)
    rows = await reading.groups(connection, given, within, MOST_GROUPS)
    return DeadLetterGroups([_group(row) for row in rows], truncated=start is not None)


async def page(connection: Connection, given: DeadLetterFilter, after: UUID, limit: int) -> DeadLetterPage:
    """Read the next dead letters that match, from at most `limit` that follow an id."""
    first, through = _bounds(given)
    within = await reading.stretch(connection, given, max(after, first), through, limit)
    rows = await reading.page(connection, given, within)
    return DeadLetterPage([_dead_letter(row) for row in rows], None if within.last else within.through)


async def count(connection: Connection, given: DeadLetterFilter, seconds: float | None = None) -> Matches:
    """Count the dead letters that match, oldest first, until the time for it is over."""
    total, ends = 0, time.monotonic() + (COUNT_SECONDS if seconds is None else seconds)
    after, through = _bounds(given)
    while True:
        within = await reading.stretch(connection, given, after, through, STRETCH)
        total += await reading.count(connection, given, within)
        if within.last or time.monotonic() >= ends:
            return Matches(total, or_more=not within.last)
        after = within.through


async def start_replay(connection: Connection, wanted: ReplayRequest, actor: str) -> ReplayRow:
    """Start a replay, or return the one that the same request started; a worker does its batches."""
    matched = await count(connection, wanted.filter)
    after, through = _bounds(wanted.filter)
    new = NewReplay(
        id=uuid7(),
        idempotency_key=wanted.idempotency_key,
        filter=msgspec.json.encode(wanted.filter).decode(),
        rate=wanted.rate,
        force=wanted.force,
        created_by=actor,
        matched=matched.count,
        matched_or_more=matched.or_more,
        position=after,
        through=min(through, await reading.newest(connection)),
    )
    async with connection.transaction():
        row = await replays.create(connection, new)
        if row is not None:
            details = {
                "filter": wanted.filter,
                "rate": wanted.rate,
                "force": wanted.force,
                "matched": matched.count,
            }
            await audit.record(
                connection,
                actor=actor,
                action="dead_letters.replay",
                subject=f"replay:{row.id}",
                details=details,
            )
            return row
    return await _same_replay(connection, new)


async def stop_replay(
    connection: Connection, replay_id: UUID, actor: str, *, org_id: str | None = None
) -> ReplayRow | None:
    """Stop a replay that is running, of an organisation or of anybody, or return None."""
    async with connection.transaction():
        row = await replays.stop(connection, replay_id, actor, org_id)
        if row is not None:
            await audit.record(
                connection,
                actor=actor,
                action="dead_letters.stop_replay",
                subject=f"replay:{replay_id}",
                details={"replayed": row.replayed},
            )
    return row


def replay_of(row: ReplayRow) -> Replay:
    """Build the replay of a row."""
    return Replay(
        replay_id=row.id,
        state=row.state,
        filter=msgspec.json.decode(row.filter),
        rate=row.rate,
        force=row.force,
        created_by=row.created_by,
        created_at=row.created_at,
        matched=Matches(row.matched, row.matched_or_more),
        replayed=row.replayed,
        left_out=msgspec.json.decode(row.left_out),
        finished_at=row.finished_at,
        stopped_by=row.stopped_by,
    )


async def _same_replay(connection: Connection, new: NewReplay) -> ReplayRow:
    row = await replays.by_key(connection, new.idempotency_key or "")
    if row is None:
        raise RuntimeError("a replay with this idempotency key was there a moment ago")
    wanted = msgspec.json.decode(new.filter), new.rate, new.force
    if (msgspec.json.decode(row.filter), row.rate, row.force) != wanted:
        raise ReplayConflictError(row.id)
    return row


def _bounds(given: DeadLetterFilter) -> tuple[UUID, UUID]:
    """Return the ids after and through which dead letters can match a filter."""
    chosen = given.delivery_ids or [each for each in (given.delivery_id,) if each is not None]
    if not chosen:
        return FIRST, LAST
    return UUID(int=max(min(chosen).int - 1, 0)), max(chosen)


def _group(row: GroupRow) -> DeadLetterGroup:
    return DeadLetterGroup(
        state=row.state,
        code=row.code,
        provider=row.provider,
        type=row.type,
        count=row.count,
        oldest=row.oldest,
        recovery_hint=recovery_hint(row.code, _selection(row)),
        example=DeadLetterExample(
            delivery_id=row.id,
            notification_id=row.notification_id,
            channel=row.channel,
            recipient=_masked_recipient(row.user_id, row.address, row.type),
            error=row.error,
            hint=hint(row.code, State(row.state)),
            settled_at=row.settled_at,
        ),
    )


def _dead_letter(row: DeadLetterRow) -> DeadLetter:
    fields = msgspec.structs.asdict(row)
    recipient = _masked_recipient(fields.pop("user_id"), fields.pop("address"), row.type)
    payload = msgspec.json.decode(fields.pop("payload"))
    return DeadLetter(
        delivery_id=fields.pop("id"),
        recipient=recipient,
        payload=payload,
        recovery_hint=recovery_hint(row.code, str(row.id)),
        **fields,
    )


def _selection(row: GroupRow) -> str:
    """Return the options that select a group."""
    options = {"state": row.state, "code": row.code, "provider": row.provider, "type": row.type}
    return shlex.join(word for name, value in options.items() if value for word in (f"--{name}", value))


def _masked_recipient(user_id: str | None, address: str | None, type_name: str) -> str:
    """Return a recipient, of an e-mail address only the first character and the domain."""
    recipient = recipient_of(user_id, address, type_name)
    if isinstance(recipient, EmailRecipient):
        name, _, domain = recipient.address.rpartition("@")
        recipient = EmailRecipient(f"{name[:1]}***@{domain}")
    return str(recipient)
