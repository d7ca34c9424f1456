"""What one person's inbox costs does not depend on how large those of others are, or on what was read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.inboxes import add_items
from tests.rows import NOW
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.ids import first_id_at, uuid7
from tocsin.store.inbox import items, marks
from tocsin.store.pool import Connection

LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
OTHERS, PAGE = 5_000, 20
FIRST = first_id_at(NOW)
OF_USER, UNREAD, UNSEEN = "inbox_items_of_user", "inbox_items_unread", "inbox_items_unseen"
PINNED: dict[str, tuple[str, tuple[Any, ...], set[str], int]] = {
    "list": (items.LIST_ACTIVE, ("ada", LAST, None, PAGE), {OF_USER}, PAGE),
    "list unread": (items.LIST_UNREAD, ("ada", LAST, None, PAGE), {UNREAD}, PAGE),
    "count": (items.COUNT, (["ada"], items.MOST_COUNTED), {UNREAD, UNSEEN}, 2 * items.MOST_COUNTED),
    "newest": (marks.NEWEST, ("ada",), {OF_USER}, 1),
    "read": (marks.READ, ("ada", FIRST, NOW), {OF_USER, "inbox_items_pkey"}, 1),
    "see all": (marks.SEE_ALL, ("ada", LAST, None, NOW, 10), {UNSEEN, "inbox_items_pkey"}, 20),
    "read all": (marks.READ_ALL, ("ada", LAST, None, NOW, 10), {UNREAD, "inbox_items_pkey"}, 20),
    "get many": (items.GET_MANY, ([FIRST, uuid7()],), {"inbox_items_pkey"}, 2),
}


@pytest.fixture(scope="module")
async def connection(server_url: str, template_database: str) -> AsyncIterator[Connection]:
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as opened,
    ):
        for name, (statement, arguments, _, _) in PINNED.items():
            # Plans are made while the table is empty, which is when they go wrong.
            await keep_plan(opened, name, statement, *arguments)
        for number in range(10):
            await add_items(opened, f"other{number}", OTHERS // 10)
        await add_items(opened, "ada", OTHERS)
        yield opened


@pytest.mark.parametrize("name", PINNED)
async def test_a_statement_reads_what_it_needs_and_no_more(connection: Connection, name: str) -> None:
    _, arguments, expected, most = PINNED[name]

    transaction = connection.transaction()
    await transaction.start()
    plan = await explain_kept(connection, name, *arguments)
    await transaction.rollback()

    assert indexes(plan, "inbox_items") <= expected
    assert indexes(plan, "inbox_items")
    assert rows_read(plan, "inbox_items") <= most
