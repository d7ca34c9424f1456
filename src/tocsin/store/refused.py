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
    faults: str
    content: str
    refused_at: datetime


RECORD = """
insert into refused_intents (id, producer, source, code, type, idempotency_key, faults, content, refused_at)
select *
from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[], $8::text[],
    $9::timestamptz[]
)
"""

LIST = """
select id, producer, source, code, type, idempotency_key, faults, content, refused_at
from refused_intents
where id < $1
order by id desc
limit $2
"""


async def record(connection: Connection, refused: Sequence[RefusedIntent]) -> None:
    """Store refused intents."""
    await connection.execute(RECORD, *transpose(refused, RefusedIntent.__struct_fields__))


async def list_recent(connection: Connection, before: UUID, limit: int) -> list[RefusedIntent]:
    """List refused intents before an id, newest first."""
    return await fetch_all(connection, RefusedIntent, LIST, before, limit)
