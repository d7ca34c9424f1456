"""Webhook endpoints: rows in `devices` whose token is a URL and whose secret signs requests to it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.ids import new_device_id
from tocsin.domain.people.devices import RetiredReason, token_hash
from tocsin.store import audit
from tocsin.store.people.devices import FIND_ID, LOCK_OWNER
from tocsin.store.people.sent_counts import Counted, add_sent
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all, fetch_one
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys

MOST_ACTIVE = 10
ROTATED = "webhook_secret.rotate"
LONGEST_LIST = 200


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook endpoint without its secret."""

    id: UUID
    user_id: str
    url: str
    registered_at: datetime
    retired_at: datetime | None
    retired_reason: str | None

    def __repr__(self) -> str:
        """Show the id and the owner, not the URL, which may contain a password of the receiver."""
        return f"EndpointRow({self.id}, user_id={self.user_id!r})"


class CountedEndpoint(Counted, frozen=True, kw_only=True):
    """A webhook endpoint without its secret, and how much was sent to it."""

    url: str
    registered_at: datetime
    retired_at: datetime | None
    retired_reason: str | None

    def __repr__(self) -> str:
        """Show the id and the owner, not the URL, which may contain a password of the receiver."""
        return f"CountedEndpoint({self.id}, user_id={self.user_id!r})"


class TooManyEndpoints(msgspec.Struct, frozen=True):
    """The person has the maximum number of active endpoints."""


class AlreadyActive(msgspec.Struct, frozen=True):
    """The person already has an active endpoint with this URL."""

    id: UUID


def _columns(row_type: type[EndpointRow | CountedEndpoint]) -> str:
    """Return the columns of a struct for a query."""
    return ", ".join("token as url" if name == "url" else name for name in row_type.__struct_fields__)


# A retired endpoint is not counted: adding it again reactivates its row.
ACTIVE = """
select id, token_hash
from devices
where user_id = $1 and provider = 'webhook' and retired_at is null
order by id
for update
"""

ADD = """
insert into devices (
    id, user_id, provider, platform, token, token_hash, secret, registered_at, last_seen_at
)
values ($1, $2, 'webhook', 'server', $3, $4, $5, $6, $6)
on conflict (token_hash) do update
set secret = excluded.secret,
    registered_at = excluded.registered_at,
    last_seen_at = excluded.last_seen_at,
    retired_at = null,
    retired_reason = null
returning {columns}
""".replace("{columns}", _columns(EndpointRow))

# In the order of the index devices_of_user, so that no more is read than is listed.
OF_USER = """
select {columns}
from devices
where user_id = $1 and provider = 'webhook'
order by retired_at desc nulls first, last_seen_at desc, id desc
limit $2
""".replace("{columns}", _columns(CountedEndpoint))

ACTIVE_OF_USER = OF_USER.replace("where", "where retired_at is null and")

RETIRE = """
update devices
set retired_at = coalesce(retired_at, $3), retired_reason = coalesce(retired_reason, $4)
where user_id = $1 and id = $2 and provider = 'webhook'
returning {columns}
""".replace("{columns}", _columns(CountedEndpoint))

PRESENT = """
select secret
from devices
where user_id = $1 and id = $2 and provider = 'webhook' and retired_at is null
for update
"""

RENEW = """
update devices
set secret = $2
where id = $1
returning {columns}
""".replace("{columns}", _columns(EndpointRow))


def endpoint_hash(user_id: str, url: str) -> bytes:
    """Return the hash of an owner and a URL; two people may use the same URL."""
    # A user id contains no line break, so two different pairs never have the same text.
    return token_hash(f"{user_id}\n{url}")


async def add(
    pool: Pool, user_id: str, url: str, secret: str, now: datetime, keys: DataKeys = NO_KEYS
) -> EndpointRow | TooManyEndpoints | AlreadyActive:
    """Add an endpoint of a person, or reactivate a retired one."""
    digest = endpoint_hash(user_id, url)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(LOCK_OWNER, user_id)
        active = await connection.fetch(ACTIVE, user_id)
        for row in active:
            if row["token_hash"] == digest:
                return AlreadyActive(row["id"])
        if len(active) >= MOST_ACTIVE:
            return TooManyEndpoints()
        # A secret is sealed for its row, which may exist.
        row_id = await connection.fetchval(FIND_ID, digest) or new_device_id()
        sealed = keys.seal(secret, row_id, "secret")
        added = await connection.fetchrow(ADD, row_id, user_id, url, digest, sealed, now)
    return EndpointRow(**added)


async def of_user(
    connection: Connection | Pool, user_id: str, *, include_retired: bool
) -> list[CountedEndpoint]:
    """List a person's endpoints, active ones first, then newest first."""
    statement = OF_USER if include_retired else ACTIVE_OF_USER
    return await add_sent(
        connection, await fetch_all(connection, CountedEndpoint, statement, user_id, LONGEST_LIST)
    )


async def retire(
    connection: Connection | Pool, user_id: str, endpoint_id: UUID, now: datetime
) -> CountedEndpoint | None:
    """Retire an endpoint; one that is already retired is not changed."""
    reason = RetiredReason.UNREGISTERED
    rows = await fetch_all(connection, CountedEndpoint, RETIRE, user_id, endpoint_id, now, reason)
    return next(iter(await add_sent(connection, rows)), None)


async def change_secret(
    pool: Pool,
    user_id: str,
    endpoint_id: UUID,
    change: Callable[[str], str],
    *,
    actor: str,
    details: Mapping[str, object] | None = None,
    keys: DataKeys = NO_KEYS,
) -> EndpointRow | None:
    """Replace the secret of an active endpoint with what `change` returns for it; record it in the audit.

    Raise SealedError if the present secret is encrypted with a key that is not among `keys`.
    """
    async with pool.acquire() as connection, connection.transaction():
        present = await connection.fetchrow(PRESENT, user_id, endpoint_id)
        if present is None:
            return None
        subject = f"webhook:{endpoint_id}"
        await audit.record(connection, actor=actor, action=ROTATED, subject=subject, details=details)
        changed = change(keys.open(present["secret"] or "", endpoint_id, "secret"))
        sealed = keys.seal(changed, endpoint_id, "secret")
        return await fetch_one(connection, EndpointRow, RENEW, endpoint_id, sealed)
