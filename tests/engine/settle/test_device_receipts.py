"""Pushes carry the token with which their device may report, and what was sent is counted by type."""

from datetime import UTC, datetime

import asyncpg
import pytest

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found
from tocsin.domain.delivery.receipts import ReceiptSettings, receipt_token
from tocsin.engine.settle.sent_counts import SentCounts

SECRET = "a secret for receipts of 32 bytes or more"


async def test_a_push_has_its_own_token_if_a_secret_is_set(stage: Stage) -> None:
    provider = StubProvider()
    await stage.device("ada")
    async with stage.working(provider, receipts=ReceiptSettings(secret=SECRET)):
        await stage.settled(await stage.accept("ada"), "sent")
    async with stage.working(provider):
        await stage.settled(await stage.accept("ada", idempotency_key="second"), "sent")

    first, second = provider.arrived
    assert first.data["receipt_token"] == receipt_token(SECRET, first.delivery_id)
    assert "receipt_token" not in second.data


async def test_what_was_sent_is_counted_by_type_and_day_when_a_worker_stops(stage: Stage) -> None:
    await stage.device("ada")
    async with stage.working(StubProvider()):
        for number in range(3):
            await stage.settled(await stage.accept("ada", idempotency_key=str(number)), "sent")

    async def counted() -> list[tuple[str, str, str, int]]:
        query = "select type, channel, event, sum(count)::int from receipt_counts group by 1, 2, 3"
        return [tuple(row) for row in await stage.pool.fetch(query)]

    assert await found(counted) == [("new_customer", "push", "sent", 3)]


async def test_counts_that_cannot_be_written_are_kept(stage: Stage) -> None:
    counts = SentCounts(stage.pool)
    counts.add("a", "push", 2, datetime(9999, 12, 31, 23, tzinfo=UTC))
    await stage.pool.execute("alter table receipt_counts rename to elsewhere")
    with pytest.raises(asyncpg.UndefinedTableError):
        await counts.write()
    await stage.pool.execute("alter table elsewhere rename to receipt_counts")
    await counts.write()
    await counts.write()

    assert await stage.pool.fetchval("select sum(count)::int from receipt_counts") == 2
