"""Settles claimed deliveries and reads what became of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.decision_sets import Decided
from tocsin.domain.delivery.states import CLAIMED, State
from tocsin.domain.ids import LeaseId
from tocsin.store.inbox.items import NewItem
from tocsin.store.pool import Connection

_steps = msgspec.json.Decoder(list[Step])
_encoder = msgspec.json.Encoder()


class SentDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that its provider took; `ask_at` is when to ask for its receipt, where there is one.

    Decisions that other deliveries have too are `decided`, any other are `decisions`. One that is `plain` has
    no collapse key, no digest and is no fallback: that it was sent leads to no other write. One with an
    `item` is stored in the person's inbox. Its `kind`, type and channel, is what it is counted by.
    """

    id: UUID
    lease: LeaseId
    provider: str
    message_id: str | None
    device_id: UUID | None = None
    decisions: str | None = None
    ask_at: datetime | None = None
    decided: Decided | None = None
    digest_id: UUID | None = None
    plain: bool = False
    item: NewItem | None = None
    kind: tuple[str, str] | None = None


class UnsentDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was not sent this time: it waits for another attempt, or is settled for good.

    `retire` is the reason to retire its device, `gone_since` the moment of that answer, which is the attempt
    itself where the provider names none. `suppress` is an address that takes no mail. With `held_by` it waits
    until it is released; `recovering` means that its attempts are used up by faults of its provider. One that
    `has_fallback` is cancelled if that was sent meanwhile.
    """

    id: UUID
    lease: LeaseId
    state: State
    reason: str | None = None
    spent: int = 0
    due_at: datetime | None = None
    provider: str | None = None
    outcome: str | None = None
    code: str | None = None
    detail: str | None = None
    retire: str | None = None
    tried_at: datetime
    device_id: UUID | None = None
    held_by: str | None = None
    decisions: str | None = None
    reserved: bool = False
    gone_since: datetime | None = None
    suppress: str | None = None
    recovering: bool = False
    digest_id: UUID | None = None
    has_fallback: bool = False


Settlement = SentDelivery | UnsentDelivery


class Settled(msgspec.Struct, frozen=True):
    """What was settled, the ordering groups that may continue, and what has consequences once it was sent.

    Those with a collapse key replace older ones; fallbacks end what waits by the channel that failed.
    """

    ids: Sequence[UUID]
    ordering_keys: list[str]
    collapsing: list[UUID] = []
    fallbacks: list[UUID] = []

    @property
    def count(self) -> int:
        """How many were settled."""
        return len(self.ids)


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as it is stored."""

    id: UUID
    notification_id: UUID
    channel: str
    user_id: str | None
    address: str | None
    device_id: UUID | None
    state: State
    reason: str | None
    attempts: int
    due_at: datetime | None
    held_by: str | None
    lane: str
    digest_id: UUID | None
    decisions: list[Step]
    leased_until: datetime | None
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    created_at: datetime
    settled_at: datetime | None


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt as it is stored."""

    delivery_id: UUID
    outcome: str
    code: str
    detail: str
    at: datetime


# Lease and state guard the row: a worker that comes late changes nothing, unless its provider took the
# message and nobody else has the lease now: it must not be sent again.
# Devices are updated in the order of their ids, to avoid deadlocks.
# The states come as an argument, and no condition asks whether a device is active: either would let
# the planner read the whole of a partial index instead of looking rows up by their ids, and it does
# so while the tables are new.
# Sets of decisions come with every batch: a worker need not know which of them the database has. They are
# inserted in the order of their ids too: two workers may make the same ones at the same time.
SETTLE_SENT = """
with sets as (
    insert into decision_sets (id, steps)
    select id, steps
    from unnest($12::uuid[], $13::jsonb[]) as given (id, steps)
    order by id
    on conflict (id) do nothing
),
settled as (
    update deliveries as d
    set state = 'sent',
        reason = null,
        held_by = null,
        attempts = d.attempts + 1,
        lease = null,
        leased_until = null,
        provider = given.provider,
        provider_message_id = given.message_id,
        device_id = coalesce(d.device_id, given.device_id),
        decisions = case
            when given.decision_set is null
            then coalesce(merge_decisions(d.decisions, given.decisions), given.decisions, d.decisions)
            when d.decisions is not null
            then merge_decisions(
                d.decisions,
                (
                    select steps_at(own.steps, given.decided_at)
                    from unnest($12::uuid[], $13::jsonb[]) as own (id, steps)
                    where own.id = given.decision_set
                )
            )
        end,
        decision_set = case when d.decisions is null then given.decision_set end,
        decided_at = case when d.decisions is null then given.decided_at end,
        settled_at = $10
    from unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::jsonb[], $7::timestamptz[],
        $8::uuid[], $9::timestamptz[]
    ) as given (id, lease, provider, message_id, device_id, decisions, ask_at, decision_set, decided_at)
    where d.id = given.id
        and (d.lease = given.lease or d.leased_until is null or d.leased_until <= $10)
        and d.state = any($11::text[])
    returning
        d.id, d.device_id, d.ordering_key, d.collapse_key, d.fallback_for, d.provider, d.provider_message_id,
        given.ask_at
),
ticketed as (
    insert into tickets (delivery_id, provider, message_id, sent_at, ask_at)
    select id, provider, provider_message_id, $10, ask_at
    from settled
    where ask_at is not null and provider_message_id is not null
    on conflict (delivery_id) do update
    set message_id = excluded.message_id, sent_at = excluded.sent_at, ask_at = excluded.ask_at,
        lease = null, leased_until = null
),
counted as (
    update devices
    set notification_count = devices.notification_count + reached.deliveries, last_sent_at = $10
    from (
        select device_id, count(*) as deliveries
        from settled
        where device_id is not null
        group by device_id
        order by device_id
    ) as reached
    where devices.id = reached.device_id
)
select
    array_agg(id) as ids,
    array_agg(distinct ordering_key) filter (where ordering_key is not null) as ordering_keys,
    array_agg(id) filter (where collapse_key is not null) as collapsing,
    array_agg(id) filter (where fallback_for is not null) as fallbacks
from settled
"""

# A device that registered again after the attempt is alive, whatever the provider said of it before.
# A type that is not known has a column of its own, since a process one version older releases at once what is
# held by something that it does not know.
SETTLE_UNSENT = r"""
with settled as (
    update deliveries as d
    set state = given.state,
        reason = given.reason,
        attempts = d.attempts + given.spent,
        due_at = coalesce(
            given.due_at, case when given.held_by is not null then 'infinity'::timestamptz end, d.due_at
        ),
        held_by = case when given.held_by not like 'type\_unknown:%' then given.held_by end,
        unknown_type = case
            when given.held_by like 'type\_unknown:%' then substr(given.held_by, length('type_unknown:') + 1)
        end,
        recovering = given.recovering,
        reserved = given.reserved,
        device_id = coalesce(d.device_id, given.device_id),
        decisions = coalesce(merge_decisions(d.decisions, given.decisions), given.decisions, d.decisions),
        lease = null,
        leased_until = null,
        provider = coalesce(given.provider, d.provider),
        last_error_code = coalesce(given.code, d.last_error_code),
        last_error = coalesce(given.detail, d.last_error),
        settled_at = case
            when given.state not in ('scheduled', 'pending', 'retrying') then $20::timestamptz
        end
    from unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[],
        $13::uuid[], $14::text[], $15::jsonb[], $16::boolean[], $17::timestamptz[], $18::text[],
        $19::boolean[]
    ) as given (
        id, lease, state, reason, spent, due_at, provider, outcome, code, detail, retire, tried_at,
        device_id, held_by, decisions, reserved, gone_since, suppress, recovering
    )
    where d.id = given.id and d.lease = given.lease and d.state = any($21::text[])
    returning
        d.id, d.device_id, d.state, d.ordering_key, given.held_by, d.settled_at, d.due_at, given.outcome,
        given.code, given.detail, given.retire, given.tried_at, given.gone_since, given.suppress,
        given.recovering
),
suppressed as (
    insert into suppressed_addresses (address, reason, detail, delivery_id, suppressed_at)
    select distinct on (lower(suppress)) lower(suppress), retire, detail, id, tried_at
    from settled
    where suppress is not null
    order by lower(suppress), id
    on conflict (address) do nothing
),
tried as (
    insert into attempts (delivery_id, outcome, code, detail, at)
    select id, outcome, code, detail, tried_at
    from settled
    where outcome is not null
),
retired as (
    update devices
    set retired_at = coalesce(devices.retired_at, $20),
        retired_reason = coalesce(devices.retired_reason, verdict.retire)
    from (
        select device_id, min(retire) as retire, max(coalesce(gone_since, tried_at)) as gone_since
        from settled
        where retire is not null and device_id is not null
        group by device_id
        order by device_id
    ) as verdict
    where devices.id = verdict.device_id and devices.last_seen_at <= verdict.gone_since
)
select
    array_agg(id) as ids,
    -- It blocks its group no longer; or it is held, and the one before may have been settled meanwhile.
    array_agg(distinct ordering_key) filter (
        where ordering_key is not null
            and (
                settled_at is not null or held_by is not null or recovering
                or (state = 'scheduled' and due_at > $20)
            )
    ) as ordering_keys
from settled
"""

DELIVERY_COLUMNS = """
    deliveries.id, deliveries.notification_id, deliveries.channel, deliveries.user_id, deliveries.address,
    deliveries.device_id, deliveries.state, deliveries.reason, deliveries.attempts,
    nullif(deliveries.due_at, 'infinity') as due_at,
    coalesce(
        deliveries.held_by,
        'type_unknown:' || deliveries.unknown_type,
        case when deliveries.recovering then 'recovery' end
    ) as held_by,
    deliveries.lane,
    deliveries.digest_id,
    decisions_of(deliveries.decisions, deliveries.decision_set, deliveries.decided_at) as decisions,
    deliveries.leased_until, deliveries.provider,
    deliveries.provider_message_id, deliveries.last_error_code, deliveries.last_error, deliveries.created_at,
    deliveries.settled_at
"""
"""The columns of a DeliveryRow."""

OF_NOTIFICATION = """
select {columns}
from deliveries
where notification_id = $1
order by id
limit $2
""".replace("{columns}", DELIVERY_COLUMNS.strip())

# By time and not by id alone: for the newest ids the planner could walk the attempts of all deliveries.
ATTEMPTS_OF = """
select newest.delivery_id, newest.outcome, newest.code, newest.detail, newest.at
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select id, delivery_id, outcome, code, detail, at
    from attempts
    where delivery_id = given.id
    order by at desc, id desc
    limit $2
) as newest
order by newest.at, newest.id
"""


def encode_steps(steps: Sequence[Step]) -> str | None:
    """Return decisions as they are stored."""
    return _encoder.encode(steps).decode() if steps else None


async def settle_sent(connection: Connection, sent: Sequence[SentDelivery], now: datetime) -> Settled:
    """Settle deliveries that their provider took, unless another worker has the lease meanwhile."""
    columns = [[getattr(delivery, name) for delivery in sent] for name in _SENT_COLUMNS]
    decided = [delivery.decided for delivery in sent]
    # In the order of their ids, to avoid deadlocks.
    sets = sorted({each.set for each in decided if each})
    row = await connection.fetchrow(
        SETTLE_SENT,
        *columns,
        [each.set.id if each else None for each in decided],
        [each.at if each else None for each in decided],
        now,
        CLAIMED,
        [each.id for each in sets],
        [each.steps for each in sets],
    )
    return Settled(
        row["ids"] or [], row["ordering_keys"] or [], row["collapsing"] or [], row["fallbacks"] or []
    )


async def settle_unsent(connection: Connection, unsent: Sequence[UnsentDelivery], now: datetime) -> Settled:
    """Settle every other outcome with its attempt and device, as far as the lease still holds."""
    columns = [[getattr(delivery, name) for delivery in unsent] for name in _UNSENT_COLUMNS]
    row = await connection.fetchrow(SETTLE_UNSENT, *columns, now, CLAIMED)
    return Settled(row["ids"] or [], row["ordering_keys"] or [])


async def of_notification(connection: Connection, notification_id: UUID, limit: int) -> list[DeliveryRow]:
    """Read the deliveries of a notification in the order they were created."""
    return [delivery_row(row) for row in await connection.fetch(OF_NOTIFICATION, notification_id, limit)]


def delivery_row(record: Mapping[str, Any]) -> DeliveryRow:
    """Build a delivery from a record with its columns."""
    decisions = _steps.decode(record["decisions"] or "[]")
    return DeliveryRow(**{**record, "state": State(record["state"]), "decisions": decisions})


async def attempts_of(connection: Connection, delivery_ids: Sequence[UUID], limit: int) -> list[AttemptRow]:
    """Read the newest failed attempts of each delivery, at most `limit`, oldest first."""
    return [AttemptRow(**row) for row in await connection.fetch(ATTEMPTS_OF, delivery_ids, limit)]


_SENT_COLUMNS = SentDelivery.__struct_fields__[:-5]
_UNSENT_COLUMNS = UnsentDelivery.__struct_fields__[:-2]
