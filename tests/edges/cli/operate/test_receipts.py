"""`tocsin receipts`, over HTTP and from the database."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.edges.command_line import run
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.store import receipts
from tocsin.store.receipts import CountedType


@pytest.mark.parametrize("way", ["http", "database"])
async def test_an_operator_sees_rates_by_type(
    edge: Edge, database_url: str, tmp_path: Path, way: str
) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    variables = {"TOCSIN_DATABASE_URL": database_url}
    if way == "http":
        key = (await edge.key(Role.VIEWER))["Authorization"].removeprefix("Bearer ")
        variables = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}

    async def shown(*arguments: str) -> str:
        ran = await asyncio.to_thread(run, ("receipts", *arguments), variables, tmp_path)
        return ran.out

    assert "Nothing was sent in these days." in await shown()
    async with edge.pool.acquire() as connection:
        counts = {"sent": 1_000, "delivered": 900, "opened": 250}
        await receipts.count(
            connection,
            {CountedType(today, "order_shipped", "push", event): count for event, count in counts.items()},
        )

    text = await shown("--type", "order_shipped")
    assert "order_shipped" in text
    assert "900 (90.0%)" in text
    assert "250 (25.0%)" in text
    assert '"open_rate": 0.25' in await shown("--json")
