"""How far behind the relay of an outbox is, as operators see it."""

import msgspec
import pytest

from tests.acceptance.processes import free_port
from tests.ingress.lags import reaches
from tests.ingress.outbox.outboxes import Shop, Tocsin, intent
from tests.running import running
from tests.waiting import found
from tocsin.engine.health.provider_health import Waiting
from tocsin.ingress.outbox import relay as module
from tocsin.ingress.outbox.settings import OutboxSettings

UNKNOWN = intent("ada", type="no_such_type")
ENDS_OF_THE_CALENDAR = ("infinity", "-infinity", "0044-03-15 12:00:00+00 BC")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_SECONDS", 0.05)


async def test_rows_that_wait_are_counted_up_to_a_number(
    shop: Shop, tocsin: Tocsin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", 2)
    refused = await shop.publish(UNKNOWN)
    relay = tocsin.relay(OutboxSettings(url=shop.url))

    async with running(relay):
        await shop.failed(refused, 1)
        one = await reaches(tocsin.pool, relay.report, lambda each: each.waiting == Waiting(1, or_more=False))
        for _ in range(2):
            await shop.failed(await shop.publish(UNKNOWN), 1)
        many = await reaches(tocsin.pool, relay.report, lambda each: each.waiting == Waiting(2, or_more=True))
        await shop.connection.execute("update tocsin_outbox set published_at = now()")
        none = await reaches(
            tocsin.pool, relay.report, lambda each: each.waiting == Waiting(0, or_more=False)
        )

    assert (one.kind, one.name, one.state) == ("outbox", "shop", "reading")
    assert one.last_error == "1 row was refused; the outbox has the reason, and they are retried"
    assert one.progressed_at is not None
    assert one.lag_seconds is not None
    assert many.lag_seconds is not None
    assert many.lag_seconds >= one.lag_seconds > 0
    assert (none.lag_seconds, none.oldest_at) == (0, None)


async def test_rows_that_are_accepted_are_progress(shop: Shop, tocsin: Tocsin) -> None:
    relay = tocsin.relay(OutboxSettings(url=shop.url))

    async with running(relay):
        await shop.publish(intent("ada"))
        await shop.all_published()
        shown = await reaches(tocsin.pool, relay.report, lambda each: each.progressed_at is not None)

    assert (shown.state, shown.last_error) == ("reading", None)


async def test_an_outbox_that_is_away_is_failing_and_keeps_what_was_known(shop: Shop, tocsin: Tocsin) -> None:
    refused = await shop.publish(UNKNOWN)
    relay = tocsin.relay(OutboxSettings(url=shop.url))
    async with running(relay):
        await shop.failed(refused, 1)
        await reaches(tocsin.pool, relay.report, lambda each: each.waiting == Waiting(1, or_more=False))
    port = free_port()
    away = tocsin.relay(OutboxSettings(url=f"postgresql://tocsin:hush@127.0.0.1:{port}/shop"))

    async with running(away):
        shown = await reaches(tocsin.pool, away.report, lambda each: each.state == "failing")

    assert shown.waiting == Waiting(1, or_more=False)
    assert shown.lag_seconds is not None
    assert shown.last_error is not None
    assert "The application's database does not answer" in shown.last_error
    assert "hush" not in shown.last_error


@pytest.mark.parametrize("written", ENDS_OF_THE_CALENDAR)
async def test_a_time_at_the_end_of_the_calendar_does_not_stop_the_relay(
    shop: Shop, tocsin: Tocsin, written: str
) -> None:
    await shop.publish(UNKNOWN)
    await shop.connection.execute(f"update tocsin_outbox set created_at = '{written}'")  # noqa: S608 - of this test
    relay = tocsin.relay(OutboxSettings(url=shop.url))

    async with running(relay):
        shown = await reaches(
            tocsin.pool, relay.report, lambda each: each.waiting == Waiting(1, or_more=False)
        )

    assert shown.state == "reading"
    assert shown.lag_seconds is not None
    assert (shown.lag_seconds < 60) is (written == "infinity")


@pytest.mark.parametrize("written", ENDS_OF_THE_CALENDAR)
async def test_a_row_at_the_end_of_the_calendar_does_not_stop_those_ordered_by_time(
    shop: Shop, tocsin: Tocsin, written: str
) -> None:
    columns = "published_at timestamptz, next_retry_at timestamptz, failed_attempts int, last_error text"
    await shop.connection.execute(
        f"create table events (id uuid primary key, intent jsonb, created_at timestamptz, {columns})"
    )
    insert = "insert into events values (gen_random_uuid(), $1::jsonb, $2::text::timestamptz)"
    content = msgspec.json.encode(intent("eve")).decode()
    await shop.connection.executemany(insert, [(content, each) for each in ("now", None, written)])

    async with running(tocsin.relay(OutboxSettings(url=shop.url, table="events"))):
        # Not `all_published`, which reads the times too.
        await found(lambda: shop.connection.fetchval("select bool_and(published_at is not null) from events"))
