"""The sealed columns of `devices`: rewriting them with the current data key, and which keys are in use.

The ids of the keys in use are recorded, so that a process without one of them does not start.
"""

from typing import NamedTuple
from uuid import UUID

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.store.pool import Connection, Pool
from tocsin.store.secrets.sealing import Column, DataKeys, SealedError

BATCH = 500
FIRST = UUID(int=0)

_RECORD = "data_key:"

# In id order, as everyone locks devices.
NEXT = """
select id, provider, token, secret
from devices
where id > $1
order by id
limit $2
for update
"""

REWRITE = """
update devices
set token = given.token, secret = given.secret
from unnest($1::uuid[], $2::text[], $3::text[]) as given (id, token, secret)
where devices.id = given.id
"""

# $1 is the prefix of what is as it should be; with $2 it is the prefix of what is not.
# Endpoints that are to be deleted are stored as they were with their devices, and soon gone.
COUNT_LEFT = """
select (
    select count(*)
    from devices
    where (provider <> 'webhook' and starts_with(token, $1) = $2) or starts_with(secret, $1) = $2
) + (
    select count(*)
    from endpoint_deletions
    where starts_with(endpoint, $1) = $2
)
"""

RECORDED = """
select substr(name, length($1) + 1) as key_id
from kept_secrets
where starts_with(name, $1)
"""

RECORD = """
insert into kept_secrets (name, value, created_at)
values ($1, 'in use', clock_timestamp())
on conflict (name) do nothing
"""

FORGET = """
delete from kept_secrets
where starts_with(name, $1) and name <> $2
"""


class Rewritten(NamedTuple):
    """One batch: how many rows were read, changed and could not be opened; the last id, unless it ended."""

    seen: int
    changed: int
    unreadable: int
    last: UUID | None


async def check_data_keys(connection: Connection | Pool, keys: DataKeys) -> None:
    """Record the current key; raise SettingsError if one that is in use is not set."""
    recorded = {row["key_id"] for row in await connection.fetch(RECORDED, _RECORD)}
    if missing := sorted(recorded - keys.ids):
        message = f"lacks the key {', '.join(missing)}, with which stored tokens and secrets are encrypted"
        fault = Fault(field="data.key or data.previous_keys", code="missing", message=message)
        raise SettingsError("The settings cannot be used:", [fault])
    if keys.current_id is not None and keys.current_id not in recorded:
        await connection.execute(RECORD, _RECORD + keys.current_id)


async def rewrite(connection: Connection, keys: DataKeys, after: UUID) -> Rewritten:
    """Store the next rows after an id as the current key would; rows that cannot be opened are left."""
    changed: list[tuple[UUID, str, str | None]] = []
    unreadable = 0
    async with connection.transaction():
        rows = await connection.fetch(NEXT, after, BATCH)
        for row in rows:
            try:
                # The URL of a webhook endpoint is no secret.
                is_device = row["provider"] != "webhook"
                token = _again(keys, row["token"], row["id"], "token") if is_device else row["token"]
                secret = None if row["secret"] is None else _again(keys, row["secret"], row["id"], "secret")
            except SealedError:
                unreadable += 1
                continue
            if (token, secret) != (row["token"], row["secret"]):
                changed.append((row["id"], token, secret))
        if changed:
            await connection.execute(REWRITE, *map(list, zip(*changed, strict=True)))
    return Rewritten(len(rows), len(changed), unreadable, rows[-1]["id"] if len(rows) == BATCH else None)


async def finish(connection: Connection, keys: DataKeys) -> int:
    """Count the rows that are not as the current key would store them; if none is, forget the other keys."""
    left: int = await connection.fetchval(COUNT_LEFT, keys.sealed_prefix, keys.current_id is None)
    if not left:
        await connection.execute(FORGET, _RECORD, f"{_RECORD}{keys.current_id}")
    return left


def _again(keys: DataKeys, stored: str, row: UUID, column: Column) -> str:
    if keys.is_current(stored):
        return stored
    return keys.seal(keys.open(stored, row, column), row, column)
