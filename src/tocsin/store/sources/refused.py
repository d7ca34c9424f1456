"""Intents that were refused, stored so that a producer's mistake can be inspected."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all, transpose

LONGEST_CONTENT = 16_384


class RefusedIntent(msgspec.Struct, frozen=True, kw_only=True):
    """A refused intent, with its faults."""

    id: UUID
    producer: str
    source: str
    code: str
    type: str | None
    idempotency_key: str | None
    org_id: str | None = None
    faults: str
    content: str
    refused_at: datetime


# In the order of its unique index, to avoid deadlocks.
RECORD = """
insert into refused_intents (
    id, producer, source, code, type, idempotency_key, org_id, faults, content, refused_at, message_id
)
select *
from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[],
    $9::text[], $10::timestamptz[], $11::text[]
) as given (
    id, producer, source, code, type, idempotency_key, org_id, faults, content, refused_at, message_id
)
order by producer, message_id
on conflict (producer, message_id) where message_id is not null do nothing
returning id
"""

LIST = """
select id, producer, source, code, type, idempotency_key, org_id, faults, content, refused_at
from refused_intents
where id < $1
order by id desc
limit $2
"""
LIST_OF_ORG = LIST.replace("where", "where org_id = $3 and")


async def record(
    connection: Connection, refused: Sequence[RefusedIntent], message_ids: Sequence[str | None] = ()
) -> set[UUID]:
    """Store refused intents, and return the ids of those that are new.

    One that has the message id of an earlier one of its producer is not: a queue hands it out again.
    """
    columns = transpose(refused, RefusedIntent.__struct_fields__)
    rows = await connection.fetch(RECORD, *columns, message_ids or [None] * len(refused))
    return {row["id"] for row in rows}


async def list_recent(
    connection: Connection, before: UUID, limit: int, org_id: str | None = None
) -> list[RefusedIntent]:
    """List refused intents before an id, newest first, of one organisation or all."""
    if org_id is None:
        return await fetch_all(connection, RefusedIntent, LIST, before, limit)
    return await fetch_all(connection, RefusedIntent, LIST_OF_ORG, before, limit, org_id)
