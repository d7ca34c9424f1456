"""An outbox and Tocsin in two databases, and a relay between them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.processes import free_port
from tests.databases import SCHEMA
from tests.ingress.outbox.outboxes import Shop, Tocsin, intent
from tests.waiting import found
from tocsin.domain.delivery.backoff import Exponential
from tocsin.ingress.outbox.accept import MOST_WAVES
from tocsin.ingress.outbox.install import install
from tocsin.ingress.outbox.rows import TAKE
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.outbox.table import inspect
from tocsin.store.pool import PoolSettings, open_pool
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import read_samples

QUICK = 0.02

_CUT = """
select pg_terminate_backend(pid)
from pg_stat_activity
where application_name = 'tocsin relay' and datname = current_database()
"""
_REFUSED_BY_THE_DATABASE = """
select xact_rollback > 0
from pg_stat_database
where datname = current_database()
"""


def _payload(value: str) -> str:
    """Write an intent as text, with a value that no encoder would write."""
    return (
        '{"type": "new_customer", "audience": {"users": ["ada"]}, "payload": {"customer_name": '
        + value
        + "}}"
    )


async def test_what_is_committed_is_accepted_once_and_what_is_rolled_back_never(
    shop: Shop, tocsin: Tocsin
) -> None:
    async with tocsin.relaying(OutboxSettings(url=shop.url)):
        transaction = shop.connection.transaction()
        await transaction.start()
        await shop.publish(intent("nobody"))
        await transaction.rollback()
        async with shop.connection.transaction():
            kept = await shop.publish(intent("ada"))
        await shop.all_published()

    [notification] = await tocsin.notifications()
    assert (notification["producer"], notification["idempotency_key"]) == ("shop", str(kept))
    assert notification["audience"] == '{"users": ["ada"]}'
    [row] = await shop.rows()
    assert (row["failed_attempts"], row["next_retry_at"], row["last_error"]) == (0, None, None)


async def test_a_row_is_heard_of_without_looking(shop: Shop, tocsin: Tocsin) -> None:
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=3_600)):
        await shop.publish()
        await shop.all_published()
        await shop.publish()
        await shop.all_published()

    assert len(await tocsin.notifications()) == 2


async def test_a_row_that_nobody_announced_is_found_by_looking(shop: Shop, tocsin: Tocsin) -> None:
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK)):
        await shop.publish()
        await shop.all_published()
        await shop.connection.execute(
            """insert into tocsin_outbox (intent) select intent from tocsin_outbox"""
        )
        await shop.all_published()

    assert len(await tocsin.notifications()) == 2


async def test_a_row_accepted_before_is_answered_as_a_duplicate(shop: Shop, tocsin: Tocsin) -> None:
    settings = OutboxSettings(url=shop.url, poll_seconds=QUICK)
    async with tocsin.relaying(settings):
        await shop.publish()
        await shop.all_published()
        # As if the relay had died after the acceptance and before its mark.
        await shop.connection.execute("update tocsin_outbox set published_at = null")
        await shop.all_published()

    assert len(await tocsin.notifications()) == 1


async def test_an_intent_may_bring_its_own_key(shop: Shop, tocsin: Tocsin) -> None:
    await shop.publish(intent(idempotency_key="order-17"))
    await shop.publish(intent(idempotency_key="order-17"))

    async with tocsin.relaying(OutboxSettings(url=shop.url, producer="sales")):
        await shop.all_published()

    [notification] = await tocsin.notifications()
    assert (notification["producer"], notification["idempotency_key"]) == ("sales", "order-17")


async def test_a_refused_row_goes_down_the_ladder_and_raises_an_alarm(shop: Shop, tocsin: Tocsin) -> None:
    waits = []
    row_id = await shop.publish(intent(payload={}))
    good = await shop.publish()
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK)):
        for attempt in range(1, 8):
            before = tocsin.clock()
            row = await shop.failed(row_id, attempt)
            assert "payload.customer_name: is missing" in row["last_error"]
            waits.append((row["next_retry_at"] - before + timedelta(seconds=30)) // timedelta(minutes=1))
            standing = await tocsin.pool.fetch("select provider, code, detail, count from alarms")
            assert len(standing) == (attempt >= 5)
            tocsin.clock.advance(row["next_retry_at"] - tocsin.clock() + timedelta(seconds=1))

    assert waits == [1, 5, 15, 60, 360, 1440, 1440]
    [alarm] = standing
    assert (alarm["provider"], alarm["code"], alarm["count"]) == ("outbox:shop", "row_refused", 3)
    assert f"row {row_id} was refused 7 times" in alarm["detail"]
    assert await tocsin.keys() == [str(good)]


async def test_a_mended_row_goes_at_its_next_time(shop: Shop, tocsin: Tocsin) -> None:
    row_id = await shop.publish(intent(payload={}))
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK)):
        await shop.failed(row_id, 1)
        await shop.connection.execute(
            "update tocsin_outbox set next_retry_at = null,"
            """ intent = jsonb_set(intent, '{payload}', '{"customer_name": "Ali Veli"}')"""
        )
        await shop.all_published()

    row = await shop.row(row_id)
    assert (row["failed_attempts"], row["last_error"]) == (1, None)
    assert await tocsin.keys() == [str(row_id)]


async def test_a_changed_row_that_was_accepted_before_is_refused(shop: Shop, tocsin: Tocsin) -> None:
    row_id = await shop.publish()
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK)):
        await shop.all_published()
        await shop.connection.execute(
            "update tocsin_outbox set published_at = null,"
            """ intent = jsonb_set(intent, '{payload}', '{"customer_name": "Veli Ali"}')"""
        )
        row = await shop.failed(row_id, 1)

    assert "holds this row's key with other content" in row["last_error"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("null", "Expected object, got null"),
        ('{"type": 7}', "type: Expected str, got int"),
        (_payload("[" * 5_000 + "]" * 5_000), "nested too deep"),
        (f'"{"x" * 1_100_000}"', "more than 1000000 characters"),
        (_payload("1e999"), "Number out of range"),
        (_payload("1180591620717411303424"), "payload"),
        (_payload('"\\ud800"'), "not JSON"),
        (_payload('"\\u0000"'), "NUL"),
        ("{", "not JSON"),
        (None, "not JSON"),
    ],
    ids=[
        "null",
        "shape",
        "deep",
        "large",
        "infinite",
        "long number",
        "half a character",
        "NUL",
        "cut",
        "none",
    ],
)
async def test_whatever_a_row_holds_it_stops_no_other(
    bare_shop: Shop, tocsin: Tocsin, content: str | None, error: str
) -> None:
    await install(bare_shop.connection, "public", "tocsin_outbox")
    # As a table of somebody else's may hold anything.
    await bare_shop.connection.execute(
        "alter table tocsin_outbox alter intent drop not null, alter intent type text using intent::text"
    )
    insert = "insert into tocsin_outbox (intent) values ($1), ($2) returning id"
    rows = await bare_shop.connection.fetch(insert, content, _payload('"Ali Veli"'))
    bad, good = (row["id"] for row in rows)

    async with tocsin.relaying(OutboxSettings(url=bare_shop.url, poll_seconds=QUICK)):
        row = await bare_shop.failed(bad, 1)

    assert error in row["last_error"]
    assert await tocsin.keys() == [str(good)]


async def test_rows_are_found_by_the_index_of_those_that_wait(shop: Shop) -> None:
    connection = shop.connection
    await shop.publish()
    await connection.execute(
        "insert into tocsin_outbox (intent, aggregate_id) select intent, '17' from tocsin_outbox,"
        " generate_series(1, 20000)"
    )
    await connection.execute("analyze tocsin_outbox")
    await connection.execute("set plan_cache_mode = force_generic_plan")
    table = await inspect(connection, OutboxSettings(url=shop.url))
    await connection.execute(f"prepare take as {table.sql(TAKE)}")

    plan = await connection.fetch("explain execute take (now(), 500, '{}')")

    written = "\n".join(row[0] for row in plan)
    assert "Index Scan using tocsin_outbox_waiting" in written
    assert "Sort" not in written


async def test_many_rows_of_one_aggregate_do_not_keep_a_transaction_long(shop: Shop, tocsin: Tocsin) -> None:
    settings = OutboxSettings(url=shop.url, order="aggregate", poll_seconds=3_600)
    async with shop.connection.transaction():
        ids = [await shop.publish(intent(), "order", "17") for _ in range(MOST_WAVES + 10)]

    async with tocsin.relaying(settings):
        await shop.all_published()

    assert [int(key) for key in await tocsin.keys()] == ids


async def test_several_relays_share_one_outbox(shop: Shop, tocsin: Tocsin) -> None:
    ids = [str(await shop.publish(intent(f"user-{number}"))) for number in range(60)]
    settings = OutboxSettings(url=shop.url, batch=3, poll_seconds=QUICK)

    async with tocsin.relaying(settings), tocsin.relaying(settings):
        await shop.all_published()

    assert sorted(await tocsin.keys(), key=int) == ids


async def test_several_applications_are_relayed_beside_each_other(shop: Shop, tocsin: Tocsin) -> None:
    await shop.connection.execute("create schema billing")
    await install(shop.connection, "billing", "told")
    await shop.publish()
    await shop.connection.execute("set search_path = billing")
    await shop.publish()

    async with (
        tocsin.relaying(OutboxSettings(url=shop.url), "shop"),
        tocsin.relaying(OutboxSettings(url=shop.url, schema="billing", table="told"), "billing"),
    ):
        await shop.all_published("public.tocsin_outbox")
        await shop.all_published("billing.told")

    found = {(row["producer"], row["idempotency_key"]) for row in await tocsin.notifications()}
    assert found == {("shop", "1"), ("billing", "1")}


async def test_in_order_a_refused_row_holds_back_its_aggregate_alone(shop: Shop, tocsin: Tocsin) -> None:
    settings = OutboxSettings(url=shop.url, order="aggregate", poll_seconds=QUICK)
    first = await shop.publish(intent(), "order", "17")
    bad = await shop.publish(intent(payload={}), "order", "17")
    held = [await shop.publish(intent(), "order", "17") for _ in range(2)]
    others = [await shop.publish(intent(), "order", "18"), await shop.publish(intent())]
    same_id = await shop.publish(intent(), "customer", "17")

    async with tocsin.relaying(settings):
        row = await shop.failed(bad, 1)
        later = await shop.publish(intent(), "order", "17")
        more = await shop.publish(intent(), "order", "19")
        await found(lambda: _published(shop, more))
        assert await shop.waiting() == [bad, *held, later]
        assert set(map(int, await tocsin.keys())) == {first, *others, same_id, more}
        await shop.connection.execute(
            """update tocsin_outbox set intent = jsonb_set(intent, '{payload}', '{"customer_name": "A"}')"""
        )
        tocsin.clock.advance(row["next_retry_at"] - tocsin.clock() + timedelta(seconds=1))
        await shop.all_published()

    accepted = [int(key) for key in await tocsin.keys()]
    assert [key for key in accepted if key in {first, bad, *held, later}] == [first, bad, *held, later]


async def test_in_order_several_relays_never_overtake_each_other(shop: Shop, tocsin: Tocsin) -> None:
    settings = OutboxSettings(url=shop.url, order="aggregate", batch=4, poll_seconds=QUICK)
    ids = [await shop.publish(intent(), "order", str(number % 3)) for number in range(45)]

    async with tocsin.relaying(settings), tocsin.relaying(settings), tocsin.relaying(settings):
        await shop.all_published()

    accepted = [int(key) for key in await tocsin.keys()]
    for number in range(3):
        assert [key for key in accepted if key in ids[number::3]] == ids[number::3]


async def test_an_outage_of_tocsins_database_is_no_fault_of_a_row(
    shop: Shop, tocsin: Tocsin, database_url: str
) -> None:
    row_id = await shop.publish()
    async with open_pool(database_url, SCHEMA, PoolSettings()) as frail:
        await tocsin.pool.execute("alter table notifications rename to gone")
        async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK), pool=frail):
            await found(lambda: _was_refused_by_the_database(tocsin))
            assert (await shop.row(row_id))["failed_attempts"] == 0
            await tocsin.pool.execute("alter table gone rename to notifications")
            await shop.all_published()

    row = await shop.row(row_id)
    assert (row["failed_attempts"], row["last_error"]) == (0, None)
    assert await tocsin.keys() == [str(row_id)]


async def test_lost_connections_to_the_application_are_made_anew(shop: Shop, tocsin: Tocsin) -> None:
    async with tocsin.relaying(OutboxSettings(url=shop.url, poll_seconds=QUICK)):
        for _ in range(3):
            await shop.publish()
            await shop.all_published()
            await shop.connection.execute(_CUT)

    assert len(await tocsin.keys()) == 3


async def test_what_was_published_long_ago_is_pruned(shop: Shop, tocsin: Tocsin) -> None:
    old, fresh, waits = [await shop.publish() for _ in range(3)]
    now = datetime.now(UTC)
    await shop.connection.execute(
        "update tocsin_outbox set published_at = $2 where id = $1", old, now - timedelta(days=8)
    )
    await shop.connection.execute(
        "update tocsin_outbox set published_at = $2 where id = $1", fresh, now - timedelta(days=6)
    )

    async with tocsin.relaying(OutboxSettings(url=shop.url)):
        await shop.all_published()

        async def pruned() -> bool:
            return [row["id"] for row in await shop.rows()] == [fresh, waits]

        await found(pruned)


async def test_a_table_that_is_not_there_yet_is_waited_for(
    bare_shop: Shop, tocsin: Tocsin, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = timedelta(seconds=QUICK)
    monkeypatch.setattr("tocsin.ingress.outbox.relay.BACKOFF", Exponential(pause, pause))
    async with tocsin.relaying(OutboxSettings(url=bare_shop.url)):
        await install(bare_shop.connection, "public", "tocsin_outbox")
        await bare_shop.publish()
        await bare_shop.all_published()

    assert len(await tocsin.keys()) == 1


def test_the_address_of_an_application_is_not_shown() -> None:
    assert "hunter2" not in repr(OutboxSettings(url="postgresql://app:hunter2@db.example/app"))


async def _published(shop: Shop, row_id: int) -> bool:
    return row_id not in await shop.waiting()


async def _was_refused_by_the_database(tocsin: Tocsin) -> bool:
    failed: bool = await tocsin.pool.fetchval(_REFUSED_BY_THE_DATABASE)
    return failed


async def test_the_lag_of_an_outbox_that_is_away_grows(
    tocsin: Tocsin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics.switch, "on", True)
    away = OutboxSettings(url=f"postgresql://tocsin@127.0.0.1:{free_port()}/shop")

    def lag() -> object:
        return read_samples()["tocsin_relay_lag_seconds"][("away",)]

    async with tocsin.relaying(away, "away"):
        await asyncio.sleep(0)
        assert lag() == 0
        tocsin.clock.advance(timedelta(minutes=5))
        assert lag() == pytest.approx(300, abs=20)
        tocsin.clock.advance(timedelta(minutes=5))
        assert lag() == pytest.approx(600, abs=20)
