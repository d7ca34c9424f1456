"""Notices that an inbox changed, sent by NOTIFY to the processes that have live sessions.

A notice has no content: who has a session of that person reads it. Those of one transaction share payloads.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection

LARGEST_PAYLOAD = 7_900
"""Bytes: Postgres takes less than 8,000."""

_encoder = msgspec.json.Encoder()


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """What changed: an item was `created` or `changed`, or all up to it were `seen` or `read`."""

    kind: Literal["created", "changed", "seen", "read"]
    user_id: str
    item_id: UUID
    category: str | None = None
    at: datetime | None = None

    def __repr__(self) -> str:
        """Show what happened, not to whom."""
        return f"Notice({self.kind}, {self.item_id})"


NOTIFY = """
select pg_notify(current_schema() || '_inbox', payload)
from unnest($1::text[]) with ordinality as given (payload, position)
order by position
"""

_decoder = msgspec.json.Decoder(list[Notice])


async def notify(connection: Connection, notices: Sequence[Notice]) -> None:
    """Send notices when the transaction commits."""
    if notices:
        await connection.execute(NOTIFY, list(_payloads(notices)))


def read_notices(payload: str) -> list[Notice]:
    """Decode a payload; raise msgspec.DecodeError for one that is from another version."""
    return _decoder.decode(payload)


def _payloads(notices: Sequence[Notice]) -> Iterator[str]:
    """Join notices to as few payloads as they fit in."""
    part: list[str] = []
    size = 2
    for notice in notices:
        text = _encoder.encode(notice)
        if part and size + len(text) + 1 > LARGEST_PAYLOAD:
            yield f"[{','.join(part)}]"
            part, size = [], 2
        part.append(text.decode())
        size += len(text) + 1
    yield f"[{','.join(part)}]"
