"""Settles claimed deliveries."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.decision_sets import Decided
from tocsin.domain.delivery.states import CLAIMED, State
from tocsin.domain.ids import LeaseId
from tocsin.store.inbox.items import NewItem
from tocsin.store.pool import Connection
from tocsin.store.rows import without_nulls

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


# Lease and state guard the row: a worker that comes late changes nothing, unless its provider took the
# message and nobody else has the lease now: it must not be sent again.
# The states come as an argument: otherwise the planner could read the whole of a partial index instead of
# looking rows up by their ids, and it does so while the tables are new.
# What the deliveries of a claim have in common is given once for each `origin`: the driver takes as long for
# a value that repeats as for any other.
# Sets of decisions come with every batch: a worker need not know which of them the database has. They are
# inserted in the order of their ids too: two workers may make the same ones at the same time.
SETTLE_SENT = """
with sets as (
    insert into decision_sets (id, steps)
    select id, steps
    from unnest($13::uuid[], $14::jsonb[]) as given (id, steps)
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
                    from unnest($13::uuid[], $14::jsonb[]) as own (id, steps)
                    where own.id = given.decision_set
                )
            )
        end,
        decision_set = case when d.decisions is null then given.decision_set end,
        decided_at = case when d.decisions is null then given.decided_at end,
        settled_at = $11
    from (
        select
            id, message_id, device_id, decisions, ask_at, ($7::uuid[])[origin] as lease,
            ($8::text[])[origin] as provider, ($9::uuid[])[origin] as decision_set,
            ($10::timestamptz[])[origin] as decided_at
        from unnest($1::uuid[], $2::text[], $3::uuid[], $4::jsonb[], $5::timestamptz[], $6::integer[])
            as given (id, message_id, device_id, decisions, ask_at, origin)
    ) as given
    where d.id = given.id
        and (d.lease = given.lease or d.leased_until is null or d.leased_until <= $11)
        and d.state = any($12::text[])
    returning
        d.id, d.ordering_key, d.collapse_key, d.fallback_for, d.provider, d.provider_message_id, given.ask_at
),
ticketed as (
    insert into tickets (delivery_id, provider, message_id, sent_at, ask_at)
    select id, provider, provider_message_id, $11, ask_at
    from settled
    where ask_at is not null and provider_message_id is not null
    on conflict (delivery_id) do update
    set message_id = excluded.message_id, sent_at = excluded.sent_at, ask_at = excluded.ask_at,
        lease = null, leased_until = null
)
select
    -- Most often all: then there is nothing to list.
    case when count(*) < cardinality($1::uuid[]) then coalesce(array_agg(id), '{}') end as ids,
    array_agg(distinct ordering_key) filter (where ordering_key is not null) as ordering_keys,
    array_agg(id) filter (where collapse_key is not null) as collapsing,
    array_agg(id) filter (where fallback_for is not null) as fallbacks
from settled
"""

# A device that registered again after the attempt is alive, whatever the provider said of it before. Devices
# are updated in the order of their ids, to avoid deadlocks, and no condition asks whether one is active: the
# planner could read the whole of a partial index.
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


def encode_steps(steps: Sequence[Step]) -> str | None:
    """Return decisions as they are stored."""
    return _encoder.encode(steps).decode() if steps else None


async def settle_sent(connection: Connection, sent: Sequence[SentDelivery], now: datetime) -> Settled:
    """Settle deliveries that their provider took, unless another worker has the lease meanwhile."""
    firsts, positions = _by_origin(sent)
    # In the order of their ids, to avoid deadlocks.
    sets = sorted({each.decided.set for each in firsts if each.decided})
    row = await connection.fetchrow(
        SETTLE_SENT,
        *(list(map(column, sent)) for column in _SENT_COLUMNS),
        *(without_nulls(list(map(column, sent))) for column in _RARE_SENT_COLUMNS),
        positions,
        [each.lease for each in firsts],
        [each.provider for each in firsts],
        [each.decided.set.id if each.decided else None for each in firsts],
        [each.decided.at if each.decided else None for each in firsts],
        now,
        CLAIMED,
        [each.id for each in sets],
        [each.steps for each in sets],
    )
    ids = [each.id for each in sent] if row["ids"] is None else row["ids"]
    return Settled(ids, row["ordering_keys"] or [], row["collapsing"] or [], row["fallbacks"] or [])


async def settle_unsent(connection: Connection, unsent: Sequence[UnsentDelivery], now: datetime) -> Settled:
    """Settle every other outcome with its attempt and device, as far as the lease still holds."""
    columns = [list(map(column, unsent)) for column in _UNSENT_COLUMNS]
    row = await connection.fetchrow(SETTLE_UNSENT, *columns, now, CLAIMED)
    return Settled(row["ids"] or [], row["ordering_keys"] or [])


def _by_origin(sent: Sequence[SentDelivery]) -> tuple[list[SentDelivery], list[int]]:
    """Return one delivery for each lease, provider and decisions, and the position of its own for each.

    Positions count from one, as those of arrays do in Postgres.
    """
    firsts: list[SentDelivery] = []
    known: dict[tuple[int, str, int], int] = {}
    origins: dict[tuple[LeaseId, str, Decided | None], int] = {}
    positions = []
    for each in sent:
        # Those of one claim are the same objects, which is cheaper to tell than that they are equal.
        key = (id(each.lease), each.provider, id(each.decided))
        position = known.get(key)
        if position is None:
            # Those that a limit counted were decided one by one, and are equal.
            origin = (each.lease, each.provider, each.decided)
            position = origins.setdefault(origin, len(firsts) + 1)
            if position > len(firsts):
                firsts.append(each)
            known[key] = position
        positions.append(position)
    return firsts, positions


_SENT_COLUMNS = [attrgetter(name) for name in ("id", "message_id", "device_id")]
_RARE_SENT_COLUMNS = [attrgetter(name) for name in ("decisions", "ask_at")]
_UNSENT_COLUMNS = [attrgetter(name) for name in UnsentDelivery.__struct_fields__[:-2]]
