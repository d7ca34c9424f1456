"""The slowest answer of each question that an operator asks, among three million deliveries."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import asyncpg

from bench.contract import Arena, Goal, Reading
from bench.tocsin_server import SCHEMA, database
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.inspect.person import read_person
from tocsin.engine.inspect.queue import read_queue, read_schedule
from tocsin.engine.inspect.search import search
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.pool import Connection, PoolSettings, connection_settings, open_pool
from tocsin.wire.filters import DeliveryFilter

NOTIFICATIONS = 2_000_000
DELIVERIES = 3_000_000
PEOPLE = 200_000
ROUNDS = 5
SLOWEST = Goal(300, least=False)

FILL = """
insert into users (user_id, timezone, updated_at)
select 'user-' || number, 'Europe/Istanbul', now() from generate_series(1, :people) as number;

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

-- Every twentieth notification has eleven recipients, the others one.
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
cross join lateral generate_series(1, case when number % 20 = 0 then 11 else 1 end) as recipient
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

vacuum analyze;
"""

FILTERS = {
    "everything": DeliveryFilter(),
    "a person": DeliveryFilter(user="user-4711"),
    "a type": DeliveryFilter(type="type_3"),
    "a rare type": DeliveryFilter(type="rare"),
    "an unknown type": DeliveryFilter(type="unknown"),
    "a small producer": DeliveryFilter(producer="small"),
    "dead": DeliveryFilter(state=State.DEAD),
    "dead, of a rare type": DeliveryFilter(state=State.DEAD, type="rare"),
    "sent": DeliveryFilter(state=State.SENT),
    "retrying": DeliveryFilter(state=State.RETRYING),
    "a reason": DeliveryFilter(reason=Reason.OPTED_OUT),
    "a code": DeliveryFilter(code="timeout"),
    "an unknown code": DeliveryFilter(code="unknown"),
    "a code, by state and type": DeliveryFilter(code="timeout", state=State.GONE, type="type_3"),
    "an unused channel": DeliveryFilter(channel="webhook"),
    "an unused provider": DeliveryFilter(provider="apns"),
    "a key": DeliveryFilter(key_prefix="key-100000"),
}

Question = Callable[[Connection], Awaitable[object]]


class Search:
    name = "search"
    title = "Searching"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with database(arena.workdir) as (url, _):
            await _fill(url)
            async with open_pool(url, SCHEMA, PoolSettings()) as pool, pool.acquire() as connection:
                slowest = {name: await _slowest(connection, ask) for name, ask in _questions().items()}
        return [
            Reading(f"{name}, among {DELIVERIES:,} deliveries", value * 1000, "ms", SLOWEST)
            for name, value in slowest.items()
        ]


def _questions() -> dict[str, Question]:
    rules = DeliveryRules(
        catalog=load_catalog(shipped_catalog()),
        providers=frozenset({"fcm", "smtp"}),
        toggles=Toggles(),
        quiet=QuietHours.compile(QuietHoursSettings()),
        limits=LimitsSettings(per_person_per_day=5, per_device_per_day=5),
    )
    in_use = (ProviderInUse(name="fcm", channel="push"), ProviderInUse(name="smtp", channel="email"))
    searches: dict[str, Question] = {
        f"search for {name}": _searching(given) for name, given in FILTERS.items()
    }
    month = timedelta(days=20)
    return searches | {
        "search for a day": lambda connection: search(
            connection,
            DeliveryFilter(since=utc_now() - month, until=utc_now() - month + timedelta(days=1)),
            utc_now(),
        ),
        "person": lambda connection: read_person(connection, rules, "user-4711", utc_now()),
        "queue": lambda connection: read_queue(connection, in_use, utc_now()),
        "scheduled": lambda connection: read_schedule(connection, 24, utc_now()),
    }


def _searching(given: DeliveryFilter) -> Question:
    return lambda connection: search(connection, given, utc_now())


async def _slowest(connection: Connection, ask: Question) -> float:
    slowest = 0.0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask(connection)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


async def _fill(url: str) -> None:
    connection = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
    try:
        filled = FILL.replace(":people", str(PEOPLE)).replace(":notifications", str(NOTIFICATIONS))
        for statement in filled.split(";\n"):
            if statement.strip():
                await connection.execute(statement)
        made = await connection.fetchval("select count(*) from deliveries")
        if made != DELIVERIES:
            raise RuntimeError(f"{made:,} deliveries were made instead of {DELIVERIES:,}.")
    finally:
        await connection.close()
