"""The page Now: counts and latency over time, lanes, providers and alarms."""

import re
from datetime import timedelta

import msgspec
import pytest

from tests.edges.api.dashboard.test_pages import HOSTILE
from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge, running, services
from tests.rows import NOW, add_delivery
from tocsin.api.auth.roles import Role
from tocsin.engine.health.activity import Activity, ActivityWriter
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.store.health.provider_health import Alarm, Counted, count_outcomes, raise_alarms
from tocsin.store.pool import Pool


async def test_now_shows_counts_lanes_providers_and_alarms(pool: Pool) -> None:
    counted = Activity()
    counted.add("accepted", 3)
    counted.add("skipped")
    sent_at = NOW + timedelta(milliseconds=200)
    for _ in range(98):
        counted.add_sent([(NOW, NOW)], sent_at)
    for _ in range(2):
        counted.add_sent([(NOW - timedelta(hours=8), NOW)], sent_at)
    await ActivityWriter(pool, counted).write()
    await ActivityWriter(pool, counted).write()
    provider = ProviderInUse(name="fcm", channel="push", rate=600)
    async with running(services(pool, providers=(provider,))) as edge:
        now = await pool.fetchval("select now()")
        async with pool.acquire() as connection:
            counts = {Counted("fcm", "sent", ""): 1_234, Counted("fcm", "retry", "UNAVAILABLE"): 5}
            await count_outcomes(connection, {**counts, Counted("fcm", "defer", "QUOTA"): 99})
            await raise_alarms(connection, {Alarm("fcm", "credentials", HOSTILE): 2}, now)
        await add_delivery(pool)
        visit = await signed_in(edge, Role.VIEWER)

        for page in ("/dashboard/now", "/dashboard/now/live", "/dashboard/now?span=7d"):
            shown = await visit.shown(page)
            totals = dict(re.findall(r'data-event="(\w+)"><span>\w+</span><strong>([^<]+)</strong>', shown))
            p50, p95, p99 = (totals.pop(name) for name in ("p50", "p95", "p99"))
            assert totals == {"accepted": "3", "sent": "1,234", "failed": "5", "skipped": "1"}
            assert all(180 <= float(each.removesuffix(" ms")) <= 220 for each in (p50, p95))
            assert re.fullmatch(r"[789] h( \d+ min)?", p99)
            assert "healthy" in shown
            assert re.search(r'<th scope="row">fcm</th><td class="n">1</td>', shown)
            assert ("credentials" in shown, HOSTILE in shown) == (True, False)
        since_due = await visit.shown("/dashboard/now?measure=due")
        assert re.search(r"p99</span><strong>2\d\d ms<", since_due)
        counts, latencies = map(msgspec.json.decode, re.findall(r'data-columns="([^"]+)"', since_due))
        assert [len(column) for column in counts] == [60] * 5
        assert [len(column) for column in latencies] == [61] * 4
        assert [[value for value in column if value is not None] != [] for column in latencies[1:]] == [
            True
        ] * 3
        for unknown in ("span=9y", "measure=x"):
            assert (await visit.get(f"/dashboard/now?{unknown}")).status_code == 422


@pytest.mark.parametrize("table", ["activity_counts", "latency_counts"])
async def test_what_is_counted_is_kept_until_it_can_be_written(pool: Pool, table: str) -> None:
    counted = Activity()
    counted.add("accepted", 2)
    counted.add_sent([(NOW, NOW)], NOW)
    await pool.execute(f"alter table {table} rename to away")
    try:
        with pytest.raises(Exception, match=table):
            await ActivityWriter(pool, counted).write()
    finally:
        await pool.execute(f"alter table away rename to {table}")
    counted.add("accepted")
    counted.add_sent([(NOW, NOW)], NOW)

    await ActivityWriter(pool, counted).write()

    assert await pool.fetchval("select count from activity_counts") == 3
    assert await pool.fetch("select measure, count from latency_counts order by 1") == [
        ("accepted", 2),
        ("due", 2),
    ]


async def test_a_page_with_nothing_sent_has_no_percentiles(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown("/dashboard/now")

    assert re.findall("<span>(p\\d\\d)</span><strong>\N{EN DASH}</strong>", shown) == ["p50", "p95", "p99"]


async def test_accepting_and_skipping_are_counted(edge: Edge) -> None:
    from tocsin.engine.health.activity import activity

    before = activity.counts.copy()
    intent = {"type": "new_customer", "audience": {"users": ["ada"]}, "payload": {"customer_name": "Ali"}}
    answer = await edge.http.post(
        "/v1/notifications", json={**intent, "idempotency_key": "a"}, headers=await edge.key(Role.PRODUCER)
    )

    assert answer.status_code == 202
    assert activity.counts["accepted"] - before["accepted"] == 1
