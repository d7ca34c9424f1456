"""Dead letters are read by their own index, however many deliveries were sent."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.rows import NOW, add_delivery, add_notification
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.delivery.states import DEAD_LETTERS
from tocsin.domain.ids import uuid7
from tocsin.store.dead_letters import reading, replaying
from tocsin.store.dead_letters.reading import FIRST, LAST
from tocsin.store.pool import Connection
from tocsin.wire.dead_letters import DeadLetterFilter

SENT, DEAD = 20_000, 300
DEAD_INDEX, BY_ID = "deliveries_dead_letters", "deliveries_pkey"
BY_NOTIFICATION, OF_DIGEST = "deliveries_by_notification_and_user", "deliveries_of_digest"
OF_USER = "deliveries_of_user"
OF_ADDRESS = "deliveries_of_address"
ONE = uuid7()
OLDEST, COLLAPSIBLE = uuid7(), uuid7()
FILL = """
insert into deliveries (
    id, notification_id, channel, user_id, lane, state, last_error_code, due_at, created_at, settled_at
)
select
    id, $1, 'push', 'ada', 'fcm', case when number <= $2 then 'dead' else 'sent' end,
    case when number % 2 = 0 then 'UNAVAILABLE' end, $3, $3, $3
from unnest($4::uuid[]) with ordinality as given (id, number)
"""


def filtered(template: str, first: int, *before: Any) -> tuple[str, tuple[Any, ...]]:
    asked = reading.statement(template, DeadLetterFilter(code="UNAVAILABLE", type="offer"), first)
    return asked.sql, (*before, *asked.arguments)


def chosen(template: str, first: int, *before: Any) -> tuple[str, tuple[Any, ...]]:
    asked = reading.statement(template, DeadLetterFilter(delivery_ids=[ONE, COLLAPSIBLE]), first)
    return asked.sql, (*before, *asked.arguments)


PINNED: dict[str, tuple[str, tuple[Any, ...], set[str], int]] = {
    "end_of_stretch": (reading.END_OF_STRETCH, (FIRST, LAST, 199), {DEAD_INDEX}, 200),
    "start_of_newest": (reading.START_OF_NEWEST, (199,), {DEAD_INDEX}, 200),
    "newest": (reading.NEWEST, (), {DEAD_INDEX}, 1),
    "groups": (*filtered(reading._GROUPS, 4, FIRST, LAST, 100), {DEAD_INDEX, BY_ID}, DEAD),
    "count": (*filtered(reading._COUNT, 3, FIRST, LAST), {DEAD_INDEX}, DEAD),
    "matching": (*filtered(reading._MATCHING, 4, FIRST, LAST, 100), {DEAD_INDEX}, DEAD),
    "page": (*filtered(reading._PAGE, 3, FIRST, LAST), {DEAD_INDEX}, DEAD),
    "chosen": (*chosen(reading._MATCHING, 4, FIRST, LAST, 100), {DEAD_INDEX, BY_ID}, 2),
    "page_of_chosen": (*chosen(reading._PAGE, 3, FIRST, LAST), {DEAD_INDEX, BY_ID}, 2),
    "candidates": (
        replaying.CANDIDATES,
        ([ONE], NOW, list(DEAD_LETTERS)),
        {BY_ID, BY_NOTIFICATION, OF_USER, OF_ADDRESS},
        0,
    ),
    "candidates_of_a_busy_recipient": (
        replaying.CANDIDATES,
        ([COLLAPSIBLE], NOW, list(DEAD_LETTERS)),
        {BY_ID, BY_NOTIFICATION, OF_USER, OF_ADDRESS},
        502,
    ),
    "free_devices": (replaying.FREE_DEVICES, ([ONE], ["ada"], ["push"]), {BY_NOTIFICATION}, 0),
    "replay": (replaying.REPLAY, ([ONE], [None], ["fcm"], NOW, "[]", list(DEAD_LETTERS)), {BY_ID}, 0),
    "members": (replaying.MEMBERS, ([ONE], list(DEAD_LETTERS), NOW), {OF_DIGEST}, 0),
    "replay_members": (replaying.REPLAY_MEMBERS, ([ONE], "[]"), {BY_ID}, 0),
    "renew": (replaying.RENEW, ([ONE], NOW, [ONE], list(DEAD_LETTERS)), {OF_DIGEST}, 0),
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
    notification_id = await add_notification(connection)
    await connection.execute(FILL, notification_id, DEAD - 1, NOW, [uuid7() for _ in range(SENT)])
    await add_notification(connection, id=OLDEST)
    dead: dict[str, Any] = {"state": "dead", "settled_at": NOW, "collapse_key": "score", "accept_order": 1}
    await add_delivery(connection, id=COLLAPSIBLE, notification_id=OLDEST, **dead)


@pytest.mark.parametrize("name", PINNED)
async def test_only_dead_letters_are_read(kept: Connection, name: str) -> None:
    _, arguments, expected, most = PINNED[name]

    plan = await explain_kept(kept, name, *arguments)

    assert indexes(plan) <= expected
    assert rows_read(plan) <= most
    assert rows_read(plan, "notifications") <= most


async def test_newer_messages_are_read_by_their_recipient(kept: Connection) -> None:
    name = "candidates_of_a_busy_recipient"

    plan = await explain_kept(kept, name, *PINNED[name][1])

    used = {node["Index Name"] for node in plan if node.get("Alias", "").startswith("other")}
    assert used == {OF_USER, OF_ADDRESS}
