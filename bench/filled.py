"""A database with a million notifications and three million deliveries, filled once for several lines."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from bench.progress import tell
from bench.tocsin_server import SCHEMA, database
from tocsin.store.pool import connection_settings

NOTIFICATIONS = 1_000_000
DELIVERIES = 3_000_000
PEOPLE = 200_000
OTHERS = 50_000
"""How many entries the other lists have: audit, suppressions, refused intents."""

FILL = """
insert into users (user_id, timezone, updated_at)
select
    'user-' || number,
    (array['Europe/Istanbul', 'Asia/Tehran', 'Europe/Berlin', 'Asia/Tokyo'])[1 + number % 4],
    now()
from generate_series(1, :people) as number;

insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select uuidv7(), 'user-' || number, 'fcm', 'android', 'token-' || number, int4send(number), now(), now()
from generate_series(1, :people) as number;

insert into notifications (
    id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
)
select
    uuidv7((number - :notifications) * (interval '30 days' / :notifications)),
    case when number % 50000 = 7 then 'small' when number % 3 = 0 then 'billing' else 'shop' end,
    'key-' || number, '\\x00', case when number % 100000 = 11 then 'rare' else 'type_' || number % 20 end, 1,
    '{"users": ["user-1"]}', jsonb_build_object('text', repeat('x', 200)),
    now() + (number - :notifications) * (interval '30 days' / :notifications)
from generate_series(1, :notifications) as number;

-- Every tenth notification has twenty-one recipients, the others one.
insert into deliveries (
    id, notification_id, channel, lane, user_id, state, reason, due_at, provider, provider_message_id,
    last_error_code, last_error, created_at, settled_at
)
select
    uuidv7(), id, case when hash % 10 = 0 then 'email' else 'push' end,
    case when hash % 10 = 0 then 'smtp' else 'fcm' end, 'user-' || hash % :people, state,
    case when state = 'skipped' then (array['opted_out', 'no_device', 'daily_limit'])[1 + hash % 3] end,
    case
        when state = 'scheduled' then now() + hash % 86400 * interval '1 second'
        when state = 'pending' then now() - hash % 3600 * interval '1 second'
        else accepted_at
    end,
    case when state not in ('scheduled', 'pending', 'skipped') then 'fcm' end,
    case when state in ('sent', 'delivered') then 'projects/bench/messages/' || hash end,
    case
        when state in ('dead', 'rejected', 'gone', 'retrying')
        then (array['UNAVAILABLE', 'INVALID_ARGUMENT', 'UNREGISTERED', 'timeout'])[1 + hash % 4]
    end,
    case when state in ('dead', 'rejected', 'gone', 'retrying') then 'it failed' end,
    accepted_at, case when state not in ('scheduled', 'pending', 'retrying') then accepted_at end
from (select id, accepted_at, row_number() over (order by id) as number from notifications) as numbered
cross join lateral generate_series(1, case when number % 10 = 0 then 21 else 1 end) as recipient
cross join lateral (select abs(hashint8(number * 7919 + recipient)) as hash) as hashed
cross join lateral (
    select
        case
            when hash % 1000 < 100 then 'scheduled'
            when hash % 1000 < 150 then 'pending'
            when hash % 1000 < 155 then 'dead'
            when hash % 1000 < 160 then 'rejected'
            when hash % 1000 < 165 then 'gone'
            when hash % 1000 < 170 then 'expired'
            when hash % 1000 < 175 then 'cancelled'
            when hash % 1000 < 176 then 'retrying'
            when hash % 1000 < 206 then 'skipped'
            when hash % 1000 < 400 then 'delivered'
            else 'sent'
        end as state
) as decided
order by id;

insert into audit (id, at, actor, action, subject, details)
select
    uuidv7(), now(), 'night-shift', 'toggle.off', 'toggle:type:type_' || number % 20,
    '{"reason": "maintenance"}'
from generate_series(1, :others) as number;

insert into suppressed_addresses (address, reason, suppressed_at)
select 'person-' || number || '@example.org', 'hard_bounce', now() - number * interval '1 minute'
from generate_series(1, :others) as number;

insert into refused_intents (id, producer, source, code, faults, content, refused_at)
select uuidv7(), 'shop', 'http', 'invalid_intent', '[]', '{}', now()
from generate_series(1, :others) as number;

vacuum analyze;
"""


@contextlib.asynccontextmanager
async def filled_database(workdir: Path) -> AsyncIterator[str]:
    """Run the database and give its address; the lines of one run share it, and the first one fills it."""
    folder = workdir.parent / "filled"
    folder.mkdir(exist_ok=True)
    async with database(folder) as (url, _):
        await _fill(url)
        yield url


async def _fill(url: str) -> None:
    connection = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
    try:
        if await connection.fetchval("select exists (select from deliveries)"):
            return
        tell(f"filling a database with {NOTIFICATIONS:,} notifications and {DELIVERIES:,} deliveries")
        filled = FILL
        for name, count in (("people", PEOPLE), ("notifications", NOTIFICATIONS), ("others", OTHERS)):
            filled = filled.replace(f":{name}", str(count))
        for statement in filled.split(";\n"):
            if statement.strip():
                await connection.execute(statement)
        made = await connection.fetchval("select count(*) from deliveries")
        if made != DELIVERIES:
            raise RuntimeError(f"{made:,} deliveries were made instead of {DELIVERIES:,}.")
    finally:
        await connection.close()
