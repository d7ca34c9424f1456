"""Erasure and export read the rows of one person, however many people there are."""

from collections.abc import AsyncIterator

import pytest

from tests.databases import fresh_database
from tests.rows import NOW, add_notification
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read, worker_connection
from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import uuid7
from tocsin.store.people import erasure, export
from tocsin.store.pool import Connection

PEOPLE = 5_000
NOTIFICATION = uuid7()
WAIT = sorted(WAITING)
OF_USER, OF_ADDRESS, BY_NOTIFICATION = (
    "deliveries_of_user",
    "deliveries_of_address",
    "deliveries_by_notification_and_user",
)
OF_DIGEST = "deliveries_of_digest"
PINNED = {
    "erase deliveries": (
        erasure.ERASE_DELIVERIES, ("user7", NOW, WAIT, 100), {OF_USER, "deliveries_pkey"}
    ),
    "erase mail": (
        erasure.ERASE_MAIL, ("user7@example.org", NOW, WAIT, 100), {OF_ADDRESS, "deliveries_pkey"}
    ),
    "erase deliveries of an organisation": (
        erasure.ERASE_DELIVERIES_WITHIN,
        ("user7", NOW, WAIT, 100, "acme"),
        {OF_USER, OF_DIGEST, "deliveries_pkey"},
    ),
    "erase mail of an organisation": (
        erasure.ERASE_MAIL_WITHIN,
        ("user7@example.org", NOW, WAIT, 100, "acme"),
        {OF_ADDRESS, OF_DIGEST, "deliveries_pkey"},
    ),
    "is being sent for an organisation": (
        erasure.IS_BEING_SENT_WITHIN,
        ("user7", "user7@example.org", "acme"),
        {OF_USER, OF_ADDRESS, OF_DIGEST},
    ),
    "erase notifications": (
        erasure.ERASE_NOTIFICATIONS, ([NOTIFICATION], "user7", "x@example.org", NOW, WAIT), {BY_NOTIFICATION}
    ),
    "is being sent": (erasure.IS_BEING_SENT, ("user7", "user7@example.org"), {OF_USER, OF_ADDRESS}),
    "export ids": (
        export.NOTIFICATION_IDS, ("user7", "user7@example.org", export.START, 100), {OF_USER, OF_ADDRESS}
    ),
    "export deliveries": (export.DELIVERIES, ([NOTIFICATION], "user7", None), {BY_NOTIFICATION}),
    "export carriers": (export.CARRIERS, ("user7", export.START, 100), {OF_USER}),
}  # fmt: skip
# Two deliveries, one to the address, and one that carried a digest.
FILL = """
insert into deliveries (
    id, notification_id, digest_id, channel, lane, user_id, address, state, due_at, created_at, settled_at
)
select
    gen_random_uuid(), case when number < 4 then $2::uuid end,
    case when number = 4 then gen_random_uuid() end, 'email', 'smtp',
    case when number <> 3 then 'user' || person end,
    case when number = 3 then 'user' || person || '@example.org' end, 'sent', now(), now(), now()
from generate_series(1, $1::integer) as person, generate_series(1, 4) as number
"""


ERASURES = """
insert into erasures (id, user_id, user_hash, requested_at, finished_at)
select
    gen_random_uuid(), case when number = 1 then 'ada' end, '', now(), case when number > 1 then now() end
from generate_series(1, $1::integer) as number
"""


async def fill(connection: Connection) -> None:
    await connection.execute(ERASURES, PEOPLE)
    await add_notification(connection, id=NOTIFICATION)
    await connection.execute(FILL, 2, NOTIFICATION)
    await connection.execute(FILL, PEOPLE, await add_notification(connection))


@pytest.fixture(scope="module", params=["planned on empty tables", "analyzed"])
async def planned(
    request: pytest.FixtureRequest, server_url: str, template_database: str
) -> AsyncIterator[Connection]:
    async with (
        fresh_database(server_url, template_database) as url,
        worker_connection(url) as connection,
        worker_connection(url) as other,
    ):
        if request.param == "analyzed":
            await fill(other)
            await other.execute("analyze")
        for name, (statement, arguments, _) in PINNED.items():
            await keep_plan(connection, name, statement, *arguments)
        await keep_plan(connection, "claim", erasure.CLAIM, NOW, NOW)
        if request.param != "analyzed":
            await fill(other)
        yield connection


@pytest.mark.parametrize("name", PINNED)
async def test_the_rows_of_one_person_are_read(planned: Connection, name: str) -> None:
    _, arguments, used = PINNED[name]
    executing = planned.transaction()
    await executing.start()
    try:
        plan = await explain_kept(planned, name, *arguments)
    finally:
        await executing.rollback()

    assert indexes(plan) == used
    assert rows_read(plan) <= 12


async def test_finished_erasures_are_not_read_to_find_one_to_continue(planned: Connection) -> None:
    executing = planned.transaction()
    await executing.start()
    try:
        plan = await explain_kept(planned, "claim", NOW, NOW)
    finally:
        await executing.rollback()

    assert rows_read(plan, "erasures") <= 2
    assert "Seq Scan" not in indexes(plan, "erasures")
