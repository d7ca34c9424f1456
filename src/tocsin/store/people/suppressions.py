"""Suppressed e-mail addresses: the mailbox is gone, or an operator suppressed them."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from tocsin.store import audit
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """A suppressed address in lower case, the reason, and the delivery that caused it, if any.

    The address of a person who was erased is `sha256:` and its hash.
    """

    address: str
    reason: str
    detail: str
    delivery_id: UUID | None
    suppressed_at: datetime


class SuppressionCursor(msgspec.Struct, frozen=True):
    """A position in the list, which is ordered from the newest to the oldest."""

    suppressed_at: datetime
    address: str


_HASHED = "sha256:"
NEWEST = SuppressionCursor(datetime.max.replace(tzinfo=UTC), "")

# The time of the first suppression is kept: no mail was sent since then.
SUPPRESS = """
insert into suppressed_addresses (address, reason, detail, delivery_id, suppressed_at)
values (lower($1), $2, $3, $4, $5)
on conflict (address) do update
set reason = excluded.reason,
    detail = excluded.detail,
    delivery_id = excluded.delivery_id
returning address, reason, detail, delivery_id, suppressed_at
"""

OF = """
select given
from unnest($1::text[]) as given
where exists (select from suppressed_addresses where address = any(suppression_keys(given)))
"""

PAGE = """
select address, reason, detail, delivery_id, suppressed_at
from suppressed_addresses
where (suppressed_at, address) < ($1, $2)
order by suppressed_at desc, address desc
limit $3
"""

REMOVE = """
delete from suppressed_addresses
where address = any(suppression_keys($1))
returning address
"""

# Whoever has the address still finds it suppressed; nobody can read the address any more.
HASH = """
with plain as (
    delete from suppressed_addresses
    where address = lower($1)
    returning reason, suppressed_at
)
insert into suppressed_addresses (address, reason, suppressed_at)
select (suppression_keys($1))[2], reason, suppressed_at
from plain
on conflict (address) do nothing
returning address
"""


async def suppress(
    connection: Connection,
    address: str,
    *,
    reason: str,
    now: datetime,
    detail: str = "",
    delivery_id: UUID | None = None,
) -> Suppression:
    """Suppress an address; if it is suppressed already, replace the reason."""
    return Suppression(**await connection.fetchrow(SUPPRESS, address, reason, detail, delivery_id, now))


async def of(connection: Connection, addresses: Sequence[str]) -> frozenset[str]:
    """Return the addresses that are suppressed; case does not matter."""
    return frozenset(row["given"] for row in await connection.fetch(OF, list(addresses)))


async def page(
    connection: Connection, *, before: SuppressionCursor = NEWEST, limit: int
) -> list[Suppression]:
    """Load one page of the list, newest first."""
    return await fetch_all(connection, Suppression, PAGE, before.suppressed_at, before.address, limit)


async def hash_address(connection: Connection, address: str) -> bool:
    """Replace a suppressed address by its hash; return whether it was suppressed."""
    return await connection.fetchval(HASH, address) is not None


async def remove(connection: Connection, address: str) -> bool:
    """Lift the suppression of an address; return whether there was one."""
    return await connection.fetchval(REMOVE, address) is not None


async def suppress_as(
    connection: Connection, address: str, *, reason: str, now: datetime, actor: str
) -> Suppression:
    """Suppress an address for an operator, and record it in the audit."""
    async with connection.transaction():
        made = await suppress(connection, address, reason=reason, now=now)
        subject = _audit_subject(address)
        await audit.record(
            connection, actor=actor, action="suppression.add", subject=subject, details={"reason": reason}
        )
    return made


async def remove_as(connection: Connection, address: str, *, actor: str) -> bool:
    """Lift a suppression for an operator and record it in the audit; return whether there was one."""
    async with connection.transaction():
        was_suppressed = await remove(connection, address)
        if was_suppressed:
            subject = _audit_subject(address)
            await audit.record(connection, actor=actor, action="suppression.remove", subject=subject)
    return was_suppressed


def _audit_subject(address: str) -> str:
    """Return the hash of an address, as `suppression_keys` has it: the audit outlives an erasure."""
    lowered = address.lower()
    is_hash = lowered.startswith(_HASHED)
    return lowered if is_hash else _HASHED + hashlib.sha256(lowered.encode()).hexdigest()
