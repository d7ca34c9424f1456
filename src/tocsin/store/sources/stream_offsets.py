"""How far each stream of intents was read, and who reads it."""

from typing import NamedTuple

import msgspec

from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection


class Offset(msgspec.Struct, frozen=True):
    """The last entry that was accepted or refused, and how many were added up to it, if known."""

    entry_id: str
    entries_read: int | None


class StreamName(NamedTuple):
    """A stream of the settings: its name there and its key."""

    name: str
    stream: str


# The leases are compared by the clock of the database: those of the readers may differ.
HOLD = """
insert into stream_offsets as known (name, stream, lease, leased_until)
values ($1, $2, $3, now() + make_interval(secs => $4))
on conflict (name, stream) do update
set lease = excluded.lease, leased_until = excluded.leased_until
where known.lease is null or known.lease = excluded.lease or known.leased_until <= now()
returning entry_id, entries_read
"""

RENEW = """
update stream_offsets
set leased_until = now() + make_interval(secs => $4)
where name = $1 and stream = $2 and lease = $3
"""

# The offset must still be where the caller read it: a lease that was lost and regained is not enough.
MOVE = """
update stream_offsets
set entry_id = $5, entries_read = $6, moved_at = now(), leased_until = now() + make_interval(secs => $4)
where name = $1 and stream = $2 and lease = $3 and entry_id = $7
returning name
"""

RELEASE = """
update stream_offsets
set lease = null, leased_until = null
where name = $1 and stream = $2 and lease = $3
"""

# Who else works in the schema: a stream that is read under another name, or a provider that was used lately.
OTHER_USES = """
select 'stream ' || name from stream_offsets where name <> $1
union
select 'provider ' || provider from provider_counts where provider <> $2
order by 1
limit 5
"""

IS_READ = "select exists (select from stream_offsets where name = $1)"


async def hold(connection: Connection, stream: StreamName, lease: LeaseId, seconds: float) -> Offset | None:
    """Take or renew the lease on a stream and return its offset; None while another reader holds it."""
    row = await connection.fetchrow(HOLD, *stream, lease, seconds)
    return Offset(*row) if row else None


async def renew(connection: Connection, stream: StreamName, lease: LeaseId, seconds: float) -> None:
    """Renew the lease, unless it was lost."""
    await connection.execute(RENEW, *stream, lease, seconds)


async def move(
    connection: Connection, stream: StreamName, lease: LeaseId, seconds: float, *, before: str, to: Offset
) -> bool:
    """Move the offset from an entry and renew the lease; return False if either is not there any more."""
    moved = await connection.fetchval(MOVE, *stream, lease, seconds, to.entry_id, to.entries_read, before)
    return moved is not None


async def release(connection: Connection, stream: StreamName, lease: LeaseId) -> None:
    """Release the lease, so that another reader can continue at once."""
    await connection.execute(RELEASE, *stream, lease)


async def other_uses(connection: Connection, name: str, provider: str) -> list[str]:
    """List what else than one stream and one provider the schema was used for."""
    return [row[0] for row in await connection.fetch(OTHER_USES, name, provider)]


async def is_read(connection: Connection, name: str) -> bool:
    """Return whether a stream was ever read under a name."""
    return bool(await connection.fetchval(IS_READ, name))
