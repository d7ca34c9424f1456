"""How far each stream of intents was read, and who reads it."""

import msgspec

from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection


class Offset(msgspec.Struct, frozen=True):
    """The last entry that was accepted or refused, and how many were added up to it, if known."""

    entry_id: str
    entries_read: int | None


# The leases are compared by the clock of the database: those of the readers may differ.
HOLD = """
insert into stream_offsets as known (name, lease, leased_until)
values ($1, $2, now() + make_interval(secs => $3))
on conflict (name) do update
set lease = excluded.lease, leased_until = excluded.leased_until
where known.lease is null or known.lease = excluded.lease or known.leased_until <= now()
returning entry_id, entries_read
"""

MOVE = """
update stream_offsets
set entry_id = $3, entries_read = $4, moved_at = now(), leased_until = now() + make_interval(secs => $5)
where name = $1 and lease = $2
returning name
"""

RELEASE = """
update stream_offsets
set lease = null, leased_until = null
where name = $1 and lease = $2
"""


async def hold(connection: Connection, name: str, lease: LeaseId, seconds: float) -> Offset | None:
    """Take or renew the lease on a stream and return its offset; None while another reader holds it."""
    row = await connection.fetchrow(HOLD, name, lease, seconds)
    return Offset(*row) if row else None


async def move(connection: Connection, name: str, lease: LeaseId, offset: Offset, seconds: float) -> bool:
    """Move the offset and renew the lease; return False if that was lost."""
    moved = await connection.fetchval(MOVE, name, lease, offset.entry_id, offset.entries_read, seconds)
    return moved is not None


async def release(connection: Connection, name: str, lease: LeaseId) -> None:
    """Release the lease, so that another reader can continue at once."""
    await connection.execute(RELEASE, name, lease)
