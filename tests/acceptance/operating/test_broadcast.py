"""A broadcast outlives the workers that expand it."""

from tests.acceptance.installation import Installation
from tests.waiting import found
from tocsin.sandbox import Latency

PEOPLE = 800
ADD_PEOPLE = """
insert into devices (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
select
    gen_random_uuid(), 'user-' || number, 'fcm', 'android', 'phone-' || number,
    sha256(('phone-' || number)::bytea), now(), now()
from generate_series(1, $1::integer) as number
"""
NOTHING_RUNS = """
select count(*) = 0
from pg_stat_activity
where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()
"""
REACHED = "select count(*) as deliveries, count(distinct user_id) as people from deliveries"


async def test_everybody_is_reached_though_workers_are_killed_in_the_middle(
    installation: Installation,
) -> None:
    sandbox = installation.sandbox
    sandbox.faults.latency(Latency(0.05))
    slow = {"TOCSIN_FCM__MAX_CONCURRENCY": "10", "TOCSIN_RATES__FCM": "0"}
    await installation.pool.execute(ADD_PEOPLE, PEOPLE)
    producer = await installation.start_api()
    first, second = await installation.start_workers(slow, slow)

    notification_id = await producer.notify(audience={"everyone": True})

    async def is_under_way() -> bool:
        return bool(await installation.pool.fetchval("select expanded > 100 from broadcasts"))

    await found(is_under_way, within=60)
    await first.kill()
    await second.kill()
    # The server still executes their last statements.
    await found(lambda: installation.pool.fetchval(NOTHING_RUNS))
    expanded = await installation.pool.fetchval("select expanded from broadcasts where state = 'expanding'")
    reached = await installation.pool.fetchrow(REACHED)
    await installation.expire_leases()
    await installation.start_worker()
    await installation.until_sent(PEOPLE)

    shown = await producer.show(notification_id)
    assert 100 < expanded < PEOPLE
    assert tuple(reached) == (expanded, expanded)
    assert (shown["broadcast"]["state"], shown["broadcast"]["expanded"]) == ("finished", PEOPLE)
    assert tuple(await installation.pool.fetchrow(REACHED)) == (PEOPLE, PEOPLE)
    assert sandbox.stats().distinct_deliveries == PEOPLE
