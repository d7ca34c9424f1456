"""The audit: who did what to which subject, newest first.

Changes of toggles have a table of their own; the list of the audit shows them too.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

NEWEST = UUID(int=(1 << 128) - 1)
OLDEST = UUID(int=0)

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_VERSION_7 = 7 << 76


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded action; `details` is JSON."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject: str
    details: str


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows to list: equal texts, recorded at or after `since` and before `until`."""

    action: str | None = None
    actor: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


# A UUIDv7 whose 12 bits after the version are the fraction of the millisecond, so that ids are in the
# order of the database's clock to the microsecond.
RECORD = """
insert into audit (id, at, actor, action, subject, details)
select (substr(tick, 1, 12) || '7' || substr(tick, 13) || tail)::uuid, at, $1, $2, $3, $4::jsonb
from (select clock_timestamp() as at, right(replace(gen_random_uuid()::text, '-', ''), 16) as tail) as clock,
    lateral (select lpad(to_hex(floor(extract(epoch from at) * 4096000)::bigint), 15, '0') as tick) as ticks
"""

# A change of a toggle gets an id by the same rule, so that both are one list. Changes are few.
LIST = """
select id, at, actor, action, subject, details
from (
    select id, at, actor, action, subject, details
    from audit
    union all
    select
        (substr(tick, 1, 12) || '7' || substr(tick, 13) || '8' || lpad(to_hex(id), 15, '0'))::uuid,
        changed_at,
        changed_by,
        case when enabled then 'toggle.on' else 'toggle.off' end,
        name,
        jsonb_build_object('was_enabled', was_enabled, 'reason', reason)
    from toggle_changes,
        lateral (
            select lpad(to_hex(floor(extract(epoch from changed_at) * 4096000)::bigint), 15, '0') as tick
        ) as ticks
) as recorded
where id < $1
    and id >= $2
    and ($3::text is null or action = $3)
    and ($4::text is null or actor = $4)
    and ($5::text is null or subject = $5)
order by id desc
limit $6
"""
# A statement of its own, so that the few actions on one subject are found by their index.
LIST_OF_SUBJECT = LIST.replace("($5::text is null or subject = $5)", "subject = $5")


async def record(
    connection: Connection, *, actor: str, action: str, subject: str, details: Mapping[str, Any] | None = None
) -> None:
    """Record an action, in the transaction of the change that it describes.

    Actions are `noun.verb`, such as `user.erase`. Details must not contain secrets, tokens or addresses.
    """
    encoded = msgspec.json.encode(details or {}, enc_hook=str).decode()
    await connection.execute(RECORD, actor, action, subject, encoded)


async def page(
    connection: Connection, filter_: AuditFilter | None = None, *, before: UUID = NEWEST, limit: int
) -> list[AuditRow]:
    """List recorded actions before an id, newest first."""
    wanted = filter_ or AuditFilter()
    return await fetch_all(
        connection,
        AuditRow,
        LIST if wanted.subject is None else LIST_OF_SUBJECT,
        before if wanted.until is None else min(before, _first_id(wanted.until)),
        OLDEST if wanted.since is None else _first_id(wanted.since),
        wanted.action,
        wanted.actor,
        wanted.subject,
        limit,
    )


def _first_id(at: datetime) -> UUID:
    """Return the smallest id that an action at a moment can have."""
    microseconds = max(0, (at - _EPOCH) // _MICROSECOND)
    tick = microseconds * 4096 // 1000
    return UUID(int=(tick >> 12) << 80 | _VERSION_7 | (tick & 0xFFF) << 64)
