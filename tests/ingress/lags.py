"""What is stored of how far behind a reader is."""

from collections.abc import Callable

from tests.waiting import found
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect.sources import SourceRecord, list_sources
from tocsin.ingress.report import LagWriter, SourceReport
from tocsin.store.pool import Pool


async def reaches(pool: Pool, report: SourceReport, holds: Callable[[SourceRecord], bool]) -> SourceRecord:
    """Store what a reader reports until something holds of it, and return that."""

    async def look() -> SourceRecord | None:
        await LagWriter(pool, [report]).write()
        async with pool.acquire() as connection:
            records = await list_sources(connection, utc_now())
        return next(filter(holds, records), None)

    return await found(look)
