"""Refused intents that name a person, for erasure and export."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all

BATCH = 1_000

REFUSED = """
select
    page.id, page.code, page.type, page.refused_at,
    case when page.named then page.faults end as faults,
    case when page.named then page.content end as content,
    page.org_id
from (
    select
        id, code, type, refused_at, faults, content, org_id,
        strpos(content, $2) > 0 or coalesce(strpos(lower(content), lower($3)) > 0, false) as named
    from refused_intents
    where id > $1
    order by id
    limit $4
) as page
order by page.id
"""

ERASE_REFUSED = """
update refused_intents
set content = '', faults = '[]', idempotency_key = null
where id = any($1::uuid[])
"""


class RefusedContent(msgspec.Struct, frozen=True):
    """A refused intent; its faults and content if that contains the id or the address of a person."""

    id: UUID
    code: str
    type: str | None
    refused_at: datetime
    faults: str | None
    content: str | None
    org_id: str | None


async def list_refused(
    connection: Connection, user_id: str, email: str | None, after: UUID
) -> list[RefusedContent]:
    """List refused intents after an id, oldest first."""
    return await fetch_all(connection, RefusedContent, REFUSED, after, user_id, email, BATCH)


async def erase_refused(connection: Connection, ids: Sequence[UUID]) -> None:
    """Erase the content of refused intents."""
    await connection.execute(ERASE_REFUSED, ids)
