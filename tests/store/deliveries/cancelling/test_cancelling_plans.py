"""Cancelling reads the deliveries that it cancels, however many others wait or were sent."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.rows import NEVER, NOW, add_notification, add_waiting
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import uuid7
from tocsin.store.deliveries import cancelling
from tocsin.store.pool import Connection

BACKLOG, HELD = 10_000, 30
BY_NOTIFICATION, BY_ID = "deliveries_by_notification_and_user", "deliveries_pkey"
OTHERS = {"deliveries_carrying", "deliveries_of_digest"}
TARGET = uuid7()
PINNED: dict[str, tuple[str, tuple[Any, ...], set[str], int]] = {
    "count_waiting": (cancelling.COUNT_WAITING, ([TARGET], NOW, list(WAITING)), {BY_NOTIFICATION}, 1),
    "mark": (cancelling.MARK, ([TARGET], NOW), set(), 0),
    "cancel_many": (
        cancelling.CANCEL_MANY,
        ([TARGET], NOW, list(WAITING), "[]"),
        {BY_NOTIFICATION, BY_ID, *OTHERS},
        2,
    ),
    "cancel_held": (
        cancelling.CANCEL_HELD,
        ("type:offer", NOW, 10, "[]"),
        {"deliveries_held", BY_ID},
        20,
    ),
}


@pytest.fixture(scope="module", params=["planned on an empty table", "analyzed"])
async def kept(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    async with fresh_database(server_url, template_database) as url, worker_connection(url) as connection:
        if request.param == "analyzed":
            await fill(connection)
            await connection.execute("analyze")
        for name, (statement, arguments, _, _) in PINNED.items():
            await keep_plan(connection, name, statement, *arguments)
        if request.param != "analyzed":
            await fill(connection)
        yield connection


async def fill(connection: Connection) -> None:
    await add_waiting(connection, BACKLOG)
    await add_waiting(connection, HELD, state="scheduled", due_at=NEVER, held_by="type:offer")
    await add_notification(connection, id=TARGET)
    await connection.execute(
        "update deliveries set notification_id = $1 where id = (select id from deliveries limit 1)", TARGET
    )


@pytest.mark.parametrize("name", PINNED)
async def test_only_what_is_cancelled_is_read(kept: Connection, name: str) -> None:
    _, arguments, expected, most = PINNED[name]

    async with kept.transaction():
        plan = await explain_kept(kept, name, *arguments)

    assert indexes(plan) <= expected
    assert rows_read(plan) <= most
    assert indexes(plan, "notifications") <= {"notifications_pkey", "notifications_in_order"}
