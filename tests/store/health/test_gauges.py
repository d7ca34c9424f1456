"""What gauges read of the database: right, and at a cost that no backlog increases."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.rows import NEVER, NOW, add_delivery, add_waiting
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, scans, worker_connection
from tocsin.engine.inspect.gauges import DatabaseGauges
from tocsin.store.health import gauges
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import Connection, Pool
from tocsin.telemetry import metrics

MOST = 100
LANES = ["apns", "fcm"]
PINNED: Mapping[str, tuple[str, tuple[Any, ...], set[str], int]] = {
    "lane depths": (gauges.LANE_DEPTHS, (LANES, MOST), {"deliveries_due_by_lane"}, 3 * 2 * MOST),
    "dead letters": (gauges.DEAD_LETTERS, (MOST,), {"deliveries_unusual"}, MOST),
}


@pytest.fixture
async def clean() -> AsyncIterator[None]:
    """Leave no value of a gauge behind."""
    yield
    for gauge in metrics.FROM_DATABASE:
        gauge.replace({})


@pytest.mark.usefixtures("clean")
async def test_gauges_show_the_queue_the_circuits_and_the_alarms(pool: Pool) -> None:
    now = await pool.fetchval("select now()")
    for due_at in (now - timedelta(minutes=2), now - timedelta(minutes=1)):
        await add_delivery(pool, due_at=due_at)
    await add_delivery(pool, due_at=now - timedelta(hours=1), leased_until=now + timedelta(hours=1))
    await add_delivery(pool, due_at=now + timedelta(hours=1), state="scheduled")
    await add_delivery(pool, due_at=NEVER, state="scheduled", held_by="type:x", lane="fanout")
    for state in ("dead", "dead", "rejected", "sent"):
        await add_delivery(pool, state=state, settled_at=now)
    await pool.execute(
        "insert into circuits (name, provider, state, changed_at, openings) values "
        "('fcm', 'fcm', 'open', now(), 1), ('webhook/a.example', 'webhook', 'half_open', now(), 1), "
        "('webhook/b.example', 'webhook', 'closed', now(), 0)"
    )
    async with pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("fcm", "UNAUTHENTICATED", "d"): 1}, now)
    await pool.execute(
        "insert into progress (name, kind, schedule, timezone, catch_up, next_run_at, seen_at, failures) "
        "values ('nightly', 'scan', '0 3 * * *', 'UTC', 'once', now() - interval '90 s', now(), 2), "
        "('gone', 'scan', '0 3 * * *', 'UTC', 'once', now() - interval '9 d', now() - interval '8 d', 0)"
    )

    reading = DatabaseGauges(pool, ["fcm", "webhook"])
    await reading.read()

    depths = metrics.queue_depth.read()
    assert {key: depths[key] for key in depths if key[0] == "fcm"} == {
        ("fcm", "due"): 2,
        ("fcm", "scheduled"): 1,
        ("fcm", "held"): 0,
    }
    assert depths["fanout", "held"] == 1
    assert metrics.queue_age.read()[("fcm",)] == pytest.approx(120, abs=30)
    assert metrics.queue_age.read()[("webhook",)] == 0
    assert metrics.circuit_open.read() == {("fcm",): 1, ("webhook",): 0}
    assert metrics.hosts_open.read() == {("fcm",): 0, ("webhook",): 1}
    assert metrics.dead_letters.read() == {("dead",): 2, ("gone",): 0, ("rejected",): 1}
    assert metrics.alarms.read() == {("UNAUTHENTICATED",): 1}
    assert metrics.periodic_lag.read() == {("nightly",): pytest.approx(90, abs=30)}
    assert metrics.periodic_failures.read() == {("nightly",): 2}
    assert metrics.database_up.read() == {(): 1}


@pytest.mark.usefixtures("clean")
async def test_values_are_kept_for_a_moment_and_dropped_when_the_database_is_away(pool: Pool) -> None:
    now = 1_000.0
    reading = DatabaseGauges(pool, ["fcm"], monotonic=lambda: now)
    await reading.read()
    await add_delivery(pool)
    await reading.read()
    assert metrics.queue_depth.read()["fcm", "due"] == 0

    now += 10
    await reading.read()
    assert metrics.queue_depth.read()["fcm", "due"] == 1

    await pool.close()
    now += 10
    await reading.read()
    assert metrics.database_up.read() == {(): 0}
    assert metrics.queue_depth.read() == {}


@pytest.fixture(scope="module", params=["planned on empty tables", "analyzed"])
async def planned(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    """Open a connection to a database with a backlog, with a plan kept for every statement."""
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as connection,
        worker_connection(url) as other,
    ):
        if request.param == "planned on empty tables":
            for name, (statement, arguments, _, _) in PINNED.items():
                await keep_plan(connection, name, statement, *arguments)
        await add_waiting(other, 5_000)
        await add_waiting(other, 5_000, lane="apns", due_at=NEVER, held_by="type:x")
        await add_waiting(other, 5_000, state="sent", settled_at=NOW)
        await add_waiting(other, 1_000, state="dead", settled_at=NOW)
        if request.param == "analyzed":
            await other.execute("analyze")
            for name, (statement, arguments, _, _) in PINNED.items():
                await keep_plan(connection, name, statement, *arguments)
        yield connection


@pytest.mark.parametrize("name", PINNED)
async def test_a_count_reads_no_more_than_it_counts(planned: Connection, name: str) -> None:
    _, arguments, by, rows = PINNED[name]

    plan = await explain_kept(planned, name, *arguments)

    assert scans(plan)
    assert indexes(plan) == by
    assert rows_read(plan) <= rows
