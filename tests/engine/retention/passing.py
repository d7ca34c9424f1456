"""Passes of retention over rows that a test adds."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests import rows
from tocsin.domain.retention import RetentionSettings
from tocsin.engine.retention.passes import RetentionPass
from tocsin.store.pool import Pool

FAST = RetentionSettings(share=1.0, batch_size=100)
DAY = timedelta(days=1)
THEN = datetime.now(UTC)
"""When the old rows of a test were settled: ids are made by the clock of the machine."""


async def always() -> None:
    """Let a pass go on."""


async def prune(pool: Pool, now: datetime, settings: RetentionSettings = FAST) -> Mapping[str, int]:
    work = RetentionPass(pool, settings, now, proceed=always)
    await work.run()
    return work.pruned


async def settled_delivery(pool: Pool, at: datetime = THEN, **changes: Any) -> UUID:
    row: dict[str, Any] = {"state": "sent", "settled_at": at, "created_at": at}
    return await rows.add_delivery(pool, **row | changes)


async def remaining(pool: Pool, table: str) -> int:
    count: int = await pool.fetchval(f"select count(*) from {table}")  # noqa: S608 - named by the tests
    return count
