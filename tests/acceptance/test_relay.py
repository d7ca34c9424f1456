"""An application's transaction and its notification: both or neither, whatever dies in between."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from tests import rows
from tests.acceptance.figures import Figure
from tests.acceptance.installation import Installation
from tests.acceptance.processes import Process
from tests.databases import fresh_database, open_folder
from tests.ingress.outbox.outboxes import Shop, intent
from tests.ingress.outbox.wires import DatabaseWire, Steps
from tests.waiting import found
from tocsin.ingress.outbox.install import install

EVENTS = 300
KILLS = 6


@pytest.fixture
async def shop(server_url: str) -> AsyncIterator[Shop]:
    async with fresh_database(server_url) as url:
        connection = await asyncpg.connect(url)
        await install(connection, "public", "tocsin_outbox")
        yield Shop(url, connection)
        await connection.close()


async def test_killed_at_every_step_each_commit_sends_once_and_no_rollback_ever(
    installation: Installation, shop: Shop, figure: Figure
) -> None:
    """Every step is a message to or from one of the two databases, halted on its way when the kill comes."""
    steps, killed = Steps(), 0
    with open_folder() as folder:
        (folder / "own").mkdir()
        (folder / "theirs").mkdir()
        async with (
            DatabaseWire(
                installation.environment["TOCSIN_DATABASE_URL"], folder / "own", steps
            ).strung() as own,
            DatabaseWire(shop.url, folder / "theirs", steps).strung() as theirs,
        ):
            environment = {
                "TOCSIN_DATABASE_URL": own.url,
                "TOCSIN_OUTBOXES__SHOP__URL": theirs.url,
                "TOCSIN_OUTBOXES__SHOP__POLL_SECONDS": "3600",
                # One row at a time, so that no step is taken beside the ones that are counted.
                "TOCSIN_OUTBOXES__SHOP__ORDER": "aggregate",
            }
            relay = await _started(installation, environment)
            for number in count():
                await _roll_back(shop)
                steps.halt_after(number)
                row_id = await shop.publish(intent(f"user-{number}"), "order", "17")
                if not await _halted_before_published(steps, shop, row_id):
                    break
                await relay.kill()
                killed += 1
                await own.cut()
                await theirs.cut()
                steps.go_on()
                relay = await _started(installation, environment)
                await shop.all_published()

    figure("steps at which a relay was killed", killed)
    assert killed >= 10
    await _each_told_once(installation, killed + 1)
    accepted = await installation.pool.fetch("select idempotency_key from notifications order by id")
    assert [int(row["idempotency_key"]) for row in accepted] == [row["id"] for row in await shop.rows()]


async def test_relays_killed_at_random_lose_and_double_nothing(
    installation: Installation, shop: Shop
) -> None:
    environment = {"TOCSIN_OUTBOXES__SHOP__URL": shop.url, "TOCSIN_OUTBOXES__SHOP__BATCH": "5"}
    relays = [await _started(installation, environment) for _ in range(2)]
    chance = random.Random(5)  # noqa: S311 - any sequence will do
    writer = await asyncpg.connect(shop.url)
    writing = asyncio.create_task(_write(Shop(shop.url, writer)))

    for kill in range(KILLS):
        least = EVENTS * (kill + 1) // (KILLS + 1) - chance.randrange(20)
        await found(partial(_accepted, installation, least))
        victim = chance.randrange(2)
        await relays[victim].kill()
        relays[victim] = await installation.start("relay", **environment)
    await writing
    await writer.close()
    await shop.all_published()

    await _each_told_once(installation, EVENTS)


async def test_serve_relays_too(installation: Installation, shop: Shop) -> None:
    served = await installation.start("serve", TOCSIN_OUTBOXES__SHOP__URL=shop.url)
    await served.logged("listener connected", channel="public.tocsin_outbox")
    await shop.publish()
    await shop.all_published()
    served.signal(signal.SIGTERM)

    assert await served.end(within=60) == 0


async def test_a_relay_without_outboxes_says_what_to_set(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "tocsin.toml").touch()
    relay = await installation.start("relay")

    assert await relay.end() == 2
    assert "outboxes.shop.url (TOCSIN_OUTBOXES__SHOP__URL)" in " ".join(relay.log)


async def _started(installation: Installation, environment: dict[str, str]) -> Process:
    relay = await installation.start("relay", **environment)
    await relay.logged("listener connected", channel="public.tocsin_outbox")
    return relay


async def _roll_back(shop: Shop) -> None:
    transaction = shop.connection.transaction()
    await transaction.start()
    await shop.publish(intent("nobody"), "order", "17")
    await transaction.rollback()


async def _halted_before_published(steps: Steps, shop: Shop, row_id: int) -> bool:
    """Wait until the relay stands still, or has done everything before it could be halted."""

    async def look() -> str:
        if steps.halted.is_set():
            return "halted"
        return "" if row_id in await shop.waiting() else "published"

    return await found(look) == "halted"


async def _write(shop: Shop) -> None:
    for number in range(EVENTS):
        await _roll_back(shop)
        await shop.publish(intent(f"user-{number}"))


async def _accepted(installation: Installation, least: int) -> bool:
    accepted: int = await installation.pool.fetchval("select count(*) from notifications")
    return accepted >= least


async def _each_told_once(installation: Installation, people: int) -> None:
    """See that so many people, and nobody else, hear of it once each."""
    for number in range(people):
        await rows.add_device(installation.pool, f"user-{number}", token=f"phone-{number}")
    told = await installation.pool.fetch("select user_id from deliveries")
    assert sorted(row["user_id"] for row in told) == sorted(f"user-{number}" for number in range(people))
    await installation.start_worker()
    await installation.until_sent(people)
    stats = installation.sandbox.stats()
    assert (stats.distinct_deliveries, stats.duplicates) == (people, 0)
