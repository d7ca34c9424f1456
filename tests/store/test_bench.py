"""The lines of the bench run, and what they ask meanwhile costs the measured database next to nothing."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import pytest

from bench.lines.database import planning
from bench.process import ProgramFailedError
from bench.settled import START, WAITING, WAITING_OF, Waiting, check_sent, is_waiting, is_waiting_of
from tests.databases import SCHEMA
from tests.rows import add_waiting
from tests.store.plans import explain_kept, indexes, keep_plan, rows_read
from tocsin.domain.limits import LimitsSettings
from tocsin.store.pool import Pool, connection_settings

MANY = 20_000
DUE = "deliveries_due_by_lane"


class Busy(NamedTuple):
    """A database whose statistics are of a moment with half of the deliveries waiting."""

    connection: asyncpg.Connection
    sent: UUID
    waiting: UUID


@pytest.fixture
async def busy(database_url: str) -> AsyncIterator[Busy]:
    connection = await asyncpg.connect(database_url, server_settings=connection_settings(SCHEMA))
    try:
        sent = await add_waiting(connection, MANY, state="sent")
        waiting = await add_waiting(connection, MANY)
        await connection.execute("analyze deliveries")
        yield Busy(connection, sent, waiting)
    finally:
        await connection.close()


@pytest.mark.parametrize("statement", [WAITING, WAITING_OF], ids=["of all", "of a notification"])
async def test_no_settled_delivery_is_read_to_find_one_that_waits(busy: Busy, statement: str) -> None:
    arguments: tuple[Any, ...] = (busy.waiting,) if statement is WAITING_OF else START
    await keep_plan(busy.connection, "waiting", statement, *arguments)
    plan = await explain_kept(busy.connection, "waiting", *arguments)
    assert (indexes(plan), rows_read(plan)) == ({DUE}, 1)
    await busy.connection.execute("update deliveries set state = 'sent'")
    plan = await explain_kept(busy.connection, "waiting", *arguments)
    assert (indexes(plan), rows_read(plan)) == ({DUE}, 0)


async def test_what_is_due_before_the_delivery_that_was_found_last_is_found(busy: Busy) -> None:
    waiting = Waiting(busy.connection)
    await busy.connection.execute(
        "update deliveries set state = 'sent'"
        " where id > (select id from deliveries where state = 'pending' order by id limit 1)"
    )
    assert await waiting.any()
    assert await waiting.any()
    await busy.connection.execute(
        "update deliveries set due_at = due_at - interval '1 day' where state = 'pending'"
    )
    assert await waiting.any()
    await busy.connection.execute("update deliveries set state = 'sent'")
    assert not await waiting.any()


async def test_a_notification_is_settled_while_others_wait(busy: Busy) -> None:
    assert await is_waiting(busy.connection)
    assert await is_waiting_of(busy.connection, busy.waiting)
    assert not await is_waiting_of(busy.connection, busy.sent)
    await busy.connection.execute("update deliveries set state = 'sent'")
    assert not await is_waiting(busy.connection)


async def test_a_delivery_that_was_settled_without_being_sent_fails_the_bench(busy: Busy) -> None:
    await busy.connection.execute(
        "update deliveries set state = 'dead' where notification_id = $1", busy.waiting
    )
    assert not await is_waiting(busy.connection)
    await check_sent(busy.connection, busy.sent)
    for notification_id in (busy.waiting, None):
        with pytest.raises(ProgramFailedError, match=f"counts {MANY} deliveries"):
            await check_sent(busy.connection, notification_id)


async def test_the_line_of_decisions_decides_about_every_delivery(pool: Pool) -> None:
    """Its rules and claims are those of a worker, called by nothing else in the bench."""
    await pool.execute(planning.FILL.replace("20000", "300"))

    assert await planning._cost(pool, LimitsSettings()) > 0
    await pool.execute("update deliveries set lease = null, leased_until = null")
    assert await planning._cost(pool, LimitsSettings(per_person_per_day=5)) > 0
