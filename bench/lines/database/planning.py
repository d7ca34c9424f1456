"""What deciding about a delivery costs: preferences, toggles, quiet hours in the person's zone, limits."""

import time
from collections.abc import Sequence
from datetime import timedelta

import psutil

from bench.contract import Arena, Goal, Reading
from bench.tocsin_server import SCHEMA, database
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.ids import new_lease_id
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.fan_out import FanOut
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.claim import START, Position, claim
from tocsin.store.pool import Pool, PoolSettings, open_pool

LANE = "fcm"
BATCH = 100
ALWAYS_OPEN = QuietHoursSettings(start="00:00", end="24:00")

FILL = """
insert into users (user_id, timezone, updated_at)
select
    'user-' || number,
    (array['Europe/Istanbul', 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe'])[1 + number % 4],
    now()
from generate_series(1, 20000) as number;

insert into preferences (user_id, choices, updated_at)
select 'user-' || number, '{"customers": {"push": true}}', now()
from generate_series(1, 20000) as number;

insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select uuidv7(), 'user-' || number, 'fcm', 'android', 'token-' || number, int4send(number), now(), now()
from generate_series(1, 20000) as number;

insert into notifications (
    id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at
)
select
    uuidv7(), 'bench', 'key-' || number, '\\x00', 'new_customer', 2, '{}', '{"customer_name": "Ali"}',
    now()
from generate_series(1, 20000) as number;

insert into deliveries (id, notification_id, channel, lane, user_id, state, due_at, created_at)
select
    uuidv7(), id, 'push', 'fcm', 'user-' || row_number() over (order by id), 'pending', accepted_at,
    accepted_at
from notifications
order by id;

analyze;
"""


class Planning:
    name = "planning"
    title = "Deciding"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with (
            database(arena.workdir) as (url, _),
            open_pool(url, SCHEMA, PoolSettings(size=2), lookups_only=True) as pool,
        ):
            await pool.execute(f"set enable_seqscan = on; {FILL} set enable_seqscan = off")
            plain = await _cost(pool, LimitsSettings())
            await pool.execute("update deliveries set lease = null, leased_until = null")
            limited = await _cost(pool, LimitsSettings(per_person_per_day=5))
        note = "own process and Postgres; claiming and sending not counted"
        return (
            Reading("deciding about a delivery", plain, "µs", Goal(60, least=False), note),
            Reading("the same with a daily limit", limited, "µs", Goal(60, least=False), note),
        )


async def _cost(pool: Pool, limits: LimitsSettings) -> float:
    rules = DeliveryRules(
        catalog=load_catalog(shipped_catalog()),
        providers=frozenset({LANE}),
        toggles=Toggles(),
        quiet=QuietHours.compile(ALWAYS_OPEN),
        limits=limits,
    )
    fan_out = FanOut(pool, rules, LANE)
    async with pool.acquire() as connection:
        backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
        others = [child for child in backend.parent().children() if child.pid != backend.pid]  # type: ignore[union-attr]
    after, busy, decided = START, 0.0, 0
    while True:
        now, lease = utc_now(), new_lease_id()
        async with pool.acquire() as connection:
            claimed = await claim(
                connection,
                LANE,
                lease=lease,
                now=now,
                until=now + timedelta(minutes=5),
                after=after,
                limit=BATCH,
            )
        if not claimed:
            return busy / decided * 1e6
        after = Position(claimed[-1].due_at, claimed[-1].id)
        began = time.process_time() + _busy([backend, *others])
        attempts = [Attempt.of(each, lease, now) for each in claimed]
        admitted = [each for each in attempts if rules.decide_attempt(each, now) is None]
        # As a lane does: what has one device and no limit needs no write.
        limited = [each for each in admitted if each.limited]
        fanned_out = await fan_out.place(limited, lease, now) if limited else None
        busy += time.process_time() + _busy([backend, *others]) - began
        decided += len(admitted) - len(limited) + (len(fanned_out.attempts) if fanned_out else 0)


def _busy(processes: Sequence[psutil.Process]) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))
