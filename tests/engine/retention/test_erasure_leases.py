"""Unfinished erasures: continued by one worker at a time, from where they were left."""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests import rows
from tests.rows import NOW
from tests.waiting import found
from tocsin.catalog.catalog import Catalog
from tocsin.domain.ids import first_id_at, uuid7
from tocsin.engine.clock import utc_now
from tocsin.engine.retention import erase as erase_module
from tocsin.engine.retention.erase import Eraser
from tocsin.store.people import erasure, refused_content
from tocsin.store.people.erasure import ErasedBatch, ErasureRow
from tocsin.store.people.refused_content import RefusedContent
from tocsin.store.pool import Connection, Pool

SECOND = timedelta(seconds=1)


async def add_unfinished(pool: Pool, user_id: str) -> None:
    await pool.execute(
        "insert into erasures (id, user_id, user_hash, requested_at) values ($1, $2, $3, $4)",
        uuid7(),
        user_id,
        user_id.encode(),
        NOW,
    )


async def add_refused(pool: Pool, at: datetime, user_id: str) -> UUID:
    made = UUID(int=first_id_at(at).int | uuid7().int & (1 << 62) - 1)
    await pool.execute(
        "insert into refused_intents (id, producer, source, code, faults, content, refused_at)"
        " values ($1, 'shop', 'http', 'c', '[]', $2, $3)",
        made,
        f'{{"audience": {{"users": ["{user_id}"]}}}}',
        at,
    )
    return made


async def test_an_erasure_is_continued_by_one_worker_at_a_time(pool: Pool) -> None:
    await add_unfinished(pool, "ada")
    async with pool.acquire() as connection:
        first = await erasure.claim(connection, NOW, NOW + SECOND)
        meanwhile = await erasure.claim(connection, NOW, NOW + SECOND)
        expired = await erasure.claim(connection, NOW + SECOND, NOW + 2 * SECOND)

    assert first is not None
    assert (first.user_id, meanwhile, expired) == ("ada", None, first)


async def test_refused_intents_are_read_once_however_often_an_erasure_is_continued(
    pool: Pool, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "BATCH", 10)
    now = NOW
    eraser = Eraser(pool, catalog, lambda: now)
    await rows.add_delivery(pool, "ada", lease=uuid7(), leased_until=NOW + 60 * SECOND)
    for minutes in range(60, 30, -1):
        await add_refused(pool, NOW - timedelta(minutes=minutes), "ada" if minutes % 10 else "bob")
    read: list[UUID] = []
    list_refused = refused_content.list_refused

    async def reading(
        connection: Connection, user_id: str, email: str | None, after: UUID
    ) -> list[RefusedContent]:
        page = await list_refused(connection, user_id, email, after)
        read.extend(each.id for each in page)
        return page

    monkeypatch.setattr(refused_content, "list_refused", reading)
    erased = await eraser.erase("ada", "op")
    assert (erased.state, erased.refused_intents, len(set(read))) == ("unfinished", 27, 30)

    read.clear()
    late = await add_refused(pool, NOW, "ada")
    now += 20 * SECOND
    running = asyncio.create_task(eraser.run())
    try:
        await found(
            lambda: pool.fetchval("select true from refused_intents where id = $1 and content = ''", late)
        )
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert read == [late]

    # Another address may be known by then.
    read.clear()
    await eraser.erase("ada", "op")
    assert len(read) == 31


async def test_an_erasure_that_fails_neither_ends_the_worker_nor_holds_up_others(
    pool: Pool, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_module, "EVERY_SECONDS", 0.01)
    for user_id in ("ada", "bob"):
        await add_unfinished(pool, user_id)
    tried: Counter[str | None] = Counter()
    erase_deliveries = erasure.erase_deliveries

    async def failing(connection: Connection, row: ErasureRow, now: datetime) -> ErasedBatch:
        tried[row.user_id] += 1
        if row.user_id == "ada" and tried["ada"] < 3:
            raise RecursionError
        return await erase_deliveries(connection, row, now)

    monkeypatch.setattr(erasure, "erase_deliveries", failing)
    running = asyncio.create_task(Eraser(pool, catalog, utc_now).run())
    try:
        await found(lambda: pool.fetchval("select true from erasures having count(*) = count(finished_at)"))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert tried == {"ada": 3, "bob": 1}
