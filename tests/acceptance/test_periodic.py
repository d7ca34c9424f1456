"""Periodic producers run by real workers, which are killed while they run them."""

import os
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tests.databases import fresh_database
from tests.waiting import found

ROWS = int(os.environ.get("SCAN_ROWS", "10000"))
"""The suite reads fewer than the hundred thousand that `SCAN_ROWS=100000` asks for."""
KILLS = 5
RUNS = 8
PEOPLE = 1_000
CONCURRENCY = 100
SCAN = """
new_customers:
  schedule: "* * * * * *"
  database: crm
  query: select id, name from customers where id > :last order by id
  checkpoint: {column: id, type: bigint, initial: 0}
  key: id
  type: new_customer
  audience: {users: ["user-{{ id % 1000 }}"]}
  payload: {customer_name: "{{ name }}"}
"""
MODULE = """
import uuid
from tocsin.periodic import Audience, Checkpoint, Intent, periodic

@periodic("* * * * * *", catch_up="all")
async def ticks(checkpoint: Checkpoint):
    yield Intent(
        type="new_customer",
        audience=Audience(users=["ada"]),
        payload={"customer_name": "Ali Veli"},
        idempotency_key=uuid.uuid4().hex,
        occurred_at=checkpoint.scheduled_for,
    ), checkpoint.scheduled_for
"""
QUICK = {
    "TOCSIN_PERIODIC__LEASE_SECONDS": "1",
    "TOCSIN_FCM__MAX_CONCURRENCY": str(CONCURRENCY),
}


@pytest.fixture
async def crm(server_url: str) -> AsyncIterator[str]:
    """Give the address of an application's database with many customers."""
    async with fresh_database(server_url) as url:
        connection = await asyncpg.connect(url)
        await connection.execute("create table customers (id bigint primary key, name text not null)")
        await connection.execute(
            "insert into customers select n, 'customer ' || n from generate_series(1, $1::bigint) n", ROWS
        )
        await connection.close()
        yield url


async def add_phones(installation: Installation) -> None:
    await installation.pool.execute(
        """
        insert into devices
            (id, user_id, provider, platform, token, token_hash, registered_at, last_seen_at)
        select
            gen_random_uuid(), 'user-' || n, 'fcm', 'android', 'phone-' || n, sha256(('phone-' || n)::bytea),
            now(), now()
        from generate_series(0, $1::integer - 1) as n
        """,
        PEOPLE,
    )


@pytest.mark.timeout(120 + ROWS // 200)
async def test_a_scan_killed_five_times_notifies_of_every_row_once(
    installation: Installation, crm: str, tmp_path: Path, figure: Figure
) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    (scans / "crm.yaml").write_text(SCAN)
    environment = QUICK | {
        "TOCSIN_PERIODIC__FOLDER": str(scans),
        "TOCSIN_PERIODIC__DATABASES__CRM": crm,
    }
    await add_phones(installation)

    async def accepted(at_least: int) -> bool:
        count = await installation.pool.fetchval("select accepted from progress where name = 'new_customers'")
        return bool((count or 0) >= at_least)

    died_at, leased = [0], 0
    for kills_left in range(KILLS, 0, -1):
        furthest = died_at[-1] + (ROWS - died_at[-1]) // kills_left
        # Whichever row it is, is left to chance.
        moment = random.randint(min(died_at[-1] + 1, furthest), furthest)  # noqa: S311
        worker = await installation.start_worker(**environment)
        await found(partial(accepted, moment), within=60)
        await worker.kill()
        died_at.append(await installation.pool.fetchval("select count(*) from notifications"))
        leased += await installation.deliveries("lease is not null")
        await installation.expire_leases()
    await installation.start_worker(**environment)
    await found(lambda: accepted(ROWS), within=60 + ROWS / 1_000)
    await installation.until_sent(ROWS, within=90 + ROWS / 400)

    stats = installation.sandbox.stats()
    figure(f"rows accepted when the worker of a scan over {ROWS:,} was killed", died_at[1:])
    figure("pushes sent twice by five kills, and under lease then", (stats.duplicates, leased))
    pool = installation.pool
    assert await pool.fetchval("select count(*) from notifications") == ROWS
    keys = {row[0] for row in await pool.fetch("select idempotency_key from notifications")}
    assert keys == {f"new_customers:{number}" for number in range(1, ROWS + 1)}
    assert await installation.deliveries("true") == ROWS
    row = await pool.fetchrow("select * from progress where name = 'new_customers'")
    assert (row["accepted"], row["duplicates"], row["refused"]) == (ROWS, 0, 0)
    assert row["last_value"] == str(ROWS)
    assert stats.distinct_deliveries == ROWS
    # What its worker had under lease when it died may have arrived; nothing else is sent again.
    assert stats.duplicates <= leased


async def test_two_workers_make_each_run_once(installation: Installation, tmp_path: Path) -> None:
    """Every run makes a notification of its own, so that a run made twice would show."""
    (tmp_path / "feeds.py").write_text(MODULE)
    environment = QUICK | {"TOCSIN_PERIODIC__MODULES": "feeds"}

    async def runs() -> list[datetime]:
        rows = await installation.pool.fetch("select occurred_at from notifications order by id")
        return [row[0] for row in rows] if len(rows) >= RUNS else []

    await installation.start_workers(environment, environment)
    made = await found(runs)

    assert {later - earlier for earlier, later in pairwise(made)} == {timedelta(seconds=1)}


async def test_a_module_that_cannot_be_used_stops_the_worker_with_words(
    installation: Installation, tmp_path: Path
) -> None:
    (tmp_path / "feeds.py").write_text(MODULE.replace("* * * * * *", "now and then"))

    worker = await installation.start("worker", TOCSIN_PERIODIC__MODULES="feeds,no.such_module")

    assert await worker.end(within=40) == 2
    said = "\n".join(worker.log)
    assert "feeds.ticks: schedule 'now and then' is not in the notation of cron" in said
    assert "no.such_module: cannot be imported: ModuleNotFoundError: No module named 'no'" in said
