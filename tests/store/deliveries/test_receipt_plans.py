"""A receipt costs look-ups, and rates read the counts of their days alone."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.rows import NOW, add_waiting
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.delivery.states import TRANSITIONS, State
from tocsin.domain.ids import uuid7
from tocsin.store import receipts
from tocsin.store.pool import Connection
from tocsin.store.receipts import CountedType

DAY = timedelta(days=1)
IDS = [uuid7(), uuid7()]
PINNED: dict[str, tuple[str, tuple[Any, ...], str, set[str], int]] = {
    "own": (receipts.OWN, (IDS, "ada"), "deliveries", {"deliveries_pkey"}, 2),
    "confirm": (receipts.CONFIRM, (IDS,), "deliveries", {"deliveries_pkey"}, 2),
    "owner": (receipts.OWNER, (IDS[0],), "deliveries", {"deliveries_pkey"}, 1),
    "of deliveries": (receipts.OF_DELIVERIES, (IDS,), "receipts", {"receipts_pkey"}, 2),
    "rates": (receipts.RATES, (NOW, NOW + DAY, None), "receipt_counts", {"receipt_counts_pkey"}, 8),
}


@pytest.fixture(scope="module")
async def connection(server_url: str, template_database: str) -> AsyncIterator[Connection]:
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as opened,
    ):
        for name, (statement, arguments, *_) in PINNED.items():
            await keep_plan(opened, name, statement, *arguments)
        await add_waiting(opened, 5_000, state="sent")
        await opened.execute(
            "insert into receipts (delivery_id, received_at, opened_at) select id, $1, $1 from deliveries",
            NOW,
        )
        await receipts.count(
            opened,
            {
                CountedType(NOW + number * DAY, "t", "push", event): 1
                for number in range(300)
                for event in ("sent", "delivered", "opened", "dismissed")
            },
        )
        yield opened


@pytest.mark.parametrize("name", PINNED)
async def test_a_statement_reads_what_it_needs_and_no_more(connection: Connection, name: str) -> None:
    _, arguments, table, expected, most = PINNED[name]

    plan = await explain_kept(connection, name, *arguments)

    assert indexes(plan, table) <= expected
    assert rows_read(plan, table) <= most


def test_only_what_was_sent_becomes_delivered() -> None:
    # As the statement has it.
    assert {before for before, after in TRANSITIONS.items() if State.DELIVERED in after} == {State.SENT}
    assert "state = 'sent'" in receipts.CONFIRM
