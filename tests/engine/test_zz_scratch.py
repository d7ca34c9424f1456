from databases import SCHEMA
from rows import NOW, add_notification
from tocsin.store.holds import RELEASE_NEXT
from tocsin.store.pool import PoolSettings, open_pool
import pytest

@pytest.mark.parametrize("an",[False,True])
async def test_x(database_url, an):
    async with open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as pool, pool.acquire() as c:
        await c.execute("""
        insert into notifications (id, producer, idempotency_key, fingerprint, type, version, audience, payload, accepted_at)
        select uuid7(), 's', n::text, 'f', 't', 1, '{}', '{}', now() from generate_series(1,10000) n""")
        await c.execute("""
        insert into deliveries (id, notification_id, channel, user_id, state, due_at, created_at, ordering_key, held_by)
        select uuid7(), id, 'push', 'u', 'scheduled', 'infinity', now(), 'k'||(row_number() over (order by id) % 100), 'order' from notifications""")
        if an: await c.execute("analyze")
        await c.execute("set plan_cache_mode = force_generic_plan")
        await c.execute(f"prepare kept as {RELEASE_NEXT}")
        keys = ",".join(f"k{i}" for i in range(30))
        print()
        for r in await c.fetch(f"explain (analyze, buffers) execute kept('{{{keys}}}', now())"): print(r[0])
