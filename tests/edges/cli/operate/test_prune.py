"""`tocsin prune` as an operator runs it."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from tests.edges.command_line import Ran, run
from tests.rows import add_delivery, add_notification
from tocsin.domain.ids import first_id_at
from tocsin.store.pool import Pool

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def test_what_would_be_pruned_is_counted_first_and_then_pruned(
    database_url: str, pool: Pool, tmp_path: Path
) -> None:
    environment = {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_RETENTION__DAYS": "1"}

    async def tocsin(*arguments: str, **changes: str) -> Ran:
        return await asyncio.to_thread(run, ["prune", *arguments], environment | changes, tmp_path)

    notification_id = await add_notification(pool, id=first_id_at(LONG_AGO), accepted_at=LONG_AGO)
    await add_delivery(pool, notification_id=notification_id, state="sent", settled_at=LONG_AGO)

    counted = await tocsin("--dry-run", "--json")
    assert (counted.code, counted.json) == (
        0,
        {"dry_run": True, "rows": {"deliveries": 1, "notifications": 1}},
    )
    assert await pool.fetchval("select count(*) from progress") == 0
    assert (await tocsin("--dry-run")).out == "Would prune 1 deliveries, 1 notifications.\n"

    assert (await tocsin()).out == "Pruned 1 deliveries, 1 notifications.\n"
    assert (await tocsin()).out == "Pruned nothing.\n"
    assert await pool.fetchval("select count(*) from notifications") == 0

    wrong = await tocsin(
        TOCSIN_RETENTION__DAYS="-1", TOCSIN_RETENTION__HOURS="nine", TOCSIN_RETENTION__SHARE="0"
    )
    assert wrong.code == 2
    assert "retention.days (TOCSIN_RETENTION__DAYS)" in wrong.said
    assert "retention.share (TOCSIN_RETENTION__SHARE)" in wrong.said
