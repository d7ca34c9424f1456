"""Platform endpoints of Amazon SNS: which device has which, and those that are to be deleted there.

An endpoint is requested to be deleted in the transaction that retires or erases its device, and stays so
until SNS confirms it. A registration holds the requests of its token while it calls SNS, and then takes back
that of the endpoint that it uses again.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.people.devices import token_hash
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all
from tocsin.store.secrets.sealing import DataKeys, SealedError


class UsedEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of a registration: the hash of the app's own token, and the ARN that the device had."""

    push_token_hash: bytes
    former: str | None = None

    def __repr__(self) -> str:
        """Show nothing."""
        return "UsedEndpoint(…)"


class OwnEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of one of a person's devices, stored as a token; the hash is that of the app's token."""

    id: UUID
    token: str
    push_token_hash: bytes | None

    def __repr__(self) -> str:
        """Show the device, not its endpoint."""
        return f"OwnEndpoint(id={self.id})"

    def arn(self, keys: DataKeys) -> str | None:
        """Return the ARN; None if no data key opens it."""
        return _opened(keys, self.token, self.id)


class EndpointDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint to delete, under lease."""

    endpoint_hash: bytes
    device_id: UUID
    endpoint: str
    failures: int

    def __repr__(self) -> str:
        """Show the device, not its endpoint."""
        return f"EndpointDeletion(device_id={self.device_id}, failures={self.failures})"

    def arn(self, keys: DataKeys) -> str | None:
        """Return the ARN; None if no data key opens it."""
        return _opened(keys, self.endpoint, self.device_id)


def request_deletion(devices: str, now: str) -> str:
    """Build the part of a statement that requests to delete the endpoints of another part, `devices`."""
    return f"""
insert into endpoint_deletions (
    endpoint_hash, device_id, endpoint, push_token_hash, requested_at, due_at
)
select token_hash, id, token, push_token_hash, {now}, {now}
from {devices}
where provider = 'sns'
on conflict (endpoint_hash) do update
set device_id = excluded.device_id, endpoint = excluded.endpoint, push_token_hash = excluded.push_token_hash
"""  # noqa: S608 - made of constants


# By the token of the app or by the ARN; active devices first.
FIND_OWN = """
select id, token, push_token_hash
from devices
where user_id = $1
    and provider = 'sns'
    and (push_token_hash = any($2::bytea[]) or token_hash = any($2::bytea[]))
order by retired_at desc nulls first, last_seen_at desc, id desc
limit $3
"""

HOLD_DELETIONS = """
update endpoint_deletions
set due_at = greatest(due_at, $3)
where push_token_hash = any($1::bytea[])
returning coalesce(leased_until > $2, false) as is_being_deleted
"""

# One that is being deleted at this moment is left alone.
TAKE_BACK = """
delete from endpoint_deletions
where endpoint_hash = $1 and coalesce(leased_until <= $2, true)
"""

IS_BEING_DELETED = """
select true
from endpoint_deletions
where endpoint_hash = $1
"""

CLAIM_DELETIONS = """
update endpoint_deletions
set leased_until = $2
where endpoint_hash in (
    select endpoint_hash
    from endpoint_deletions
    where due_at <= $1 and coalesce(leased_until <= $1, true)
    order by due_at
    limit $3
    for update skip locked
)
returning endpoint_hash, device_id, endpoint, failures
"""

FINISH_DELETION = "delete from endpoint_deletions where endpoint_hash = $1"

POSTPONE_DELETION = """
update endpoint_deletions
set due_at = $2, leased_until = null, failures = failures + 1
where endpoint_hash = $1
"""

# One token is one installation: a device that has it by another provider, or by another endpoint, is retired.
RETIRE_SAME_TOKEN = f"""
with retired as (
    update devices
    set retired_at = $3, retired_reason = $4
    where id <> $1
        and (token_hash = $2 or push_token_hash = $2)
        and coalesce(retired_at, 'infinity') = 'infinity'
        and provider <> 'webhook'
    returning id, provider, token, token_hash, push_token_hash
), deletions as ({request_deletion("retired", "$3")})
select id
from retired
"""  # noqa: S608 - made of constants

MOST_OWN = 4


# A device whose endpoint was created anew keeps its row; the endpoint that it had may still be there.
ADOPT = f"""
with adopted as (
    update devices
    set token_hash = $3
    where token_hash = $2
        and user_id = $1
        and provider = 'sns'
        and not exists (select from devices as other where other.token_hash = $3)
    returning id, provider, token, push_token_hash, $2::bytea as token_hash
)
{request_deletion("adopted", "$4")}
"""  # noqa: S608 - made of constants


async def find_own(connection: Connection | Pool, user_id: str, hashes: Sequence[bytes]) -> list[OwnEndpoint]:
    """List the endpoints of a person's devices with one of these hashes of a token, the active first."""
    return await fetch_all(connection, OwnEndpoint, FIND_OWN, user_id, hashes, MOST_OWN)


async def hold_deletions(
    connection: Connection | Pool, push_tokens: Sequence[bytes], now: datetime, until: datetime
) -> bool:
    """Put off deleting endpoints of an app's tokens; return False if one is being deleted at this moment."""
    rows = await connection.fetch(HOLD_DELETIONS, push_tokens, now, until)
    return not any(row["is_being_deleted"] for row in rows)


async def use_endpoint(
    connection: Connection, user_id: str, arn_hash: bytes, endpoint: UsedEndpoint, now: datetime
) -> bool:
    """Take back the request to delete an endpoint, and move the device there that had another one.

    Return False if the endpoint is being deleted at this moment.
    """
    await connection.execute(TAKE_BACK, arn_hash, now)
    if await connection.fetchval(IS_BEING_DELETED, arn_hash):
        return False
    if endpoint.former:
        await connection.execute(ADOPT, user_id, token_hash(endpoint.former), arn_hash, now)
    return True


async def retire_same_token(
    connection: Connection, device_id: UUID, digest: bytes, now: datetime, reason: str
) -> list[UUID]:
    """Retire other devices with the same token of an app; return them."""
    rows = await connection.fetch(RETIRE_SAME_TOKEN, device_id, digest, now, reason)
    return [row["id"] for row in rows]


async def claim_deletions(
    connection: Connection | Pool, now: datetime, until: datetime, limit: int
) -> list[EndpointDeletion]:
    """Claim endpoints that are to be deleted, those first that have waited longest."""
    return await fetch_all(connection, EndpointDeletion, CLAIM_DELETIONS, now, until, limit)


async def finish_deletion(connection: Connection | Pool, deletion: EndpointDeletion) -> None:
    """Forget an endpoint that SNS has deleted."""
    await connection.execute(FINISH_DELETION, deletion.endpoint_hash)


async def postpone_deletion(
    connection: Connection | Pool, deletion: EndpointDeletion, until: datetime
) -> None:
    """Set when deleting an endpoint is tried again."""
    await connection.execute(POSTPONE_DELETION, deletion.endpoint_hash, until)


def _opened(keys: DataKeys, stored: str, row: UUID) -> str | None:
    try:
        return keys.open(stored, row, "token")
    except SealedError:
        return None
